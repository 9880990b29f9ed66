package ichido_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// A faultyStore is memstore whose calls can fail, before or after they took effect, and are counted.
type faultyStore struct {
	*memstore.Store
	mu       sync.Mutex
	begin    func(n int, do func() error) error // the n-th call of Begin
	renew    func(n int, do func() error) error
	complete func(n int, do func() error) error
	abandon  func(n int, do func() error) error
	begins   int
	leased   int // of them in lease mode
	renews   int
	renewed  []int // leases in each renewal
	finished int
}

func newFaulty() *faultyStore { return &faultyStore{Store: memstore.New(nil)} }

var errConnection = errors.New("the connection was lost")

// lost takes effect, and says that it did not.
func lost(do func() error) error {
	_ = do()
	return errConnection
}

func (s *faultyStore) count(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
	return *n
}

// made returns a count of calls.
func (s *faultyStore) made(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *n
}

func (s *faultyStore) Begin(ctx context.Context, claim ichido.Claim) (attempt ichido.Attempt, record *ichido.Record, err error) {
	do := func() (err error) {
		attempt, record, err = s.Store.Begin(ctx, claim)
		return err
	}
	if claim.Lease != nil {
		s.count(&s.leased)
	}
	if n := s.count(&s.begins); s.begin != nil {
		err = s.begin(n, do)
	} else {
		err = do()
	}
	if err != nil {
		return nil, nil, err
	}
	if attempt != nil {
		attempt = &faultyAttempt{attempt, s}
	}
	return attempt, record, nil
}

func (s *faultyStore) Renew(ctx context.Context, leases []ichido.Held) (held []bool, err error) {
	n := s.count(&s.renews)
	s.mu.Lock()
	s.renewed = append(s.renewed, len(leases))
	s.mu.Unlock()
	do := func() error {
		held, err = s.Store.Renew(ctx, leases)
		return err
	}
	if s.renew != nil {
		return held, s.renew(n, do)
	}
	return held, do()
}

type faultyAttempt struct {
	ichido.Attempt
	store *faultyStore
}

func (a *faultyAttempt) Complete(ctx context.Context, response ichido.Response) error {
	do := func() error { return a.Attempt.Complete(ctx, response) }
	if n := a.store.count(&a.store.finished); a.store.complete != nil {
		return a.store.complete(n, do)
	}
	return do()
}

func (a *faultyAttempt) Abandon(ctx context.Context, cause error) error {
	do := func() error { return a.Attempt.Abandon(ctx, cause) }
	if a.store.abandon != nil {
		return a.store.abandon(0, do)
	}
	return do()
}

func leaseMode(change func(*ichido.Config)) *ichido.Config {
	c := &ichido.Config{Mode: ichido.LeaseMode}
	if change != nil {
		change(c)
	}
	return c
}

// handler is one that fails in a way when told.
func handler(do func(w http.ResponseWriter, r *http.Request)) http.Handler {
	return http.HandlerFunc(do)
}

func wantUnknown(t *testing.T, a answer) {
	t.Helper()
	wantProblem(t, a, http.StatusConflict, "outcome-unknown")
	var p ichido.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Retryable || a.header.Get("Retry-After") != "" {
		t.Errorf("the problem %s with Retry-After %q: want one that is not retryable", a.body, a.header.Get("Retry-After"))
	}
}

