// Package sqlstore keeps idempotency records through database/sql, in the transaction of the work itself. It imports
// no driver: bring the one that you use.
//
// On SQLite the claim takes no lock: requests with other keys go on until a handler makes its first write. Open the
// database in WAL mode, with synchronous=FULL (an answer must survive a power cut), a busy timeout, and deferred
// transactions (the default of modernc.org/sqlite and mattn/go-sqlite3; ncruces/go-sqlite3 needs _txlock=deferred). Let
// a handler write before it reads where it can: a transaction that has read and then writes is run again if another
// one committed in between.
//
// In lease mode an attempt holds neither a transaction nor a connection while its work runs. [TxStep] makes a step of the
// work a transaction of its own.
package sqlstore

import (
	"context"
	"database/sql"
	"sync"

	"github.com/ichido-dev/ichido"
)

// A Store keeps records in the table idempotency_keys. Make the table by [Store.Migrate].
type Store struct {
	db      *sql.DB
	dialect *Dialect

	mu       sync.Mutex
	prepared *statements // nil until the table was there
}

// statements are those of every request. database/sql prepares them on each connection that they are used on, once.
type statements struct{ read, written, insert *sql.Stmt }

var (
	_ ichido.Store     = (*Store)(nil)
	_ ichido.Leaser    = (*Store)(nil)
	_ ichido.Settler   = (*Store)(nil)
	_ ichido.Finisher  = (*Store)(nil)
	_ ichido.Inspector = (*Store)(nil)
	_ ichido.Purger    = (*Store)(nil)
	_ ichido.Migrator  = (*Store)(nil)
	_ ichido.Pinger    = (*Store)(nil)
)

// New returns a Store on a database that speaks the dialect. An attempt in transaction mode holds one of db's connections
// from its claim to its end.
func New(db *sql.DB, dialect *Dialect) *Store { return &Store{db: db, dialect: dialect} }

// Begin implements [ichido.Store]. The record is read before the transaction begins, so that the transaction's view
// of the database begins with the first statement of the work.
func (s *Store) Begin(ctx context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	st, err := s.statements(ctx)
	if err != nil {
		return nil, nil, s.dialect.unavailable("preparing the statements", err)
	}
	if claim.Lease != nil {
		return s.lease(ctx, st, claim)
	}
	r, err := read(ctx, st.read, claim.Scope, claim.Key)
	if err != nil {
		return nil, nil, s.dialect.unavailable("reading the record", err)
	}
	if r.active() {
		record, err := r.answer(claim.Fingerprint)
		return nil, record, err
	}
	a := &attempt{transaction: transaction{store: s}, statements: st, claim: claim, expired: r != nil, stepped: r != nil && r.resumes}
	if err := a.begin(ctx, claim.Reruns > 0); err != nil {
		return nil, nil, s.dialect.unavailable("beginning the transaction", err)
	}
	return a, nil, nil
}

// statements prepares the statements with the first claim: all of them, because an attempt may hold the last connection.
func (s *Store) statements(ctx context.Context) (*statements, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prepared != nil {
		return s.prepared, nil
	}
	var st statements
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{{&st.read, s.dialect.read}, {&st.written, s.dialect.written}, {&st.insert, s.dialect.insert}} {
		var err error
		if *p.stmt, err = s.db.PrepareContext(ctx, p.text); err != nil {
			for _, done := range []*sql.Stmt{st.read, st.written} {
				if done != nil {
					_ = done.Close()
				}
			}
			return nil, err
		}
	}
	s.prepared = &st
	return s.prepared, nil
}

// Purge implements [ichido.Purger]. Steps, records and settlements are deleted by a statement each.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	if _, err := s.db.ExecContext(ctx, s.dialect.purgeSteps, limit); err != nil {
		return 0, s.dialect.unavailable("purging", err)
	}
	n, err := affected(s.db.ExecContext(ctx, s.dialect.purge, limit))
	if err == nil && n < limit {
		var settlements int
		settlements, err = affected(s.db.ExecContext(ctx, s.dialect.purgeSettlements, limit-n))
		n += settlements
	}
	if err != nil {
		return n, s.dialect.unavailable("purging", err)
	}
	return n, nil
}

// affected returns how many rows a statement changed.
func affected(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
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
