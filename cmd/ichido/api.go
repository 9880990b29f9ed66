package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/problem"
)

// An api is the reservations and orders of an office over HTTP.
type api struct {
	refuser
	people      refuser // for pages
	office      office
	store       ichido.Pinger
	tokens      tokens
	openAPI     document
	description *openDoc // the same for the page of it
	provider    provider
	mailbox     *mailbox
	// work makes a reservation take as long as it does elsewhere, before the first statement.
	work func(context.Context) error
}

// routes returns the handler of the whole API. What creates a reservation runs under once, what places an order under
// orders, and what books by the page's form under forms.
func (a *api) routes(once, orders, forms *ichido.Manager) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /reservations", a.authenticated(http.HandlerFunc(a.list)))
	mux.Handle("POST /reservations", a.authenticated(once.Wrap(http.HandlerFunc(a.create))))
	mux.Handle("GET /reservations/{id}", a.authenticated(http.HandlerFunc(a.get)))

	mux.Handle("GET /items", a.authenticated(http.HandlerFunc(a.listItems)))
	mux.Handle("GET /orders", a.authenticated(http.HandlerFunc(a.listOrders)))
	mux.Handle("POST /orders", a.authenticated(orders.Wrap(http.HandlerFunc(a.placeOrder))))
	mux.Handle("GET /orders/{id}", a.authenticated(http.HandlerFunc(a.getOrder)))
	// These are for everybody: without them nobody finds out what to send.
	mux.HandleFunc("GET /healthz", a.health(a.store))
	mux.HandleFunc("GET /problems/{$}", a.problem)
	mux.HandleFunc("GET /problems/{name}", a.problem)
	mux.HandleFunc("GET /openapi.json", a.describe)
	a.routePages(mux, forms)
	// Orders meet the problems of reservations, and those of lease mode. The rest of their policies is the same.
	mux.Handle("GET /.well-known/idempotency", orders.PolicyHandler())

	// The mux would answer these in plain text.
	for _, path := range []string{"/reservations", "/orders"} {
		mux.Handle(path, a.only(http.MethodGet, http.MethodHead, http.MethodPost))
	}
	for _, path := range []string{"/reservations/{id}", "/orders/{id}", "/items", "/healthz", "/problems/{$}", "/problems/{name}", "/openapi.json", "/.well-known/idempotency"} {
		mux.Handle(path, a.only(http.MethodGet, http.MethodHead))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Link", serviceDesc)
		a.refuse(w, r, noResource, problem.Text{})
	})
	return mux
}

// only refuses what has a path but not one of its methods.
func (f refuser) only(methods ...string) http.Handler {
	allow := strings.Join(methods, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		f.refuse(w, r, methodNotAllowed, text("Use one of: %s.", "使えるメソッド: %s", allow))
	})
}

// pingTimeout bounds how long an answer about the health of the store may take.
const pingTimeout = 2 * time.Second

// health answers whether a store does.
func (f refuser) health(store ichido.Pinger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
		defer cancel()
		w.Header().Set("Cache-Control", "no-store")
		if err := store.Ping(ctx); err != nil {
			if r.Context().Err() != nil {
				panic(http.ErrAbortHandler) // the client left before the store could answer
			}
			blame(r.Context(), err)
			f.refuse(w, r, databaseUnreachable, text("The store does not answer.", "ストアが応答しません。"))
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	}
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
