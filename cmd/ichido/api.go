package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/problem"
)

// An api is the reservations of an office over HTTP.
type api struct {
	refuser
	office  office
	store   ichido.Pinger
	tokens  tokens
	pages   problemPages
	openAPI document
	// work makes a reservation take as long as it does elsewhere, before the first statement.
	work func(context.Context) error
}

// routes returns the handler of the whole API. What creates a reservation runs under once.
func (a *api) routes(once *ichido.Manager) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /reservations", a.authenticated(http.HandlerFunc(a.list)))
	mux.Handle("POST /reservations", a.authenticated(once.Wrap(http.HandlerFunc(a.create))))
	mux.Handle("GET /reservations/{id}", a.authenticated(http.HandlerFunc(a.get)))

	// These are for everybody: without them nobody finds out what to send.
	mux.HandleFunc("GET /healthz", a.health)
	mux.HandleFunc("GET /problems/{$}", a.problem)
	mux.HandleFunc("GET /problems/{name}", a.problem)
	mux.HandleFunc("GET /openapi.json", a.describe)
	mux.Handle("GET /.well-known/idempotency", once.PolicyHandler())

	// The mux would answer these in plain text.
	mux.Handle("/reservations", a.only(http.MethodGet, http.MethodHead, http.MethodPost))
	for _, path := range []string{"/reservations/{id}", "/healthz", "/problems/{$}", "/problems/{name}", "/openapi.json", "/.well-known/idempotency"} {
		mux.Handle(path, a.only(http.MethodGet, http.MethodHead))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Link", serviceDesc)
		a.refuse(w, r, noResource, problem.Text{})
	})
	return mux
}

// only refuses what has a path but not one of its methods.
func (a *api) only(methods ...string) http.Handler {
	allow := strings.Join(methods, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		a.refuse(w, r, methodNotAllowed, text("Use one of: %s.", "使えるメソッド: %s", allow))
	})
}

// pingTimeout bounds how long an answer about the health of the store may take.
const pingTimeout = 2 * time.Second

func (a *api) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
	defer cancel()
	w.Header().Set("Cache-Control", "no-store")
	if err := a.store.Ping(ctx); err != nil {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the client left before the store could answer
		}
		blame(r.Context(), err)
		a.refuse(w, r, databaseUnreachable, text("The store does not answer.", "ストアが応答しません。"))
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// pause returns the work that only takes time.
func pause(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		if d == 0 {
			return nil
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