// What a handler of lease mode may answer, what its client gets, and what becomes of the key.
func TestLeaseModeEnds(t *testing.T) {
	const (
		kept     = "kept"
		free     = "free"
		unknown  = "unknown"
		repeated = "repeated"
	)
	for name, c := range map[string]struct {
		do     func(w http.ResponseWriter, r *http.Request)
		status int
		code   string
		hold   string
		rerun  string
	}{
		"201": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }, 201, "", kept, kept},
		"422": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(422) }, 422, "", free, repeated},
		"402 kept": {func(w http.ResponseWriter, r *http.Request) {
			ichido.Keep(r.Context())
			w.WriteHeader(402)
		}, 402, "", kept, kept},
		"500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 500, "", unknown, repeated},
		"503 discarded": {func(w http.ResponseWriter, r *http.Request) {
			ichido.Discard(r.Context())
			w.WriteHeader(503)
		}, 503, "", free, repeated},
		"200 discarded": {func(w http.ResponseWriter, r *http.Request) {
			ichido.Discard(r.Context())
		}, 200, "", free, repeated},
		"panic": {func(http.ResponseWriter, *http.Request) { panic("provider") }, 500, "attempt-failed", unknown, repeated},
		"panic discarded": {func(_ http.ResponseWriter, r *http.Request) {
			ichido.Discard(r.Context())
			panic("before anything")
		}, 500, "handler-failed", free, repeated},
		"abort":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, "", unknown, repeated},
		"Goexit":    {func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, 0, "", unknown, repeated},
		"too large": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) }, 500, "attempt-failed", unknown, repeated},
		"hijack":    {func(w http.ResponseWriter, _ *http.Request) { _, _, _ = w.(http.Hijacker).Hijack() }, 500, "attempt-failed", unknown, repeated},
	} {
		for policy, want := range map[ichido.LapsePolicy]string{ichido.Hold: c.hold, ichido.Rerun: c.rerun} {
			t.Run(fmt.Sprint(name, policy), func(t *testing.T) {
				runs := 0
				h := newManager(t, memstore.New(nil), leaseMode(func(c *ichido.Config) { c.OnLapse = policy })).Wrap(
					handler(func(w http.ResponseWriter, r *http.Request) {
						if runs++; runs == 1 {
							c.do(w, r)
							return
						}
						w.WriteHeader(299)
					}))
				code := c.code
				if code == "attempt-failed" && policy == ichido.Rerun {
					code = "attempt-repeatable"
				}
				if a := send(h, post("k", "{}")); a.status != c.status || a.code() != code {
					t.Errorf("the first answer is %d %s, want %d %q", a.status, a.body, c.status, code)
				}
				again := send(h, post("k", "{}"))
				switch want {
				case kept:
					if again.status != c.status || !again.replayed() {
						t.Errorf("answered %d, replayed: %v; want a replay", again.status, again.replayed())
					}
				case unknown:
					wantUnknown(t, again)
					wantProblem(t, send(h, post("k", `{"other":1}`)), 422, "mismatch")
				default:
					wantStatus(t, again, 299)
				}
			})
		}
	}
}

// The lease is renewed as long as the work runs, in one statement for all attempts of the process.
func TestHeartbeat(t *testing.T) {
	const attempts = 10_000
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		m := newManager(t, store, leaseMode(func(c *ichido.Config) { c.AttemptTimeout = time.Hour }))
		other := newManager(t, store, leaseMode(nil)).Wrap(slow(0))
		h := m.Wrap(slow(10 * time.Minute))
		var all []<-chan answer
		for i := range attempts {
			all = append(all, start(h, post(fmt.Sprint("k", i), "{}")))
		}
		at(9 * time.Minute) // 18 leases
		wantProblem(t, send(other, post("k7", "{}")), http.StatusConflict, "in-progress")
		for _, one := range all {
			if a := <-one; a.status != http.StatusCreated {
				t.Fatalf("answered %d %s", a.status, a.body)
			}
		}
		if beats := 10 * 60 / 10; store.renews > beats || slices.Max(store.renewed) != attempts {
			t.Errorf("%d renewals of up to %d leases in 10 min; want at most %d, one for all", store.renews, slices.Max(store.renewed), beats)
		}
	})
}

// Work that does not end with its deadline does not keep its key for ever.
func TestHeartbeatEndsWithTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		release := make(chan struct{})
		h := newManager(t, store, leaseMode(nil)).Wrap(handler(func(w http.ResponseWriter, r *http.Request) { // deadline 30 s
			<-release
			w.WriteHeader(201)
		}))
		other := newManager(t, store, leaseMode(nil)).Wrap(slow(0))
		stuck := start(h, post("k", "{}"))
		at(31 * time.Second)
		wantProblem(t, send(other, post("k", "{}")), http.StatusConflict, "in-progress")
		at(61 * time.Second)
		wantUnknown(t, send(other, post("k", "{}")))
		close(release)
		wantProblem(t, <-stuck, 500, "attempt-failed")
	})
}

