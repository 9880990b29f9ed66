package storetest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/ichido-dev/ichido"
)

// A service is an HTTP server on a store of its own, as one process of a deployment is. POST /things makes a thing
// named by the body and answers 201 with a number that counts the runs of the handler.
type service struct {
	s       *suite
	manager *ichido.Manager
	leased  bool // the work has no transaction
	url     string
	client  *http.Client
	arrived atomic.Int64 // requests that reached the server
	runs    atomic.Int64 // calls of the handler

	first atomic.Pointer[hook]
}

// A hook runs at the start of the handler, and has answered if it returns true.
type hook func(w http.ResponseWriter, r *http.Request) bool

func (v *service) before(h hook) { v.first.Store(&h) }

func (s *suite) serve(config ichido.Config) *service {
	s.Helper()
	return s.serveOn(s.Open(s.T), config)
}

func (s *suite) serveOn(store ichido.Store, config ichido.Config) *service {
	s.Helper()
	manager, err := ichido.New(store, ichido.Shared, &config)
	if err != nil {
		s.Fatal(err)
	}
	v := &service{s: s, manager: manager, leased: config.Mode == ichido.LeaseMode}
	mux := http.NewServeMux()
	mux.Handle("POST /things", manager.Wrap(http.HandlerFunc(v.handle)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.arrived.Add(1)
		mux.ServeHTTP(w, r)
	}))
	s.Cleanup(server.Close)
	v.url = server.URL + "/things"
	// A connection for each request: one that a handler broke would fail the next request before it is sent.
	v.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return v
}

func (v *service) handle(w http.ResponseWriter, r *http.Request) {
	run := v.runs.Add(1)
	if h := v.first.Load(); h != nil && (*h)(w, r) {
		return
	}
	name, err := io.ReadAll(r.Body)
	if err == nil && v.s.Work != nil && !v.leased {
		err = v.s.Work(r.Context(), string(name))
	}
	if err != nil {
		http.Error(w, "the work failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Location", fmt.Sprintf("/things/%d", run))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "thing %d\n", run)
}

// A reply is what a client gets; status 0 means that the connection broke.
type reply struct {
	status   int
	body     string
	location string
	replayed bool
}

func (v *service) post(key, body string) reply { return v.postContext(v.s.context(), key, body) }

func (v *service) postContext(ctx context.Context, key, body string) reply {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url, strings.NewReader(body))
	if err != nil {
		v.s.Error(err)
		return reply{}
	}
	req.Header["Idempotency-Key"] = []string{`"` + key + `"`}
	res, err := v.client.Do(req)
	if err != nil {
		return reply{}
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}
	}
	return reply{res.StatusCode, string(got), res.Header.Get("Location"), res.Header.Get("Idempotent-Replayed") == "true"}
}

// until waits, by looking, for a condition that others bring about.
func (s *suite) until(what string, condition func() bool) {
	s.Helper()
	for ctx := s.context(); !condition(); {
		select {
		case <-ctx.Done():
			s.Fatalf("waited in vain until %s", what)
		case <-tick():
		}
	}
}
