package drivertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/sqlstore"
)

func newStore(db *sql.DB) *sqlstore.Store { return sqlstore.New(db, sqlstore.SQLite) }

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// token is larger than what a float64 holds exactly.
const token = 1<<53 + 1

func leased(key string, change ...func(*ichido.Lease)) ichido.Claim {
	lease := &ichido.Lease{Token: token, Duration: time.Hour, UnknownRetention: time.Hour, Route: "r"}
	for _, f := range change {
		f(lease)
	}
	return ichido.Claim{Scope: "s", Key: key, Fingerprint: []byte("f"), Retention: time.Hour, Lease: lease}
}

func withToken(token int64) func(*ichido.Lease) { return func(l *ichido.Lease) { l.Token = token } }

func lasting(d time.Duration) func(*ichido.Lease) { return func(l *ichido.Lease) { l.Duration = d } }

func rerun(l *ichido.Lease) { l.Rerun = true }

func answer(body string) ichido.Response {
	return ichido.Response{Status: 201, Header: []byte("A: 1\n"), Body: []byte(body)}
}

func begin(t *testing.T, store ichido.Store, c ichido.Claim) ichido.Attempt {
	t.Helper()
	attempt, record, err := store.Begin(limited(t), c)
	if attempt == nil {
		t.Fatalf("%s: Begin = %v, %v, %v; want an attempt", c.Key, attempt, record, err)
	}
	return attempt
}

func complete(t *testing.T, attempt ichido.Attempt, r ichido.Response) {
	t.Helper()
	if err := attempt.Complete(limited(t), r); err != nil {
		t.Fatalf("Complete: %v", err)
	}
}

// is says what a claim meets: "attempt", "in progress", "mismatch", "unknown" or "completed".
func is(t *testing.T, store ichido.Store, c ichido.Claim) string {
	t.Helper()
	attempt, record, err := store.Begin(limited(t), c)
	switch {
	case attempt != nil:
		return "attempt"
	case record != nil:
		return record.State.String()
	case errors.Is(err, ichido.ErrInProgress):
		return "in progress"
	case errors.Is(err, ichido.ErrMismatch):
		return "mismatch"
	}
	t.Fatalf("%s: Begin: %v", c.Key, err)
	return ""
}

func wantIs(t *testing.T, store ichido.Store, c ichido.Claim, want string) {
	t.Helper()
	if got := is(t, store, c); got != want {
		t.Errorf("%s: %s, want %s", c.Key, got, want)
	}
}

// tx is the claim of the same request in transaction mode.
func tx(c ichido.Claim) ichido.Claim {
	c.Lease = nil
	return c
}

// tinyLeases are shorter than SQLite's clock can tell. They are over at once, not after a millisecond.
func tinyLeases(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	store := newStore(db)
	for i, length := range []time.Duration{1, time.Microsecond, time.Millisecond - 1} {
		c := leased(fmt.Sprint("k", i), lasting(length))
		attempt := begin(t, store, c)
		if count(t, db, "SELECT lease_until = created_at FROM idempotency_keys WHERE idem_key = ?", c.Key) != 1 {
			t.Errorf("a lease of %s does not end when it begins", length)
		}
		wantIs(t, store, tx(c), "unknown")
		if err := attempt.Complete(limited(t), answer("late")); !errors.Is(err, ichido.ErrLost) {
			t.Errorf("Complete after a lease of %s: %v, want ErrLost", length, err)
		}
		held, err := store.Renew(limited(t), []ichido.Held{{Scope: "s", Key: c.Key, Token: token, Duration: time.Hour}})
		if err != nil || held[0] {
			t.Errorf("Renew after a lease of %s = %v, %v", length, held, err)
		}
	}
}

