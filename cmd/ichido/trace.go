package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/ichido-dev/ichido/internal/problem"
)

const requestIDHeader = "X-Request-Id"

// A trace follows one request into the log. One goroutine at a time uses it.
type trace struct {
	id, method, path string
	fault            error // why the answer is a 5xx, if a handler of ours gave it
}

type traceKey struct{}

// traceOf returns the trace of the request that ctx belongs to, or nil.
func traceOf(ctx context.Context) *trace {
	t, _ := ctx.Value(traceKey{}).(*trace)
	return t
}

// blame notes why the request that ctx belongs to fails. It is logged if it does: a handler may yet run again.
func blame(ctx context.Context, err error) {
	if t := traceOf(ctx); t != nil {
		t.fault = err
	}
}

// traced names each request by an id, which the answer carries too, and logs one line for each 5xx of next's own. What
// the library answers it logs itself, with the same id.
func traced(next http.Handler, log *slog.Logger, f refuser) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &trace{id: requestID(r), method: r.Method, path: r.URL.Path}
		w.Header().Set(requestIDHeader, t.id)
		r = r.WithContext(context.WithValue(r.Context(), traceKey{}, t))
		sw := &statusWriter{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				t.fault = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				if sw.status != 0 { // too late for an answer; let the client see that it is not whole
					log.ErrorContext(r.Context(), "a request failed half-way", slog.Any("error", t.fault))
					panic(http.ErrAbortHandler)
				}
				f.refuse(sw, r, internalFault, problem.Text{})
			}
			t.log(r.Context(), log, sw.status)
		}()
		next.ServeHTTP(sw, r)
	})
}

// log writes the line of a 5xx of a handler of ours.
func (t *trace) log(ctx context.Context, log *slog.Logger, status int) {
	if status >= 500 && t.fault != nil {
		log.ErrorContext(ctx, "a request failed", slog.Int("status", status), slog.Any("error", t.fault))
	}
}

// tracedAgain is traced for requests that are run again without their clients: there is nobody to be told the id, and
// panics are the Manager's.
func tracedAgain(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &trace{id: rand.Text(), method: r.Method, path: r.URL.Path}
		ctx := context.WithValue(r.Context(), traceKey{}, t)
		sw := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(sw, r.WithContext(ctx))
		t.log(ctx, log, sw.status)
	})
}

// requestID takes the id that a proxy in front of us gave the request, if it is one that cannot confuse a log.
func requestID(r *http.Request) string {
	id := r.Header.Get(requestIDHeader)
	if len(id) == 0 || len(id) > 100 {
		return rand.Text()
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == ':':
		default:
			return rand.Text()
		}
	}
	return id
}

// A statusWriter knows the status that was sent.
type statusWriter struct {
	http.ResponseWriter
	status int // 0 until then
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// newLogger writes what the operator should know, one line each, with the request that it is about.
func newLogger(w io.Writer) *slog.Logger { return slog.New(traceHandler{slog.NewTextHandler(w, nil)}) }

// traceHandler adds to each line which request it is about. Keys and bodies are not among what it adds.
type traceHandler struct{ slog.Handler }

func (h traceHandler) Handle(ctx context.Context, line slog.Record) error {
	if t := traceOf(ctx); t != nil {
		line.AddAttrs(slog.String("request", t.id), slog.String("method", t.method), slog.String("path", t.path))
	}
	return h.Handler.Handle(ctx, line)
}

func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}
