package pgstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/ichido-dev/ichido/pgstore"
)

// finishable is a claim whose operation can be finished without its client.
func finishable(key string) ichido.Claim {
	c := leaseClaim(key)
	c.Lease.Rerun, c.Lease.Request = true, []byte("request of "+key)
	return c
}

// The n-th look comes 10 s after the one before has ended, or the attempt that followed it, and the time doubles, up to an hour.
func TestAbandonedAreDueAtGrowingIntervals(t *testing.T) {
	pool := open(t, newDatabase(t))
	store := pgstore.New(pool)
	ctx := bounded(t)
	if err := mustLease(t, store, finishable("k")).Abandon(ctx, errors.New("gone")); err != nil {
		t.Fatal(err)
	}
	look := func() int {
		t.Helper()
		keys, err := store.Abandoned(ctx, ichido.Question{Route: "pay", Limit: 10, Patience: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return len(keys)
	}
	if look() != 1 {
		t.Error("an operation that was just abandoned is not due")
	}
	for i, wait := range []int{10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600} {
		for seconds, want := range map[int]int{wait - 5: 0, wait + 5: 1} {
			for later, earlier := range map[string]string{"asked_until": "lease_until", "lease_until": "asked_until"} {
				mustExec(t, pool, "UPDATE idempotency_keys SET asked = $1::int, "+later+" = now() - $2::int * interval '1 second', "+
					earlier+" = now() - ($2::int + 3600) * interval '1 second'", i+1, seconds)
				if got := look(); got != want {
					t.Errorf("%d s after %s of look %d: %d, want %d", seconds, later, i+1, got, want)
				}
			}
		}
	}
}

// Among many completed records, those without an answer are found by their index.
func TestReservationsAreReadByIndex(t *testing.T) {
	url := newDatabase(t)
	proxy := pgtest.NewProxy(t, url)
	pool := open(t, url)
	store := pgstore.New(open(t, proxy.URL(url), one))
	ctx := bounded(t)
	mustExec(t, pool, `INSERT INTO idempotency_keys (scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
		SELECT 'scope', 'k' || n, 'x', 200, '', '', now(), now() + interval '1 hour' FROM generate_series(1, 50000) n`)
	if err := mustLease(t, store, finishable("zz")).Abandon(ctx, errors.New("gone")); err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, "ANALYZE idempotency_keys")
	q := ichido.Question{Route: "pay", Limit: 1, Patience: time.Nanosecond}
	for name, reserve := range map[string]func() (int, error){
		"Abandoned": func() (int, error) { keys, err := store.Abandoned(ctx, q); return len(keys), err },
		"Ask":       func() (int, error) { keys, err := store.Ask(ctx, q); return len(keys), err },
	} {
		mustExec(t, pool, "UPDATE idempotency_keys SET asked = 0, asked_until = NULL WHERE idem_key = 'zz'")
		proxy.Reset()
		if n, err := reserve(); n != 1 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if n := proxy.RoundTrips(); n > 2 { // one of them prepares the statement
			t.Errorf("%s makes %d round trips: %q", name, n, proxy.Statements())
		}
		plan := explain(t, pool, proxy.Statements()[0], int64(1), "pay", int64(1))
		if !strings.Contains(plan, "idempotency_keys_incomplete") || strings.Contains(plan, "Seq Scan on idempotency_keys") {
			t.Errorf("%s is not read by the index:\n%s", name, plan)
		}
	}
}

// The request is gone from the row with the completion, by whomever.
func TestRequestIsGoneFromTheRow(t *testing.T) {
	pool := open(t, newDatabase(t))
	store := pgstore.New(pool)
	ctx := bounded(t)
	kept := func(key string) int {
		t.Helper()
		return count(t, pool, "SELECT count(*) FROM idempotency_keys WHERE idem_key = $1 AND request = convert_to('request of ' || $1, 'UTF8')", key)
	}
	attempt := mustLease(t, store, finishable("completed"))
	lost := mustLease(t, store, finishable("settled"))
	if kept("completed") != 1 || kept("settled") != 1 {
		t.Fatal("the requests are not in the table")
	}
	if err := attempt.Complete(ctx, paid); err != nil {
		t.Fatal(err)
	}
	if err := lost.Abandon(ctx, errors.New("gone")); err != nil {
		t.Fatal(err)
	}
	if kept("settled") != 1 {
		t.Error("the request went with the attempt")
	}
	if err := store.Settle(ctx, settlement("settled", ichido.SettledDone)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, "SELECT count(*) FROM idempotency_keys WHERE request IS NOT NULL"); n != 0 {
		t.Errorf("%d requests are kept of what is completed", n)
	}
}

// A schema of the release before, with attempts in progress and abandoned, is brought up to date without rewriting it.
func TestMigrationToFinishKeepsLeases(t *testing.T) {
	pool := open(t, pgtest.Shared(t).NewDatabase(t))
	store := pgstore.New(pool)
	ctx := bounded(t)
	pending, err := store.Pending(ctx)
	if err != nil || len(pending) < 4 || pending[3].Name != "finish" {
		t.Fatalf("Pending = %v, %v", pending, err)
	}
	mustExec(t, pool, `CREATE TABLE idempotency_migrations (
		version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`)
	for _, m := range pending[:3] {
		mustExec(t, pool, m.SQL)
		mustExec(t, pool, "INSERT INTO idempotency_migrations (version, name) VALUES ($1, $2)", m.Version, m.Name)
	}
	claim := leaseClaim("")
	mustExec(t, pool, `INSERT INTO idempotency_keys (scope, idem_key, request_hash, created_at, expires_at, lease_token, lease_until, attempts, rerun, route, asked, steps)
		SELECT $1, key, $2::bytea, now(), now() + interval '1 hour', token, now() + lease * interval '1 hour', attempts, rerun, 'pay', 0, steps
		FROM (VALUES ('running', 7, 1, 1, false, NULL), ('rerun', 8, -1, 99, true, NULL), ('steps', 9, -1, 99, false, 0),
			('held', 10, -1, 1, false, NULL)) v (key, token, lease, attempts, rerun, steps)`, claim.Scope, claim.Fingerprint)
	place := func() int { t.Helper(); return count(t, pool, "SELECT pg_relation_filenode('idempotency_keys')::int") }
	before := place()
	if err := store.Ping(ctx); err == nil {
		t.Error("Ping is content with the schema of the release before")
	}
	if _, err := store.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if place() != before {
		t.Error("the table was rewritten")
	}
	if keys, err := store.Abandoned(ctx, ichido.Question{Route: "pay", Limit: 10}); len(keys) != 0 || err != nil {
		t.Errorf("Abandoned = %v, %v; want none, since no request was kept", keys, err)
	}
	asked, err := store.Ask(ctx, ichido.Question{Route: "pay", Limit: 10})
	if err != nil || len(asked) != 2 || slices.ContainsFunc(asked, func(k ichido.UnknownKey) bool { return k.Key == "steps" }) {
		t.Errorf("Ask = %v, %v; want rerun and held", asked, err)
	}
	for key, want := range map[string]ichido.Entry{
		"running": {State: ichido.InProgress, Attempts: 1}, "held": {State: ichido.Unknown, Attempts: 1},
		"rerun": {State: ichido.InProgress, Attempts: 99}, "steps": {State: ichido.InProgress, Attempts: 99},
	} {
		e, err := store.Look(ctx, claim.Scope, key)
		if err != nil || e.State != want.State || e.Attempts != want.Attempts || e.Owner != "" || e.MaxAttempts != 0 || e.Finishes {
			t.Errorf("%s: Look = %+v, %v", key, e, err)
		}
	}
	for _, key := range []string{"rerun", "steps"} {
		c := leaseClaim(key)
		c.Lease.Rerun, c.Lease.MaxAttempts = true, 2
		attempt := mustLease(t, store, c)
		if e, err := store.Look(ctx, c.Scope, key); err != nil || e.Attempts != 100 || e.MaxAttempts != 2 {
			t.Errorf("%s: Look = %+v, %v", key, e, err)
		}
		if err := attempt.Abandon(ctx, errors.New("gone")); err != nil {
			t.Error(err)
		}
		c = leaseClaim(key)
		c.Lease.Rerun = true
		if _, record, err := store.Begin(ctx, c); err != nil || record == nil || record.State != ichido.Unknown {
			t.Errorf("%s: Begin = %v, %v; want a record that is unknown", key, record, err)
		}
	}
	if held, err := store.Renew(ctx, []ichido.Held{{Scope: claim.Scope, Key: "running", Token: 7, Duration: time.Hour}}); err != nil || !held[0] {
		t.Errorf("Renew = %v, %v; want that the lease of before goes on", held, err)
	}
}
