package ichido_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
)

// Each way out of a handler ends its attempt once, frees the key and wakes who waits. That attempts end once is checked
// by newScript, that no flight is left by newManager, that no goroutine is by synctest.
func TestEveryWayOut(t *testing.T) {
	refusal := errors.New("the database refuses")
	for name, way := range map[string]struct {
		status    int
		completed bool
		run       func(w http.ResponseWriter, r *http.Request)
	}{
		"created":      {201, true, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201) }},
		"nothing":      {200, true, func(http.ResponseWriter, *http.Request) {}},
		"see other":    {303, true, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/1", http.StatusSeeOther) }},
		"bad request":  {400, false, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(400) }},
		"server error": {500, false, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }},
		"panic":        {500, false, func(http.ResponseWriter, *http.Request) { panic("boom") }},
		"panic late":   {500, false, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); panic("boom") }},
		"nil panic":    {500, false, func(http.ResponseWriter, *http.Request) { panic(nil) }},
		"abort":        {0, false, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"goexit":       {0, false, func(http.ResponseWriter, *http.Request) { runtime.Goexit() }},
		"too large":    {500, false, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(make([]byte, 1001)) }},
		"flush":        {200, true, func(w http.ResponseWriter, r *http.Request) { _ = http.NewResponseController(w).Flush() }},
		"events": {500, false, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
		}},
		"hijack": {500, false, func(w http.ResponseWriter, r *http.Request) { _, _, _ = w.(http.Hijacker).Hijack() }},
		"switch": {500, false, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(101) }},
		"flush, panic": {500, false, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			panic("boom")
		}},
	} {
		for _, end := range []error{nil, refusal} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newScript(t, grants(end), has("second"))
					h := newManager(t, store, &ichido.Config{InProgress: ichido.Wait, Stored: ichido.Stored{MaxBody: 1000}}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						time.Sleep(time.Second)
						way.run(w, r)
					}))
					first := start(h, post("k", "{}"))
					synctest.Wait()
					second := start(h, post("k", "{}"))

					want := way.status
					if end != nil && way.completed {
						want = http.StatusInternalServerError
					}
					wantStatus(t, <-first, want)
					if a := <-second; !a.replayed() {
						t.Errorf("who waited got %d %q", a.status, a.body)
					}
					wantTime(t, time.Second)
					if way.completed {
						store.wantEnds(1, 0)
					} else {
						store.wantEnds(0, 1)
					}
				})
			})
		}
	}
}

// What the store is told of a failure: the cause if there is one, nothing if the handler refused on purpose.
func TestCauseOfAbandon(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		run  func(w http.ResponseWriter)
		want error
	}{
		"refusal":      {func(w http.ResponseWriter) { w.WriteHeader(422) }, nil},
		"server error": {func(w http.ResponseWriter) { w.WriteHeader(503) }, ichido.ErrServerError},
		"panic":        {func(http.ResponseWriter) { panic(boom) }, boom},
	} {
		store := newScript(t, grants(nil))
		send(newManager(t, store, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.run(w) })), post("k", "{}"))
		if got := store.attempts[0].cause; !errors.Is(got, c.want) || c.want == nil && got != nil {
			t.Errorf("%s: the cause is %v, want %v", name, got, c.want)
		}
	}
}

func TestHandlerHasTheAttemptsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, grants(nil))
		h := newManager(t, store, &ichido.Config{AttemptTimeout: 7 * time.Second}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if deadline, ok := r.Context().Deadline(); !ok || time.Until(deadline) != 7*time.Second {
				t.Errorf("the deadline is %v, %v", deadline, ok)
			}
			<-r.Context().Done()
			if err := r.Context().Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the context ended with %v", err)
			}
			http.Error(w, "too slow", http.StatusGatewayTimeout)
		}))
		wantStatus(t, send(h, post("k", "{}")), http.StatusGatewayTimeout)
		wantTime(t, 7*time.Second)
		store.wantEnds(0, 1)
	})
}

// The end of the request's context, by its client or by a deadline set around, is not the end of the work.
func TestHandlerOutlivesItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type contextKey struct{}
		store := newScript(t, grants(nil), has("again"))
		h := newManager(t, store, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
				t.Errorf("the work's context ended: %v", r.Context().Err())
			case <-time.After(10 * time.Second):
			}
			if r.Context().Value(contextKey{}) != "value" {
				t.Error("the values of the request's context are lost")
			}
			created("done").ServeHTTP(w, r)
		}))
		ctx, cancel := context.WithTimeout(contextWith(contextKey{}, "value"), time.Second)
		defer cancel()
		wantFirst(t, send(h, postUnder(ctx, "k", "{}")), "done")
		wantTime(t, 10*time.Second)
		store.wantEnds(1, 0)
	})
}

// The context that the work had ends with it, so that nothing that it left behind goes on for ever.
func TestContextOfTheWorkEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan error, 2)
		h := newManager(t, newScript(t, grants(nil)), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			child, cancel := context.WithCancel(r.Context())
			go func() {
				defer cancel()
				<-child.Done()
				left <- child.Err()
				<-r.Context().Done()
				left <- r.Context().Err()
			}()
		}))
		wantStatus(t, send(h, post("k", "{}")), http.StatusOK)
		for range 2 {
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("the context ended with %v, want context.Canceled", err)
			}
		}
		wantTime(t, 0)
	})
}

// A store that breaks the rule of one result must not bring the service down, or leave the key taken.
func TestStoreThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, func(context.Context, *script, ichido.Claim) (ichido.Attempt, *ichido.Record, error) { panic("bug") }, has("stored"))
		h := newManager(t, store, nil).Wrap(slow(0))
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(nil, post("k", "{}"))
		}()
		wantReplay(t, send(h, post("k", "{}")), "stored")
	})
}
