package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var lastToken atomic.Int64

// leaseClaim claims a key of lease mode, under a token of its own, for longer than a test runs.
func leaseClaim(key string) ichido.Claim {
	return ichido.Claim{Scope: "scope", Key: key, Fingerprint: []byte("v:x"), Retention: time.Hour,
		Lease: &ichido.Lease{Token: lastToken.Add(1), Duration: time.Hour, UnknownRetention: time.Hour, Route: "pay"}}
}

func rerunning(claim ichido.Claim) ichido.Claim {
	claim.Lease.Rerun = true
	return claim
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// mustLease claims a key that must be free.
func mustLease(t *testing.T, store *pgstore.Store, claim ichido.Claim) ichido.Attempt {
	t.Helper()
	attempt, record, err := store.Begin(bounded(t), claim)
	if attempt == nil || record != nil || err != nil {
		t.Fatalf("Begin(%q) = %v, %v, %v; want an attempt", claim.Key, attempt, record, err)
	}
	return attempt
}

// lapse lets the lease of a key run out.
func lapse(t *testing.T, pool *pgxpool.Pool, key string) {
	t.Helper()
	mustExec(t, pool, "UPDATE idempotency_keys SET lease_until = now() - interval '1 second' WHERE idem_key = $1", key)
}

var paid = ichido.Response{Status: 201, Header: []byte("A: b\n"), Body: []byte("paid")}

// until waits for what another connection does.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// one makes a pool have one connection, whose statements a test can count: it is not asked whether it is alive.
func one(c *pgxpool.Config) {
	c.MaxConns = 1
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

func TestLeaseRoundTrips(t *testing.T) {
	url := newDatabase(t)
	proxy := pgtest.NewProxy(t, url)
	store := pgstore.New(open(t, proxy.URL(url), one))
	ctx := bounded(t)

	complete := func(attempt ichido.Attempt) {
		t.Helper()
		if err := attempt.Complete(ctx, paid); err != nil {
			t.Error(err)
		}
	}
	abandon := func(attempt ichido.Attempt, cause error) {
		t.Helper()
		if err := attempt.Abandon(ctx, cause); err != nil {
			t.Error(err)
		}
	}
	renew := func(leases []ichido.Held) {
		t.Helper()
		held, err := store.Renew(ctx, leases)
		if err != nil || len(held) != len(leases) || slices.Contains(held, false) {
			t.Errorf("Renew of %d leases did not keep all of them: %v", len(leases), err)
		}
	}
	const leases = 10_000
	mustExec(t, open(t, url), `INSERT INTO idempotency_keys
		(scope, idem_key, request_hash, created_at, expires_at, lease_token, lease_until, attempts, rerun, route, asked)
		SELECT 'scope', 'many' || n, 'x', now(), now() + interval '1 hour', n, now() + interval '1 hour', 1, false, '', 0
		FROM generate_series(1, $1::int) n`, leases)
	many := make([]ichido.Held, leases)
	for i := range many {
		many[i] = ichido.Held{Scope: "scope", Key: fmt.Sprint("many", i+1), Token: int64(i + 1), Duration: 2 * time.Hour}
	}

	// Each statement is prepared once on a connection; that is not what a request costs.
	complete(mustLease(t, store, leaseClaim("warm")))
	abandon(mustLease(t, store, leaseClaim("warm freed")), nil)
	abandon(mustLease(t, store, leaseClaim("warm ended")), errors.New("gone"))
	renew(many[:1])

	claim := leaseClaim("k")
	var attempt ichido.Attempt
	for _, c := range []struct {
		what string
		do   func()
	}{
		{"the claim of a first request", func() { attempt = mustLease(t, store, claim) }},
		{"a claim in conflict", func() {
			if _, _, err := store.Begin(ctx, leaseClaim("k")); !errors.Is(err, ichido.ErrInProgress) {
				t.Error(err)
			}
		}},
		{"Complete", func() { complete(attempt) }},
		{"a replay", func() {
			if _, record, err := store.Begin(ctx, leaseClaim("k")); err != nil || string(record.Response.Body) != "paid" {
				t.Error(record, err)
			}
		}},
		{"another claim", func() { attempt = mustLease(t, store, leaseClaim("freed")) }},
		{"Abandon", func() { abandon(attempt, nil) }},
		{"one more claim", func() { attempt = mustLease(t, store, leaseClaim("ended")) }},
		{"Abandon with a cause", func() { abandon(attempt, errors.New("gone")) }},
		{"the renewal of 10,000 leases", func() { renew(many) }},
	} {
		proxy.Reset()
		c.do()
		if n, statements := proxy.RoundTrips(), proxy.Statements(); n != 1 || len(statements) != 1 {
			t.Errorf("%s makes %d round trips, want 1: %.200q", c.what, n, statements)
		}
	}
	if n := count(t, open(t, url), "SELECT count(*) FROM idempotency_keys WHERE idem_key LIKE 'many%' AND lease_until > now() + interval '90 minutes'"); n != leases {
		t.Errorf("%d leases were extended, want %d", n, leases)
	}
}

// The records of lease mode cost claims of transaction mode nothing.
func TestTransactionModeMeetsLeasesWithoutAnotherStatement(t *testing.T) {
	url := newDatabase(t)
	proxy := pgtest.NewProxy(t, url)
	pool := open(t, url)
	store := pgstore.New(open(t, proxy.URL(url), one))
	ctx := bounded(t)
	mustLease(t, store, leaseClaim("running"))
	mustLease(t, store, rerunning(leaseClaim("lapsed")))
	lapse(t, pool, "lapsed")
	claim := func(key, fingerprint string) (ichido.Attempt, *ichido.Record, error) {
		c := leaseClaim(key)
		c.Lease, c.Fingerprint = nil, []byte(fingerprint)
		return store.Begin(ctx, c)
	}
	attempt, _, err := claim("warm", "v:x")
	if err != nil || attempt.Abandon(ctx, nil) != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, fingerprint string
		err              error
	}{
		{"running", "v:x", ichido.ErrInProgress},
		{"running", "v:other", ichido.ErrMismatch},
		{"lapsed", "v:x", nil},
		{"lapsed", "v:other", nil},
	} {
		proxy.Reset()
		attempt, record, err := claim(c.key, c.fingerprint)
		if attempt != nil || !errors.Is(err, c.err) || c.err == nil && (record == nil || record.State != ichido.Unknown) {
			t.Errorf("%s: Begin = %v, %v, %v", c.key, attempt, record, err)
		}
		if statements := proxy.Statements(); len(statements) != 3 || !strings.EqualFold(statements[2], "rollback") || proxy.RoundTrips() != 2 {
			t.Errorf("%s: want BEGIN, claim, ROLLBACK in 2 round trips; got %q in %d", c.key, statements, proxy.RoundTrips())
		}
	}

	// Past its retention, the lapsed one is as good as absent; a lease that somebody gets meanwhile is not deleted.
	mustExec(t, pool, "UPDATE idempotency_keys SET expires_at = '-infinity'")
	for _, taken := range []bool{true, false} {
		attempt, record, err := claim("lapsed", "v:other")
		if attempt == nil {
			t.Fatalf("Begin of an expired key = %v, %v", record, err)
		}
		var want error
		var other ichido.Attempt
		if taken {
			want, other = ichido.ErrLost, mustLease(t, pgstore.New(pool), leaseClaim("lapsed"))
			mustExec(t, pool, "UPDATE idempotency_keys SET expires_at = '-infinity'")
		}
		if err := attempt.Complete(ctx, paid); !errors.Is(err, want) {
			t.Errorf("Complete with taken=%v returned %v, want %v", taken, err, want)
		}
		if other != nil {
			if err := other.Abandon(ctx, errors.New("gone")); err != nil {
				t.Errorf("the lease is gone: %v", err)
			}
			mustExec(t, pool, "UPDATE idempotency_keys SET expires_at = '-infinity'")
		}
	}
}

// A claim that gets nothing writes nothing: no row lock, no transaction id, no WAL.
func TestLeaseClaimsInVainWriteNothing(t *testing.T) {
	const claims = 200
	url := newDatabase(t)
	pool := open(t, url)
	store := pgstore.New(pool)
	ctx := bounded(t)
	for _, key := range []string{"completed", "running", "lapsed"} {
		attempt := mustLease(t, store, leaseClaim(key))
		if key == "completed" && attempt.Complete(ctx, paid) != nil {
			t.Fatal("Complete failed")
		}
	}
	lapse(t, pool, "lapsed")
	rows := func() (all string) {
		if err := pool.QueryRow(ctx, "SELECT string_agg(format('%s %s %s %s', idem_key, ctid, xmin, xmax), E'\n' ORDER BY idem_key) FROM idempotency_keys").Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	nextID := func() int { return count(t, pool, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8") }
	before, id := rows(), nextID()
	for i := range claims {
		for key, check := range map[string]func(*ichido.Record, error) bool{
			"completed": func(r *ichido.Record, err error) bool { return r != nil && r.State == ichido.Completed },
			"running":   func(r *ichido.Record, err error) bool { return errors.Is(err, ichido.ErrInProgress) },
			"lapsed":    func(r *ichido.Record, err error) bool { return r != nil && r.State == ichido.Unknown },
		} {
			claim := leaseClaim(key)
			claim.Lease.Rerun = i%2 == 0
			if attempt, record, err := store.Begin(ctx, claim); attempt != nil || !check(record, err) {
				t.Fatalf("%s: Begin = %v, %v, %v", key, attempt, record, err)
			}
		}
	}
	// The server has other things to do, so a few are none of ours.
	if n := nextID() - id; n > claims/10 {
		t.Errorf("%d claims in vain took %d transaction ids", 3*claims, n)
	}
	if after := rows(); after != before {
		t.Errorf("claims in vain touched rows:\n%s\nbefore:\n%s", after, before)
	}
}

func TestHeartbeatsAreHOT(t *testing.T) {
	const beats = 50
	url := newDatabase(t)
	pool := open(t, url, one)
	store := pgstore.New(pool)
	claim := leaseClaim("k")
	mustLease(t, store, claim)
	for range beats {
		held, err := store.Renew(bounded(t), []ichido.Held{{Scope: claim.Scope, Key: claim.Key, Token: claim.Lease.Token, Duration: time.Hour}})
		if err != nil || !held[0] {
			t.Fatal(held, err)
		}
	}
	mustExec(t, pool, "SELECT pg_stat_force_next_flush()")
	if n := count(t, pool, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'"); n != beats {
		t.Errorf("%d of %d heartbeats were HOT updates", n, beats)
	}
}

// Statistics from before there were leases once made each renewal after the fifth compare every lease with every row.
func TestRenewalsGoByThePrimaryKey(t *testing.T) {
	const leases = 2000
	url := newDatabase(t)
	proxy := pgtest.NewProxy(t, url)
	pool := open(t, url)
	store := pgstore.New(open(t, proxy.URL(url), one))
	mustExec(t, pool, `INSERT INTO idempotency_keys (scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
		SELECT 'scope', 'k' || n, 'x', 200, '', '', now(), now() + interval '1 hour' FROM generate_series(1, 5000) n`)
	mustExec(t, pool, "VACUUM ANALYZE idempotency_keys")
	mustExec(t, pool, `INSERT INTO idempotency_keys
		(scope, idem_key, request_hash, created_at, expires_at, lease_token, lease_until, attempts, rerun, route, asked)
		SELECT 'scope', 'many' || n, 'x', now(), now() + interval '1 hour', n, now() + interval '1 hour', 1, false, '', 0
		FROM generate_series(1, $1::int) n`, leases)
	held := make([]ichido.Held, leases)
	keys, scopes, tokens, durations := make([]string, leases), make([]string, leases), make([]int64, leases), make([]int64, leases)
	for i := range held {
		held[i] = ichido.Held{Scope: "scope", Key: fmt.Sprint("many", i+1), Token: int64(i + 1), Duration: time.Hour}
		keys[i], scopes[i], tokens[i], durations[i] = held[i].Key, held[i].Scope, held[i].Token, held[i].Duration.Microseconds()
	}
	for range 8 {
		if got, err := store.Renew(bounded(t), held); err != nil || slices.Contains(got, false) {
			t.Fatal(err)
		}
	}
	for _, n := range []int{1, 100, leases} {
		plan := explain(t, pool, proxy.Statements()[0], keys[:n], scopes[:n], tokens[:n], durations[:n])
		if !strings.Contains(plan, "Index Scan using idempotency_keys_pkey") {
			t.Errorf("%d leases:\n%s", n, plan)
		}
	}
}

// cutAnswer has do's statement carried out while its answer is lost: the statement waits for a lock until the connection
// to its client is gone.
func cutAnswer(t *testing.T, pool *pgxpool.Pool, proxy *pgtest.Proxy, do func() error) {
	t.Helper()
	ctx := bounded(t)
	lock, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback(ctx)
	if _, err := lock.Exec(ctx, "LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() { failed <- do() }()
	const waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'idempotency_keys'::regclass AND NOT granted"
	until(t, "the statement waits", func() bool { return count(t, pool, waiting) > 0 })
	proxy.Refuse(true) // a client that lost its connection asks the server to cancel, over another one
	defer proxy.Refuse(false)
	proxy.CutAll()
	if err := <-failed; err == nil || errors.Is(err, ichido.ErrLost) || errors.Is(err, ichido.ErrSerialization) {
		t.Fatalf("a lost answer is reported as %v", err)
	}
	if err := lock.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, "the statement is done", func() bool {
		return count(t, pool, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid() AND query LIKE '%idempotency_keys%'`) == 0
	})
}

func TestLostAcknowledgements(t *testing.T) {
	url := newDatabase(t)
	proxy := pgtest.NewProxy(t, url)
	pool := open(t, url)
	store := pgstore.New(open(t, proxy.URL(url), one, func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // a statement is one message, whatever came before
	}))
	ctx := bounded(t)
	claim := leaseClaim("k")
	cutAnswer(t, pool, proxy, func() error {
		_, _, err := store.Begin(ctx, claim)
		return err
	})
	const leased = "SELECT count(*) FROM idempotency_keys WHERE lease_token = $1 AND lease_until > now()"
	if n := count(t, pool, leased, claim.Lease.Token); n != 1 {
		t.Fatalf("the claim was not stored: %d", n)
	}
	var again ichido.Attempt
	err := errors.New("not begun")
	for tries := 0; err != nil && tries < 3; tries++ { // the pool finds out about its dead connection
		again, _, err = store.Begin(ctx, claim)
	}
	if err != nil || again == nil {
		t.Fatalf("the repeated claim: %v, %v", again, err)
	}
	if n := count(t, pool, "SELECT attempts FROM idempotency_keys"); n != 1 {
		t.Errorf("%d attempts are counted, want 1", n)
	}

	cutAnswer(t, pool, proxy, func() error { return again.Complete(ctx, paid) })
	row := func() (row string) {
		if err := pool.QueryRow(ctx, "SELECT (k.*)::text FROM idempotency_keys k").Scan(&row); err != nil {
			t.Fatal(err)
		}
		return row
	}
	stored := row()
	err = errors.New("not completed")
	for tries := 0; err != nil && tries < 3; tries++ {
		err = again.Complete(ctx, paid)
	}
	if err != nil {
		t.Errorf("the repeated Complete returned %v", err)
	}
	if now := row(); now != stored {
		t.Errorf("the repeated Complete changed the record:\n%s\nbefore:\n%s", now, stored)
	}
}

// Two Completes of one attempt at once, as when the first one's connection broke while it waits for the row.
func TestRepeatedCompleteWhileTheFirstOneRuns(t *testing.T) {
	url := newDatabase(t)
	pool := open(t, url)
	store := pgstore.New(open(t, url))
	ctx := bounded(t)
	attempt := mustLease(t, store, leaseClaim("k"))
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
		go func() { done <- attempt.Complete(ctx, paid) }()
	}
	awaitLocks(t, pool, 2)
	if err := lock.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("Complete returned %v", err)
		}
	}
}

// An attempt that waited for its row is judged by the time after the wait.
func TestLeaseRunsOutWhileTheAttemptWaitsForItsRow(t *testing.T) {
	url := newDatabase(t)
	pool := open(t, url)
	store := pgstore.New(open(t, url))
	ctx := bounded(t)
	claim := leaseClaim("k")
	attempt := mustLease(t, store, claim)
	lock, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback(ctx)
	if _, err := lock.Exec(ctx, "SELECT FROM idempotency_keys FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- attempt.Complete(ctx, paid) }()
	go func() { done <- attempt.Abandon(ctx, nil) }()
	// A renewal does not wait, and cannot tell.
	other := leaseClaim("other")
	mustLease(t, store, other)
	held, err := store.Renew(ctx, []ichido.Held{heldOf(claim), heldOf(other)})
	if err == nil || len(held) != 2 || held[0] || !held[1] {
		t.Errorf("Renew beside a locked record = %v, %v; want an error, and the other one renewed", held, err)
	}
	awaitLocks(t, pool, 2)
	if _, err := lock.Exec(ctx, "UPDATE idempotency_keys SET lease_until = clock_timestamp()"); err != nil {
		t.Fatal(err)
	}
	if err := lock.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; !errors.Is(err, ichido.ErrLost) {
			t.Errorf("want ErrLost, got %v", err)
		}
	}
	if held, err := store.Renew(ctx, []ichido.Held{heldOf(claim)}); err != nil || held[0] {
		t.Errorf("Renew of a lease that ran out = %v, %v", held, err)
	}
}

func heldOf(c ichido.Claim) ichido.Held {
	return ichido.Held{Scope: c.Scope, Key: c.Key, Token: c.Lease.Token, Duration: time.Hour}
}

// ways are the settings under which racing claims must be right.
var ways = map[string]func(t *testing.T, url string) *pgxpool.Pool{
	"read committed": func(t *testing.T, url string) *pgxpool.Pool { return open(t, url) },
	"repeatable read": func(t *testing.T, url string) *pgxpool.Pool {
		return open(t, url, isolated("repeatable read"))
	},
	"serializable": func(t *testing.T, url string) *pgxpool.Pool {
		return open(t, url, isolated("serializable"))
	},
	"PgBouncer": func(t *testing.T, url string) *pgxpool.Pool {
		return open(t, pgtest.PgBouncer(t, pgtest.Shared(t), url), func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		})
	},
}

// isolated makes an isolation level the default of a pool's connections.
func isolated(level string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) {
		c.MaxConns = 8
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
	}
}

// race has many claims of a key meet, and returns the attempt of the one that got it.
func race(t *testing.T, key string, claim func(key string) ichido.Claim, stores ...*pgstore.Store) ichido.Attempt {
	t.Helper()
	ctx := bounded(t)
	start := make(chan struct{})
	won := make(chan ichido.Attempt, 32)
	var wg sync.WaitGroup
	for i := range cap(won) {
		wg.Go(func() {
			<-start
			var attempt ichido.Attempt
			var record *ichido.Record
			err := ichido.ErrSerialization
			for errors.Is(err, ichido.ErrSerialization) { // as the Manager does
				attempt, record, err = stores[i%len(stores)].Begin(ctx, claim(key))
			}
			switch {
			case attempt != nil:
				won <- attempt
			case record != nil || !errors.Is(err, ichido.ErrInProgress):
				t.Errorf("%s: Begin = %v, %v; want an attempt or ErrInProgress", key, record, err)
			}
		})
	}
	close(start)
	wg.Wait()
	close(won)
	var attempts []ichido.Attempt
	for attempt := range won {
		attempts = append(attempts, attempt)
	}
	if len(attempts) != 1 {
		t.Fatalf("%s: %d attempts, want 1", key, len(attempts))
	}
	return attempts[0]
}

func TestP1_RacingLeases(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			url := newDatabase(t)
			direct := open(t, url)
			stores := []*pgstore.Store{pgstore.New(way(t, url)), pgstore.New(way(t, url))}
			for i := range 10 {
				key := fmt.Sprint("k", i)
				first := race(t, key, leaseClaim, stores...)
				lapse(t, direct, key)
				mustExec(t, direct, "UPDATE idempotency_keys SET rerun = true WHERE idem_key = $1", key)
				second := race(t, key, func(key string) ichido.Claim { return rerunning(leaseClaim(key)) }, stores...)
				if n := count(t, direct, "SELECT attempts FROM idempotency_keys WHERE idem_key = $1", key); n != 2 {
					t.Errorf("%s: %d attempts are counted, want 2", key, n)
				}
				if err := first.Complete(bounded(t), paid); !errors.Is(err, ichido.ErrLost) {
					t.Errorf("%s: the attempt that was overtaken completed: %v", key, err)
				}
				if err := second.Complete(bounded(t), paid); err != nil {
					t.Errorf("%s: Complete: %v", key, err)
				}
				mustExec(t, direct, "UPDATE idempotency_keys SET expires_at = now() WHERE idem_key = $1", key)
				race(t, key, leaseClaim, stores...)
				if n := count(t, direct, "SELECT attempts FROM idempotency_keys WHERE idem_key = $1", key); n != 1 {
					t.Errorf("%s: %d attempts are counted after the record expired, want 1", key, n)
				}
			}
		})
	}
}

// Claims replace expired records while purgers delete them: whoever gets a lease keeps it.
func TestPurgeNeverDeletesALiveLease(t *testing.T) {
	const keys = 300
	url := newDatabase(t)
	pool := open(t, url)
	store, purger := pgstore.New(open(t, url)), pgstore.New(open(t, url))
	ctx := bounded(t)
	for i := range keys {
		claim := leaseClaim(fmt.Sprint("k", i))
		claim.Retention = time.Nanosecond
		if err := mustLease(t, store, claim).Complete(ctx, paid); err != nil {
			t.Fatal(err)
		}
	}
	running := mustLease(t, store, leaseClaim("running"))
	mustExec(t, pool, "UPDATE idempotency_keys SET expires_at = '-infinity'")

	claimed := make(chan struct{})
	var purging, claiming sync.WaitGroup
	for range 2 {
		purging.Go(func() {
			for {
				if _, err := purger.Purge(ctx, 7); err != nil {
					t.Errorf("Purge: %v", err)
				}
				select {
				case <-claimed:
					return
				default:
				}
			}
		})
	}
	attempts := make([]ichido.Attempt, keys)
	for w := range 4 {
		claiming.Go(func() {
			for i := w; i < keys; i += 4 {
				attempts[i] = mustLeaseQuietly(t, store, leaseClaim(fmt.Sprint("k", i)))
			}
		})
	}
	claiming.Wait()
	close(claimed)
	purging.Wait()
	for i, attempt := range append(attempts, running) {
		if attempt == nil {
			continue
		}
		if err := attempt.Complete(ctx, paid); err != nil {
			t.Errorf("the lease of key %d is gone: %v", i, err)
		}
	}
}

// mustLeaseQuietly is mustLease in a goroutine of its own.
func mustLeaseQuietly(t *testing.T, store *pgstore.Store, claim ichido.Claim) ichido.Attempt {
	attempt, record, err := store.Begin(bounded(t), claim)
	if attempt == nil {
		t.Errorf("Begin(%q) = %v, %v; want an attempt", claim.Key, record, err)
	}
	return attempt
}

func TestTxInLeaseModeSaysWhyThereIsNone(t *testing.T) {
	store := pgstore.New(open(t, newDatabase(t)))
	attempt := mustLease(t, store, leaseClaim("k"))
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "lease mode") || !strings.Contains(said, "use the pool") {
			t.Errorf("it panicked with %q", said)
		}
	}()
	pgstore.Tx(attempt.Context(context.Background()))
}

// A schema of the release before is brought up to date with what it holds.
func TestMigrationToLeaseModeKeepsRecords(t *testing.T) {
	url := pgtest.Shared(t).NewDatabase(t)
	pool := open(t, url)
	store := pgstore.New(pool)
	ctx := bounded(t)
	pending, err := store.Pending(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, `CREATE TABLE idempotency_migrations (
		version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`)
	mustExec(t, pool, pending[0].SQL)
	mustExec(t, pool, "INSERT INTO idempotency_migrations (version, name) VALUES (1, 'idempotency keys')")
	mustExec(t, pool, "INSERT INTO idempotency_keys VALUES ('scope', 'k', 'v:x', 201, '', 'kept', now(), now() + interval '1 hour')")
	if err := store.Ping(ctx); err == nil {
		t.Error("Ping is content with the schema of the release before")
	}
	if applied, err := store.Migrate(ctx); err != nil || len(applied) != len(pending)-1 || applied[0].Name != "lease mode" {
		t.Fatal(applied, err)
	}
	if err := store.Ping(ctx); err != nil {
		t.Error(err)
	}
	claim := leaseClaim("k")
	for range 2 {
		if _, record, err := store.Begin(ctx, claim); err != nil || record == nil || string(record.Response.Body) != "kept" {
			t.Errorf("Begin = %v, %v; want the record", record, err)
		}
		claim.Lease = nil
	}
}
