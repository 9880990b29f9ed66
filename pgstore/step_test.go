package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func stepping(t *testing.T, store ichido.Store) *ichido.Manager {
	t.Helper()
	manager, err := ichido.New(store, ichido.Shared, &ichido.Config{Mode: ichido.LeaseMode, Lease: time.Hour, Route: "pay",
		StepSecret: []byte("a secret of sixteen bytes"), AttemptTimeout: patience, StoreTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	return manager
}

// do is ichido.Do of an operation in the scope of these tests.
func do[T any](t *testing.T, m *ichido.Manager, key string, work func(ctx context.Context) (T, error)) (T, error) {
	t.Helper()
	result, err := ichido.Do(bounded(t), m, ichido.Operation{Scope: "scope", Key: key}, work)
	return result.Value, err
}

// insertStep is a step that inserts a thing and returns its name.
func insertStep(ctx context.Context, step, thing string) (string, error) {
	return pgstore.TxStep(ctx, step, func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, "INSERT INTO things (name) VALUES ($1)", thing)
		return thing, err
	})
}

func heldBy(claim ichido.Claim) ichido.Held {
	return ichido.Held{Scope: claim.Scope, Key: claim.Key, Token: claim.Lease.Token, Duration: claim.Lease.Duration}
}

func kept(name string) ichido.KeptStep {
	return ichido.KeptStep{Name: name, Result: []byte("result of " + name)}
}

// mustKeep begins the steps of a claim and keeps those named.
func mustKeep(t *testing.T, store *pgstore.Store, claim ichido.Claim, names ...string) {
	t.Helper()
	before, err := store.BeginSteps(bounded(t), heldBy(claim))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if err := store.KeepStep(bounded(t), heldBy(claim), len(before)+i+1, kept(name)); err != nil {
			t.Fatalf("KeepStep(%s): %v", name, err)
		}
	}
}

func wantSteps(t *testing.T, store *pgstore.Store, claim ichido.Claim, names ...string) {
	t.Helper()
	got, err := store.BeginSteps(bounded(t), heldBy(claim))
	if err != nil {
		t.Errorf("BeginSteps: %v", err)
		return
	}
	var want []ichido.KeptStep
	for _, name := range names {
		want = append(want, kept(name))
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("BeginSteps = %q, want %q", got, want)
	}
}

