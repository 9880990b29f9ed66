package drivertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/sqlstore"
)

const patience = 2 * time.Minute

// serve starts a service on a store whose handler is the test's own; an error becomes 500.
func serve(t *testing.T, db *sql.DB, config *ichido.Config, work func(ctx context.Context, body string) error) string {
	t.Helper()
	manager, err := ichido.New(sqlstore.New(db, sqlstore.SQLite), ichido.Shared, config)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /things", manager.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := work(r.Context(), string(body)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/things"
}

type reply struct {
	status   int
	body     string
	replayed bool
}

func post(t *testing.T, url, key, body string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", `"`+key+`"`)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return reply{}
	}
	defer res.Body.Close()
	got, _ := io.ReadAll(res.Body)
	return reply{res.StatusCode, string(got), res.Header.Get("Idempotent-Replayed") == "true"}
}

func wantThings(t *testing.T, db *sql.DB, name string, want int) {
	t.Helper()
	if got := count(t, db, "SELECT count(*) FROM things WHERE name = ?", name); got != want {
		t.Errorf("%d things named %q, want %d", got, name, want)
	}
}

// slowWorkBlocksNobody holds an attempt open, also after it has read, while other keys are served.
func slowWorkBlocksNobody(t *testing.T, d Driver) {
	file := newFile(t)
	db := d.open(t, file)
	running, finish := make(chan struct{}), make(chan struct{})
	runs := 0
	url := serve(t, db, nil, func(ctx context.Context, body string) error {
		if body == "slow" {
			runs++
			var n int
			if err := sqlstore.Tx(ctx).QueryRowContext(ctx, "SELECT count(*) FROM things").Scan(&n); err != nil {
				return err
			}
			if runs == 1 {
				close(running)
				<-finish
			}
		}
		return insertThing(ctx, body)
	})
	slow := make(chan reply)
	go func() { slow <- post(t, url, "slow", "slow") }()
	<-running
	for i := range 20 {
		if r := post(t, url, fmt.Sprint("k", i), "quick"); r.status != 201 {
			t.Errorf("another key during slow work: %+v", r)
		}
	}
	close(finish)
	// What it had read is out of date by now, so it ran again.
	if r := <-slow; r.status != 201 || runs != 2 {
		t.Errorf("the slow request, run %d times: %+v; want 201 after 2", runs, r)
	}
	wantThings(t, db, "slow", 1)
	wantThings(t, db, "quick", 20)
}

// expiryBySQL sets expires_at as people do.
func expiryBySQL(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	url := serve(t, db, nil, insertThing)
	for i, past := range []string{
		"datetime('now', '-1 second')", "'2001-02-03'", "'2001-02-03T04:05:06Z'", "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 second')", "0", "''", "'yesterday'",
		"strftime('%Y-%m-%dT%H:%M:%S', 'now', '-1 second', '+9 hours') || '+09:00'",
	} {
		if r := post(t, url, "k", "chair"); r.status != 201 || r.replayed {
			t.Errorf("before %s: %+v", past, r)
		}
		if r := post(t, url, "k", "chair"); !r.replayed {
			t.Errorf("not replayed: %+v", r)
		}
		mustExec(t, db, "UPDATE idempotency_keys SET expires_at = "+past+" WHERE idem_key = 'k'")
		wantThings(t, db, "chair", i+1)
	}
	if n, err := sqlstore.New(db, sqlstore.SQLite).Purge(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("Purge = %d, %v; what counts as expired is purged", n, err)
	}
	post(t, url, "k", "chair")
	mustExec(t, db, "UPDATE idempotency_keys SET expires_at = datetime('now', '+1 hour')")
	if r := post(t, url, "k", "chair"); !r.replayed {
		t.Errorf("a record that expires later was not replayed: %+v", r)
	}
}

// lockedByAnother has another process write for longer than anyone waits. Nothing hangs, and nothing is left.
func lockedByAnother(t *testing.T, d Driver) {
	file := newFile(t)
	db := d.open(t, file)
	other := d.open(t, file)
	impatient, err := sql.Open(d.Name, d.DSN(file))
	if err != nil {
		t.Fatal(err)
	}
	defer impatient.Close()
	impatient.SetMaxOpenConns(1)
	mustExec(t, impatient, "PRAGMA busy_timeout = 10")
	url := serve(t, impatient, &ichido.Config{AttemptTimeout: time.Second}, insertThing)

	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("INSERT INTO things (name) VALUES ('other')"); err != nil {
		t.Fatal(err)
	}
	if r := post(t, url, "k", "chair"); r.status != 503 {
		t.Errorf("while another process writes: %+v, want 503", r)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if r := post(t, url, "k", "chair"); r.status != 201 || r.replayed {
		t.Errorf("afterwards: %+v", r)
	}
	wantThings(t, db, "chair", 1)
}

// spoiltTransactions has handlers fail the commit or end the transaction. The pool's connections survive it.
func spoiltTransactions(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	mustExec(t, db, "CREATE TABLE parts (id INTEGER PRIMARY KEY, of INTEGER REFERENCES parts DEFERRABLE INITIALLY DEFERRED)")
	for name, spoil := range map[string]func(context.Context, *sql.Tx) error{
		"deferred constraint": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO parts VALUES (1, 2)")
			return err
		},
		"Rollback": func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		"a statement that ended the transaction": func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO parts VALUES (1, NULL), (1, NULL)"); err == nil {
				return errors.New("want an error")
			}
			return nil // ignored
		},
		"rows left open, error": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.QueryContext(ctx, "SELECT 1 UNION ALL SELECT 2")
			return errors.Join(err, errors.New("no"))
		},
	} {
		url := serve(t, db, nil, func(ctx context.Context, _ string) error {
			return errors.Join(insertThing(ctx, "spoilt"), spoil(ctx, sqlstore.Tx(ctx)))
		})
		for range poolSize + 1 {
			if r := post(t, url, "k "+name, ""); r.status != 500 {
				t.Errorf("%s: answered %d %s, want 500", name, r.status, r.body)
			}
		}
	}
	wantThings(t, db, "spoilt", 0)
	if n := count(t, db, "SELECT count(*) FROM idempotency_keys"); n != 0 {
		t.Errorf("%d records were left", n)
	}
	url := serve(t, db, nil, insertThing)
	for i := range 2 * poolSize {
		if r := post(t, url, fmt.Sprint("after", i), "chair"); r.status != 201 {
			t.Errorf("afterwards: %+v", r)
		}
	}
}

// failClosed takes the database away.
func failClosed(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	runs := 0
	url := serve(t, db, nil, func(ctx context.Context, body string) error { runs++; return insertThing(ctx, body) })
	mustExec(t, db, "ALTER TABLE idempotency_keys RENAME TO away")
	if r := post(t, url, "k", "chair"); r.status != 503 || runs != 0 {
		t.Errorf("without the table: %+v after %d runs, want 503 after none", r, runs)
	}
	mustExec(t, db, "ALTER TABLE away RENAME TO idempotency_keys")
	if r := post(t, url, "k", "chair"); r.status != 201 {
		t.Errorf("with it back: %+v", r)
	}
	db.Close()
	if r := post(t, url, "j", "chair"); r.status != 503 || runs != 1 {
		t.Errorf("without the database: %+v after %d runs, want 503 after 1", r, runs)
	}
}