// Renewals that fail, hang or are refused end the work before the store lets another take the key; its answer is refused.
func TestLostLease(t *testing.T) {
	for name, renew := range map[string]func(store *faultyStore) func(int, func() error) error{
		"fails": func(*faultyStore) func(int, func() error) error {
			return func(int, func() error) error { return errConnection }
		},
		"hangs": func(*faultyStore) func(int, func() error) error {
			return func(int, func() error) error { time.Sleep(5 * time.Second); return context.DeadlineExceeded }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				store.renew = renew(store)
				var cause error
				var ended time.Duration
				h := newManager(t, store, leaseMode(func(c *ichido.Config) { c.AttemptTimeout = time.Hour })).Wrap(
					handler(func(w http.ResponseWriter, r *http.Request) {
						<-r.Context().Done()
						cause, ended = context.Cause(r.Context()), now()
						w.WriteHeader(201)
					}))
				wantProblem(t, send(h, post("k", "{}")), 500, "attempt-failed")
				wantUnknown(t, send(h, post("k", "{}")))
				if !errors.Is(cause, ichido.ErrLeaseLost) || ended > 30*time.Second+5*time.Second {
					t.Errorf("the work ended after %v because of %v; want within its lease, ErrLeaseLost", ended, cause)
				}
			})
		})
	}
}

// A store that is away for less than a lease does no harm.
func TestHeartbeatSurvivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.renew = func(_ int, do func() error) error {
			if d := now() % time.Minute; d > 20*time.Second && d < 38*time.Second {
				return errConnection
			}
			return do()
		}
		h := newManager(t, store, leaseMode(func(c *ichido.Config) { c.AttemptTimeout = time.Hour })).Wrap(slow(10 * time.Minute))
		wantFirst(t, send(h, post("k", "{}")), "attempt 0")
	})
}

// The store says that the lease is not held any more: somebody settled the key, or took it over.
func TestRobbedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		late := make(chan struct{})
		store.renew = func(_ int, do func() error) error { <-late; return do() } // the process is paused
		m := newManager(t, store, leaseMode(func(c *ichido.Config) {
			c.OnLapse, c.AttemptTimeout, c.StoreTimeout = ichido.Rerun, time.Hour, time.Hour
		}))
		var cause error
		owner := start(m.Wrap(handler(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			cause = context.Cause(r.Context())
			_, _ = w.Write([]byte("the late owner's"))
		})), post("k", "{}"))
		at(40 * time.Second)
		thief := newManager(t, store, leaseMode(func(c *ichido.Config) { c.OnLapse = ichido.Rerun })).Wrap(created("the thief's"))
		wantFirst(t, send(thief, post("k", "{}")), "the thief's")
		close(late)
		wantReplay(t, <-owner, "the thief's")
		if !errors.Is(cause, ichido.ErrLeaseLost) {
			t.Errorf("the owner's work ended because of %v", cause)
		}
	})
}

// A late owner does not run its work a second time, though the key was freed because a person said that it was not done.
func TestRobbedAttemptOfAFreedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, runs := newFaulty(), 0
		store.renew = func(int, func() error) error { return errConnection }
		h := newManager(t, store, leaseMode(nil)).Wrap(handler(func(w http.ResponseWriter, r *http.Request) {
			runs++
			at(40 * time.Second)
			w.WriteHeader(201)
		}))
		owner := start(h, post("k", "{}"))
		at(35 * time.Second)
		err := store.Settle(t.Context(), ichido.Settlement{Scope: "* POST /reservations", Key: "k", How: ichido.SettledNotDone, By: "hanako"})
		if err != nil {
			t.Fatal(err)
		}
		wantProblem(t, <-owner, 500, "attempt-failed")
		if runs != 1 {
			t.Errorf("the work ran %d times in one request", runs)
		}
		if _, err := store.Look(t.Context(), "* POST /reservations", "k"); !errors.Is(err, ichido.ErrNoRecord) {
			t.Errorf("the key that was freed has a record: %v", err)
		}
	})
}