func TestStepRoundTrips(t *testing.T) {
	url := newDatabase(t)
	proxy := pgtest.NewProxy(t, url)
	store := pgstore.New(open(t, proxy.URL(url), one))
	ctx := bounded(t)
	names := make([]string, 30)
	for i := range names {
		names[i] = fmt.Sprint("step", i)
	}
	claim := leaseClaim("k")
	mustLease(t, store, claim)
	mustKeep(t, store, claim, names...)
	measure := func(what string, trips, statements int, do func()) {
		t.Helper()
		proxy.Reset()
		do()
		if got, sent := proxy.RoundTrips(), proxy.Statements(); got != trips || len(sent) != statements {
			t.Errorf("%s makes %d round trips, want %d, with %d statements: %q", what, got, trips, statements, sent)
		}
	}
	measure("BeginSteps with 30 kept steps", 1, 1, func() { wantSteps(t, store, claim, names...) })
	for _, what := range []string{"KeepStep", "KeepStep again"} {
		measure(what, 1, 1, func() {
			if err := store.KeepStep(ctx, heldBy(claim), 31, kept("last")); err != nil {
				t.Error(what, err)
			}
		})
	}
	_, err := do(t, stepping(t, store), "tx", func(ctx context.Context) (string, error) {
		if _, err := insertStep(ctx, "warm", "warm"); err != nil {
			return "", err
		}
		measure("TxStep", 3, 4, func() {
			if _, err := insertStep(ctx, "book", "chair"); err != nil {
				t.Error(err)
			}
		})
		return "", nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestStepsAreHOT(t *testing.T) {
	const steps = 20
	url := newDatabase(t)
	pool := open(t, url, one)
	store := pgstore.New(pool)
	claim := leaseClaim("k")
	mustLease(t, store, claim)
	for range steps {
		mustKeep(t, store, claim, "step")
	}
	mustExec(t, pool, "SELECT pg_stat_force_next_flush()")
	if n := count(t, pool, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'"); n != 2*steps {
		t.Errorf("%d of %d updates were HOT", n, 2*steps)
	}
}

func TestKeepStepIsFenced(t *testing.T) {
	url := newDatabase(t)
	pool := open(t, url)
	store := pgstore.New(pool)
	ctx := bounded(t)
	first, second := leaseClaim("k"), leaseClaim("k")
	mustLease(t, store, first)
	mustKeep(t, store, first, "a")
	for number, name := range map[int]string{1: "other", 3: "c"} {
		if err := store.KeepStep(ctx, heldBy(first), number, kept(name)); !errors.Is(err, ichido.ErrLost) {
			t.Errorf("KeepStep(%d, %s) = %v, want ErrLost", number, name, err)
		}
	}
	lost := func(when string) {
		t.Helper()
		if _, err := store.BeginSteps(ctx, heldBy(first)); !errors.Is(err, ichido.ErrLost) {
			t.Errorf("%s: BeginSteps = %v, want ErrLost", when, err)
		}
		for number, name := range []string{"a", "b"} {
			if err := store.KeepStep(ctx, heldBy(first), number+1, kept(name)); !errors.Is(err, ichido.ErrLost) {
				t.Errorf("%s: KeepStep(%s) = %v, want ErrLost", when, name, err)
			}
		}
	}
	lapse(t, pool, "k")
	lost("after the lease ran out")
	mustLease(t, store, second)
	lost("after the takeover")
	wantSteps(t, store, second, "a")
	mustKeep(t, store, second, "b")
	lapse(t, pool, "k")
	if err := mustLease(t, store, leaseClaim("k")).Complete(ctx, paid); err != nil {
		t.Fatal(err)
	}
	lost("after the completion")
}

// The attempt loses its lease while its step runs: what the step wrote is rolled back, and the attempt that follows runs it.
func TestTxStepIsFenced(t *testing.T) {
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprint("taken=", taken), func(t *testing.T) {
			url := newDatabase(t)
			pool := open(t, url)
			manager := stepping(t, pgstore.New(open(t, url)))
			other := stepping(t, pgstore.New(open(t, url)))
			work := func(ctx context.Context) (string, error) { return insertStep(ctx, "book", "chair") }
			got, err := do(t, manager, "k", func(ctx context.Context) (string, error) {
				value, err := pgstore.TxStep(ctx, "book", func(ctx context.Context, tx pgx.Tx) (string, error) {
					_, err := tx.Exec(ctx, "INSERT INTO things (name) VALUES ('late')")
					lapse(t, pool, "k")
					if taken {
						if _, err := do(t, other, "k", work); err != nil {
							t.Error(err)
						}
					}
					return "late", err
				})
				if !errors.Is(err, ichido.ErrLost) || errors.Is(err, ichido.ErrCommitUnknown) {
					t.Errorf("TxStep = %q, %v; want ErrLost", value, err)
				}
				return value, err
			})
			if !taken {
				got, err = do(t, other, "k", work)
			}
			t.Logf("the attempt that lost: %q, %v", got, err)
			wantThings(t, pool, "late", 0)
			wantThings(t, pool, "chair", 1)
		})
	}
}

// The connection is lost while a step commits, before the server saw it or after it was carried out.
func TestTxStepCommitUnknown(t *testing.T) {
	for _, committed := range []bool{false, true} {
		for _, again := range []bool{false, true} { // whether the handler tries again, or its client
			t.Run(fmt.Sprintf("committed=%v again=%v", committed, again), func(t *testing.T) {
				url := newDatabase(t)
				proxy := pgtest.NewProxy(t, url)
				manager := stepping(t, pgstore.New(open(t, proxy.URL(url))))
				runs := 0
				book := func(ctx context.Context) (string, error) {
					return pgstore.TxStep(ctx, "book", func(ctx context.Context, tx pgx.Tx) (string, error) {
						runs++
						_, err := tx.Exec(ctx, "INSERT INTO things (name) VALUES ('chair')")
						return fmt.Sprint("run ", runs), err
					})
				}
				var cut <-chan struct{}
				if committed {
					cut = proxy.CutAfterCommit()
				} else {
					cut = proxy.CutBeforeCommit()
				}
				got, err := do(t, manager, "k", func(ctx context.Context) (string, error) {
					value, err := book(ctx)
					if errors.Is(err, ichido.ErrCommitUnknown) == committed {
						t.Errorf("TxStep = %q, %v", value, err)
					}
					if err != nil && again {
						return book(ctx)
					}
					return value, err
				})
				<-cut
				if err != nil {
					got, err = do(t, manager, "k", book)
				}
				want := map[bool]string{true: "run 1", false: "run 2"}[committed]
				if err != nil || got != want {
					t.Errorf("%q, %v; want %q", got, err, want)
				}
				wantThings(t, open(t, url), "chair", 1)
			})
		}
	}
}

// A step's commit was taken for lost, and arrives before that of its second run: the second is rolled back, and its result
// is that of the first.
func TestTxStepIsRunTwiceInOneAttempt(t *testing.T) {
	url := newDatabase(t)
	pool := open(t, url)
	store := pgstore.New(open(t, url, one))
	got, err := do(t, stepping(t, store), "k", func(ctx context.Context) (string, error) {
		return ichido.RunStep(ctx, "book", func(ctx context.Context, s *ichido.StepRun) (string, error) {
			insert := func(name string) error {
				return store.KeepInTx(ctx, s, func(tx pgx.Tx) (ichido.KeptStep, error) {
					_, err := tx.Exec(ctx, "INSERT INTO things (name) VALUES ($1)", name)
					if err != nil {
						return ichido.KeptStep{}, err
					}
					return s.Seal(name, nil)
				})
			}
			if err := insert("first"); err != nil {
				t.Error(err)
			}
			err := insert("second")
			if !errors.Is(err, ichido.ErrCommitUnknown) {
				t.Errorf("the second run returned %v, want ErrCommitUnknown", err)
			}
			return "second", err
		})
	})
	if err != nil || got != "first" {
		t.Errorf("%q, %v; want the result of the first run", got, err)
	}
	wantThings(t, pool, "first", 1)
	wantThings(t, pool, "second", 0)
}

// awaitLocks waits until n statements wait for a lock.
func awaitLocks(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	until(t, fmt.Sprint(n, " wait"), func() bool {
		return count(t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == n
	})
}

// A step is being committed, as after a lost acknowledgement, while its attempt looks. What the look waited for must show:
// not the count with the row of an earlier life, which its snapshot has.
func TestBeginStepsWaitsForAStepInFlight(t *testing.T) {
	for name, way := range ways {
		for _, leftover := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " leftover=", leftover), func(t *testing.T) {
				url := newDatabase(t)
				pool := open(t, url)
				store := pgstore.New(way(t, url))
				ctx := bounded(t)
				claim := leaseClaim("k")
				mustLease(t, store, claim)
				mustKeep(t, store, claim)
				if leftover {
					mustExec(t, pool, "INSERT INTO idempotency_steps VALUES ('scope', 'k', 1, 'old', 'old', now())")
				}
				flight, err := pool.Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer flight.Rollback(ctx)
				_, err = flight.Exec(ctx, "UPDATE idempotency_keys SET steps = 1")
				_, err2 := flight.Exec(ctx, `INSERT INTO idempotency_steps VALUES ('scope', 'k', 1, 'a', 'result of a', now())
					ON CONFLICT (idem_key, scope, number) DO UPDATE SET name = excluded.name, result = excluded.result`)
				if err := errors.Join(err, err2); err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					wantSteps(t, store, claim, "a")
				}()
				awaitLocks(t, pool, 1)
				if err := flight.Commit(ctx); err != nil {
					t.Fatal(err)
				}
				<-done
			})
		}
	}
}

