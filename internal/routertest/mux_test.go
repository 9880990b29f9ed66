package routertest

import (
	"net/http"

	"github.com/ichido-dev/ichido"
)

var muxMountings = []mounting{
	// The usual way: each route is wrapped, and its pattern is part of the scope.
	{"mux/route", func(m *ichido.Manager, a *api) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("POST /orders/{id}", m.Wrap(withPathValue(a.create)))
		mux.Handle("GET /orders/{id}", withPathValue(a.read))
		return a.front(mux)
	}},
	// Around the whole router: the path is part of the scope, since no pattern is known yet.
	{"mux/around", func(m *ichido.Manager, a *api) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("POST /orders/{id}", withPathValue(a.create))
		mux.Handle("GET /orders/{id}", withPathValue(a.read))
		return a.front(m.Wrap(mux))
	}},
	// Around a part of the router. Its pattern /orders/ is the scope for all routes below: a key that comes back on
	// another one of them is a mismatch.
	{"mux/part", func(m *ichido.Manager, a *api) http.Handler {
		part := http.NewServeMux()
		part.Handle("POST /{id}", withPathValue(a.create))
		part.Handle("GET /{id}", withPathValue(a.read))
		mux := http.NewServeMux()
		mux.Handle("/orders/", http.StripPrefix("/orders", m.Wrap(part)))
		return a.front(mux)
	}},
}

// withPathValue gives a handler the parameter of its path, as net/http's ServeMux and routers that do as it does have it.
func withPathValue(h func(w http.ResponseWriter, r *http.Request, id string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { h(w, r, r.PathValue("id")) }
}
