package ichido_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
)

// These tests have the key's attempt run in another process: the store says ErrInProgress, and whoever waits looks again.

func waiting(limit time.Duration) *ichido.Config {
	return &ichido.Config{InProgress: ichido.Wait, WaitLimit: limit}
}

var busy = fails(ichido.ErrInProgress)

// until answers busy until d has passed since the bubble began.
func until(d time.Duration, then step) func(int) step {
	return func(int) step {
		if now() < d {
			return busy
		}
		return then
	}
}

func TestWaitsForAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, until(10*time.Second, has("stored")))
		h := newManager(t, store, waiting(30*time.Second)).Wrap(slow(0))
		var all []<-chan answer
		for range 50 {
			all = append(all, start(h, post("k", "{}")))
		}
		for _, one := range all {
			wantReplay(t, <-one, "stored")
		}
		if late := now() - 10*time.Second; late > ichido.LongestLook*3/2 {
			t.Errorf("the answer was seen %v late", late)
		}
		if n := store.calls(); n > 50 {
			t.Errorf("%d looks for one key in 10 s", n)
		}
	})
}

func TestRunsWhenAnotherProcessLeftNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, busy, busy, grants(nil))
		h := newManager(t, store, waiting(time.Minute)).Wrap(slow(0))
		first := start(h, post("k", "{}"))
		synctest.Wait()
		second := start(h, post("k", "{}"))
		wantFirst(t, <-first, "attempt 1")
		wantReplay(t, <-second, "attempt 1")
	})
}

func TestWaitLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, until(time.Hour, has("late")))
		h := newManager(t, store, waiting(3*time.Second)).Wrap(slow(0))
		wantProblem(t, send(h, post("k", "{}")), http.StatusConflict, "in-progress")
		wantTime(t, 3*time.Second)
	})
}

func TestWaitLimitWhileThisProcessRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newManager(t, newScript(t, grants(nil)), waiting(3*time.Second)).Wrap(slow(10 * time.Second))
		first := start(h, post("k", "{}"))
		at(time.Second)
		wantProblem(t, send(h, post("k", "{}")), http.StatusConflict, "in-progress")
		wantTime(t, 4*time.Second)
		wantFirst(t, <-first, "attempt 1")
	})
}

// Who leads is chance. That its patience ends must not end that of those who came later.
func TestPatienceOfFollowersIsTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, until(15*time.Second, has("stored")))
		h := newManager(t, store, waiting(10*time.Second)).Wrap(slow(0))
		first := start(h, post("k", "{}"))
		at(8 * time.Second)
		second := start(h, post("k", "{}"))
		wantProblem(t, <-first, http.StatusConflict, "in-progress")
		wantTime(t, 10*time.Second)
		wantReplay(t, <-second, "stored")
	})
}

// A wait is bounded over all that one request waits for, not anew for each.
func TestWaitLimitCountsAllWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, func(int) step { return grants(nil) })
		h := newManager(t, store, waiting(5*time.Second)).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2 * time.Second)
			http.Error(w, "no", http.StatusBadRequest)
		}))
		var all []<-chan answer
		for range 10 {
			all = append(all, start(h, post("k", "{}")))
		}
		refused := 0
		for _, one := range all {
			if a := <-one; a.code() == "in-progress" {
				refused++
			}
		}
		// At 0, 2 and 4 s one runs; at 5 s the patience of the others ends.
		wantTime(t, 6*time.Second)
		if refused != 7 {
			t.Errorf("%d were refused, want 7", refused)
		}
	})
}

func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, until(time.Hour, has("late")))
		h := newManager(t, store, waiting(30*time.Second)).Wrap(slow(0))
		send(h, post("k", "{}"))
		pause := 10 * time.Millisecond
		for i, asked := range store.asked[1:] {
			gap := asked.Sub(store.asked[i])
			if gap < pause/2 || gap >= pause*3/2 {
				t.Errorf("pause %d is %v, want %v to %v", i+1, gap, pause/2, pause*3/2)
			}
			pause = min(pause*3/2, 500*time.Millisecond)
		}
		if n := store.calls(); n < 40 || n > 130 {
			t.Errorf("%d looks in 30 s", n)
		}
	})
}

func TestFewLookAtOnce(t *testing.T) {
	const keys = 100
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, func(call int) step {
			if call < keys {
				return busy
			}
			return after(50*time.Millisecond, busy)
		})
		h := newManager(t, store, waiting(5*time.Second)).Wrap(slow(0))
		var all []<-chan answer
		for i := range keys {
			all = append(all, start(h, post(fmt.Sprint("k", i), "{}")))
		}
		synctest.Wait()
		store.mu.Lock()
		store.most = 0
		store.mu.Unlock()
		for _, one := range all {
			wantProblem(t, <-one, http.StatusConflict, "in-progress")
		}
		if store.most != ichido.LooksAtOnce {
			t.Errorf("%d looks at once, want %d", store.most, ichido.LooksAtOnce)
		}
	})
}

func TestWaitingLeaderThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, until(5*time.Second, has("stored")))
		h := newManager(t, store, waiting(time.Minute)).Wrap(slow(0))
		ctx, leave := context.WithCancel(t.Context())
		first := start(h, postUnder(ctx, "k", "{}"))
		synctest.Wait()
		second := start(h, post("k", "{}"))
		at(time.Second)
		leave()
		wantStatus(t, <-first, 0)
		wantTime(t, time.Second)
		wantReplay(t, <-second, "stored")
	})
}

// The store answers nothing to a leader whose client leaves in the middle of a look. That is no news of the store, also
// not if the leader has run before.
func TestLeaderThatLeavesDuringALookTellsNothing(t *testing.T) {
	for name, before := range map[string][]step{"first": {busy}, "after a rerun": {grants(ichido.ErrSerialization), busy}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newScript(t, append(before, after(time.Hour, busy), has("stored"))...)
				h := newManager(t, store, waiting(time.Minute)).Wrap(slow(0))
				ctx, leave := context.WithCancel(t.Context())
				first := start(h, postUnder(ctx, "k", "{}"))
				synctest.Wait()
				second := start(h, post("k", "{}"))
				at(time.Second)
				leave()
				wantReplay(t, <-second, "stored")
				wantStatus(t, <-first, 0)
			})
		})
	}
}

// The request's context may have a deadline, set around. That it ends a wait says nothing of the store.
func TestDeadlineOfAWaitingRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, until(time.Hour, has("late")))
		h := newManager(t, store, waiting(time.Minute)).Wrap(slow(0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a := send(h, postUnder(ctx, "k", "{}"))
		wantTime(t, time.Second)
		wantProblem(t, a, http.StatusConflict, "in-progress")
	})
}

// A look at a slow store must not make a wait much longer than its limit.
func TestWaitLimitBoundsALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, busy, after(time.Hour, busy))
		m := newManager(t, store, &ichido.Config{InProgress: ichido.Wait, WaitLimit: time.Second, StoreTimeout: 20 * time.Second})
		a := send(m.Wrap(slow(0)), post("k", "{}"))
		wantTime(t, time.Second)
		wantProblem(t, a, http.StatusConflict, "in-progress")
	})
}

// The other request under the key of one that another process runs: the store is asked about it, once.
func TestOtherRequestWhileAnotherProcessRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		store := newEndless(t, func(int) step {
			return func(ctx context.Context, s *script, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
				asked = append(asked, string(claim.Fingerprint))
				if len(asked) > 1 && asked[len(asked)-1] != asked[0] {
					return nil, nil, ichido.ErrMismatch
				}
				return until(10*time.Second, has("stored"))(0)(ctx, s, claim)
			}
		})
		h := newManager(t, store, waiting(time.Minute)).Wrap(slow(0))
		first := start(h, post("k", "{}"))
		at(time.Second)
		wantProblem(t, send(h, post("k", "[]")), http.StatusUnprocessableEntity, "mismatch")
		wantTime(t, time.Second)
		wantReplay(t, <-first, "stored")
	})
}

// Where the store cannot tell, the other request waits like all, and hears of the mismatch from the record.
func TestOtherRequestWhereTheStoreCannotTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, until(10*time.Second, has("stored")))
		h := newManager(t, store, waiting(time.Minute)).Wrap(slow(0))
		first := start(h, post("k", "{}"))
		at(5 * time.Second)
		before := store.calls()
		other := start(h, post("k", "[]"))
		synctest.Wait()
		if n := store.calls() - before; n != 1 {
			t.Errorf("the store was asked %d times about the other request, want once", n)
		}
		wantReplay(t, <-first, "stored")
		wantProblem(t, <-other, http.StatusUnprocessableEntity, "mismatch")
	})
}

// The attempt of the other process has just ended when the other request asks. It must not take and give back the key
// again and again until the leader looks.
func TestOtherRequestDoesNotHammerTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := ""
		var grantsToOthers atomic.Int64
		store := newEndless(t, func(int) step {
			return func(ctx context.Context, s *script, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
				if leader == "" {
					leader = string(claim.Fingerprint)
				}
				if string(claim.Fingerprint) == leader && now() < time.Minute {
					return nil, nil, ichido.ErrInProgress
				}
				if grantsToOthers.Add(1) > 100 { // of what would be an endless loop at one moment
					return nil, nil, ichido.ErrMismatch
				}
				return grants(nil)(ctx, s, claim)
			}
		})
		h := newManager(t, store, waiting(10*time.Second)).Wrap(slow(0))
		first := start(h, post("k", "{}"))
		at(9 * time.Second)
		other := start(h, post("k", "[]"))
		synctest.Wait()
		if grantsToOthers.Load() > 2 {
			t.Errorf("the other request claimed the key %d times at one moment", grantsToOthers.Load())
		}
		<-first
		<-other
	})
}
