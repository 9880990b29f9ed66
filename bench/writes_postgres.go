package main

import (
	"context"
	"crypto/sha256"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
)

// writesPostgres makes two plain writes, each a transaction of its own: a row before the work, and the answer in it
// afterwards. That is the least that a record in two phases costs. It does without all that makes such a record safe.
type writesPostgres struct{ pool *pgxpool.Pool }

func (p writesPostgres) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serveWrites(w, r, p)
}

func (p writesPostgres) claim(ctx context.Context, key, path string, hash []byte) error {
	_, err := p.pool.Exec(ctx, `INSERT INTO written_keys (idem_key, path, request_hash, state, created_at)
		VALUES ($1, $2, $3, 'in progress', now())`, key, path, hash)
	return err
}

func (p writesPostgres) complete(ctx context.Context, key string, made answer) error {
	_, err := p.pool.Exec(ctx, `UPDATE written_keys SET state = 'completed', response_status = 201,
		response_headers = $1, response_body = $2, completed_at = now() WHERE idem_key = $3`,
		[]byte(storedHeaders), made.body, key)
	return err
}

// A twoPhases is a record that is written in two phases.
type twoPhases interface {
	claim(ctx context.Context, key, path string, hash []byte) error
	complete(ctx context.Context, key string, made answer) error
}

func serveWrites(w http.ResponseWriter, r *http.Request, record twoPhases) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, err)
		return
	}
	key, hash := r.Header.Get("Idempotency-Key"), sha256.Sum256(body)
	if err := record.claim(r.Context(), key, r.URL.Path, hash[:]); err != nil {
		fail(w, err)
		return
	}
	made, err := reserve(r.Context(), body, insertNothing)
	if err == nil {
		err = record.complete(r.Context(), key, made)
	}
	if err != nil {
		fail(w, err)
		return
	}
	made.send(w)
}
