package ichido_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
)

// These tests have the database refuse attempts: to keep order, because another process won, or without saying.

var aborted = grants(ichido.ErrSerialization)

func TestRunsAgainFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, aborted, aborted, grants(nil))
		h := newManager(t, store, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			run := attemptOf(r.Context())
			if body, err := io.ReadAll(r.Body); string(body) != `{"a":1}` || err != nil {
				t.Errorf("run %d: the body is %q, %v", run, body, err)
			}
			w.Header().Set(fmt.Sprint("X-Run-", run), "1")
			created(fmt.Sprint("run ", run)).ServeHTTP(w, r)
		}))
		a := send(h, post("k", `{"a":1}`))
		wantFirst(t, a, "run 3")
		if a.header.Get("X-Run-1") != "" || a.header.Get("X-Run-2") != "" || a.header.Get("X-Run-3") != "1" {
			t.Errorf("the answer has fields of earlier runs: %v", a.header)
		}
		for i, claim := range store.claims {
			if claim.Reruns != i {
				t.Errorf("claim %d says that there were %d reruns", i+1, claim.Reruns)
			}
		}
		store.wantEnds(3, 0)
	})
}

// A handler may answer an error of the database as it answers any other. The store knows better.
func TestRunsAgainWhatTheHandlerAnsweredAsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, aborted, aborted, aborted, grants(nil))
		h := newManager(t, store, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch attemptOf(r.Context()) {
			case 1:
				http.Error(w, "could not serialize access", http.StatusInternalServerError)
			case 2:
				panic("could not serialize access")
			case 3:
				http.Error(w, "no", http.StatusConflict)
			default:
				created("yes").ServeHTTP(w, r)
			}
		}))
		wantFirst(t, send(h, post("k", "{}")), "yes")
		store.wantEnds(1, 3)
	})
}

func TestRunsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, func(int) step { return aborted })
		h := newManager(t, store, nil).Wrap(slow(0))
		a := send(h, post("k", "{}"))
		wantProblem(t, a, http.StatusServiceUnavailable, "contention")
		if a.header.Get("Retry-After") == "" {
			t.Error("contention without Retry-After")
		}
		store.wantCalls(ichido.MaxRuns)
		if now() > time.Second {
			t.Errorf("the pauses take %v", now())
		}
	})
}

func TestRunsEndWithTheAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newEndless(t, func(int) step { return aborted })
		h := newManager(t, store, &ichido.Config{AttemptTimeout: 10 * time.Second}).Wrap(slow(4 * time.Second))
		wantProblem(t, send(h, post("k", "{}")), http.StatusServiceUnavailable, "contention")
		store.wantCalls(3) // at 0, 4 and 8 s
	})
}

// The time for reruns begins with the first run. What was waited before for another process does not count.
func TestRunsAgainAfterALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		store := newEndless(t, func(int) step {
			if now() < 20*time.Second {
				return busy
			}
			if attempts++; attempts == 1 {
				return aborted
			}
			return grants(nil)
		})
		config := waiting(time.Minute)
		config.AttemptTimeout = 10 * time.Second
		h := newManager(t, store, config).Wrap(slow(0))
		wantFirst(t, send(h, post("k", "{}")), "attempt 2")
	})
}

// Begin may ask to try again, too.
func TestClaimsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newManager(t, newScript(t, fails(ichido.ErrSerialization), has("stored")), nil).Wrap(slow(0))
		wantReplay(t, send(h, post("k", "{}")), "stored")
	})
}

func TestRunsAgainWithoutItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, aborted, after(time.Second, grants(nil)))
		h := newManager(t, store, waiting(time.Minute)).Wrap(slow(time.Second))
		ctx, leave := context.WithCancel(t.Context())
		first := start(h, postUnder(ctx, "k", "{}"))
		synctest.Wait()
		leave()
		second := start(h, post("k", "{}"))
		wantReplay(t, <-second, "attempt 2")
		wantStatus(t, <-first, http.StatusCreated)
		store.wantEnds(2, 0)
	})
}

