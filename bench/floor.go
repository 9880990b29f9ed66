package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The floor is what any record of the answer costs that is committed with the work: the plain transaction, and one more
// row in ichido's own table, which on PostgreSQL rides with the COMMIT. It does not look whether the key is there, locks
// nothing, and knows no replay: no way of doing it right can be faster, so first/plain cannot be above floor/plain.

// A floor is an engine that commits a reservation and the answer to it.
type floor interface {
	transact(ctx context.Context, scope, key string, hash, body []byte) (answer, error)
}

func serveFloor(f floor) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			fail(w, err)
			return
		}
		hash := sha256.Sum256(body)
		made, err := f.transact(r.Context(), r.URL.Path, r.Header.Get("Idempotency-Key"), hash[:], body)
		if err != nil {
			fail(w, err)
			return
		}
		made.send(w)
	})
}

type floorPostgres struct{ pool *pgxpool.Pool }

func (f floorPostgres) transact(ctx context.Context, scope, key string, hash, body []byte) (made answer, err error) {
	conn, err := f.pool.Acquire(ctx)
	if err != nil {
		return made, err
	}
	defer conn.Release() // closes it, if the transaction is open
	tx, err := conn.Begin(ctx)
	if err != nil {
		return made, err
	}
	made, err = reserve(ctx, body, func(ctx context.Context, r reservation) (int64, error) { return insertPostgres(ctx, tx, r) })
	if err != nil {
		return made, err
	}
	var batch pgx.Batch
	batch.Queue(`INSERT INTO idempotency_keys
		(scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
		VALUES ($1, $2, $3, 201, $4, $5, now(), now() + interval '1 day')`, scope, key, hash, []byte(storedHeaders), made.body)
	batch.Queue("COMMIT")
	return made, conn.SendBatch(ctx, &batch).Close()
}

type floorSQLite struct{ db *sql.DB }

func (f floorSQLite) transact(ctx context.Context, scope, key string, hash, body []byte) (made answer, err error) {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return made, err
	}
	defer tx.Rollback() // does nothing after a commit
	made, err = reserve(ctx, body, func(ctx context.Context, r reservation) (int64, error) { return insertSQLite(ctx, tx, r) })
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO idempotency_keys
			(scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
			VALUES (?, ?, ?, 201, ?, ?, datetime('now'), datetime('now', '+1 day'))`, scope, key, hash, []byte(storedHeaders), made.body)
	}
	if err != nil {
		return made, err
	}
	return made, tx.Commit()
}
