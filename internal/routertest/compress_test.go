package routertest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v5"
	echomiddleware "github.com/labstack/echo/v5/middleware"
)

// compressors are handlers that compress, with gzip, what comes from behind them.
var compressors = map[string]func(next http.Handler) http.Handler{
	"chi": middleware.Compress(5),
	"echo": func(next http.Handler) http.Handler {
		e := echo.New()
		e.Use(echomiddleware.Gzip())
		e.Any("/*", echo.WrapHandler(next))
		return e
	},
	"own": ownGzip,
}

// ownGzip is what many services have, in one form or another: Content-Encoding is set before the handler runs, and nobody
// thinks of Content-Length.
func ownGzip(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
		z := gzip.NewWriter(w)
		defer z.Close()
		next.ServeHTTP(gzipWriter{w, z}, r)
	})
}

type gzipWriter struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (w gzipWriter) Write(p []byte) (int, error) { return w.z.Write(p) }

var document = `{"text":"` + strings.Repeat("desk, ", 2000) + `"}`

// document answers with a body that is worth compressing.
func writeDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, document)
}

func unzip(t *testing.T, r reply) string {
	t.Helper()
	if r.header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("not compressed: %d %v", r.status, r.header)
	}
	z, err := gzip.NewReader(strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Error(err)
	}
	return string(plain)
}

func (c *client) postAccepting(coding, key string) reply {
	return c.do(http.MethodPost, "/documents", order, "Idempotency-Key", key, "Accept-Encoding", coding)
}

// A handler in front compresses each answer as its client accepts it, replays and problems too.
func TestCompressedInFront(t *testing.T) {
	for name, compress := range compressors {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, compress(newManager(t, nil).Wrap(http.HandlerFunc(writeDocument))))
			first, again, plain := c.postAccepting("gzip", "k"), c.postAccepting("gzip", "k"), c.postAccepting("", "k")
			for i, r := range []reply{first, again} {
				if got := unzip(t, r); got != document || r.status != http.StatusCreated || r.replayed() != (i == 1) {
					t.Errorf("answer %d is %d %v with %d bytes, want %d", i+1, r.status, r.header, len(got), len(document))
				}
			}
			if plain.header.Get("Content-Encoding") != "" || plain.body != document || !plain.replayed() {
				t.Errorf("a client that accepts no gzip gets %d %v", plain.status, plain.header)
			}
			problem := c.postAccepting("gzip", "")
			if problem.header.Get("Content-Encoding") == "gzip" {
				problem.body = unzip(t, problem)
			}
			wantProblem(t, problem, http.StatusBadRequest, "key-required")
		})
	}
}

// What is compressed behind ichido is part of the answer: it is stored as it was sent, and replayed to the byte.
func TestCompressedBehind(t *testing.T) {
	for name, compress := range compressors {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, newManager(t, nil).Wrap(compress(http.HandlerFunc(writeDocument))))
			first := c.postAccepting("gzip", "k")
			if got := unzip(t, first); got != document {
				t.Errorf("the first answer has %d bytes, want %d", len(got), len(document))
			}
			for _, coding := range []string{"gzip", ""} {
				again := c.postAccepting(coding, "k")
				if !again.replayed() || again.body != first.body || again.header.Get("Content-Encoding") != "gzip" {
					t.Errorf("the replay is %d %v, the same bytes: %v", again.status, again.header, bytes.Equal([]byte(again.body), []byte(first.body)))
				}
			}
		})
	}
}