// leaseBySQL sets lease_until and expires_at as people do.
func leaseBySQL(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	store := newStore(db)
	c := leased("k")
	begin(t, store, c)
	other := leased("k", withToken(2))
	for _, at := range []string{
		"datetime('now', '-1 second')", "'2001-02-03T04:05:06Z'", "''", "'yesterday'", "NULL",
		"strftime('%Y-%m-%dT%H:%M:%S', 'now', '-1 second', '+9 hours') || '+09:00'",
	} {
		mustExec(t, db, "UPDATE idempotency_keys SET lease_until = "+at)
		wantIs(t, store, other, "unknown")
		wantIs(t, store, tx(c), "unknown")
	}
	for _, at := range []string{
		"datetime('now', '+1 hour')", "'9999-12-31'", "strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '+1 hour')",
		"strftime('%Y-%m-%dT%H:%M:%S', 'now', '+1 hour', '-5 hours') || '-05:00'",
	} {
		mustExec(t, db, "UPDATE idempotency_keys SET lease_until = "+at+", expires_at = '2001-02-03'")
		wantIs(t, store, other, "in progress")
		wantIs(t, store, tx(c), "in progress")
		if n, err := store.Purge(limited(t), 10); n != 0 || err != nil {
			t.Errorf("Purge of a record with a running lease = %d, %v", n, err)
		}
	}
	// Past both it is as good as absent.
	mustExec(t, db, "UPDATE idempotency_keys SET lease_until = '2001-02-03'")
	if err := store.Settle(limited(t), ichido.Settlement{Scope: "s", Key: "k", How: ichido.SettledNotDone, By: "test"}); !errors.Is(err, ichido.ErrNoRecord) {
		t.Errorf("Settle of an expired record: %v, want ErrNoRecord", err)
	}
	wantIs(t, store, tx(c), "attempt")
	wantIs(t, store, leased("k", withToken(3)), "attempt")
}

// noTransaction asks for one in lease mode.
func noTransaction(t *testing.T, d Driver) {
	store := newStore(d.open(t, newFile(t)))
	attempt := begin(t, store, leased("k"))
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "lease mode") || !strings.Contains(p, "*sql.DB") {
			t.Errorf("Tx in lease mode panics with %q", p)
		}
	}()
	sqlstore.Tx(attempt.Context(t.Context()))
}

// writesNothingWhenRefused has another process write for longer than anyone waits. What needs no writing is answered; the
// rest is refused, and done later.
func writesNothingWhenRefused(t *testing.T, d Driver) {
	file := newFile(t)
	db, other := d.open(t, file), d.open(t, file)
	db.SetMaxOpenConns(1)
	mustExec(t, db, "PRAGMA busy_timeout = 10")
	store := newStore(db)

	complete(t, begin(t, store, leased("completed")), answer("done"))
	running := begin(t, store, leased("in progress"))
	if err := begin(t, store, leased("unknown")).Abandon(limited(t), errors.New("gone")); err != nil {
		t.Fatal(err)
	}
	writing, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer writing.Rollback()
	if _, err := writing.Exec("INSERT INTO things (name) VALUES ('other')"); err != nil {
		t.Fatal(err)
	}

	for _, key := range []string{"completed", "in progress", "unknown"} {
		wantIs(t, store, leased(key, withToken(2), rerun), key)
		wantIs(t, store, tx(leased(key)), key)
	}
	if _, _, err := store.Begin(limited(t), leased("new")); !errors.Is(err, ichido.ErrUnavailable) {
		t.Errorf("Begin while another process writes: %v, want ErrUnavailable", err)
	}
	leases := []ichido.Held{{Scope: "s", Key: "in progress", Token: token, Duration: time.Hour}}
	if _, err := store.Renew(limited(t), leases); !errors.Is(err, ichido.ErrUnavailable) {
		t.Errorf("Renew while another process writes: %v, want ErrUnavailable", err)
	}
	impatient, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := running.Complete(impatient, answer("done")); err == nil || errors.Is(err, ichido.ErrLost) || errors.Is(err, ichido.ErrUnavailable) {
		t.Errorf("Complete while another process writes: %v", err)
	}

	done := make(chan error)
	go func() { done <- running.Complete(context.Background(), answer("done")) }()
	if err := writing.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("Complete, again: %v", err)
	}
	wantIs(t, store, leased("in progress"), "completed")
	wantIs(t, store, leased("new"), "attempt")
}

// lostAcknowledgements repeats what was done already, from another process.
func lostAcknowledgements(t *testing.T, d Driver) {
	file := newFile(t)
	db := d.open(t, file)
	one, other := newStore(db), newStore(d.open(t, file))
	c := leased("k", rerun)
	first, again := begin(t, one, c), begin(t, other, c)
	wantIs(t, other, leased("k", withToken(token+1), rerun), "in progress")
	complete(t, first, answer("first"))
	mustExec(t, db, "UPDATE idempotency_keys SET created_at = '2001-02-03', expires_at = '9999-12-31'")
	complete(t, again, answer("second"))
	entry, err := other.Look(limited(t), "s", "k")
	if err != nil {
		t.Fatal(err)
	}
	if string(entry.Response.Body) != "first" || entry.CreatedAt.Year() != 2001 || entry.ExpiresAt.Year() != 9999 || entry.Attempts != 1 || entry.Token != token {
		t.Errorf("a repeated Complete changed the record: %+v", entry)
	}
	wantIs(t, other, c, "completed")
}

