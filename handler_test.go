package ichido_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// created is a handler that answers 201.
func created(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, body)
	})
}

// counting is a handler that answers 201 with the number of its runs.
func counting() http.Handler {
	runs := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		created(fmt.Sprint(runs)).ServeHTTP(w, r)
	})
}

func TestKeyIsRequired(t *testing.T) {
	h := newManager(t, memstore.New(nil), nil).Wrap(counting())
	wantProblem(t, send(h, post("", "{}")), http.StatusBadRequest, "key-required")
	wantFirst(t, send(h, post("k", "{}")), "1")
}

func TestKeyIsOptional(t *testing.T) {
	h := newManager(t, memstore.New(nil), &ichido.Config{Optional: true}).Wrap(counting())
	wantFirst(t, send(h, post("", "{}")), "1")
	wantFirst(t, send(h, post("", "{}")), "2")
	wantFirst(t, send(h, post("k", "{}")), "3")
	wantReplay(t, send(h, post("k", "{}")), "3")
	// A field that is there but says nothing is a mistake, not a request without a key.
	r := post("", "{}")
	r.Header["Idempotency-Key"] = []string{""}
	wantProblem(t, send(h, r), http.StatusBadRequest, "key-invalid")
}

func TestMethods(t *testing.T) {
	for method, protected := range map[string]bool{
		"POST": true, "PATCH": true,
		"GET": false, "HEAD": false, "PUT": false, "DELETE": false, "OPTIONS": false, "QUERY": false,
	} {
		h := newManager(t, memstore.New(nil), nil).Wrap(counting())
		for i := range 2 {
			r := post("k", "{}")
			r.Method = method
			a := send(h, r)
			if protected && i > 0 {
				wantReplay(t, a, "1")
			} else {
				wantFirst(t, a, fmt.Sprint(i+1))
			}
		}
	}
}

func TestKeyOfEachRouteIsItsOwn(t *testing.T) {
	m := newManager(t, memstore.New(nil), nil)
	mux := http.NewServeMux()
	mux.Handle("POST /orders", m.Wrap(created("order")))
	mux.Handle("POST /refunds", m.Wrap(created("refund")))
	mux.Handle("PATCH /orders", m.Wrap(created("change")))
	mux.Handle("POST example.com/quotes", m.Wrap(created("quote")))
	for _, sending := range []func(*testing.T, answer, string){wantFirst, wantReplay} {
		for target, want := range map[string]string{"POST /orders": "order", "POST /refunds": "refund", "PATCH /orders": "change", "POST /quotes": "quote"} {
			r := post("k", "{}")
			r.Method, r.URL.Path, _ = strings.Cut(target, " ")
			sending(t, send(mux, r), want)
		}
	}
}

// Where no ServeMux says what the route is, it is the path.
func TestKeyOfEachPathIsItsOwn(t *testing.T) {
	h := newManager(t, memstore.New(nil), nil).Wrap(counting())
	one, other := post("k", "{}"), post("k", "{}")
	other.URL.Path = "/other"
	wantFirst(t, send(h, one), "1")
	wantFirst(t, send(h, other), "2")
}

// One route with a wildcard is one scope: a key that comes back for another thing is refused, not answered with the
// first thing's record.
func TestKeyOnAnotherThingOfTheRoute(t *testing.T) {
	m := newManager(t, memstore.New(nil), nil)
	mux := http.NewServeMux()
	mux.Handle("POST /things/{id}", m.Wrap(counting()))
	one, other := post("k", "{}"), post("k", "{}")
	one.URL.Path, other.URL.Path = "/things/1", "/things/2"
	wantFirst(t, send(mux, one), "1")
	wantProblem(t, send(mux, other), http.StatusUnprocessableEntity, "mismatch")
}

// Twice in one mux is no mistake: the same Manager protects many routes, and one handler may stand under several.
func TestWrapTwiceInOneMux(t *testing.T) {
	m := newManager(t, memstore.New(nil), nil)
	mux := http.NewServeMux()
	next := counting()
	mux.Handle("POST /a", m.Wrap(next))
	mux.Handle("POST /b", m.Wrap(next))
	for i, path := range []string{"/a", "/b"} {
		r := post("k", "{}")
		r.URL.Path = path
		wantFirst(t, send(mux, r), fmt.Sprint(i+1))
	}
}

func TestHandlerGetsTheRequestAsItWas(t *testing.T) {
	type contextKey struct{}
	h := newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != `{"b": 1, "a": 2}` || r.Body.Close() != nil {
			t.Errorf("the body is %q, %v", body, err)
		}
		if r.ContentLength != int64(len(body)) || r.Header.Get("Idempotency-Key") != `"k"` || r.URL.Path != "/reservations" || r.Method != "POST" {
			t.Errorf("the request is %v", r)
		}
		if r.Context().Value(contextKey{}) != "value" || r.PathValue("id") != "7" {
			t.Error("values of the request are lost")
		}
	}))
	r := post("k", `{"b": 1, "a": 2}`)
	r.SetPathValue("id", "7")
	wantStatus(t, send(h, r.WithContext(contextWith(contextKey{}, "value"))), http.StatusOK)
}

func TestHandlerReadsForms(t *testing.T) {
	h := newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.FormValue("item"), r.PostFormValue("quantity"), r.URL.Query().Get("dry"))
	}))
	r := httptest.NewRequest(http.MethodPost, "/?dry=yes", strings.NewReader("item=desk&quantity=2"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Idempotency-Key", "k")
	if a := send(h, r); a.body != "desk2yes" {
		t.Errorf("the handler read %q", a.body)
	}
}
