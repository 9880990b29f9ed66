package drivertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
	"github.com/ichido-dev/ichido/sqlstore"
)

func held(key string, token int64) ichido.Held {
	return ichido.Held{Scope: "s", Key: key, Token: token, Duration: time.Hour}
}

// keepSteps keeps steps of the attempt that has the token.
func keepSteps(t *testing.T, store *sqlstore.Store, key string, names ...string) {
	t.Helper()
	if _, err := store.BeginSteps(limited(t), held(key, token)); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if err := store.KeepStep(limited(t), held(key, token), i+1, ichido.KeptStep{Name: name, Result: []byte(name)}); err != nil {
			t.Fatal(err)
		}
	}
}

// stepsGoWithTheRecord deletes records in every way there is.
func stepsGoWithTheRecord(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	store := newStore(db)
	begin(t, store, leased("other"))
	keepSteps(t, store, "other", "one", "two")
	expire := func() { mustExec(t, db, "UPDATE idempotency_keys SET expires_at = '2001-02-03' WHERE idem_key = 'k'") }
	settle := func(how ichido.SettledHow) {
		if err := store.Settle(limited(t), ichido.Settlement{Scope: "s", Key: "k", How: how, By: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	for name, remove := range map[string]func(){
		"settled as not done": func() { settle(ichido.SettledNotDone) },
		"deleted":             func() { settle(ichido.SettledDeleted) },
		"completed, and deleted": func() {
			mustExec(t, db, "UPDATE idempotency_keys SET lease_token = 2, lease_until = '9999-12-31' WHERE idem_key = 'k'")
			complete(t, begin(t, store, leased("k", withToken(2))), answer(""))
			settle(ichido.SettledDeleted)
		},
		"purged": func() {
			expire()
			if n, err := store.Purge(limited(t), 10); n != 1 || err != nil {
				t.Errorf("Purge = %d, %v; want the one that is expired", n, err)
			}
		},
		"replaced by a lease": func() { expire(); begin(t, store, leased("k", withToken(2))) },
		"replaced by a transaction": func() {
			expire()
			complete(t, begin(t, store, tx(leased("k"))), answer(""))
		},
	} {
		attempt := begin(t, store, leased("k"))
		keepSteps(t, store, "k", "one", "two", "three")
		if err := attempt.Abandon(limited(t), errors.New("gone")); err != nil {
			t.Fatal(err)
		}
		remove()
		if n := count(t, db, "SELECT count(*) FROM idempotency_steps WHERE idem_key = 'k'"); n != 0 {
			t.Errorf("%s: %d steps were left", name, n)
		}
		mustExec(t, db, "DELETE FROM idempotency_keys WHERE idem_key = 'k'")
	}
	attempt := begin(t, store, leased("k"))
	keepSteps(t, store, "k", "one", "two")
	if err := attempt.Abandon(limited(t), nil); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, "SELECT count(*) FROM idempotency_keys WHERE idem_key = 'k'") + count(t, db, "SELECT count(*) FROM idempotency_steps WHERE idem_key = 'k'"); n != 0 {
		t.Errorf("discarded: %d rows were left", n)
	}
	attempt = begin(t, store, leased("k"))
	keepSteps(t, store, "k", "one")
	complete(t, attempt, answer("done"))
	if n := count(t, db, "SELECT count(*) FROM idempotency_steps"); n != 3 {
		t.Errorf("%d steps are kept, want those of a completed record and of one in progress", n)
	}
}

// leftoversCountForNothing leaves steps behind whose record is gone.
func leftoversCountForNothing(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	store := newStore(db)
	mustExec(t, db, `INSERT INTO idempotency_steps (scope, idem_key, number, name, result, kept_at)
		VALUES ('s', 'k', 1, 'one', x'00', ''), ('s', 'k', 2, 'old', x'00', ''), ('s', 'k', 3, 'older', x'00', '')`)
	begin(t, store, leased("k"))
	want := func(names ...string) {
		t.Helper()
		steps, err := store.BeginSteps(limited(t), held("k", token))
		var got []string
		for _, step := range steps {
			got = append(got, step.Name+" "+string(step.Result))
		}
		if err != nil || strings.Join(got, ", ") != strings.Join(names, ", ") {
			t.Errorf("BeginSteps = %q, %v; want %q", got, err, names)
		}
	}
	want()
	for number, name := range map[int]string{2: "old", 3: "older"} { // kept before, but not in this life
		if err := store.KeepStep(limited(t), held("k", token), number, ichido.KeptStep{Name: name}); !errors.Is(err, ichido.ErrLost) {
			t.Errorf("KeepStep %d: %v, want ErrLost", number, err)
		}
	}
	keepSteps(t, store, "k", "one")
	want("one one")
	keepSteps(t, store, "k", "one", "two")
	want("one one", "two two")
	if entry, err := store.Look(limited(t), "s", "k"); err != nil || strings.Join(entry.Steps, ",") != "one,two" {
		t.Errorf("Look = %+v, %v", entry, err)
	}
}

// stepping is a Manager of lease mode.
func stepping(t *testing.T, store ichido.Store) *ichido.Manager {
	t.Helper()
	manager, err := ichido.New(store, ichido.Shared, &ichido.Config{
		Mode: ichido.LeaseMode, Lease: time.Hour, StepSecret: []byte("a secret of sixteen bytes"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return manager
}

// operate runs an operation, and sends it again with each call.
func operate(t *testing.T, manager *ichido.Manager, key string, work func(context.Context) (int, error)) (int, error) {
	t.Helper()
	result, err := ichido.Do(limited(t), manager, ichido.Operation{Scope: "s", Key: key}, work)
	return result.Value, err
}

// bring inserts a thing.
func bring(ctx context.Context, tx *sql.Tx, name string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO things (name) VALUES (?)", name)
	return err
}

func wantStepsKept(t *testing.T, db *sql.DB, key string, want int) {
	t.Helper()
	if n := count(t, db, "SELECT count(*) FROM idempotency_steps WHERE idem_key = ?", key); n != want {
		t.Errorf("%s: %d steps are kept, want %d", key, n, want)
	}
	if n := count(t, db, "SELECT coalesce(sum(steps), 0) FROM idempotency_keys WHERE idem_key = ?", key); n != want {
		t.Errorf("%s: %d steps are counted, want %d", key, n, want)
	}
}

// txStepResumes has the work fail after its step, and sends it again.
func txStepResumes(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	manager := stepping(t, newStore(db))
	runs, ends := 0, 0
	work := func(ctx context.Context) (int, error) {
		n, err := sqlstore.TxStep(ctx, "bring", func(ctx context.Context, tx *sql.Tx) (int, error) {
			runs++
			return runs, bring(ctx, tx, "chair")
		})
		if ends++; ends == 1 {
			return n, errors.Join(err, errors.New("gone"))
		}
		return n, err
	}
	if _, err := operate(t, manager, "k", work); err == nil {
		t.Error("work that failed returned no error")
	}
	wantStepsKept(t, db, "k", 1)
	if n, err := operate(t, manager, "k", work); n != 1 || err != nil || runs != 1 || ends != 2 {
		t.Errorf("sent again: %d, %v, after %d runs of the step and %d of the work", n, err, runs, ends)
	}
	wantThings(t, db, "chair", 1)
}

// txStepFails has a step end in each way that keeps nothing. Nothing is written, and the connections survive it.
func txStepFails(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	mustExec(t, db, "CREATE TABLE parts (id INTEGER PRIMARY KEY, of INTEGER REFERENCES parts DEFERRABLE INITIALLY DEFERRED)")
	mustExec(t, db, "INSERT INTO parts VALUES (1, NULL)")
	manager := stepping(t, newStore(db))
	exec := func(query string) func(context.Context, *sql.Tx) error {
		return func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, query)
			return err
		}
	}
	for name, spoil := range map[string]func(context.Context, *sql.Tx) error{
		"an error":            func(context.Context, *sql.Tx) error { return errors.New("no") },
		"a panic":             func(context.Context, *sql.Tx) error { panic("no") },
		"Goexit":              func(context.Context, *sql.Tx) error { runtime.Goexit(); return nil },
		"Rollback":            func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		"ROLLBACK":            exec("ROLLBACK"),
		"deferred constraint": exec("INSERT INTO parts VALUES (2, 3)"),
		"a failure that rolls back, hidden": func(ctx context.Context, tx *sql.Tx) error {
			if err := exec("INSERT OR ROLLBACK INTO parts VALUES (1, NULL)")(ctx, tx); err == nil {
				t.Error("the constraint did not hold")
			}
			return nil
		},
		"rows left open, error": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.QueryContext(ctx, "SELECT 1 UNION ALL SELECT 2")
			return errors.Join(err, errors.New("no"))
		},
	} {
		for range poolSize + 1 {
			returned := false
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				_, err := operate(t, manager, name, func(ctx context.Context) (int, error) {
					return sqlstore.TxStep(ctx, "spoilt", func(ctx context.Context, tx *sql.Tx) (int, error) {
						return 0, errors.Join(bring(ctx, tx, "spoilt"), spoil(ctx, tx))
					})
				})
				returned = true
				if err == nil {
					t.Errorf("%s: no error", name)
				}
			})
			wg.Wait()
			if thrown := name == "a panic" || name == "Goexit"; returned == thrown {
				t.Errorf("%s: returned %v", name, returned)
			}
		}
		wantStepsKept(t, db, name, 0)
	}
	wantThings(t, db, "spoilt", 0)
	// A transaction that the work committed cannot be taken back. The step fails, and is not kept.
	_, err := operate(t, manager, "commit", func(ctx context.Context) (int, error) {
		return sqlstore.TxStep(ctx, "committed", func(_ context.Context, tx *sql.Tx) (int, error) { return 0, tx.Commit() })
	})
	if err == nil || !strings.Contains(err.Error(), "had ended") {
		t.Errorf("after a Commit of the work: %v", err)
	}
	wantStepsKept(t, db, "commit", 0)
	for i := range 2 * poolSize {
		key := fmt.Sprint("after", i)
		if _, err := operate(t, manager, key, func(ctx context.Context) (int, error) {
			return sqlstore.TxStep(ctx, "bring", func(ctx context.Context, tx *sql.Tx) (int, error) { return 0, bring(ctx, tx, "after") })
		}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		wantStepsKept(t, db, key, 1)
	}
	wantThings(t, db, "after", 2*poolSize)
}

// txStepIsFenced has an attempt lose its lease while its step runs.
func txStepIsFenced(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	manager := stepping(t, newStore(db))
	for key, lose := range map[string]string{
		"ran out":    "UPDATE idempotency_keys SET lease_until = '2001-02-03' WHERE idem_key = 'ran out'",
		"taken over": "UPDATE idempotency_keys SET lease_token = 7 WHERE idem_key = 'taken over'",
		"deleted":    "DELETE FROM idempotency_keys WHERE idem_key = 'deleted'",
		"next kept":  "UPDATE idempotency_keys SET steps = 1 WHERE idem_key = 'next kept'",
	} {
		var lost error
		_, _ = operate(t, manager, key, func(ctx context.Context) (int, error) {
			if lost == nil {
				_, lost = sqlstore.TxStep(ctx, "bring", func(ctx context.Context, tx *sql.Tx) (int, error) {
					mustExec(t, db, lose)
					return 0, bring(ctx, tx, key)
				})
			}
			return 0, errors.New("gone")
		})
		if !errors.Is(lost, ichido.ErrLost) {
			t.Errorf("%s: %v, want ErrLost", key, lost)
		}
		wantThings(t, db, key, 0)
		if n := count(t, db, "SELECT count(*) FROM idempotency_steps WHERE idem_key = ?", key); n != 0 {
			t.Errorf("%s: the step is kept", key)
		}
	}
}

// txStepRunsAgain has another transaction come in between what a step reads and what it writes.
func txStepRunsAgain(t *testing.T, d Driver) {
	file := newFile(t)
	db, other := d.open(t, file), d.open(t, file)
	manager := stepping(t, newStore(db))
	for name, wrap := range map[string]func(error) error{
		"the driver's error": func(err error) error { return err },
		"wrapped":            func(err error) error { return fmt.Errorf("counting: %w", errors.Join(err)) },
	} {
		runs := 0
		before := count(t, db, "SELECT n FROM counter")
		_, err := operate(t, manager, name, func(ctx context.Context) (int, error) {
			return sqlstore.TxStep(ctx, "count", func(ctx context.Context, tx *sql.Tx) (int, error) {
				runs++
				var n int
				if err := tx.QueryRowContext(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
					return 0, err
				}
				if runs == 1 {
					mustExec(t, other, "UPDATE counter SET n = n + 1")
				}
				_, err := tx.ExecContext(ctx, "UPDATE counter SET n = ?", n+1)
				if err != nil {
					err = wrap(err)
				}
				return n + 1, err
			})
		})
		if err != nil || runs != 2 {
			t.Errorf("%s: %v after %d runs, want none after 2", name, err, runs)
		}
		if n := count(t, db, "SELECT n FROM counter"); n != before+2 {
			t.Errorf("%s: the counter went from %d to %d, want 2 more", name, before, n)
		}
		wantStepsKept(t, db, name, 1)
	}
}

// txStepGivesUp has another process write for longer than anyone waits.
func txStepGivesUp(t *testing.T, d Driver) {
	file := newFile(t)
	db, other := d.open(t, file), d.open(t, file)
	db.SetMaxOpenConns(1)
	mustExec(t, db, "PRAGMA busy_timeout = 10")
	manager := stepping(t, newStore(db))
	runs := 0
	var given error
	_, err := operate(t, manager, "k", func(ctx context.Context) (int, error) {
		step := func() (int, error) {
			return sqlstore.TxStep(ctx, "bring", func(ctx context.Context, tx *sql.Tx) (int, error) {
				runs++
				return 0, bring(ctx, tx, "chair")
			})
		}
		// Steps begin with a write, which must come before the other process's.
		if _, err := ichido.Step(ctx, "first", func(context.Context, string) (int, error) { return 0, nil }); err != nil {
			return 0, err
		}
		writing, err := other.Begin()
		if err != nil {
			return 0, err
		}
		defer writing.Rollback()
		if _, err := writing.Exec("INSERT INTO things (name) VALUES ('other')"); err != nil {
			return 0, err
		}
		_, given = step()
		if err := writing.Commit(); err != nil {
			return 0, err
		}
		return step()
	})
	if !errors.Is(given, ichido.ErrSerialization) || runs != 2 {
		t.Errorf("while another process writes: %v after %d runs; want ErrSerialization, and one run", given, runs-1)
	}
	if err != nil {
		t.Errorf("afterwards: %v", err)
	}
	wantThings(t, db, "chair", 1)
	wantStepsKept(t, db, "k", 2)
}

// txStepWasKept has a step meet what an earlier run of it, whose commit was unknown, has kept in the end.
func txStepWasKept(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	manager := stepping(t, newStore(db))
	work := func(value int, early func()) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			return sqlstore.TxStep(ctx, "bring", func(ctx context.Context, tx *sql.Tx) (int, error) {
				early()
				return value, bring(ctx, tx, fmt.Sprint(value))
			})
		}
	}
	if _, err := operate(t, manager, "first", work(1, func() {})); err != nil {
		t.Fatal(err)
	}
	n, err := operate(t, manager, "k", work(2, func() {
		mustExec(t, db, `INSERT INTO idempotency_steps (scope, idem_key, number, name, result, kept_at)
			SELECT scope, 'k', number, name, result, kept_at FROM idempotency_steps WHERE idem_key = 'first'`)
	}))
	if n != 1 || err != nil {
		t.Errorf("%d, %v; want what was kept", n, err)
	}
	wantThings(t, db, "2", 0)
	wantStepsKept(t, db, "k", 1)
}