func TestLostAttemptIsAnsweredFromTheWinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, grants(ichido.ErrLost), has("winner"))
		h := newManager(t, store, waiting(time.Minute)).Wrap(slow(time.Second))
		first := start(h, post("k", "{}"))
		synctest.Wait()
		second := start(h, post("k", "{}"))
		wantReplay(t, <-first, "winner")
		wantReplay(t, <-second, "winner")
	})
}

func TestLostToAnotherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newManager(t, newScript(t, grants(ichido.ErrLost), hasOther("winner")), nil).Wrap(slow(0))
		wantProblem(t, send(h, post("k", "{}")), http.StatusUnprocessableEntity, "mismatch")
	})
}

// An attempt that lost holds the key no more. Who comes with the winner's request, before the loser has read the record,
// must not be told that its key belongs to the loser's request.
func TestWinnersDuplicateIsNoMismatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		winner := ""
		other := func(ctx context.Context, s *script, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
			return nil, &ichido.Record{Fingerprint: []byte(winner), Response: ichido.Response{Status: 201, Body: []byte("winner")}}, nil
		}
		store := newScript(t, func(ctx context.Context, s *script, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
			winner = string(claim.Fingerprint)
			return nil, nil, ichido.ErrInProgress
		}, grants(ichido.ErrLost), after(time.Second, other))
		h := newManager(t, store, nil).Wrap(slow(0))
		wantProblem(t, send(h, post("k", "[]")), http.StatusConflict, "in-progress") // to learn its fingerprint
		loser := start(h, post("k", "{}"))
		synctest.Wait()
		wantReplay(t, send(h, post("k", "[]")), "winner")
		wantProblem(t, <-loser, http.StatusUnprocessableEntity, "mismatch")
	})
}

func TestUnknownCommitIsAskedAboutNextTime(t *testing.T) {
	for name, next := range map[string]step{"committed": has("attempt 1"), "not committed": grants(nil)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newScript(t, grants(ichido.ErrCommitUnknown), next)
				h := newManager(t, store, nil).Wrap(slow(0))
				a := send(h, post("k", "{}"))
				wantProblem(t, a, http.StatusServiceUnavailable, "commit-unknown")
				if a.header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
				a = send(h, post("k", "{}"))
				if name == "committed" {
					wantReplay(t, a, "attempt 1")
				} else {
					wantFirst(t, a, "attempt 2")
				}
			})
		})
	}
}

// Who waited for an attempt whose commit is unknown asks for itself.
func TestFollowersOfAnUnknownCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, grants(ichido.ErrCommitUnknown), after(time.Millisecond, has("attempt 1")))
		h := newManager(t, store, waiting(time.Minute)).Wrap(slow(time.Second))
		first := start(h, post("k", "{}"))
		synctest.Wait()
		var others []<-chan answer
		for range 10 {
			others = append(others, start(h, post("k", "{}")))
		}
		synctest.Wait()
		wantProblem(t, <-first, http.StatusServiceUnavailable, "commit-unknown")
		for _, other := range others {
			wantReplay(t, <-other, "attempt 1")
		}
	})
}

func TestRefusedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, grants(fmt.Errorf("deferred constraint")), grants(nil))
		h := newManager(t, store, nil).Wrap(slow(0))
		wantProblem(t, send(h, post("k", "{}")), http.StatusInternalServerError, "not-committed")
		wantFirst(t, send(h, post("k", "{}")), "attempt 2")
	})
}

// What a run left behind, such as a transport that still sends the body on, must not take the next run's body away.
func TestRunsDoNotShareTheirBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newScript(t, aborted, grants(nil))
		h := newManager(t, store, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if attemptOf(r.Context()) == 1 {
				go func() {
					time.Sleep(time.Second)
					_, _ = io.ReadAll(r.Body)
				}()
				return
			}
			time.Sleep(2 * time.Second)
			body, _ := io.ReadAll(r.Body)
			created(string(body)).ServeHTTP(w, r)
		}))
		wantFirst(t, send(h, post("k", `{"a":1}`)), `{"a":1}`)
	})
}