// Two KeepSteps of one step at once, as when the first one's connection broke while it waits for the row.
func TestRepeatedKeepStepWhileTheFirstOneRuns(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			url := newDatabase(t)
			pool := open(t, url)
			store := pgstore.New(way(t, url))
			ctx := bounded(t)
			claim := leaseClaim("k")
			mustLease(t, store, claim)
			mustKeep(t, store, claim, "a")
			lock, err := pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Rollback(ctx)
			if _, err := lock.Exec(ctx, "SELECT FROM idempotency_keys FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			for range 2 {
				go func() { done <- store.KeepStep(ctx, heldBy(claim), 2, kept("b")) }()
			}
			awaitLocks(t, pool, 2)
			if err := lock.Rollback(ctx); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := <-done; err != nil {
					t.Errorf("KeepStep = %v", err)
				}
			}
			wantSteps(t, store, claim, "a", "b")
		})
	}
}

func TestStepsOfAnEarlierLifeDoNotCount(t *testing.T) {
	url := newDatabase(t)
	pool := open(t, url)
	store := pgstore.New(pool)
	first, second := leaseClaim("k"), leaseClaim("k")
	mustLease(t, store, first)
	mustKeep(t, store, first, "old a", "old b", "old c")
	lapse(t, pool, "k")
	mustExec(t, pool, "UPDATE idempotency_keys SET expires_at = '-infinity'")
	mustLease(t, store, second)
	if n := count(t, pool, "SELECT count(*) FROM idempotency_keys WHERE steps IS NULL AND attempts = 1"); n != 1 {
		t.Error("the new life of the record has the steps of the one before")
	}
	wantSteps(t, store, second)
	mustKeep(t, store, second, "a", "b")
	wantSteps(t, store, second, "a", "b")
	entry, err := store.Look(bounded(t), "scope", "k")
	if err != nil || !slices.Equal(entry.Steps, []string{"a", "b"}) {
		t.Errorf("Look = %+v, %v", entry, err)
	}
}

