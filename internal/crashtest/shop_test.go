package crashtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// A shop is what is outside of the orders: a payment provider that is idempotent by key, and a mail system that sends
// whatever it is told to, and can be searched by key.
type shop struct {
	*httptest.Server
	mu      sync.Mutex
	charges []effect
	mails   []effect
	calls   map[string]int // of the provider, by order
	loses   []int          // of which calls, counted from 1 for each order, the provider loses the answer
}

// An effect is something that happened outside.
type effect struct{ id, order, key string }

func newShop(t *testing.T, loses []int) *shop {
	s := &shop{calls: make(map[string]int), loses: loses}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", s.charge)
	mux.HandleFunc("POST /mails", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprint(w, s.add(r, "m", &s.mails))
	})
	mux.HandleFunc("GET /mails", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := index(s.mails, r.URL.Query().Get("key")); i >= 0 {
			fmt.Fprint(w, s.mails[i].id)
		}
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *shop) charge(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	order, key := r.URL.Query().Get("order"), r.URL.Query().Get("key")
	s.calls[order]++
	var id string
	if i := index(s.charges, key); i >= 0 {
		id = s.charges[i].id
	} else {
		id = s.add(r, "c", &s.charges)
	}
	if slices.Contains(s.loses, s.calls[order]) {
		panic(http.ErrAbortHandler) // it cuts the connection
	}
	fmt.Fprint(w, id)
}

// add has something happen. s.mu is held.
func (s *shop) add(r *http.Request, kind string, all *[]effect) string {
	e := effect{fmt.Sprint(kind, len(*all)+1), r.URL.Query().Get("order"), r.URL.Query().Get("key")}
	*all = append(*all, e)
	return e.id
}

func index(all []effect, key string) int {
	return slices.IndexFunc(all, func(e effect) bool { return e.key == key })
}

// of returns what happened for an order: charges, mails, and how often the provider was called.
func (s *shop) of(order string) (charges, mails []effect, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := func(e effect) bool { return e.order != order }
	return slices.DeleteFunc(slices.Clone(s.charges), others), slices.DeleteFunc(slices.Clone(s.mails), others), s.calls[order]
}