// txStepIsFinal keeps what a definite failure has written, and the failure.
func txStepIsFinal(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	manager := stepping(t, newStore(db))
	runs, ends := 0, 0
	for range 2 {
		_, _ = operate(t, manager, "k", func(ctx context.Context) (int, error) {
			n, err := sqlstore.TxStep(ctx, "refuse", func(ctx context.Context, tx *sql.Tx) (int, error) {
				runs++
				return 7, fmt.Errorf("wrapped: %w", ichido.Final(errors.Join(errors.New("sold out"), bring(ctx, tx, "note"))))
			})
			refusal := new(ichido.FinalError)
			if !errors.As(err, &refusal) || refusal.Step != "refuse" || !strings.Contains(refusal.Reason, "sold out") || n != 7 {
				t.Errorf("TxStep = %d, %v; want 7 and the refusal", n, err)
			}
			ends++
			return 0, errors.New("gone")
		})
	}
	if runs != 1 || ends != 2 {
		t.Errorf("the step ran %d times in %d attempts, want 1 in 2", runs, ends)
	}
	wantThings(t, db, "note", 1)
	wantStepsKept(t, db, "k", 1)
}

// noSteps asks for a step where there is none.
func noSteps(t *testing.T, d Driver) {
	store := newStore(d.open(t, newFile(t)))
	step := func(ctx context.Context) error {
		_, err := sqlstore.TxStep(ctx, "a", func(context.Context, *sql.Tx) (int, error) { t.Error("the step ran"); return 0, nil })
		return err
	}
	want := func(err error, text string) {
		t.Helper()
		if !errors.Is(err, ichido.ErrNoSteps) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want ErrNoSteps, and %q", err, text)
		}
	}
	want(step(t.Context()), "not that of an attempt")
	transactions, err := ichido.New(store, ichido.Shared, nil)
	if err != nil {
		t.Fatal(err)
	}
	work := func(ctx context.Context) (int, error) { return 0, step(ctx) }
	_, err = operate(t, transactions, "k", work)
	want(err, "transaction mode")
	_, err = operate(t, stepping(t, memstore.New(nil)), "k", work)
	want(err, "not that of an attempt")
	// An attempt on another store, within one on this.
	_, err = operate(t, stepping(t, store), "k", func(ctx context.Context) (int, error) {
		inner, err := ichido.Do(ctx, stepping(t, memstore.New(nil)), ichido.Operation{Scope: "s", Key: "k"}, work)
		return inner.Value, err
	})
	want(err, "another store")
}