// A claim that was stored and not acknowledged is recognised when it is repeated.
func TestClaimWithoutAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.begin = func(n int, do func() error) error {
			if n < 3 {
				return lost(do)
			}
			return do()
		}
		h := newManager(t, store, leaseMode(nil)).Wrap(created("x"))
		wantFirst(t, send(h, post("k", "{}")), "x")
		if entry, err := store.Look(t.Context(), "* POST /reservations", "k"); err != nil || entry.Attempts != 1 {
			t.Errorf("the entry is %+v, %v; want one attempt", entry, err)
		}
	})
}

// One that is never acknowledged is given back: nothing ran, so the key must not become unknown.
func TestClaimNeverAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.begin = func(n int, do func() error) error {
			if n <= 3 {
				return lost(do)
			}
			return do()
		}
		h := newManager(t, store, leaseMode(nil)).Wrap(created("x"))
		wantProblem(t, send(h, post("k", "{}")), 503, "store-unavailable")
		at(10 * time.Second)
		wantFirst(t, send(h, post("k", "{}")), "x")
	})
}

// The work is done and cannot be undone: its answer is stored in the end, and an acknowledgement that was lost does no harm.
func TestCompletionIsTriedAgain(t *testing.T) {
	for name, fail := range map[string]func(do func() error) error{
		"nothing stored":    func(func() error) error { return errConnection },
		"not acknowledged":  lost,
		"aborted for order": func(func() error) error { return ichido.ErrSerialization },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, runs := newFaulty(), 0
				store.complete = func(n int, do func() error) error {
					if n < 4 {
						return fail(do)
					}
					return do()
				}
				h := newManager(t, store, leaseMode(nil)).Wrap(handler(func(w http.ResponseWriter, _ *http.Request) {
					runs++
					w.WriteHeader(201)
				}))
				wantFirst(t, send(h, post("k", "{}")), "")
				wantReplay(t, send(h, post("k", "{}")), "")
				if runs != 1 {
					t.Errorf("the work ran %d times", runs)
				}
			})
		})
	}
}

// A store that does not come back: the client learns that nobody knows, and nothing runs again.
func TestCompletionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, runs := newFaulty(), 0
		store.complete = func(int, func() error) error { return errConnection }
		h := newManager(t, store, leaseMode(nil)).Wrap(handler(func(w http.ResponseWriter, _ *http.Request) { runs++ }))
		wantProblem(t, send(h, post("k", "{}")), 503, "commit-unknown")
		wantProblem(t, send(h, post("k", "{}")), 409, "in-progress")
		at(2 * time.Minute) // renewals go on until the deadline, and then the lease runs out
		wantUnknown(t, send(h, post("k", "{}")))
		if runs != 1 {
			t.Errorf("the work ran %d times", runs)
		}
	})
}

// Who hangs up loses nothing: neither during the claim nor during the work.
func TestLeaseModeClientHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.begin = func(_ int, do func() error) error { time.Sleep(time.Second); return do() }
		h := newManager(t, store, leaseMode(nil)).Wrap(slow(10 * time.Second))
		ctx, hangUp := context.WithCancel(t.Context())
		gone := start(h, postUnder(ctx, "k", "{}"))
		at(500 * time.Millisecond)
		hangUp()
		<-gone
		wantReplay(t, send(h, post("k", "{}")), "attempt 0")
	})
}

