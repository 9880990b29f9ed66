// Package pgstore keeps idempotency records in PostgreSQL, through pgx, in the transaction of the work itself.
//
// The claim rides with BEGIN and the record with COMMIT, each in one pipeline: an idempotent request makes no more
// round trips than the plain transaction that it replaces. It works at READ COMMITTED, REPEATABLE READ and
// SERIALIZABLE, and behind PgBouncer in transaction mode, where the pool needs
// default_query_exec_mode=cache_describe or exec, as every pgx pool does there.
package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ichido-dev/ichido"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Store keeps records in the table idempotency_keys of the pool's database. Make the table by [Store.Migrate].
type Store struct {
	pool     *pgxpool.Pool
	options  pgx.TxOptions
	claimSQL string // has no locks in tests that show that nothing depends on them
}

var (
	_ ichido.Store    = (*Store)(nil)
	_ ichido.Purger   = (*Store)(nil)
	_ ichido.Migrator = (*Store)(nil)
	_ ichido.Pinger   = (*Store)(nil)
)

// An Option changes how a Store works.
type Option func(*Store)

// WithIsolation makes attempts run at an isolation level other than the database's default. At REPEATABLE READ and
// SERIALIZABLE, transactions that the database aborts to keep order are run again.
func WithIsolation(level pgx.TxIsoLevel) Option {
	return func(s *Store) { s.options.IsoLevel = level }
}

// New returns a Store on a pool. An attempt holds one of the pool's connections from its claim to its end; a request
// that waits for another holds none.
func New(pool *pgxpool.Pool, options ...Option) *Store {
	s := &Store{pool: pool, claimSQL: claimSQL(lockSQL)}
	for _, o := range options {
		o(s)
	}
	return s
}

// keySpace separates our locks on (key, fingerprint) from other two-part advisory locks of the database: "ichi".
const keySpace = 0x69636869

// lockSQL takes the advisory lock on a key, if it is free, and with it, shared, the lock that tells others the holder's
// fingerprint. The table's oid keeps apart the locks of tables in different schemas.
const lockSQL = `CASE WHEN pg_try_advisory_xact_lock($1::int8 # 'idempotency_keys'::regclass::oid::int8)
	THEN pg_try_advisory_xact_lock_shared($2::int4, $3::int4) ELSE false END`

// claimSQL takes the lock and reads the record. Its snapshot may be older than the lock: who gets the lock a moment after
// a winner's commit may not see the winner's record. It then works in vain, and its own record meets the constraint. That
// is rare, and a second statement would cost every request.
func claimSQL(lockSQL string) string {
	return `SELECT l.locked, r.request_hash, r.response_status, r.response_headers, r.response_body, r.expires_at <= clock_timestamp()
		FROM (SELECT ` + lockSQL + ` AS locked) l
		LEFT JOIN idempotency_keys r ON r.idem_key = $4::text AND r.scope = $5::text`
}

// holderSQL looks for the attempt that holds the lock of a key, and says whether its fingerprint is the one given. It
// speaks only of what it sees: no row means that it cannot tell.
const holderSQL = `WITH held AS MATERIALIZED (
		SELECT pid, classid::int8 AS hi, objid::int8 AS lo, objsubid FROM pg_locks
		WHERE locktype = 'advisory' AND granted
		  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
	), wanted AS (SELECT $1::int8 # 'idempotency_keys'::regclass::oid::int8 AS lock)
	SELECT fp.lo = $3::int4::int8 & 4294967295
	FROM wanted
	JOIN held k ON k.objsubid = 1 AND k.hi = (lock >> 32) & 4294967295 AND k.lo = lock & 4294967295
	JOIN held fp ON fp.pid = k.pid AND fp.objsubid = 2 AND fp.hi = $2::int8`

// Begin implements [ichido.Store]. Waiting for a free connection counts towards ctx.
func (s *Store) Begin(ctx context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("pgstore: no connection: %w", err)
	}
	keyLock, fingerprintLock := locksOf(claim)

	var batch pgx.Batch
	batch.BeginTx(s.options)
	batch.Queue(s.claimSQL, keyLock, int32(keySpace), fingerprintLock, claim.Key, claim.Scope)
	results := conn.SendBatch(ctx, &batch)
	locked, row, err := readClaim(results)
	switch {
	case err != nil:
		rollback(ctx, conn)
		return nil, nil, classify("claiming the key", err)
	case row.found && !row.expired:
		rollback(ctx, conn)
		return nil, &row.record, nil
	case !locked:
		return nil, nil, s.explain(ctx, conn, keyLock, fingerprintLock)
	}
	return newAttempt(conn, results.Tx(), claim, row.found), nil, nil
}

// A claimRow is what a claim reads of its key.
type claimRow struct {
	found   bool
	expired bool
	record  ichido.Record
}

func readClaim(results pgx.BatchResults) (locked bool, row claimRow, err error) {
	defer func() {
		if e := results.Close(); err == nil {
			err = e
		}
	}()
	if _, err = results.Exec(); err != nil {
		return false, row, err
	}
	r := &row.record
	var status *int
	var expired *bool
	err = results.QueryRow().Scan(&locked, &r.Fingerprint, &status, &r.Response.Header, &r.Response.Body, &expired)
	if err == nil && status != nil {
		row.found, row.expired, r.Response.Status = true, *expired, *status
	}
	return locked, row, err
}

// explain ends a claim that did not get the key's lock, and says why: the same request is in progress, or another
// one is. Where it cannot tell it says in progress, which the sender finds out to be wrong later.
func (s *Store) explain(ctx context.Context, conn *pgxpool.Conn, keyLock int64, fingerprintLock int32) error {
	defer conn.Release()
	var batch pgx.Batch
	batch.Queue("ROLLBACK")
	batch.Queue(holderSQL, keyLock, int64(keySpace), fingerprintLock)
	results := conn.SendBatch(ctx, &batch)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return classify("ending a claim", err)
	}
	same := true
	if err := results.QueryRow().Scan(&same); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return classify("looking for the key's holder", err)
	}
	if !same {
		return ichido.ErrMismatch
	}
	return ichido.ErrInProgress
}

// locksOf returns the numbers of the advisory locks on a claim's key and on its key and fingerprint.
func locksOf(claim ichido.Claim) (key int64, fingerprint int32) {
	buf := make([]byte, 0, 256)
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(claim.Scope)))
	buf = append(buf, claim.Scope...)
	buf = append(buf, claim.Key...)
	k := sha256.Sum256(buf)
	f := sha256.Sum256(append(k[:], claim.Fingerprint...))
	return int64(binary.BigEndian.Uint64(k[:])), int32(binary.BigEndian.Uint32(f[:]))
}

// rollback ends a transaction and gives the connection back. If the server cannot be told, releasing closes the
// connection, which ends the transaction too.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	if c := conn.Conn(); !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		_, _ = c.Exec(ctx, "ROLLBACK")
	}
	conn.Release()
}

// Purge implements [ichido.Purger]. Purgers in several processes share the work: each skips the rows that another
// has locked.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, `DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM idempotency_keys WHERE expires_at <= now() LIMIT $1::int8 FOR UPDATE SKIP LOCKED))`, int64(limit))
	if err != nil {
		return 0, classify("purging", err)
	}
	return int(tag.RowsAffected()), nil
}

// Ping implements [ichido.Pinger].
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, "SELECT FROM idempotency_keys LIMIT 0"); err != nil {
		return classify("reaching the table", err)
	}
	return nil
}