// racingTakeovers has many claims meet one lease that ran out. One follows it.
func racingTakeovers(t *testing.T, d Driver) {
	file := newFile(t)
	stores := []*sqlstore.Store{newStore(d.open(t, file)), newStore(d.open(t, file))}
	for round := range 10 {
		key := fmt.Sprint("k", round)
		late := begin(t, stores[0], leased(key, lasting(time.Nanosecond), rerun))
		start := make(chan struct{})
		attempts := make([]ichido.Attempt, 8)
		var wg sync.WaitGroup
		for i := range attempts {
			wg.Go(func() {
				<-start
				attempt, record, err := stores[i%2].Begin(limited(t), leased(key, withToken(token+1+int64(i)), rerun))
				if attempts[i] = attempt; attempt == nil && !errors.Is(err, ichido.ErrInProgress) {
					t.Errorf("a loser got %v, %v, want ErrInProgress", record, err)
				}
			})
		}
		close(start)
		wg.Wait()
		winners := 0
		for _, attempt := range attempts {
			if attempt != nil {
				winners++
				complete(t, attempt, answer(key))
			}
		}
		if winners != 1 {
			t.Errorf("%d attempts followed, want 1", winners)
		}
		if err := late.Complete(limited(t), answer("late")); !errors.Is(err, ichido.ErrLost) {
			t.Errorf("the attempt that was followed: Complete = %v, want ErrLost", err)
		}
		if entry, err := stores[1].Look(limited(t), "s", key); err != nil || entry.Attempts != 2 || string(entry.Response.Body) != key {
			t.Errorf("the record is %+v, %v", entry, err)
		}
	}
}

// settleAgainstComplete has a late attempt and a settlement say different things of one key. One of them counts, and the
// other learns so.
func settleAgainstComplete(t *testing.T, d Driver) {
	file := newFile(t)
	db := d.open(t, file)
	one, other := newStore(db), newStore(d.open(t, file))
	for round := range 20 {
		c := leased(fmt.Sprint("k", round))
		attempt := begin(t, one, c)
		settle := ichido.Settlement{Scope: "s", Key: c.Key, Token: token, How: ichido.SettledDone, Response: answer("settled"), Retention: time.Hour, By: "test"}
		if err := other.Settle(limited(t), settle); !errors.Is(err, ichido.ErrInProgress) {
			t.Fatalf("Settle during an attempt: %v, want ErrInProgress", err)
		}
		var completed, settled error
		var wg sync.WaitGroup
		start := make(chan struct{})
		wg.Go(func() { <-start; completed = attempt.Complete(limited(t), answer("completed")) })
		wg.Go(func() {
			<-start
			if _, settled = db.Exec("UPDATE idempotency_keys SET lease_until = '2001-02-03' WHERE response_status IS NULL AND idem_key = ?", c.Key); settled == nil {
				settled = other.Settle(limited(t), settle)
			}
		})
		close(start)
		wg.Wait()
		want := "completed"
		switch {
		case completed == nil && errors.Is(settled, ichido.ErrNotUnknown):
		case errors.Is(completed, ichido.ErrLost) && settled == nil:
			want = "settled"
		default:
			t.Fatalf("Complete: %v, Settle: %v", completed, settled)
		}
		if err := attempt.Complete(limited(t), answer("completed")); (err == nil) != (want == "completed") {
			t.Errorf("Complete, again, where the key was %s: %v", want, err)
		}
		entry, err := one.Look(limited(t), "s", c.Key)
		if err != nil || string(entry.Response.Body) != want {
			t.Errorf("the record is %+v, %v, want %s", entry, err, want)
		}
		settlements, err := one.Settlements(limited(t), "s", c.Key)
		if err != nil || len(settlements) != count(t, db, "SELECT ? = 'settled'", want) {
			t.Errorf("Settlements = %+v, %v", settlements, err)
		}
	}
}