// Duplicates that wait learn that the key is unknown when it is.
func TestWaitersLearnThatItIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		wait := leaseMode(func(c *ichido.Config) { c.InProgress, c.WaitLimit = ichido.Wait, time.Hour })
		crashed := newManager(t, store, wait)
		attempt, _, err := store.Store.Begin(t.Context(), ichido.Claim{Scope: "* POST /reservations", Key: "k",
			Fingerprint: fingerprintOf(t, crashed, post("k", "{}")), Retention: time.Hour,
			Lease: &ichido.Lease{Token: 1, Duration: 30 * time.Second, UnknownRetention: time.Hour}})
		if err != nil || attempt == nil {
			t.Fatal(attempt, err)
		}
		h := newManager(t, store, wait).Wrap(created("x"))
		var all []<-chan answer
		for range 20 {
			all = append(all, start(h, post("k", "{}")))
		}
		for _, one := range all {
			wantUnknown(t, <-one)
		}
		if now() < 30*time.Second || now() > 32*time.Second {
			t.Errorf("they learned it after %v", now())
		}
	})
}

// fingerprintOf returns the fingerprint that a Manager gives a request.
func fingerprintOf(t *testing.T, m *ichido.Manager, r *http.Request) []byte {
	t.Helper()
	store := &fingerprintStore{}
	config := leaseMode(nil)
	send(newManager(t, store, config).Wrap(created("x")), r)
	if store.fingerprint == nil {
		t.Fatal("no claim was made")
	}
	return store.fingerprint
}

type fingerprintStore struct {
	memstore.Store
	fingerprint []byte
}

func (s *fingerprintStore) Begin(_ context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	s.fingerprint = claim.Fingerprint
	return nil, nil, ichido.ErrInProgress
}

func TestShutdownLetsAttemptsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, memstore.New(nil), leaseMode(nil))
		h := m.Wrap(slow(5 * time.Second))
		first := start(h, post("k", "{}"))
		synctest.Wait()
		stopped := make(chan error)
		go func() { stopped <- m.Shutdown(context.Background()) }()
		synctest.Wait()
		wantProblem(t, send(h, post("new", "{}")), 503, "store-unavailable")
		wantFirst(t, <-first, "attempt 0")
		if err := <-stopped; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		wantTime(t, 5*time.Second)
	})
}

func TestShutdownHandsLeasesBack(t *testing.T) {
	for policy, want := range map[ichido.LapsePolicy]func(*testing.T, answer){
		ichido.Hold:  wantUnknown,
		ichido.Rerun: func(t *testing.T, a answer) { t.Helper(); wantFirst(t, a, "the next process's") },
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New(nil)
			config := leaseMode(func(c *ichido.Config) { c.OnLapse = policy })
			m, cause := newManager(t, store, config), make(chan error, 1)
			first := start(m.Wrap(handler(func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				cause <- context.Cause(r.Context())
				time.Sleep(time.Second) // it does not stop at once
				w.WriteHeader(201)
			})), post("k", "{}"))
			synctest.Wait()
			grace, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if err := m.Shutdown(grace); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "leases: 1") {
				t.Errorf("Shutdown: %v", err)
			}
			if err := <-cause; !errors.Is(err, ichido.ErrStopped) {
				t.Errorf("the work ended because of %v", err)
			}
			want(t, send(newManager(t, store, config).Wrap(created("the next process's")), post("k", "{}")))
			if a := <-first; a.status == 201 && !a.replayed() {
				t.Errorf("the stopped attempt was acknowledged: %d %s", a.status, a.body)
			}
		})
	}
}

func TestDoInLeaseMode(t *testing.T) {
	ctx := t.Context()
	m := newManager(t, memstore.New(nil), leaseMode(nil))
	failed := errors.New("provider")
	for _, c := range []struct {
		key  string
		work func(context.Context) (int, error)
		then error
	}{
		{"error", func(context.Context) (int, error) { return 0, failed }, ichido.ErrUnknown},
		{"discarded", func(ctx context.Context) (int, error) { ichido.Discard(ctx); return 0, failed }, nil},
	} {
		op := ichido.Operation{Scope: "jobs", Key: c.key}
		if _, err := ichido.Do(ctx, m, op, c.work); !errors.Is(err, failed) {
			t.Errorf("%s: %v, want the work's own error", c.key, err)
		}
		r, err := ichido.Do(ctx, m, op, func(context.Context) (int, error) { return 7, nil })
		if !errors.Is(err, c.then) || err == nil && r.Value != 7 {
			t.Errorf("%s: then %v, %v; want %v", c.key, r, err, c.then)
		}
	}
}

