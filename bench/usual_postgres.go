package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// usualPostgres is idempotency as it is usually written by hand: a transaction, an advisory lock, a placeholder row for
// the key, the work, an update of that row with the answer, and the commit, one round trip each. It is the careful
// kind, in that the work is in the same transaction and another request under the same key is refused. It is spared
// what slows many of its kind down: a SELECT before the INSERT, a B-tree on expires_at, jsonb.
type usualPostgres struct{ pool *pgxpool.Pool }

func (u usualPostgres) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, err)
		return
	}
	hash := sha256.Sum256(body)
	var made answer
	var replay bool
	err = pgx.BeginFunc(r.Context(), u.pool, func(tx pgx.Tx) error {
		made, replay, err = usualWork(r.Context(), tx, r.URL.Path, r.Header.Get("Idempotency-Key"), hash[:], body)
		return err
	})
	if err != nil {
		fail(w, err)
		return
	}
	if replay {
		w.Header().Set(replayedHeader, "true")
	}
	made.send(w)
}

func usualWork(ctx context.Context, tx pgx.Tx, scope, key string, hash, body []byte) (made answer, replay bool, err error) {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", scope+" "+key); err != nil {
		return made, false, err
	}
	tag, err := tx.Exec(ctx, `INSERT INTO usual_keys (scope, idem_key, request_hash, created_at, expires_at)
		VALUES ($1, $2, $3, now(), now() + interval '24 hours') ON CONFLICT DO NOTHING`, scope, key, hash)
	if err != nil {
		return made, false, err
	}
	if tag.RowsAffected() == 0 {
		var stored, location []byte
		err := tx.QueryRow(ctx, `SELECT request_hash, response_headers, response_body FROM usual_keys
			WHERE idem_key = $1 AND scope = $2`, key, scope).Scan(&stored, &location, &made.body)
		if err == nil && !bytes.Equal(stored, hash) {
			err = errMismatch
		}
		made.location = string(location)
		return made, true, err
	}
	made, err = reserve(ctx, body, func(ctx context.Context, r reservation) (int64, error) {
		return insertPostgres(ctx, tx, r)
	})
	if err != nil {
		return made, false, err
	}
	_, err = tx.Exec(ctx, `UPDATE usual_keys SET response_status = 201, response_headers = $1, response_body = $2
		WHERE idem_key = $3 AND scope = $4`, []byte(made.location), made.body, key, scope)
	return made, false, err
}
