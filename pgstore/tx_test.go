package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/jackc/pgx/v5"
)

// api is a service whose handler is the test's own; an error becomes 500.
func api(t *testing.T, url string, work func(ctx context.Context, tx pgx.Tx, body string) error, options ...pgstore.Option) string {
	t.Helper()
	manager, err := ichido.New(pgstore.New(open(t, url), options...), ichido.Shared, nil)
	if err != nil {
		t.Fatal(err)
	}
	return serveHandler(t, manager.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := work(r.Context(), pgstore.Tx(r.Context()), string(body)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})))
}

// A handler that tries to end the transaction, or leaves it in a state in which it cannot be committed, fails loudly;
// nothing is left, and the pool's connections survive it.
func TestHandlersThatSpoilTheTransaction(t *testing.T) {
	url := newDatabase(t)
	insert := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO things (name) VALUES ('spoilt')")
		return err
	}
	for name, spoil := range map[string]func(context.Context, pgx.Tx) error{
		"Commit": func(ctx context.Context, tx pgx.Tx) error {
			if err := tx.Commit(ctx); err == nil || !strings.Contains(err.Error(), "remove this call") {
				t.Errorf("Commit returned %v", err)
			}
			return errors.New("as a handler does whose commit failed")
		},
		"failed statement, answered with success": func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "INSERT INTO things (name) VALUES ('refused')")
			return nil
		},
		"rows left open": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, "SELECT generate_series(1, 100000)")
			return err
		},
		"rows left open, answered with an error": func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Query(ctx, "SELECT generate_series(1, 100000)")
			return errors.New("no")
		},
		"connection closed": func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().Close(ctx) },
		"context ended": func(ctx context.Context, tx pgx.Tx) error {
			short, cancel := context.WithCancel(ctx)
			cancel()
			_, err := tx.Exec(short, "SELECT 1")
			return err
		},
	} {
		url := api(t, url, func(ctx context.Context, tx pgx.Tx, _ string) error {
			return errors.Join(insert(ctx, tx), spoil(ctx, tx))
		})
		for i := range poolSize + 1 {
			// Each with a key of its own: a connection that had to be closed holds its key until the server notices.
			if r := post(t, url, fmt.Sprint(name, i), ""); r.status != 500 {
				t.Errorf("%s: answered %d %s, want 500", name, r.status, r.body)
			}
		}
	}
	pool := open(t, url)
	wantThings(t, pool, "spoilt", 0)
	if n := count(t, pool, "SELECT count(*) FROM idempotency_keys"); n != 0 {
		t.Errorf("%d records were left", n)
	}
}

func TestRollbackByTheHandlerIsRefusedAndHarmless(t *testing.T) {
	url := newDatabase(t)
	service := api(t, url, func(ctx context.Context, tx pgx.Tx, body string) error {
		defer tx.Rollback(ctx) // as many write it, by habit
		_, err := tx.Exec(ctx, "INSERT INTO things (name) VALUES ($1)", body)
		return err
	})
	if r := post(t, service, "k", "chair"); r.status != 201 {
		t.Errorf("%+v", r)
	}
	wantThings(t, open(t, url), "chair", 1)
}

func TestSavepointsBatchesCopyAndLargeObjects(t *testing.T) {
	url := newDatabase(t)
	var kept pgx.Tx
	service := api(t, url, func(ctx context.Context, tx pgx.Tx, _ string) error {
		kept = tx
		err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, "INSERT INTO things (name) VALUES ('refused')")
			return err
		})
		if err == nil {
			return errors.New("the savepoint's error got lost")
		}
		err = pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, "INSERT INTO things (name) VALUES ('savepoint')")
			return err
		})
		var batch pgx.Batch
		batch.Queue("INSERT INTO things (name) VALUES ('batch')")
		err = errors.Join(err, tx.SendBatch(ctx, &batch).Close())
		_, e := tx.CopyFrom(ctx, pgx.Identifier{"things"}, []string{"name"}, pgx.CopyFromRows([][]any{{"copy"}, {"copy"}}))
		objects := tx.LargeObjects()
		_, e2 := objects.Create(ctx, 0)
		rows, e3 := tx.Query(ctx, "SELECT name FROM things ORDER BY id")
		names, e4 := pgx.CollectRows(rows, pgx.RowTo[string])
		if fmt.Sprint(names) != "[savepoint batch copy copy]" {
			err = errors.Join(err, fmt.Errorf("the transaction shows %v", names))
		}
		return errors.Join(err, e, e2, e3, e4)
	})
	if r := post(t, service, "k", ""); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	pool := open(t, url)
	for name, n := range map[string]int{"savepoint": 1, "batch": 1, "copy": 2, "refused": 0} {
		wantThings(t, pool, name, n)
	}

	// Whoever keeps the transaction gets errors, not somebody else's connection.
	ctx := context.Background()
	_, execErr := kept.Exec(ctx, "SELECT 1")
	_, queryErr := kept.Query(ctx, "SELECT 1")
	_, beginErr := kept.Begin(ctx)
	for what, err := range map[string]error{
		"Exec": execErr, "Query": queryErr, "Begin": beginErr, "Commit": kept.Commit(ctx), "Rollback": kept.Rollback(ctx),
		"QueryRow": kept.QueryRow(ctx, "SELECT 1").Scan(new(int)), "SendBatch": kept.SendBatch(ctx, &pgx.Batch{}).Close(),
	} {
		if !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s after the end: %v, want ErrTxClosed", what, err)
		}
	}
}