// A mode that a store or a route does not have is an error at start.
func TestWrongMode(t *testing.T) {
	resolver := func(context.Context, ichido.UnknownKey) (ichido.Resolution, error) { return ichido.Resolution{}, nil }
	transactionsOnly := struct{ ichido.Store }{memstore.New(nil)}
	leasesOnly := struct{ ichido.Leaser }{memstore.New(nil)}
	for _, c := range []struct {
		store  ichido.Store
		config ichido.Config
		want   string
	}{
		{transactionsOnly, ichido.Config{Mode: ichido.LeaseMode}, "does not offer"},
		{memstore.New(nil), ichido.Config{Mode: 7}, "Config.Mode is 7"},
		{memstore.New(nil), ichido.Config{Lease: time.Minute}, "Config.Lease belongs to lease mode"},
		{memstore.New(nil), ichido.Config{OnLapse: ichido.Rerun}, "Config.OnLapse belongs to lease mode"},
		{memstore.New(nil), ichido.Config{Resolver: resolver}, "Config.Resolver belongs to lease mode"},
		{memstore.New(nil), ichido.Config{Mode: ichido.LeaseMode, Lease: -1}, "Config.Lease is -1ns"},
		{memstore.New(nil), ichido.Config{Mode: ichido.LeaseMode, Lease: time.Millisecond}, "at least 100ms"},
		{memstore.New(nil), ichido.Config{Mode: ichido.LeaseMode, OnLapse: 7}, "Config.OnLapse is 7"},
		{memstore.New(nil), ichido.Config{Mode: ichido.LeaseMode, Resolver: resolver}, "Config.Route is empty"},
		{memstore.New(nil), ichido.Config{Mode: ichido.LeaseMode, Resolver: resolver, Route: "a\x00b"}, "Config.Route must be UTF-8"},
		{memstore.New(nil), ichido.Config{Mode: ichido.LeaseMode, Resolver: resolver, Route: "charge", OnLapse: ichido.Rerun}, "never unknown"},
		{memstore.New(nil), ichido.Config{Owner: "blue"}, "Config.Owner belongs to lease mode"},
		{memstore.New(nil), ichido.Config{Mode: ichido.LeaseMode, Owner: "a\xff"}, "Config.Owner must be UTF-8"},
		{memstore.New(nil), ichido.Config{Mode: ichido.LeaseMode, Owner: strings.Repeat("a", 256)}, "at most 255 bytes"},
		{leasesOnly, ichido.Config{Mode: ichido.LeaseMode, Resolver: resolver, Route: "charge"}, "cannot settle"},
	} {
		if _, err := ichido.New(c.store, ichido.Shared, &c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%T, %+v): %v, want %q", c.store, c.config, err, c.want)
		}
		m, err := ichido.New(c.store, ichido.Shared, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.With(func(to *ichido.Config) { *to = c.config }); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("With(%T, %+v): %v, want %q", c.store, c.config, err, c.want)
		}
	}
}

// The store is told whose attempt it is: this process, if nobody says otherwise.
func TestOwner(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(nil)
	for given, want := range map[string]string{"": fmt.Sprint(host, ":", os.Getpid()), "blue": "blue"} {
		m := newManager(t, store, &ichido.Config{Mode: ichido.LeaseMode, Owner: given})
		send(m.Wrap(created("x")), post("k"+given, "{}"))
		if e, err := store.Look(t.Context(), testScope, "k"+given); err != nil || e.Owner != want {
			t.Errorf("Config.Owner %q: the entry is %+v, %v; want the owner %q", given, e, err, want)
		}
	}
}