// operationResumes has a whole operation die after each of its steps, and sends it again: each effect is there once.
func operationResumes(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	mustExec(t, db, "CREATE TABLE outside (key TEXT PRIMARY KEY, step TEXT NOT NULL)") // of a system that knows keys
	dies := ""
	outside := func(ctx context.Context, name string) error {
		_, err := ichido.Step(ctx, name, func(ctx context.Context, key string) (string, error) {
			_, err := db.ExecContext(ctx, "INSERT OR IGNORE INTO outside VALUES (?, ?)", key, name)
			return key, err
		})
		return err
	}
	steps := []struct {
		name string
		run  func(ctx context.Context, body string) error
	}{
		{"reserve", func(ctx context.Context, _ string) error { return outside(ctx, "reserve") }},
		{"book", func(ctx context.Context, body string) error {
			_, err := sqlstore.TxStep(ctx, "book", func(ctx context.Context, tx *sql.Tx) (int, error) { return 0, bring(ctx, tx, body) })
			return err
		}},
		{"mail", func(ctx context.Context, _ string) error { return outside(ctx, "mail") }},
	}
	handler := stepping(t, newStore(db)).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, step := range steps {
			if err := step.run(r.Context(), string(body)); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			if dies == step.name {
				dies = ""
				panic("died after " + step.name)
			}
		}
		w.WriteHeader(http.StatusCreated)
	}))
	server := httptest.NewServer(handler)
	defer server.Close()
	for i, last := range steps {
		key := "after " + last.name
		dies = last.name
		if r := post(t, server.URL, key, key); r.status != 500 {
			t.Errorf("%s: the attempt that died answered %+v", key, r)
		}
		wantStepsKept(t, db, key, i+1)
		if r := post(t, server.URL, key, key); r.status != 201 || r.replayed {
			t.Errorf("%s, sent again: %+v", key, r)
		}
		if r := post(t, server.URL, key, key); r.status != 201 || !r.replayed {
			t.Errorf("%s, sent once more: %+v", key, r)
		}
		wantThings(t, db, key, 1)
		wantStepsKept(t, db, key, len(steps))
		if n := count(t, db, "SELECT count(*) FROM outside"); n != 2*(i+1) {
			t.Errorf("%s: %d effects outside, want %d", key, n, 2*(i+1))
		}
	}
}
