package routertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// An api is the service that every router serves: POST /orders/{id} and GET /orders/{id}.
type api struct {
	runs    atomic.Int64  // of POST
	started chan struct{} // gets a value when a POST that should block has begun
	release chan struct{}
	fronts  atomic.Int64 // how many requests came to the handlers in front
}

func newAPI() *api { return &api{started: make(chan struct{}), release: make(chan struct{})} }

// create is the handler of POST. id is what its router found in the path; the field X-Do, which no fingerprint has, says
// what else it should do.
func (a *api) create(w http.ResponseWriter, r *http.Request, id string) {
	run := a.runs.Add(1)
	switch r.Header.Get("X-Do") {
	case "panic":
		panic("boom")
	case "refuse":
		http.Error(w, "out of stock", http.StatusBadRequest)
		return
	case "block":
		a.started <- struct{}{}
		<-a.release
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/orders/"+id)
	w.Header().Add("Vary", "Accept")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"id":%q,"run":%d,"request":%q}`, id, run, body)
}

// read is the handler of GET.
func (a *api) read(w http.ResponseWriter, _ *http.Request, id string) { fmt.Fprint(w, "order ", id) }

// front is a handler in front, as every service has some: it allows other origins and numbers the requests.
func (a *api) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.inFront(w.Header(), r)
		next.ServeHTTP(w, r)
	})
}

func (a *api) inFront(h http.Header, r *http.Request) {
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("X-Request-Id", fmt.Sprint(a.fronts.Add(1)))
}

// abortsOnce is a store whose database aborts the first transaction, so that the first request runs twice.
type abortsOnce struct {
	ichido.Store
	aborted bool
}

func (s *abortsOnce) Begin(ctx context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	attempt, record, err := s.Store.Begin(ctx, claim)
	if attempt != nil && !s.aborted {
		s.aborted = true
		attempt = abortedAttempt{attempt}
	}
	return attempt, record, err
}

type abortedAttempt struct{ ichido.Attempt }

func (a abortedAttempt) Complete(ctx context.Context, _ ichido.Response) error {
	_ = a.Abandon(ctx, ichido.ErrSerialization)
	return ichido.ErrSerialization
}

func newManager(t *testing.T, store ichido.Store) *ichido.Manager {
	t.Helper()
	if store == nil {
		store = memstore.New(nil)
	}
	m, err := ichido.New(store, ichido.Shared, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A client sends requests to one server.
type client struct {
	t      *testing.T
	server *httptest.Server
}

func newClient(t *testing.T, h http.Handler) *client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &client{t, server}
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) replayed() bool { return r.header.Get("Idempotent-Replayed") == "true" }

// code returns the code of a problem.
func (r reply) code() string {
	var p struct{ Code string }
	if json.Unmarshal([]byte(r.body), &p) != nil {
		return ""
	}
	return p.Code
}

// post sends an order under a key; do is for the field X-Do.
func (c *client) post(path, key, body, do string) reply {
	return c.do(http.MethodPost, path, body, "Idempotency-Key", key, "X-Do", do, "Origin", "https://shop.example")
}

// do sends a request with fields given as names and values, those with no value left out.
func (c *client) do(method, path, body string, fields ...string) reply {
	req, err := http.NewRequest(method, c.server.URL+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != "" {
			req.Header.Set(fields[i], fields[i+1])
		}
	}
	transport := c.server.Client().Transport.(*http.Transport)
	transport.DisableCompression = true // the test wants to see what was sent
	res, err := c.server.Client().Do(req)
	if err != nil {
		c.t.Error(err)
		return reply{}
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Errorf("the answer broke off after %q: %v", got, err)
	}
	return reply{res.StatusCode, res.Header, string(got)}
}