// Two modes on one store do not disturb each other: routes differ, and so do their keys.
func TestModesSideBySide(t *testing.T) {
	m := newManager(t, memstore.New(nil), nil)
	leased, err := m.With(func(c *ichido.Config) { c.Mode = ichido.LeaseMode })
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	var runs atomic.Int32
	for path, m := range map[string]*ichido.Manager{"POST /reservations": m, "POST /payments": leased} {
		mux.Handle(path, m.Wrap(handler(func(w http.ResponseWriter, _ *http.Request) {
			runs.Add(1)
			w.WriteHeader(201)
		})))
	}
	for _, path := range []string{"/reservations", "/payments", "/reservations", "/payments"} {
		r := post("k", "{}")
		r.URL.Path = path
		wantStatus(t, send(mux, r), 201)
	}
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs, want one on each route", n)
	}
}

// A claim that may be stored is given back, though the next try says for sure that it is not: nothing ran, and the key must
// not become unknown.
func TestClaimInDoubtAndThenRefused(t *testing.T) {
	for _, refusal := range []error{ichido.ErrUnavailable, ichido.ErrSerialization} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaulty()
			store.begin = func(n int, do func() error) error {
				switch n {
				case 1:
					return lost(do)
				case 2:
					return refusal
				}
				return do()
			}
			h := newManager(t, store, leaseMode(nil)).Wrap(created("x"))
			if a := send(h, post("k", "{}")); a.status != 503 && a.status != 201 {
				t.Errorf("answered %d %s", a.status, a.body)
			}
			at(5 * time.Second)
			if a := send(h, post("k", "{}")); a.status != 201 {
				t.Errorf("%v: sent again: %d %s", refusal, a.status, a.body)
			}
		})
	}
}

// Between the claim and the work the process is paused for longer than the lease: the work does not begin.
func TestWorkDoesNotBeginAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, runs := newFaulty(), 0
		store.begin = func(n int, do func() error) error {
			err := do()
			if n == 1 {
				at(40 * time.Second) // a pause, which no timeout ends
			}
			return err
		}
		h := newManager(t, store, leaseMode(nil)).Wrap(handler(func(w http.ResponseWriter, _ *http.Request) { runs++ }))
		first := start(h, post("k", "{}"))
		at(35 * time.Second)
		if err := store.Settle(t.Context(), ichido.Settlement{Scope: testScope, Key: "k", How: ichido.SettledNotDone, By: "hanako"}); err != nil {
			t.Fatal(err)
		}
		other := newManager(t, store, leaseMode(nil)).Wrap(created("the next"))
		wantFirst(t, send(other, post("k", "{}")), "the next")
		wantReplay(t, <-first, "the next")
		if runs != 0 {
			t.Error("the work began under a lease that was over")
		}
	})
}

// Another request under a key that runs elsewhere learns what it can without claiming anything.
func TestProbeClaimsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		elsewhere := newManager(t, store, leaseMode(nil)).Wrap(slow(10 * time.Second))
		first := start(elsewhere, post("k", "{}"))
		synctest.Wait()
		waits := newManager(t, store, leaseMode(func(c *ichido.Config) { c.InProgress, c.WaitLimit = ichido.Wait, time.Minute })).Wrap(created("x"))
		same := start(waits, post("k", "{}"))
		synctest.Wait()
		before := store.made(&store.leased)
		wantProblem(t, send(waits, post("k", `{"other":1}`)), 422, "mismatch")
		if store.made(&store.leased) != before {
			t.Error("the other request made a claim of lease mode")
		}
		wantFirst(t, <-first, "attempt 0")
		wantReplay(t, <-same, "attempt 0")
	})
}

