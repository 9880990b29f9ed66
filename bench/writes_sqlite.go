package main

import (
	"context"
	"database/sql"
	"net/http"
)

// writesSQLite is writesPostgres on SQLite.
type writesSQLite struct{ db *sql.DB }

func (s writesSQLite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serveWrites(w, r, s)
}

func (s writesSQLite) claim(ctx context.Context, key, path string, hash []byte) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO written_keys (idem_key, path, request_hash, state, created_at)
		VALUES (?, ?, ?, 'in progress', datetime('now'))`, key, path, hash)
	return err
}

func (s writesSQLite) complete(ctx context.Context, key string, made answer) error {
	_, err := s.db.ExecContext(ctx, `UPDATE written_keys SET state = 'completed', response_status = 201,
		response_headers = ?, response_body = ?, completed_at = datetime('now') WHERE idem_key = ?`,
		[]byte(storedHeaders), made.body, key)
	return err
}
