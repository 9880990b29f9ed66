package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A schema is a way to define the table of keys. All of them keep scope and idem_key, for people.
type schema struct {
	name   string
	digest string // definition of a column that is the primary key in place of (idem_key, scope); "" for the pair
	size   int    // of the digest, in bytes
	expiry string // the access method of the index on expires_at; "" for none
}

// The defaults of the digests fill the table with what looks like one. Requests give their own.
var schemas = []schema{
	{name: "pair_brin", expiry: "brin"}, // as it is
	{name: "pair_btree", expiry: "btree"},
	{name: "pair_none"},
	{name: "bytea32_brin", digest: "bytea DEFAULT sha256(gen_random_uuid()::text::bytea)", size: 32, expiry: "brin"},
	{name: "bytea16_brin", digest: "bytea DEFAULT substr(sha256(gen_random_uuid()::text::bytea), 1, 16)", size: 16, expiry: "brin"},
	{name: "uuid_brin", digest: "uuid DEFAULT gen_random_uuid()", size: 16, expiry: "brin"},
}

// measureSchemas compares schemas on tables full of keys, and each with the first.
func measureSchemas(ctx context.Context, o *options) (*Schemas, error) {
	server, err := startPostgres(o)
	if err != nil {
		return nil, err
	}
	defer server.close()
	db, err := newPostgres(ctx, server, "schemas")
	if err != nil {
		return nil, err
	}
	defer db.close()
	if err := db.storeOne(ctx); err != nil { // to be copied
		return nil, err
	}
	out := &Schemas{Stored: o.most()}
	if out.Facts, err = db.facts(ctx); err != nil {
		return nil, err
	}
	var all []series
	var toFirst []aim
	for _, s := range schemas {
		o.talk.say("%s: storing %d keys", s.name, o.most())
		if err := s.create(ctx, db, o.most()); err != nil {
			return nil, err
		}
		all = append(all, s.series(ctx, db))
		if len(all) > 1 {
			toFirst = append(toFirst, aim{of: s.name, to: schemas[0].name})
		}
	}
	for i, s := range schemas {
		o.talk.say("%s: counting", s.name)
		cost, err := countOne(ctx, o, db, new(counter), all[i])
		if err != nil {
			return nil, err
		}
		sizes, err := db.sizes(ctx, s.name)
		if err != nil {
			return nil, err
		}
		out.Tables = append(out.Tables, SchemaSize{s.name, sizes, cost.LogBytes})
	}
	for _, connections := range o.clients {
		got, err := alternate(ctx, o, connections, all)
		if err != nil {
			return nil, err
		}
		out.Loads = append(out.Loads, got.load(connections, all, toFirst...))
	}
	return out, nil
}

func (s schema) create(ctx context.Context, db *postgres, n int) error {
	digest, primaryKey := "", "(idem_key, scope)"
	if s.digest != "" {
		digest, primaryKey = "digest "+s.digest+",", "(digest)"
	}
	if _, err := db.admin.Exec(ctx, fmt.Sprintf("CREATE TABLE %s (%s LIKE idempotency_keys)", s.name, digest)); err != nil {
		return err
	}
	if err := db.fill(ctx, s.name, n, lastDay, primaryKey); err != nil {
		return err
	}
	switch s.expiry {
	case "":
		return nil
	case "brin":
		_, err := db.admin.Exec(ctx, fmt.Sprintf("CREATE INDEX ON %s USING brin (expires_at) WITH (autosummarize = on)", s.name))
		return err
	}
	_, err := db.admin.Exec(ctx, fmt.Sprintf("CREATE INDEX ON %s USING %s (expires_at)", s.name, s.expiry))
	return err
}

// series sends the statements of a first request as pgstore does, without HTTP.
func (s schema) series(ctx context.Context, db *postgres) series {
	return series{name: s.name, worker: func() (func() error, func(), error) {
		conn, err := pgx.ConnectConfig(ctx, db.config.ConnConfig)
		if err != nil {
			return nil, nil, err
		}
		return func() error { return s.request(ctx, conn) }, func() { conn.Close(context.WithoutCancel(ctx)) }, nil
	}}
}

func (s schema) request(ctx context.Context, conn *pgx.Conn) error {
	const scope = "* POST /ichido"
	key := newKey()
	sum := sha256.Sum256([]byte(scope + key))
	read := fmt.Sprintf("SELECT request_hash, response_status, response_headers, response_body FROM %s WHERE ", s.name)
	insert := "(scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at"
	values := "VALUES ($1, $2, $3, 201, $4, $5, clock_timestamp(), clock_timestamp() + interval '24 hours'"
	where, inserted := []any{key, scope}, []any{scope, key, sum[:], []byte(storedHeaders), []byte(requestBody)}
	if s.digest == "" {
		read += "idem_key = $1 AND scope = $2"
	} else {
		var digest any = sum[:s.size]
		if s.name == "uuid_brin" {
			digest = [16]byte(sum[:16])
		}
		read += "digest = $1"
		insert += ", digest"
		values += ", $6"
		where, inserted = []any{digest}, append(inserted, digest)
	}

	var begin pgx.Batch
	begin.Queue("BEGIN")
	begin.Queue("SELECT pg_try_advisory_xact_lock($1::int8)", int64(sum[0])<<32|int64(sum[1]))
	begin.Queue(read, where...)
	err := conn.SendBatch(ctx, &begin).Close()
	_, workErr := conn.Exec(ctx, "INSERT INTO reservations (item_code, quantity, reserved_by) VALUES ('PJ-001', 1, 'taro')")
	var end pgx.Batch
	end.Queue("INSERT INTO "+s.name+" "+insert+") "+values+")", inserted...)
	end.Queue("COMMIT")
	return errors.Join(err, workErr, conn.SendBatch(ctx, &end).Close())
}

const storedHeaders = "Content-Type: application/json\nLocation: /reservations/1234567\n"
