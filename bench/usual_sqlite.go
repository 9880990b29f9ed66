package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"io"
	"net/http"
)

// usualSQLite is usualPostgres on SQLite, where BEGIN IMMEDIATE is the lock.
type usualSQLite struct{ db *sql.DB }

func (u usualSQLite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, err)
		return
	}
	made, replay, err := u.transact(r.Context(), r.URL.Path, r.Header.Get("Idempotency-Key"), body)
	if err != nil {
		fail(w, err)
		return
	}
	if replay {
		w.Header().Set(replayedHeader, "true")
	}
	made.send(w)
}

func (u usualSQLite) transact(ctx context.Context, scope, key string, body []byte) (made answer, replay bool, err error) {
	conn, err := u.db.Conn(ctx)
	if err != nil {
		return made, false, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return made, false, err
	}
	hash := sha256.Sum256(body)
	made, replay, err = usualSQLiteWork(ctx, conn, scope, key, hash[:], body)
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return made, replay, err
}

func usualSQLiteWork(ctx context.Context, conn *sql.Conn, scope, key string, hash, body []byte) (made answer, replay bool, err error) {
	result, err := conn.ExecContext(ctx, `INSERT INTO usual_keys (scope, idem_key, request_hash, created_at, expires_at)
		VALUES (?, ?, ?, datetime('now'), datetime('now', '+1 day')) ON CONFLICT DO NOTHING`, scope, key, hash)
	if err != nil {
		return made, false, err
	}
	if n, err := result.RowsAffected(); err != nil {
		return made, false, err
	} else if n == 0 {
		var stored []byte
		err := conn.QueryRowContext(ctx, `SELECT request_hash, response_headers, response_body FROM usual_keys
			WHERE idem_key = ? AND scope = ?`, key, scope).Scan(&stored, &made.location, &made.body)
		if err == nil && !bytes.Equal(stored, hash) {
			err = errMismatch
		}
		return made, true, err
	}
	made, err = reserve(ctx, body, func(ctx context.Context, r reservation) (int64, error) {
		return insertSQLite(ctx, conn, r)
	})
	if err != nil {
		return made, false, err
	}
	_, err = conn.ExecContext(ctx, `UPDATE usual_keys SET response_status = 201, response_headers = ?, response_body = ?
		WHERE idem_key = ? AND scope = ?`, made.location, made.body, key, scope)
	return made, false, err
}
