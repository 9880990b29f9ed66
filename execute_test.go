package ichido_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
)

// slow is a handler that answers 201 with the number of its attempt after d.
func slow(d time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(d)
		created(fmt.Sprint("attempt ", attemptOf(r.Context()))).ServeHTTP(w, r)
	})
}

// at waits until d has passed since the bubble began.
func at(d time.Duration) { time.Sleep(d - now()) }

func now() time.Duration { return time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) }

func wantTime(t *testing.T, want time.Duration) {
	t.Helper()
	if got := now(); got != want {
		t.Errorf("it is %v, want %v", got, want)
	}
}

func TestFollowersShareTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, grants(nil))
		h := newManager(t, store, &ichido.Config{InProgress: ichido.Wait}).Wrap(slow(time.Second))
		first := start(h, post("k", "{}"))
		synctest.Wait()
		var others []<-chan answer
		for range 20 {
			others = append(others, start(h, post("k", "{}")))
		}
		wantFirst(t, <-first, "attempt 1")
		for _, other := range others {
			wantReplay(t, <-other, "attempt 1")
		}
		wantTime(t, time.Second)
	})
}

func TestDuplicatesAreRejectedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, grants(nil))
		h := newManager(t, store, nil).Wrap(slow(time.Second))
		first := start(h, post("k", "{}"))
		synctest.Wait()
		a := send(h, post("k", "{}"))
		wantProblem(t, a, http.StatusConflict, "in-progress")
		if got := a.header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After is %q, want 1", got)
		}
		wantTime(t, 0)
		wantFirst(t, <-first, "attempt 1")
	})
}

// While the first request still asks the store, nobody knows whether its key is completed: duplicates wait for the
// store's answer and share it, under both policies.
func TestDuplicatesOfARequestThatAsks(t *testing.T) {
	for _, policy := range []ichido.InProgressPolicy{ichido.Reject, ichido.Wait} {
		synctest.Test(t, func(t *testing.T) {
			store := newScript(t, after(time.Second, has("stored")))
			h := newManager(t, store, &ichido.Config{InProgress: policy}).Wrap(slow(0))
			first, same, other := start(h, post("k", "{}")), start(h, post("k", "{}")), start(h, post("k", "[]"))
			synctest.Wait()
			store.wantCalls(1)
			// Whichever of them came first asked; the record is of its request.
			a, b, c := <-first, <-same, <-other
			if (a.status == 201) == (c.status == 201) || a.status != b.status {
				t.Errorf("answered %d, %d, and %d to another request", a.status, b.status, c.status)
			}
			wantTime(t, time.Second)
		})
	}
}

func TestRejectedWhenTheStoreHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, after(time.Second, grants(nil)))
		h := newManager(t, store, nil).Wrap(slow(time.Second))
		first := start(h, post("k", "{}"))
		synctest.Wait()
		same, other := start(h, post("k", "{}")), start(h, post("k", "[]"))
		wantProblem(t, <-same, http.StatusConflict, "in-progress")
		wantProblem(t, <-other, http.StatusUnprocessableEntity, "mismatch")
		wantTime(t, time.Second)
		wantFirst(t, <-first, "attempt 1")
	})
}

// What the store says to the leader is said to all: without this, each duplicate would ask on its own.
func TestAnswersOfTheStoreAreShared(t *testing.T) {
	for code, failure := range map[string]error{"in-progress": ichido.ErrInProgress, "mismatch": ichido.ErrMismatch, "store-unavailable": errors.New("down")} {
		synctest.Test(t, func(t *testing.T) {
			store := newScript(t, after(time.Second, fails(failure)))
			h := newManager(t, store, nil).Wrap(slow(0))
			var all []<-chan answer
			for range 20 {
				all = append(all, start(h, post("k", "{}")))
			}
			for _, one := range all {
				if a := <-one; a.code() != code {
					t.Errorf("answered %d %s, want %s", a.status, a.body, code)
				}
			}
			store.wantCalls(1)
		})
	}
}

// Five hundred duplicates must not wait for a dead store one after the other.
func TestUnavailableIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, after(time.Hour, grants(nil)))
		h := newManager(t, store, &ichido.Config{InProgress: ichido.Wait}).Wrap(slow(0))
		var all []<-chan answer
		for i := range 500 {
			all = append(all, start(h, post("k", fmt.Sprint(i%2)))) // of two requests
		}
		for _, one := range all {
			wantProblem(t, <-one, http.StatusServiceUnavailable, "store-unavailable")
		}
		wantTime(t, 5*time.Second)
		store.wantCalls(1)
	})
}

func TestFollowerTakesOverFromALeaderThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, after(time.Hour, grants(nil)), has("stored"))
		h := newManager(t, store, nil).Wrap(slow(0))
		ctx, leave := context.WithCancel(t.Context())
		first := start(h, postUnder(ctx, "k", "{}"))
		synctest.Wait()
		second := start(h, post("k", "{}"))
		at(time.Second)
		leave()
		wantReplay(t, <-second, "stored")
		wantTime(t, time.Second)
		wantStatus(t, <-first, 0) // nobody is there to be answered
	})
}

func TestFollowerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, grants(nil))
		h := newManager(t, store, &ichido.Config{InProgress: ichido.Wait}).Wrap(slow(time.Minute))
		first := start(h, post("k", "{}"))
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		second := start(h, postUnder(ctx, "k", "{}"))
		at(time.Second)
		leave()
		wantStatus(t, <-second, 0)
		wantTime(t, time.Second)
		wantFirst(t, <-first, "attempt 1")
	})
}

// A request whose attempt left nothing has nothing to share: who waited for it runs, one at a time.
func TestFollowerRunsAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, grants(nil), grants(nil))
		h := newManager(t, store, &ichido.Config{InProgress: ichido.Wait}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			if attemptOf(r.Context()) == 1 {
				http.Error(w, "no", http.StatusBadRequest)
				return
			}
			created("yes").ServeHTTP(w, r)
		}))
		first := start(h, post("k", "{}"))
		synctest.Wait()
		second := start(h, post("k", "{}"))
		synctest.Wait()
		third := start(h, post("k", "[]")) // another request; the key is the first one's while it runs
		wantProblem(t, <-third, http.StatusUnprocessableEntity, "mismatch")
		wantStatus(t, <-first, http.StatusBadRequest)
		wantFirst(t, <-second, "yes")
		wantTime(t, 2*time.Second)
		store.wantEnds(1, 1)
	})
}

func TestKeysDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, func(int) step { return after(time.Second, grants(nil)) })
		h := newManager(t, store, &ichido.Config{InProgress: ichido.Wait}).Wrap(slow(time.Second))
		var all []<-chan answer
		for i := range 100 {
			all = append(all, start(h, post(fmt.Sprint("k", i), "{}")))
		}
		for _, one := range all {
			wantStatus(t, <-one, http.StatusCreated)
		}
		wantTime(t, 2*time.Second)
	})
}