// Two handlers lock two rows in opposite order. PostgreSQL aborts one of them, which is run again, although the
// handler made nothing of the error but a 500.
func TestDeadlockIsRunAgain(t *testing.T) {
	url := newDatabase(t)
	mustExec(t, open(t, url), "INSERT INTO things (id, name) VALUES (-1, 'one'), (-2, 'two')")
	var both sync.WaitGroup
	both.Add(2)
	var firstRuns sync.Map
	service := api(t, url, func(ctx context.Context, tx pgx.Tx, body string) error {
		ids := []int{-1, -2}
		if body == "backwards" {
			ids = []int{-2, -1}
		}
		for i, id := range ids {
			if _, err := tx.Exec(ctx, "UPDATE things SET name = name || '!' WHERE id = $1", id); err != nil {
				return err
			}
			if _, again := firstRuns.LoadOrStore(body+fmt.Sprint(i), true); !again && i == 0 {
				both.Done()
				both.Wait()
			}
		}
		return nil
	})
	var wg sync.WaitGroup
	for _, body := range []string{"forwards", "backwards"} {
		wg.Go(func() {
			if r := post(t, service, body, body); r.status != 201 || r.replayed {
				t.Errorf("%s: %+v", body, r)
			}
		})
	}
	wg.Wait()
	wantThings(t, open(t, url), "one!!", 1)
	wantThings(t, open(t, url), "two!!", 1)
}

// A constraint that is checked at COMMIT takes the record with it, and is no mystery to the client's next try.
func TestDeferredConstraintAtCommit(t *testing.T) {
	url := newDatabase(t)
	mustExec(t, open(t, url), "CREATE TABLE parts (id int PRIMARY KEY, of int REFERENCES parts DEFERRABLE INITIALLY DEFERRED)")
	service := api(t, url, func(ctx context.Context, tx pgx.Tx, body string) error {
		_, err := tx.Exec(ctx, "INSERT INTO parts VALUES (1, $1::int)", body)
		return err
	})
	if r := post(t, service, "k", "2"); r.status != 500 || !strings.Contains(r.body, "not-committed") {
		t.Errorf("a deferred constraint was violated: %+v, want 500 not-committed", r)
	}
	if r := post(t, service, "k", "1"); r.status != 201 {
		t.Errorf("the key does not work again: %+v", r)
	}
}

// People operate on the table by SQL.
func TestExpiryAndDeletionBySQL(t *testing.T) {
	url := newDatabase(t)
	pool := open(t, url)
	service := serve(t, open(t, url), nil, nil)
	for i, sql := range []string{
		"UPDATE idempotency_keys SET expires_at = now() - interval '1 second' WHERE idem_key = 'k'",
		"UPDATE idempotency_keys SET expires_at = '-infinity'",
		"DELETE FROM idempotency_keys WHERE idem_key = 'k'",
	} {
		if r := post(t, service, "k", "chair"); r.status != 201 || r.replayed {
			t.Errorf("before %s: %+v", sql, r)
		}
		if r := post(t, service, "k", "chair"); !r.replayed {
			t.Errorf("not replayed: %+v", r)
		}
		mustExec(t, pool, sql)
		wantThings(t, pool, "chair", i+1)
	}
	mustExec(t, pool, "UPDATE idempotency_keys SET expires_at = 'infinity'")
	if r := post(t, service, "j", "chair"); r.status != 201 {
		t.Errorf("%+v", r)
	}
}
