// Package pgstore keeps idempotency records in PostgreSQL, through pgx, in the transaction of the work itself.
//
// The claim rides with BEGIN and the record with COMMIT, each in one pipeline: an idempotent request makes no more
// round trips than the plain transaction that it replaces. It works at READ COMMITTED, REPEATABLE READ and
// SERIALIZABLE, and behind PgBouncer in transaction mode, where the pool needs
// default_query_exec_mode=cache_describe or exec, as every pgx pool does there.
//
// In lease mode an attempt has no transaction and holds no connection. Its claim and its end are one statement each, and so
// is keeping a step. [TxStep] makes a step a transaction of its own.
package pgstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ichido-dev/ichido"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Store keeps records in the table idempotency_keys of the pool's database. Make the table by [Store.Migrate].
type Store struct {
	pool    *pgxpool.Pool
	options pgx.TxOptions
	sql     claimStatements // without locks in tests that show that nothing depends on them
	recent  *recent
}

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

// An Option changes how a Store works.
type Option func(*Store)

// WithIsolation makes attempts run at an isolation level other than the database's default. At REPEATABLE READ and
// SERIALIZABLE, transactions that the database aborts to keep order are run again. Say SERIALIZABLE here also where it is
// the database's default: then the record is read before the transaction, at the price of one round trip, and requests
// with different keys do not meet in the table of keys.
func WithIsolation(level pgx.TxIsoLevel) Option {
	return func(s *Store) { s.options.IsoLevel = level }
}

// New returns a Store on a pool. An attempt of transaction mode holds one of the pool's connections from its claim to its
// end; one of lease mode, and a request that waits for another, hold none.
func New(pool *pgxpool.Pool, options ...Option) *Store {
	s := &Store{pool: pool, sql: claimsBy(lockSQL), recent: new(recent)}
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

// recordSQL reads the record of a key, as columns of a row of NULL if it has none. Its parameters follow those of lockSQL.
const recordSQL = `r.request_hash, r.response_status, r.response_headers, r.response_body,
		r.expires_at <= clock_timestamp() AND (r.lease_until > clock_timestamp()) IS NOT TRUE, r.lease_until > clock_timestamp()
	FROM (SELECT %s AS locked) l LEFT JOIN idempotency_keys r ON r.idem_key = %s AND r.scope = %s`

// The statements of a claim. claim does both of the others. Its snapshot may be older than the lock: who gets the lock a
// moment after a winner's commit may not see the winner's record. It then works in vain: its own record meets the
// constraint, or its refusal meets the winner's record. That is rare, and another statement would cost every request.
type claimStatements struct{ claim, lock, read string }

func claimsBy(lockSQL string) claimStatements {
	return claimStatements{
		claim: "SELECT l.locked, " + fmt.Sprintf(recordSQL, lockSQL, "$4::text", "$5::text"),
		lock:  "SELECT " + lockSQL,
		read:  "SELECT l.locked, " + fmt.Sprintf(recordSQL, "true", "$1::text", "$2::text"),
	}
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
	if claim.Lease != nil {
		return s.lease(ctx, claim)
	}
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	keyLock, fingerprintLock := locksOf(claim)
	var row claimRow
	var begun pgx.Tx
	serializable := s.options.IsoLevel == pgx.Serializable
	if serializable || s.recent.has(keyLock) {
		row, err = readRow(conn.QueryRow(ctx, s.sql.read, claim.Key, claim.Scope))
	}
	switch {
	case err != nil || row.obstructs():
	case serializable:
		// To find no record within the transaction would be a read that the insert of any other key can conflict with.
		begun, err = s.begin(ctx, conn, func(b pgx.BatchResults) error { return b.QueryRow().Scan(&row.claimed) },
			s.sql.lock, keyLock, int32(keySpace), fingerprintLock)
	default:
		begun, err = s.begin(ctx, conn, func(b pgx.BatchResults) (err error) { row, err = readRow(b.QueryRow()); return err },
			s.sql.claim, keyLock, int32(keySpace), fingerprintLock, claim.Key, claim.Scope)
	}
	switch {
	case err != nil:
		rollback(ctx, conn)
		return nil, nil, classify("claiming the key", err)
	case row.obstructs():
		rollback(ctx, conn) // does nothing where nothing was begun
		if row.record.State == ichido.Completed {
			s.recent.add(keyLock)
		}
		record, err := row.answer(claim)
		return nil, record, err
	case !row.claimed:
		return nil, nil, s.explain(ctx, conn, keyLock, fingerprintLock)
	}
	a := newAttempt(conn, begun, claim, row.found)
	a.completed = func() { s.recent.add(keyLock) }
	return a, nil, nil
}

// acquire takes a connection. Without one nothing was sent.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: pgstore: no connection: %w", ichido.ErrUnavailable, err)
	}
	return conn, nil
}