// renewMany renews more leases than a statement may have parameters, some of which are not held.
func renewMany(t *testing.T, d Driver) {
	const many = 10_000
	db := d.open(t, newFile(t))
	store := newStore(db)
	begin(t, store, leased("k0", withToken(token)))
	mustExec(t, db, `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO idempotency_keys (scope, idem_key, request_hash, created_at, expires_at, lease_token, lease_until, attempts, rerun, route)
		SELECT scope, 'k' || i, request_hash, created_at, expires_at, lease_token + i,
			CASE WHEN i % 3 THEN lease_until ELSE '2001-02-03' END, 1, rerun, route
		FROM n, idempotency_keys WHERE idem_key = 'k0'`, many-1)
	var leases []ichido.Held
	for i := range int64(many) {
		lease := ichido.Held{Scope: "s", Key: fmt.Sprint("k", i), Token: token + i, Duration: 3 * time.Hour}
		if i%5 == 1 {
			lease.Token-- // of the key before
		}
		leases = append(leases, lease)
	}
	odd := leased("<&>\"\\/\u2028\U0001f600\n\x7f")
	odd.Scope = odd.Key
	begin(t, store, odd)
	leases = append(leases, ichido.Held{Scope: odd.Scope, Key: odd.Key, Token: token, Duration: 3 * time.Hour})
	for _, key := range []string{"\xff", "\x00"} {
		if attempt, record, err := store.Begin(limited(t), leased(key)); err == nil {
			t.Errorf("Begin(%q) = %v, %v; it could not be renewed", key, attempt, record)
		}
	}

	held, err := store.Renew(limited(t), leases)
	if err != nil || len(held) != many+1 {
		t.Fatalf("Renew = %d, %v", len(held), err)
	}
	renewed := 0
	for i, h := range held {
		if want := (i%3 != 0 || i == 0) && i%5 != 1 || i == many; h != want {
			t.Fatalf("lease %d: held %v, want %v", i, h, want)
		}
		if h {
			renewed++
		}
	}
	if n := count(t, db, "SELECT count(*) FROM idempotency_keys WHERE lease_until > datetime('now', '+2 hours')"); n != renewed {
		t.Errorf("%d leases were renewed, and %d are said to be", n, renewed)
	}
}

