package ichido_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
)

// newManager returns a Manager; when the test ends no flight may be left.
func newManager(t *testing.T, store ichido.Store, config *ichido.Config) *ichido.Manager {
	t.Helper()
	m, err := ichido.New(store, ichido.Shared, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := m.Flights(); n != 0 {
			t.Errorf("%d flights are left", n)
		}
	})
	return m
}

// post returns a sending of an operation; no key if key is empty.
func post(key, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/reservations", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	return r
}

// postUnder is post under a context, as a client has it that may leave.
func postUnder(ctx context.Context, key, body string) *http.Request {
	return post(key, body).WithContext(ctx)
}

// An answer is what a client gets. Status 0 means that the connection broke.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) replayed() bool { return a.header.Get("Idempotent-Replayed") == "true" }

// code returns the code of the problem that a is, or "".
func (a answer) code() string {
	var p struct{ Code string }
	if a.header.Get("Content-Type") != "application/problem+json" || json.Unmarshal([]byte(a.body), &p) != nil {
		return ""
	}
	return p.Code
}

// send has h serve r as net/http does: a panic and the end of the goroutine break the connection.
func send(h http.Handler, r *http.Request) answer { return <-start(h, r) }

// start is send that does not wait.
func start(h http.Handler, r *http.Request) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
			done <- a
		}()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		res := w.Result()
		a = answer{res.StatusCode, res.Header, w.Body.String()}
	}()
	return done
}

func wantStatus(t *testing.T, a answer, status int) {
	t.Helper()
	if a.status != status {
		t.Errorf("answered %d %s, want %d", a.status, a.body, status)
	}
}

// wantFirst wants the first answer to an operation.
func wantFirst(t *testing.T, a answer, body string) {
	t.Helper()
	if a.status != http.StatusCreated || a.body != body || a.replayed() {
		t.Errorf("answered %d %q, replayed: %v; want the first answer, 201 %q", a.status, a.body, a.replayed(), body)
	}
}

func wantReplay(t *testing.T, a answer, body string) {
	t.Helper()
	if a.status != http.StatusCreated || a.body != body || !a.replayed() {
		t.Errorf("answered %d %q, replayed: %v; want a replay of 201 %q", a.status, a.body, a.replayed(), body)
	}
}

func wantProblem(t *testing.T, a answer, status int, code string) {
	t.Helper()
	if a.status != status || a.code() != code {
		t.Errorf("answered %d %s, want %d %s", a.status, a.body, status, code)
	}
}

func contextWith(key, value any) context.Context {
	return context.WithValue(context.Background(), key, value)
}