// Whatever record and claim say about Rerun, an operation with steps resumes, and nobody is asked about it.
func TestStepsAreTakenOver(t *testing.T) {
	url := newDatabase(t)
	pool := open(t, url)
	store := pgstore.New(pool)
	ctx := bounded(t)
	claim := leaseClaim("k")
	mustLease(t, store, claim)
	mustKeep(t, store, claim, "a")
	if _, _, err := store.Begin(ctx, leaseClaim("k")); !errors.Is(err, ichido.ErrInProgress) {
		t.Errorf("a claim while the lease runs: %v", err)
	}
	lapse(t, pool, "k")
	for _, q := range []ichido.Question{
		{Scope: "scope", Key: "k", Patience: time.Hour}, {Route: "pay", Limit: 10, Patience: time.Hour},
	} {
		if asked, err := store.Ask(ctx, q); err != nil || len(asked) != 0 {
			t.Errorf("Ask(%+v) = %+v, %v", q, asked, err)
		}
	}
	entry, err := store.Look(ctx, "scope", "k")
	if err != nil || entry.State != ichido.InProgress || !entry.Resumes || entry.Rerun || !slices.Equal(entry.Steps, []string{"a"}) {
		t.Errorf("Look = %+v, %v", entry, err)
	}
	entries, err := store.List(ctx, ichido.Filter{States: []ichido.State{ichido.InProgress}, Limit: 10})
	if err != nil || len(entries) != 1 || !entries[0].Resumes || entries[0].Steps != nil {
		t.Errorf("List = %+v, %v", entries, err)
	}
	other, plain := leaseClaim("k"), leaseClaim("k")
	other.Fingerprint, plain.Lease = []byte("v:other"), nil
	for name, c := range map[string]ichido.Claim{"another fingerprint": other, "transaction mode": plain} {
		if attempt, record, err := store.Begin(ctx, c); attempt != nil || err != nil || record.State != ichido.Unknown {
			t.Errorf("%s: Begin = %v, %v, %v", name, attempt, record, err)
		}
	}
	next := leaseClaim("k")
	attempt := mustLease(t, store, next)
	if n := count(t, pool, "SELECT attempts FROM idempotency_keys"); n != 2 {
		t.Errorf("%d attempts are counted, want 2", n)
	}
	wantSteps(t, store, next, "a")
	if err := attempt.Complete(ctx, paid); err != nil {
		t.Error(err)
	}
	if entry, err := store.Look(ctx, "scope", "k"); err != nil || entry.State != ichido.Completed || !entry.Resumes || len(entry.Steps) != 1 {
		t.Errorf("Look after completion = %+v, %v", entry, err)
	}
}