// migrateWithLeases brings a database of version 3 up to date, in which attempts are in progress and were abandoned.
func migrateWithLeases(t *testing.T, d Driver) {
	db, err := sql.Open(d.Name, d.DSN(newFile(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := newStore(db)
	pending, err := store.Pending(limited(t))
	if err != nil || len(pending) < 4 || pending[3].Name != "finish" {
		t.Fatalf("Pending = %v, %v", pending, err)
	}
	mustExec(t, db, `CREATE TABLE idempotency_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)`)
	for _, m := range pending[:3] {
		mustExec(t, db, m.SQL)
		mustExec(t, db, "INSERT INTO idempotency_migrations (version, name) VALUES (?, ?)", m.Version, m.Name)
	}
	mustExec(t, db, `INSERT INTO idempotency_keys (scope, idem_key, request_hash, created_at, expires_at, lease_token, lease_until, attempts, rerun, route, asked, steps)
		VALUES ('s', 'running', CAST('f' AS BLOB), '2025-01-02', '9999-12-31', 7, '9999-12-31', 1, 0, 'r', 0, NULL),
			('s', 'rerun', CAST('f' AS BLOB), '2025-01-02', '9999-12-31', 8, '2025-01-02', 99, 1, 'r', 0, NULL),
			('s', 'steps', CAST('f' AS BLOB), '2025-01-02', '9999-12-31', 9, '2025-01-02', 99, 0, 'r', 0, 0),
			('s', 'held', CAST('f' AS BLOB), '2025-01-02', '9999-12-31', 10, '2025-01-02', 1, 0, 'r', 0, NULL)`)
	if err := store.Ping(limited(t)); err == nil {
		t.Error("Ping finds nothing wrong with a schema that is too old")
	}
	if _, err := store.Migrate(limited(t)); err != nil {
		t.Fatal(err)
	}
	if keys, err := store.Abandoned(limited(t), ichido.Question{Route: "r", Limit: 10}); len(keys) != 0 || err != nil {
		t.Errorf("Abandoned = %v, %v; want none, since no request was kept", keys, err)
	}
	if keys, err := store.Ask(limited(t), ichido.Question{Route: "r", Limit: 10}); len(keys) != 2 || err != nil { // rerun, held
		t.Errorf("Ask = %v, %v; want two", keys, err)
	}
	for key, want := range map[string]ichido.Entry{
		"running": {State: ichido.InProgress, Attempts: 1}, "held": {State: ichido.Unknown, Attempts: 1},
		"rerun": {State: ichido.InProgress, Attempts: 99}, "steps": {State: ichido.InProgress, Attempts: 99},
	} {
		e, err := store.Look(limited(t), "s", key)
		if err != nil || e.State != want.State || e.Attempts != want.Attempts || e.Owner != "" || e.MaxAttempts != 0 || e.Finishes {
			t.Errorf("%s: Look = %+v, %v", key, e, err)
		}
	}
	for _, key := range []string{"rerun", "steps"} {
		c := leased(key)
		c.Lease.Rerun, c.Lease.MaxAttempts = true, 2
		attempt := begin(t, store, c)
		if e, err := store.Look(limited(t), "s", key); err != nil || e.Attempts != 100 || e.MaxAttempts != 2 {
			t.Errorf("%s: Look = %+v, %v", key, e, err)
		}
		if err := attempt.Abandon(limited(t), errors.New("gone")); err != nil {
			t.Error(err)
		}
		if _, record, err := store.Begin(limited(t), leased(key)); err != nil || record == nil || record.State != ichido.Unknown {
			t.Errorf("%s: Begin = %v, %v; want a record that is unknown", key, record, err)
		}
	}
	if held, err := store.Renew(limited(t), []ichido.Held{{Scope: "s", Key: "running", Token: 7, Duration: time.Hour}}); err != nil || !held[0] {
		t.Errorf("Renew = %v, %v; want that the lease of before goes on", held, err)
	}
}

// migrateWithRecords brings a database of version 1 up to date, with records in it, and a view on them.
func migrateWithRecords(t *testing.T, d Driver) {
	db, err := sql.Open(d.Name, d.DSN(newFile(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := newStore(db)
	pending, err := store.Pending(limited(t))
	if err != nil || len(pending) < 2 || pending[0].Version != 1 {
		t.Fatalf("Pending = %v, %v", pending, err)
	}
	mustExec(t, db, pending[0].SQL)
	mustExec(t, db, `CREATE TABLE idempotency_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)`)
	mustExec(t, db, "INSERT INTO idempotency_migrations (version, name) VALUES (1, ?)", pending[0].Name)
	mustExec(t, db, `WITH RECURSIVE n (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 999)
		INSERT INTO idempotency_keys SELECT 's', 'k' || i, CAST('f' AS BLOB), 201, x'413A20310A', CAST('body ' || i AS BLOB),
			'2025-01-02 03:04:05.678', '9999-12-31 00:00:00.000' FROM n`)
	mustExec(t, db, `INSERT INTO idempotency_keys VALUES ('s', 'expired', CAST('f' AS BLOB), 201, x'', x'', '2025-01-02', '2025-01-03')`)
	mustExec(t, db, `CREATE VIEW keys_of_s AS SELECT * FROM idempotency_keys WHERE scope = 's'`)

	if err := store.Ping(limited(t)); err == nil {
		t.Error("Ping finds nothing wrong with a schema that is too old")
	}
	if attempt, record, err := store.Begin(limited(t), tx(leased("k1"))); err == nil {
		t.Errorf("Begin with a schema that is too old = %v, %v", attempt, record)
	}
	applied, err := store.Migrate(limited(t))
	if err != nil || len(applied) != len(pending)-1 || applied[0].Version != 2 {
		t.Fatalf("Migrate = %v, %v", applied, err)
	}
	if err := store.Ping(limited(t)); err != nil {
		t.Error(err)
	}
	if n := count(t, db, "SELECT count(*) FROM keys_of_s"); n != 1001 {
		t.Errorf("%d records were kept, want 1001", n)
	}
	if n := count(t, db, "SELECT count(*) FROM pragma_foreign_key_check") + count(t, db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); n != 0 {
		t.Errorf("%d findings about the database's integrity", n)
	}
	for i := range 1000 {
		c := tx(leased(fmt.Sprint("k", i)))
		_, record, err := store.Begin(limited(t), c)
		if err != nil || record == nil || record.State != ichido.Completed || record.Response.Status != 201 ||
			string(record.Response.Header) != "A: 1\n" || string(record.Response.Body) != fmt.Sprint("body ", i) {
			t.Fatalf("%s: Begin = %+v, %v", c.Key, record, err)
		}
	}
	entry, err := store.Look(limited(t), "s", "k7")
	if err != nil || entry.CreatedAt != time.Date(2025, 1, 2, 3, 4, 5, 678e6, time.UTC) || entry.ExpiresAt.Year() != 9999 ||
		entry.Token != 0 || entry.Attempts != 0 || entry.Rerun || entry.Route != "" || !entry.LeaseUntil.IsZero() {
		t.Errorf("Look = %+v, %v", entry, err)
	}
	if n, err := store.Purge(limited(t), 10); n != 1 || err != nil {
		t.Errorf("Purge = %d, %v; want the one that is expired", n, err)
	}
}
