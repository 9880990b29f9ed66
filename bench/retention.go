package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/ichido-dev/ichido"
)

const (
	periods    = 10
	parts      = 10   // of a period: keys expire as they came
	steady     = 3    // the period from which on the size should stay
	mostGrowth = 1.25 // of the size at the end of the last period, against that of the steady one
	longAnswer = 4096 // bytes; PostgreSQL puts it into a TOAST table
)

// A keeper is a database whose size is watched.
type keeper interface {
	database
	// store stores n keys of a scope, as requests do. Every tenth has a long answer.
	store(ctx context.Context, scope string, n int, long []byte) error
	// expire ends the retention of the keys of a scope.
	expire(ctx context.Context, scope string) error
	// tidy does at once what the database does by itself sooner or later.
	tidy(context.Context) error
	// onDisk is the size of the keys in parts, with all that belongs to them.
	onDisk(context.Context) (map[string]int64, error)
}

// measureRetention watches the size of each engine's store over periods of retention.
func measureRetention(ctx context.Context, o *options) ([]Retention, error) {
	var out []Retention
	for _, engine := range []struct {
		name string
		keep func(context.Context, *options) (*Retention, error)
	}{{"postgres", keepPostgres}, {"sqlite", keepSQLite}} {
		if !slices.Contains(o.engines, engine.name) {
			continue
		}
		r, err := engine.keep(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", engine.name, err)
		}
		out = append(out, *r)
	}
	return out, nil
}

func keepPostgres(ctx context.Context, o *options) (*Retention, error) {
	server, err := startPostgres(o)
	if err != nil {
		return nil, err
	}
	defer server.close()
	db, err := newPostgres(ctx, server, "postgres")
	if err != nil {
		return nil, err
	}
	defer db.close()
	return keep(ctx, o, db)
}

func keepSQLite(ctx context.Context, o *options) (*Retention, error) {
	db, err := newSQLite(ctx, modernc)
	if err != nil {
		return nil, err
	}
	defer db.close()
	return keep(ctx, o, db)
}

// keep lets the periods pass.
func keep(ctx context.Context, o *options, db keeper) (*Retention, error) {
	keys := o.most()
	r := &Retention{Engine: db.name(), Keys: keys}
	var err error
	if r.Facts, err = db.facts(ctx); err != nil {
		return nil, err
	}
	h, err := db.open(ctx, poolSize, nil)
	if err != nil {
		return nil, err
	}
	defer h.close()
	long := make([]byte, longAnswer)
	rand.Read(long) // what cannot be compressed
	o.talk.begin(periods*parts, "%s: parts of periods", db.name())
	for number := 1; number <= periods; number++ {
		var p Period
		for part := range parts {
			o.talk.step()
			n := keys*(part+1)/parts - keys*part/parts
			if err := db.store(ctx, scopeOf(number, part), n, long); err != nil {
				return nil, err
			}
			if err := p.end(ctx, db, h.purger, scopeOf(number-1, part)); err != nil {
				return nil, err
			}
		}
		if number > 1 && p.Purged != keys {
			return nil, fmt.Errorf("period %d: %d keys were purged of %d", number, p.Purged, keys)
		}
		if p.Sizes, err = db.onDisk(ctx); err != nil {
			return nil, err
		}
		for _, bytes := range p.Sizes {
			p.Size += bytes
		}
		r.Periods = append(r.Periods, p)
	}
	growth := float64(r.Periods[periods-1].Size) / float64(r.Periods[steady-1].Size)
	r.Growth = newRatio(fmt.Sprintf("period %d/period %d", periods, steady), Spread{growth, growth, growth}, 0, mostGrowth)
	return r, nil
}

// end ends the retention of the keys of a scope.
func (p *Period) end(ctx context.Context, db keeper, purger ichido.Purger, scope string) error {
	if err := db.expire(ctx, scope); err != nil {
		return err
	}
	began := time.Now()
	n, err := ichido.Purge(ctx, purger)
	p.Seconds += time.Since(began).Seconds()
	p.Purged += n
	if err != nil {
		return err
	}
	return db.tidy(ctx)
}

// scopeOf tells the keys of one part of a period from all others.
func scopeOf(period, part int) string { return fmt.Sprintf("* POST /period/%d/%d", period, part) }

func (p *postgres) store(ctx context.Context, scope string, n int, long []byte) error {
	_, err := p.admin.Exec(ctx, `INSERT INTO idempotency_keys
		(scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
		SELECT $1::text, key, '\x01' || sha256(key::bytea), 201, $2::bytea,
			CASE WHEN i % 10 = 0 THEN $3::bytea ELSE $4::bytea END, now(), now() + interval '24 hours'
		FROM (SELECT i, gen_random_uuid()::text AS key FROM generate_series(1, $5::int4) AS i) many`,
		scope, []byte(storedHeaders), long, []byte(requestBody), n)
	return err
}

// What expires in truth keeps its row as it is; here each leaves an old version of it, for whose space is paid too.
func (p *postgres) expire(ctx context.Context, scope string) error {
	_, err := p.admin.Exec(ctx, "UPDATE idempotency_keys SET expires_at = now() WHERE scope = $1", scope)
	return err
}

// tidy does what autovacuum does.
func (p *postgres) tidy(ctx context.Context) error {
	_, err := p.admin.Exec(ctx, "VACUUM (ANALYZE) idempotency_keys")
	return err
}

func (p *postgres) onDisk(ctx context.Context) (map[string]int64, error) {
	var all, indexes, toast int64
	err := p.admin.QueryRow(ctx, `SELECT pg_total_relation_size(oid), pg_indexes_size(oid), pg_total_relation_size(reltoastrelid)
		FROM pg_class WHERE oid = 'idempotency_keys'::regclass`).Scan(&all, &indexes, &toast)
	return map[string]int64{"table": all - indexes - toast, "indexes": indexes, "toast": toast}, err
}

func (s *sqlite) store(ctx context.Context, scope string, n int, long []byte) error {
	_, err := s.admin.ExecContext(ctx, `WITH RECURSIVE many(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE i < ?)
		INSERT INTO idempotency_keys
		(scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
		SELECT ?, lower(hex(randomblob(18))), randomblob(33), 201, ?, CASE WHEN i % 10 = 0 THEN ? ELSE ? END,
			strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now', '+24 hours') FROM many`,
		n, scope, []byte(storedHeaders), long, []byte(requestBody))
	return err
}

func (s *sqlite) expire(ctx context.Context, scope string) error {
	_, err := s.admin.ExecContext(ctx, "UPDATE idempotency_keys SET expires_at = datetime('now') WHERE scope = ?", scope)
	return err
}

// tidy writes the log to the file. SQLite keeps the pages that are free, and uses them again.
func (s *sqlite) tidy(ctx context.Context) error {
	var busy, logged, written int
	if err := s.admin.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &logged, &written); err != nil {
		return err
	}
	if busy != 0 {
		return fmt.Errorf("%s: the log could not be written to the file", s.file())
	}
	return nil
}

func (s *sqlite) onDisk(context.Context) (map[string]int64, error) {
	info, err := os.Stat(s.file())
	if err != nil {
		return nil, err
	}
	return map[string]int64{"file": info.Size()}, nil
}
