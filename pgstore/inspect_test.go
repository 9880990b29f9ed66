package pgstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A page of a large table is read by an index, whatever it is filtered by.
func TestListReadsByIndex(t *testing.T) {
	url := newDatabase(t)
	proxy := pgtest.NewProxy(t, url)
	pool := open(t, url)
	store := pgstore.New(open(t, proxy.URL(url), one))
	ctx := bounded(t)
	mustExec(t, pool, `INSERT INTO idempotency_keys (scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
		SELECT 'scope', 'k' || n, 'x', 200, '', '', now(), now() + interval '1 hour' FROM generate_series(1, 50000) n`)
	mustLease(t, store, leaseClaim("zz-running"))
	mustExec(t, pool, "ANALYZE idempotency_keys")
	for name, c := range map[string]struct {
		filter ichido.Filter
		args   []any // as the statement is sent with
		index  string
		want   int
	}{
		"prefix":    {ichido.Filter{KeyPrefix: "k4999"}, []any{"k4999", "k499:", 100}, "idempotency_keys_pkey", 11},
		"key":       {ichido.Filter{Key: "k77"}, []any{"k77", 100}, "idempotency_keys_pkey", 1},
		"next page": {ichido.Filter{After: &ichido.EntryID{Scope: "scope", Key: "k2"}}, []any{"k2", "scope", 100}, "idempotency_keys_pkey", 100},
		"incomplete": {ichido.Filter{States: []ichido.State{ichido.InProgress, ichido.Unknown}},
			[]any{[]int32{1, 2}, 100}, "idempotency_keys_incomplete", 1},
	} {
		c.filter.Limit = 100
		proxy.Reset()
		if entries, err := store.List(ctx, c.filter); err != nil || len(entries) != c.want {
			t.Errorf("%s: %d entries, %v; want %d", name, len(entries), err, c.want)
		}
		plan := explain(t, pool, proxy.Statements()[0], c.args...)
		if !strings.Contains(plan, "using "+c.index) || strings.Contains(plan, "Sort") {
			t.Errorf("%s is not read by %s alone:\n%s", name, c.index, plan)
		}
	}
}

func TestListPrefixesByBytes(t *testing.T) {
	url := newDatabase(t)
	store := pgstore.New(open(t, url))
	keys := []string{"a", "a%", "a_", "ab", "a\u007f", "a\ud7ff", "a\ue000", "a\U0010ffff", "a\U0010ffffb", "b", "\U0010ffff", "\U0010ffffb"}
	for _, key := range keys {
		mustLease(t, store, leaseClaim(key))
	}
	for _, prefix := range append(keys, "A", "\U0010ffff\U0010ffff", "a\ufffd") {
		var want, got []string
		all, err := store.List(bounded(t), ichido.Filter{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if strings.HasPrefix(e.Key, prefix) {
				want = append(want, e.Key)
			}
		}
		var after *ichido.EntryID
		for {
			page, err := store.List(bounded(t), ichido.Filter{KeyPrefix: prefix, After: after, Limit: 2})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				got = append(got, e.Key)
			}
			after = &page[len(page)-1].EntryID
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("prefix %q: %q, want %q", prefix, got, want)
		}
	}
}

// People give records any time by SQL.
func TestInfiniteTimesAreShown(t *testing.T) {
	url := newDatabase(t)
	pool := open(t, url)
	store := pgstore.New(pool)
	mustLease(t, store, leaseClaim("k"))
	for _, sql := range []string{"'infinity'", "'-infinity'"} {
		mustExec(t, pool, "UPDATE idempotency_keys SET expires_at = "+sql+", lease_until = 'infinity', created_at = "+sql)
		entries, err := store.List(bounded(t), ichido.Filter{Limit: 1})
		if err != nil || len(entries) != 1 || entries[0].State != ichido.InProgress || entries[0].LeaseUntil.Year() != 9999 {
			t.Errorf("%s: %+v, %v", sql, entries, err)
		}
		entry, err := store.Look(bounded(t), "scope", "k")
		if err != nil || entry.ExpiresAt.After(time.Now()) != (sql == "'infinity'") {
			t.Errorf("%s: %+v, %v", sql, entry, err)
		}
	}
}

func explain(t *testing.T, pool *pgxpool.Pool, statement string, args ...any) string {
	t.Helper()
	rows, err := pool.Query(bounded(t), "EXPLAIN "+statement, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return strings.Join(lines, "\n")
}