// Whoever deletes a record deletes its steps, and no others.
func TestStepsGoWithTheirRecord(t *testing.T) {
	expire := func(t *testing.T, pool *pgxpool.Pool) {
		lapse(t, pool, "k")
		mustExec(t, pool, "UPDATE idempotency_keys SET expires_at = '-infinity' WHERE idem_key = 'k' AND scope = 'scope'")
	}
	settle := func(how ichido.SettledHow) func(*testing.T, *pgxpool.Pool, *pgstore.Store, ichido.Attempt) error {
		return func(t *testing.T, pool *pgxpool.Pool, store *pgstore.Store, _ ichido.Attempt) error {
			lapse(t, pool, "k")
			return store.Settle(bounded(t), settlement("k", how))
		}
	}
	for name, c := range map[string]struct {
		left   int
		delete func(*testing.T, *pgxpool.Pool, *pgstore.Store, ichido.Attempt) error
	}{
		"freed": {0, func(t *testing.T, _ *pgxpool.Pool, _ *pgstore.Store, a ichido.Attempt) error {
			return a.Abandon(bounded(t), nil)
		}},
		"settled as not done": {0, settle(ichido.SettledNotDone)},
		"deleted":             {0, settle(ichido.SettledDeleted)},
		"settled as done":     {2, settle(ichido.SettledDone)},
		"purged": {0, func(t *testing.T, pool *pgxpool.Pool, store *pgstore.Store, _ ichido.Attempt) error {
			expire(t, pool)
			n, err := store.Purge(bounded(t), 100)
			if n != 1 {
				t.Errorf("Purge = %d, want 1: steps do not count", n)
			}
			return err
		}},
		"replaced in transaction mode": {0, func(t *testing.T, pool *pgxpool.Pool, store *pgstore.Store, _ ichido.Attempt) error {
			expire(t, pool)
			claim := leaseClaim("k")
			claim.Lease = nil
			return mustLease(t, store, claim).Complete(bounded(t), paid)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			url := newDatabase(t)
			pool := open(t, url)
			store := pgstore.New(pool)
			claim, other, elsewhere := leaseClaim("k"), leaseClaim("k2"), leaseClaim("k")
			elsewhere.Scope = "elsewhere"
			attempt := mustLease(t, store, claim)
			mustLease(t, store, other)
			mustLease(t, store, elsewhere)
			for _, c := range []ichido.Claim{claim, other, elsewhere} {
				mustKeep(t, store, c, "a", "b")
			}
			mustExec(t, pool, "UPDATE idempotency_keys SET lease_until = now() + interval '1 day' WHERE scope = 'elsewhere'")
			if err := c.delete(t, pool, store, attempt); err != nil {
				t.Fatal(err)
			}
			if n := count(t, pool, "SELECT count(*) FROM idempotency_steps WHERE idem_key = 'k' AND scope = 'scope'"); n != c.left {
				t.Errorf("%d steps are left, want %d", n, c.left)
			}
			if n := count(t, pool, "SELECT count(*) FROM idempotency_steps"); n != c.left+4 {
				t.Errorf("%d steps are left in all, want %d", n, c.left+4)
			}
		})
	}
}