// The store is away when the work ends, for longer than the client waits: what is known is stored all the same.
func TestEndingsOutliveTheirRequest(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(w http.ResponseWriter, r *http.Request)
		first int
		later func(*testing.T, answer)
	}{
		"answer": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }, 503, func(t *testing.T, a answer) { wantReplay(t, a, "") }},
		"nothing done": {func(w http.ResponseWriter, r *http.Request) {
			ichido.Discard(r.Context())
			w.WriteHeader(503)
		}, 503, func(t *testing.T, a answer) { wantStatus(t, a, 299) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, runs := newFaulty(), 0
				away := func(_ int, do func() error) error {
					if now() < 8*time.Second {
						return errConnection
					}
					return do()
				}
				store.complete, store.abandon = away, away
				h := newManager(t, store, leaseMode(nil)).Wrap(handler(func(w http.ResponseWriter, r *http.Request) {
					if runs++; runs == 1 {
						c.do(w, r)
						return
					}
					w.WriteHeader(299)
				}))
				wantStatus(t, send(h, post("k", "{}")), c.first)
				wantTime(t, 5*time.Second)
				wantProblem(t, send(h, post("k", "{}")), 409, "in-progress")
				at(15 * time.Second)
				c.later(t, send(h, post("k", "{}")))
			})
		})
	}
}

// A lease that is lost for good ends the attempts to store the answer.
func TestEndingsGiveUpWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.complete = func(int, func() error) error { return errConnection }
		h := newManager(t, store, leaseMode(func(c *ichido.Config) { c.AttemptTimeout = time.Second })).Wrap(created("x"))
		wantProblem(t, send(h, post("k", "{}")), 503, "commit-unknown")
		at(2 * time.Minute)
		before := store.made(&store.finished)
		at(4 * time.Minute)
		if store.made(&store.finished) != before {
			t.Error("the answer is still being stored")
		}
	})
}

// Shutdown waits for claims on their way and for answers that are being stored; what is completed is replayed meanwhile.
func TestShutdownWaitsForWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		m := newManager(t, store, leaseMode(nil))
		h := m.Wrap(created("x"))
		wantFirst(t, send(h, post("old", "{}")), "x")
		store.begin = func(_ int, do func() error) error {
			if now() < 2*time.Second {
				at(2 * time.Second)
			}
			return do()
		}
		store.complete = func(_ int, do func() error) error { time.Sleep(time.Second); return do() }
		first := start(h, post("k", "{}"))
		synctest.Wait()
		stopped := make(chan error)
		go func() { stopped <- m.Shutdown(context.Background()) }()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		wantTime(t, 3*time.Second)
		wantFirst(t, <-first, "x")
		wantReplay(t, send(h, post("old", "{}")), "x")
		wantProblem(t, send(h, post("new", "{}")), 503, "store-unavailable")
	})
}

// An answer that is being stored when Shutdown's time is over is waited for, a little.
func TestShutdownWaitsForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		m := newManager(t, store, leaseMode(nil))
		store.complete = func(_ int, do func() error) error { time.Sleep(3 * time.Second); return do() }
		first := start(m.Wrap(created("x")), post("k", "{}"))
		synctest.Wait()
		grace, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Shutdown(grace); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		wantTime(t, 3*time.Second)
		wantFirst(t, <-first, "x")
	})
}

// Short leases do not starve long ones, whose renewal they would hurry.
func TestShortLeasesBesideLongOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.renew = func(_ int, do func() error) error { time.Sleep(80 * time.Millisecond); return do() }
		m := newManager(t, store, leaseMode(func(c *ichido.Config) { c.AttemptTimeout = time.Hour }))
		short, err := m.With(func(c *ichido.Config) { c.Lease = 150 * time.Millisecond })
		if err != nil {
			t.Fatal(err)
		}
		long := start(m.Wrap(slow(5*time.Minute)), post("long", "{}"))
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				send(short.Wrap(slow(20*time.Second)), post(fmt.Sprint("short", i), "{}"))
			}
		})
		wantFirst(t, <-long, "attempt 0")
		stop()
		wg.Wait()
		time.Sleep(time.Second) // by the bubble's clock: a renewal that is under way ends
	})
}

// From lease mode a route goes back to transaction mode by its mode alone.
func TestWithChangesTheModeBack(t *testing.T) {
	m := newManager(t, memstore.New(nil), leaseMode(nil))
	if _, err := m.With(func(c *ichido.Config) { c.Mode = ichido.TransactionMode }); err != nil {
		t.Error(err)
	}
}
