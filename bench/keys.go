package main

import (
	"context"
	"fmt"
)

// measureKeys compares first requests on a table with many stored keys with those on an empty one.
func measureKeys(ctx context.Context, o *options) (*Keys, error) {
	server, err := startPostgres(o)
	if err != nil {
		return nil, err
	}
	defer server.close()
	k := &Keys{Stored: o.keys}
	var both []series
	for _, name := range []string{"empty", "full"} {
		db, err := newPostgres(ctx, server, name)
		if err != nil {
			return nil, err
		}
		defer db.close()
		if name == "full" {
			o.progress("storing %d keys", o.keys)
			if err := db.storeMany(ctx, o.keys); err != nil {
				return nil, err
			}
			if k.Sizes, err = db.sizes(ctx, "idempotency_keys"); err != nil {
				return nil, err
			}
		}
		if k.Facts, err = db.facts(ctx); err != nil {
			return nil, err
		}
		first := func(a *api) ([]series, error) {
			return []series{a.series(name, "/ichido", false, newKey)}, nil
		}
		counts, err := countRequests(ctx, db, first)
		if err != nil {
			return nil, err
		}
		k.Requests = append(k.Requests, counts...)
		h, err := db.open(ctx, poolSize, nil)
		if err != nil {
			return nil, err
		}
		a, err := serve(h)
		if err != nil {
			return nil, err
		}
		defer a.close()
		chosen, _ := first(a)
		both = append(both, chosen...)
		if name == "empty" {
			both[0].before = func(ctx context.Context) error {
				_, err := db.admin.Exec(ctx, "TRUNCATE idempotency_keys")
				return err
			}
		}
	}
	for _, clients := range o.clients {
		got, err := alternate(ctx, o, clients, both)
		if err != nil {
			return nil, err
		}
		k.Loads = append(k.Loads, got.load(clients, both, aim{of: "full", to: "empty", least: 0.9}))
	}
	return k, nil
}

// storeMany fills the table of keys. Right after its checkpoint the first change of each page is written to the log as
// a whole page, so that what is measured then is the worst that a large table does.
func (p *postgres) storeMany(ctx context.Context, n int) error {
	if err := p.storeOne(ctx); err != nil {
		return err
	}
	return p.fill(ctx, "idempotency_keys", n, lastDay, "(idem_key, scope)")
}

// storeOne stores a key as a request does.
func (p *postgres) storeOne(ctx context.Context) error {
	h, err := p.open(ctx, 1, nil)
	if err != nil {
		return err
	}
	a, err := serve(h)
	if err != nil {
		return err
	}
	defer a.close()
	_, err = a.store("/ichido", 1)
	return err
}

// A storing is when the i-th of n keys was stored, and for how long, as SQL.
type storing struct{ at, retention string }

// lastDay is evenly over the last day, so that none is past its retention.
var lastDay = storing{"now() - interval '24 hours' * (1 - i::float8 / n)", "25 hours"}

// fill stores n keys as requests would have stored them, in copies of what one of them stored. A B-tree that grew key by
// key in random order is about 70 % full; the primary key is built in that state.
func (p *postgres) fill(ctx context.Context, table string, n int, stored storing, primaryKey string) error {
	conn, err := p.admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for _, sql := range []string{
		"SET maintenance_work_mem = '1GB'",
		fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT IF EXISTS %[1]s_pkey", table),
		fmt.Sprintf(`INSERT INTO %s (scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
			SELECT scope, key, '\x01' || sha256(key::bytea), response_status, response_headers, response_body, at, at + interval '%s'
			FROM (SELECT * FROM idempotency_keys LIMIT 1) one,
			LATERAL (SELECT gen_random_uuid()::text AS key, %s AS at
				FROM (SELECT %d::bigint AS n) stored, generate_series(1, n) AS i) many`, table, stored.retention, stored.at, n),
		fmt.Sprintf("ALTER TABLE %s ADD PRIMARY KEY %s WITH (fillfactor = 70)", table, primaryKey),
		fmt.Sprintf("ALTER INDEX %s_pkey RESET (fillfactor)", table),
		"VACUUM (ANALYZE) " + table,
		"CHECKPOINT",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// sizes returns the bytes that a table and its indexes take.
func (p *postgres) sizes(ctx context.Context, table string) (map[string]int64, error) {
	sizes := make(map[string]int64)
	rows, err := p.admin.Query(ctx, `SELECT relname, pg_relation_size(oid) FROM pg_class
		WHERE oid = $1::regclass OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = $1::regclass)`, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var bytes int64
		if err := rows.Scan(&name, &bytes); err != nil {
			return nil, err
		}
		sizes[name] = bytes
	}
	return sizes, rows.Err()
}
