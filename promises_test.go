package ichido_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// The promises at this level, each in short. The stores' tests keep them over databases, crashes and processes.

func TestP1_Once(t *testing.T) {
	for _, policy := range []ichido.InProgressPolicy{ichido.Reject, ichido.Wait} {
		var runs atomic.Int64
		m := newManager(t, memstore.New(nil), &ichido.Config{InProgress: policy})
		server := httptest.NewServer(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			created(fmt.Sprint(runs.Add(1))).ServeHTTP(w, r)
		})))
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				req, _ := http.NewRequest(http.MethodPost, server.URL, strings.NewReader("{}"))
				req.Header.Set("Idempotency-Key", `"k"`)
				res, err := server.Client().Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				body, _ := io.ReadAll(res.Body)
				if res.StatusCode != 201 && (policy != ichido.Reject || res.StatusCode != 409) || res.StatusCode == 201 && string(body) != "1" {
					t.Errorf("answered %d %s", res.StatusCode, body)
				}
			})
		}
		wg.Wait()
		server.Close()
		if n := runs.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want once", n)
		}
	}
}

// watched takes note of when the first byte was sent.
type watched struct {
	*httptest.ResponseRecorder
	sent func()
}

func (w watched) WriteHeader(status int)      { w.sent(); w.ResponseRecorder.WriteHeader(status) }
func (w watched) Write(p []byte) (int, error) { w.sent(); return w.ResponseRecorder.Write(p) }

func TestP2_AcknowledgedMeansDurable(t *testing.T) {
	store := newScript(t, grants(nil), grants(errors.New("disk full")))
	h := newManager(t, store, nil).Wrap(created("x"))
	for _, want := range []int{201, 500} {
		w := watched{httptest.NewRecorder(), func() {
			for i, a := range store.attempts {
				if a.completed != 1 {
					t.Errorf("attempt %d: the answer was sent before the commit", i+1)
				}
			}
		}}
		h.ServeHTTP(w, post("k", "{}"))
		if w.Code != want {
			t.Errorf("answered %d, want %d", w.Code, want)
		}
	}
}

func TestP3_SameAnswer(t *testing.T) {
	body := make([]byte, 256)
	for i := range body {
		body[i] = byte(i)
	}
	h := newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/reservations/1")
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(body)
	}))
	first, later := send(h, post("k", "{}")), send(h, post("k", "{}"))
	if first.replayed() || !later.replayed() {
		t.Errorf("replayed: %v, then %v; want false, then true", first.replayed(), later.replayed())
	}
	later.header.Del("Idempotent-Replayed")
	if first.status != 202 || first.body != string(body) || fmt.Sprint(first) != fmt.Sprint(later) {
		t.Errorf("the first answer is\n%+v\nthe later one\n%+v", first, later)
	}
}

func TestP4_SameRequest(t *testing.T) {
	h := newManager(t, memstore.New(nil), nil).Wrap(counting())
	wantFirst(t, send(h, post("k", `{"quantity":1}`)), "1")
	for range 2 {
		wantProblem(t, send(h, post("k", `{"quantity":2}`)), http.StatusUnprocessableEntity, "mismatch")
		wantReplay(t, send(h, post("k", `{"quantity":1}`)), "1")
	}
	wantFirst(t, send(h, post("l", `{"quantity":2}`)), "2")
}

func TestP5_FailureLeavesNothing(t *testing.T) {
	for name, fail := range map[string]func(w http.ResponseWriter){
		"refusal": func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) },
		"failure": func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		"panic":   func(http.ResponseWriter) { panic("boom") },
	} {
		failed := false
		h := newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !failed {
				failed = true
				fail(w)
				return
			}
			created(name).ServeHTTP(w, r)
		}))
		if a := send(h, post("k", "{}")); a.status < 400 {
			t.Errorf("%s: answered %d", name, a.status)
		}
		wantFirst(t, send(h, post("k", "corrected")), name) // even with another body
	}
}

func TestP7_FailClosed(t *testing.T) {
	store := newScript(t, fails(errors.New("connection refused")))
	h := newManager(t, store, &ichido.Config{Optional: true}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the request runs unprotected")
	}))
	a := send(h, post("k", "{}"))
	wantProblem(t, a, http.StatusServiceUnavailable, "store-unavailable")
	if a.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
}

func TestP8_Private(t *testing.T) {
	user := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	m, err := ichido.New(memstore.New(nil), user, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := m.Wrap(counting())
	as := func(user string) answer {
		r := post("k", "{}")
		r.Header.Set("X-User", user)
		return send(h, r)
	}
	users := []string{"taro", "hanako", "Taro", "taro ", "taro%20", "taro POST /reservations", "*", "予約", "a/b", "a%2Fb", "\x00", "\n"}
	for i, user := range users {
		wantFirst(t, as(user), fmt.Sprint(i+1))
	}
	for i, user := range users {
		wantReplay(t, as(user), fmt.Sprint(i+1))
	}
	wantProblem(t, as(""), http.StatusForbidden, "no-principal")
}
