// Package sqlstore keeps idempotency records through database/sql, in the transaction of the work itself. It imports
// no driver: bring the one that you use.
//
// On SQLite the claim takes no lock: requests with other keys go on until a handler makes its first write. Open the
// database in WAL mode, with synchronous=FULL (an answer must survive a power cut), a busy timeout, and deferred
// transactions (the default of modernc.org/sqlite and mattn/go-sqlite3; ncruces/go-sqlite3 needs _txlock=deferred). Let
// a handler write before it reads where it can: a transaction that has read and then writes is run again if another
// one committed in between.
package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ichido-dev/ichido"
)

// A Store keeps records in the table idempotency_keys. Make the table by [Store.Migrate].
type Store struct {
	db      *sql.DB
	dialect *Dialect
}

var (
	_ ichido.Store    = (*Store)(nil)
	_ ichido.Purger   = (*Store)(nil)
	_ ichido.Migrator = (*Store)(nil)
	_ ichido.Pinger   = (*Store)(nil)
)

// New returns a Store on a database that speaks the dialect. An attempt holds one of db's connections from its claim
// to its end.
func New(db *sql.DB, dialect *Dialect) *Store { return &Store{db: db, dialect: dialect} }

// Begin implements [ichido.Store]. The record is read before the transaction begins, so that the transaction's view
// of the database begins with the first statement of the work.
func (s *Store) Begin(ctx context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("sqlstore: no connection: %w", err)
	}
	a := &attempt{store: s, conn: conn, claim: claim}
	record, err := a.read(ctx)
	if err == nil && record == nil {
		if err = a.begin(ctx); err == nil {
			return a, nil, nil
		}
	}
	_ = conn.Close() // back to the pool
	if err != nil {
		return nil, nil, s.dialect.unavailable("claiming the key", err)
	}
	return nil, record, nil
}

// Purge implements [ichido.Purger].
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	result, err := s.db.ExecContext(ctx, s.dialect.purge, limit)
	if err != nil {
		return 0, s.dialect.unavailable("purging", err)
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// Ping implements [ichido.Pinger].
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, s.dialect.ping); err != nil {
		return s.dialect.unavailable("reaching the table", err)
	}
	return nil
}
