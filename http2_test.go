package ichido_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// newServer2 serves h over HTTP/2 until the test ends, on one connection.
func newServer2(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	connections := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the request came over HTTP/%d", r.ProtoMajor)
		}
		h.ServeHTTP(w, r)
	}))
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { // called by one goroutine
		if connections++; connections > 1 {
			t.Error("a second connection was made: not the stream was ended, but the connection")
		}
		return ctx
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.StartTLS()
	server.Client().Transport.(*http.Transport).DisableCompression = true
	t.Cleanup(server.Close)
	return server
}

// Large bodies, with their length announced and without, go through and are replayed.
func TestHTTP2(t *testing.T) {
	content := strings.Repeat("content", 50_000)
	server := newServer2(t, newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Location", "/1")
		created(string(body)).ServeHTTP(w, r)
	})))
	for i, want := range []func(*testing.T, answer, string){wantFirst, wantReplay, wantReplay} {
		r := post("k", content)
		if i == 1 {
			r.ContentLength = -1
		}
		a := over(t, server, r)
		if want(t, a, content); a.header.Get("Location") != "/1" {
			t.Errorf("answer %d has no Location", i+1)
		}
	}
}

// A handler that fails ends its stream, and leaves the connection and the key to others.
func TestFailuresOverHTTP2(t *testing.T) {
	for name, c := range map[string]struct {
		run    http.HandlerFunc
		status int // 0 for a stream that is reset
	}{
		"panic":    {func(http.ResponseWriter, *http.Request) { panic("boom") }, 500},
		"abort":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
		"exit":     {func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, 0},
		"hijack":   {func(w http.ResponseWriter, r *http.Request) { _, _, _ = http.NewResponseController(w).Hijack() }, 500},
		"trailers": {func(w http.ResponseWriter, r *http.Request) { w.Header().Set(http.TrailerPrefix+"X-Sum", "1") }, 500},
		"events":   {func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Type", "text/event-stream") }, 500},
	} {
		t.Run(name, func(t *testing.T) {
			failed := false
			server := newServer2(t, newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if failed {
					created("done").ServeHTTP(w, r)
					return
				}
				failed = true
				w.Header().Set("X-Half", "done")
				c.run(w, r)
			})))
			a := over(t, server, post("k", "{}"))
			if wantStatus(t, a, c.status); a.header.Get("X-Half") != "" {
				t.Errorf("some of the handler's answer was sent: %v", a.header)
			}
			wantFirst(t, over(t, server, post("k", "{}")), "done")
			wantReplay(t, over(t, server, post("k", "{}")), "done")
		})
	}
}

func TestEarlyHintsOverHTTP2(t *testing.T) {
	wantEarlyHints(t, newServer2(t, newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(hinting))))
}

// HTTP/2 lets a client send a request and its duplicate over one connection at once.
func TestDuplicatesOnOneConnection(t *testing.T) {
	for _, policy := range []ichido.InProgressPolicy{ichido.Reject, ichido.Wait} {
		started, release := make(chan struct{}), make(chan struct{})
		var runs atomic.Int64
		server := newServer2(t, newManager(t, memstore.New(nil), &ichido.Config{InProgress: policy}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			run := runs.Add(1)
			if r.URL.Path == "/slow" {
				close(started)
				<-release
			}
			created(fmt.Sprint(run)).ServeHTTP(w, r)
		})))
		send := func(path string, body string) <-chan answer {
			done := make(chan answer, 1)
			go func() {
				r := post("k", body)
				r.URL.Path = path
				done <- over(t, server, r)
			}()
			return done
		}
		first := send("/slow", "{}")
		<-started
		wantProblem(t, <-send("/slow", "other"), http.StatusUnprocessableEntity, "mismatch")
		second := send("/slow", "{}")
		if policy == ichido.Reject {
			wantProblem(t, <-second, http.StatusConflict, "in-progress")
		}
		wantFirst(t, <-send("/quick", "{}"), "2") // others on the connection are not held up
		close(release)
		wantFirst(t, <-first, "1")
		if policy == ichido.Wait {
			wantReplay(t, <-second, "1")
		}
		wantReplay(t, <-send("/slow", "{}"), "1")
	}
}