// An order of three steps panics after each of them in turn, and is sent again.
func TestStepsOverWrap(t *testing.T) {
	url := newDatabase(t)
	manager := stepping(t, pgstore.New(open(t, url)))
	steps := []string{"reserve", "book", "mail"}
	for _, dies := range steps {
		t.Run(dies, func(t *testing.T) {
			effects, died := map[string][]string{}, false
			outside := func(name string) func(context.Context, string) (string, error) {
				return func(_ context.Context, key string) (string, error) {
					effects[name] = append(effects[name], key)
					return name, nil
				}
			}
			service := serveHandler(t, manager.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var got []string
				for _, name := range steps {
					var value string
					var err error
					if name == "book" {
						value, err = insertStep(r.Context(), name, "order "+dies)
					} else {
						value, err = ichido.Step(r.Context(), name, outside(name))
					}
					if err != nil {
						http.Error(w, err.Error(), http.StatusInternalServerError)
						return
					}
					if got = append(got, value); name == dies && !died {
						died = true
						panic("died after " + name)
					}
				}
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, strings.Join(got, ", "))
			})))
			if r := post(t, service, dies, ""); r.status != 500 {
				t.Errorf("the first sending: %+v", r)
			}
			for _, replayed := range []bool{false, true} {
				if r := post(t, service, dies, ""); r.status != 201 || r.replayed != replayed || r.body != "reserve, order "+dies+", mail" {
					t.Errorf("sent again: %+v, want 201 with replayed=%v", r, replayed)
				}
			}
			wantThings(t, open(t, url), "order "+dies, 1)
			if len(effects["reserve"]) != 1 || len(effects["mail"]) != 1 {
				t.Errorf("the effects: %q", effects)
			}
		})
	}
}

func TestTxStepErrors(t *testing.T) {
	url := newDatabase(t)
	pool := open(t, url)
	manager := stepping(t, pgstore.New(open(t, url)))
	for _, c := range []struct {
		name  string
		do    func(ctx context.Context, tx pgx.Tx) error
		check func(error) bool
		left  int
	}{
		{"error", func(context.Context, pgx.Tx) error { return errors.New("sold out") },
			func(err error) bool { return err.Error() == "sold out" }, 0},
		{"final", func(context.Context, pgx.Tx) error {
			return fmt.Errorf("wrapped: %w", ichido.Final(errors.New("declined")))
		},
			func(err error) bool {
				final := new(ichido.FinalError)
				return errors.As(err, &final) && final.Step == "s"
			}, 1},
		{"commit", func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
			func(err error) bool { return strings.Contains(err.Error(), "remove this call") }, 0},
		{"failed statement", func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "INSERT INTO things (name) VALUES ('refused')")
			return nil
		}, func(err error) bool { return strings.Contains(err.Error(), "savepoint") }, 0},
	} {
		var during error
		runs := 0
		work := func(ctx context.Context) (int, error) {
			_, during = pgstore.TxStep(ctx, "s", func(ctx context.Context, tx pgx.Tx) (int, error) {
				runs++
				_, err := tx.Exec(ctx, "INSERT INTO things (name) VALUES ($1)", c.name)
				return 1, errors.Join(err, c.do(ctx, tx))
			})
			return 1, during
		}
		for range 2 {
			if _, _ = do(t, manager, c.name, work); during == nil || !c.check(during) {
				t.Errorf("%s: TxStep returned %v", c.name, during)
			}
		}
		if want := 2 - c.left; runs != want {
			t.Errorf("%s: it ran %d times, want %d", c.name, runs, want)
		}
		wantThings(t, pool, c.name, c.left)
	}

	// do panics: its transaction ends, and its connection goes back.
	for i := range poolSize + 1 {
		func() {
			defer func() { _ = recover() }()
			_, _ = do(t, manager, fmt.Sprint("panic", i), func(ctx context.Context) (int, error) {
				return pgstore.TxStep(ctx, "s", func(ctx context.Context, tx pgx.Tx) (int, error) {
					_, _ = tx.Exec(ctx, "INSERT INTO things (name) VALUES ('panic')")
					panic("died")
				})
			})
		}()
	}
	wantThings(t, pool, "panic", 0)
}