// begin begins the transaction and runs its first statement, in one pipeline.
func (s *Store) begin(ctx context.Context, conn *pgxpool.Conn, read func(pgx.BatchResults) error, sql string, args ...any) (pgx.Tx, error) {
	var batch pgx.Batch
	batch.BeginTx(s.options)
	batch.Queue(sql, args...)
	results := conn.SendBatch(ctx, &batch)
	_, err := results.Exec()
	if err == nil {
		err = read(results)
	}
	if e := results.Close(); err == nil {
		err = e
	}
	return results.Tx(), err
}

// recent remembers keys that are completed, by their locks, in as many places as there are; a later one takes an earlier
// one's. A key in it is read before it is claimed: most retries then cost one round trip, without a transaction. That it
// is forgotten, expired, or another key with the same lock costs that round trip, and nothing else.
type recent [1 << 12]atomic.Int64

func (r *recent) place(keyLock int64) *atomic.Int64 { return &r[uint64(keyLock)%uint64(len(r))] }

func (r *recent) add(keyLock int64) { r.place(keyLock).Store(keyLock) }

func (r *recent) has(keyLock int64) bool { return r.place(keyLock).Load() == keyLock && keyLock != 0 }

// A claimRow is what a claim learns of its key.
type claimRow struct {
	claimed   bool // the claim has it
	found     bool // there is a record,
	claimable bool // which does not count, because it is past its retention, or is the claim's to take over
	record    ichido.Record
}

// obstructs reports whether there is a record that the claim may not replace.
func (row *claimRow) obstructs() bool { return row.found && !row.claimable }

// answer is what a claim gets to hear of a record that obstructs it.
func (row *claimRow) answer(claim ichido.Claim) (*ichido.Record, error) {
	switch {
	case row.record.State != ichido.InProgress:
		return &row.record, nil
	case !bytes.Equal(row.record.Fingerprint, claim.Fingerprint):
		return nil, ichido.ErrMismatch
	}
	return nil, ichido.ErrInProgress
}

func readRow(from pgx.Row) (row claimRow, err error) {
	r := &row.record
	var status *int
	var claimable, leased *bool
	err = from.Scan(&row.claimed, &r.Fingerprint, &status, &r.Response.Header, &r.Response.Body, &claimable, &leased)
	if err != nil || claimable == nil {
		return row, err
	}
	row.found, row.claimable = true, *claimable
	switch {
	case status != nil:
		r.Response.Status = *status
	case leased != nil && *leased:
		r.State = ichido.InProgress
	default:
		r.State = ichido.Unknown
	}
	return row, nil
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

// purgeSQL copies the names of those records only that have steps to delete.
const purgeSQL = `WITH records AS (
		DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY(
			SELECT k.ctid FROM idempotency_keys k WHERE ` + absentSQL + ` LIMIT $1::int8 FOR UPDATE SKIP LOCKED))
		RETURNING CASE WHEN steps IS NOT NULL THEN ARRAY[idem_key, scope] END AS stepped
	), steps AS (
		DELETE FROM idempotency_steps s USING records r
		WHERE r.stepped IS NOT NULL AND s.idem_key = r.stepped[1] AND s.scope = r.stepped[2]
	), settlements AS (
		DELETE FROM idempotency_settlements WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM idempotency_settlements WHERE expires_at <= now()
			LIMIT $1::int8 - (SELECT count(*) FROM records) FOR UPDATE SKIP LOCKED))
		RETURNING true
	)
	SELECT (SELECT count(*) FROM records) + (SELECT count(*) FROM settlements)`

// Purge implements [ichido.Purger]. Purgers in several processes share the work: each skips the rows that another
// has locked. Settlements go last.
func (s *Store) Purge(ctx context.Context, limit int) (deleted int, err error) {
	err = inOrder(ctx, func() error { return s.pool.QueryRow(ctx, purgeSQL, int64(limit)).Scan(&deleted) })
	if err != nil {
		return 0, classify("purging", err)
	}
	return deleted, nil
}

// Ping implements [ichido.Pinger].
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, "SELECT request FROM idempotency_keys LIMIT 0"); err != nil {
		return classify("reaching the table", err)
	}
	return nil
}
