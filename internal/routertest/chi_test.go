package routertest

import (
	"context"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/ichido-dev/ichido"
)

var chiMountings = []mounting{
	// As middleware of a route.
	{"chi/route", func(m *ichido.Manager, a *api) http.Handler {
		r := chi.NewRouter()
		r.Use(a.front, middleware.Recoverer)
		r.With(m.Wrap).Post("/orders/{id}", withURLParam(a.create))
		r.Get("/orders/{id}", withURLParam(a.read))
		return r
	}},
	// As middleware of a sub-router.
	{"chi/subrouter", func(m *ichido.Manager, a *api) http.Handler {
		r := chi.NewRouter()
		r.Use(a.front, middleware.Recoverer)
		r.Route("/orders", func(r chi.Router) {
			r.Use(m.Wrap, freshRouteContext)
			r.Post("/{id}", withURLParam(a.create))
			r.Get("/{id}", withURLParam(a.read))
		})
		return r
	}},
	// As middleware of the whole router, with sub-routers below.
	{"chi/use", func(m *ichido.Manager, a *api) http.Handler {
		r := chi.NewRouter()
		r.Use(a.front, middleware.Recoverer, m.Wrap, freshRouteContext)
		r.Route("/orders", func(r chi.Router) {
			r.Post("/{id}", withURLParam(a.create))
			r.Get("/{id}", withURLParam(a.read))
		})
		return r
	}},
	// Around the whole router.
	{"chi/around", func(m *ichido.Manager, a *api) http.Handler {
		r := chi.NewRouter()
		r.Route("/orders", func(r chi.Router) {
			r.Post("/{id}", withURLParam(a.create))
			r.Get("/{id}", withURLParam(a.read))
		})
		return a.front(m.Wrap(r))
	}},
}

// freshRouteContext stands behind Wrap where chi goes on routing behind it, that is after Use. chi notes in its route
// context how far it has come; a handler that runs again would be looked for from there.
func freshRouteContext(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fresh := chi.RouteContext(r.Context()).Clone()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, fresh)))
	})
}

func withURLParam(h func(w http.ResponseWriter, r *http.Request, id string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { h(w, r, chi.URLParam(r, "id")) }
}

// The reason for freshRouteContext.
func TestChiLosesItsWayWhenItRunsAgain(t *testing.T) {
	a := newAPI()
	r := chi.NewRouter()
	r.Use(newManager(t, &abortsOnce{Store: memory()}).Wrap)
	r.Route("/orders", func(r chi.Router) { r.Post("/{id}", withURLParam(a.create)) })
	if got := newClient(t, r).post("/orders/7", "k", order, ""); got.status != http.StatusNotFound {
		t.Errorf("answered %d %s: chi may be used without freshRouteContext now", got.status, got.body)
	}
}