func TestTxStepSaysWhereThereAreNoSteps(t *testing.T) {
	url := newDatabase(t)
	plain, err := ichido.New(pgstore.New(open(t, url)), ichido.Shared, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := insertStep(bounded(t), "s", "chair"); !errors.Is(err, ichido.ErrNoSteps) || !strings.Contains(err.Error(), "Wrap") {
		t.Errorf("outside of an attempt: %v", err)
	}
	_, err = do(t, plain, "k", func(ctx context.Context) (string, error) { return insertStep(ctx, "s", "chair") })
	if !errors.Is(err, ichido.ErrNoSteps) || !strings.Contains(err.Error(), "one transaction already") {
		t.Errorf("in transaction mode: %v", err)
	}
	wantThings(t, open(t, url), "chair", 0)
}

// Steps that read and then write the same row at once: where the database aborts one to keep order, it is run again.
func TestTxStepsAreRunAgain(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			const steps = 4
			url := newDatabase(t)
			manager := stepping(t, pgstore.New(open(t, url), pgstore.WithIsolation(level)))
			var meet, wg sync.WaitGroup
			meet.Add(steps)
			for i := range steps {
				wg.Go(func() {
					first := true
					_, err := do(t, manager, fmt.Sprint("k", i), func(ctx context.Context) (int, error) {
						return pgstore.TxStep(ctx, "add", func(ctx context.Context, tx pgx.Tx) (n int, err error) {
							query := "SELECT n FROM counter"
							if level == pgx.ReadCommitted {
								query += " FOR UPDATE"
							}
							if first { // all have their snapshot before the first commits
								first = false
								_, err = tx.Exec(ctx, "SELECT count(*) FROM things")
								meet.Done()
								meet.Wait()
							}
							if err == nil {
								err = tx.QueryRow(ctx, query).Scan(&n)
							}
							if err == nil {
								_, err = tx.Exec(ctx, "UPDATE counter SET n = $1::int", n+1)
							}
							return n + 1, err
						})
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := count(t, open(t, url), "SELECT n FROM counter"); n != steps {
				t.Errorf("the counter is %d, want %d", n, steps)
			}
		})
	}
}

// All ways in which pgx talks to the server: a step that is kept, and one whose attempt has lost its lease.
func TestTxStepInEveryExecMode(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			url := newDatabase(t)
			pool := open(t, url)
			store := pgstore.New(open(t, url, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
			_, err := do(t, stepping(t, store), "k", func(ctx context.Context) (string, error) {
				if _, err := insertStep(ctx, "a", "chair"); err != nil {
					t.Error(err)
				}
				if entry, err := store.Look(ctx, "scope", "k"); err != nil || !slices.Equal(entry.Steps, []string{"a"}) {
					t.Errorf("Look = %+v, %v", entry, err)
				}
				return pgstore.TxStep(ctx, "b", func(ctx context.Context, tx pgx.Tx) (string, error) {
					lapse(t, pool, "k")
					_, err := tx.Exec(ctx, "INSERT INTO things (name) VALUES ('late')")
					return "", err
				})
			})
			if err == nil {
				t.Error("the attempt completed without its lease")
			}
			wantThings(t, pool, "chair", 1)
			wantThings(t, pool, "late", 0)
		})
	}
}
