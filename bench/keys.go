package main

import (
	"context"
	"fmt"
)

// measureKeys compares first requests on tables with many stored keys with those on an empty one.
func measureKeys(ctx context.Context, o *options) (*Keys, error) {
	server, err := startPostgres(o)
	if err != nil {
		return nil, err
	}
	defer server.close()
	k := new(Keys)
	var all []series
	var toEmpty []aim
	for i, stored := range append([]int{0}, o.keys...) {
		db, err := newPostgres(ctx, server, fmt.Sprint("stored_", stored))
		if err != nil {
			return nil, err
		}
		defer db.close()
		name := "empty"
		if i > 0 {
			name = fmt.Sprint(stored, " keys")
			toEmpty = append(toEmpty, aim{of: name, to: "empty", least: 0.9})
			o.talk.say("storing %d keys", stored)
			if err := db.storeMany(ctx, stored); err != nil {
				return nil, err
			}
			sizes, err := db.sizes(ctx, "idempotency_keys")
			if err != nil {
				return nil, err
			}
			k.Tables = append(k.Tables, KeyTable{stored, sizes})
		}
		if k.Facts, err = db.facts(ctx); err != nil {
			return nil, err
		}
		first := func(a *api) ([]series, error) {
			return []series{a.series(name, "/ichido", false, newKey)}, nil
		}
		counts, err := countRequests(ctx, o, db, first)
		if err != nil {
			return nil, err
		}
		k.Requests = append(k.Requests, counts...)
		a, err := serve(ctx, db, poolSize, nil)
		if err != nil {
			return nil, err
		}
		defer a.close()
		chosen, _ := first(a)
		if i == 0 {
			chosen[0].before = func(ctx context.Context) error {
				_, err := db.admin.Exec(ctx, "TRUNCATE idempotency_keys")
				return err
			}
		}
		all = append(all, chosen...)
	}
	for _, clients := range o.clients {
		got, err := alternate(ctx, o, clients, all)
		if err != nil {
			return nil, err
		}
		k.Loads = append(k.Loads, got.load(clients, all, toEmpty...))
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
	a, err := serve(ctx, p, 1, nil)
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
