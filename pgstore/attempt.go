package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/ichido-dev/ichido"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// An attempt is one of transaction mode: an open transaction on a connection of its own.
type attempt struct {
	conn    *pgxpool.Conn
	claim   ichido.Claim
	expired bool   // a record past its retention is in the way
	tx      pgx.Tx // what the work gets
	fate    *fate

	completed func() // called after a commit
}

func newAttempt(conn *pgxpool.Conn, begun pgx.Tx, claim ichido.Claim, expired bool) *attempt {
	fate := new(fate)
	return &attempt{conn: conn, claim: claim, expired: expired, tx: &tx{Tx: begun, fate: fate}, fate: fate}
}

type txKey struct{}

// Tx returns the transaction of the attempt that ctx belongs to. What is written in it is committed together with the
// key and the answer. It ends with the handler: its Commit and Rollback only return an error. Begin makes a savepoint.
// It panics if ctx is not the context of an attempt on a Store of this package, or of one in lease mode.
func Tx(ctx context.Context) pgx.Tx {
	switch t := ctx.Value(txKey{}).(type) {
	case pgx.Tx:
		return t
	case *leaseAttempt:
		panic("pgstore: Tx: an attempt in lease mode has no transaction, because its claim is committed before the work and its answer after it; use the pool, TxStep, or transaction mode")
	default:
		panic("pgstore: Tx: the context is not that of an attempt; take it from the request that a handler under ichido's Wrap gets, or from Do")
	}
}

func (a *attempt) Context(parent context.Context) context.Context {
	return context.WithValue(parent, txKey{}, a.tx)
}

const (
	insertSQL = `INSERT INTO idempotency_keys
		(scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
		VALUES ($1::text, $2::text, $3::bytea, $4::int4, coalesce($5::bytea, ''), coalesce($6::bytea, ''),
			clock_timestamp(), clock_timestamp() + $7::int8 * interval '1 microsecond')`

	deleteExpiredSQL = `WITH deleted AS (
			DELETE FROM idempotency_keys k
			WHERE k.idem_key = $1::text AND k.scope = $2::text AND k.expires_at <= clock_timestamp()
				AND (k.lease_until > clock_timestamp()) IS NOT TRUE
			RETURNING k.steps
		)
		` + deleteStepsSQL
)

// Complete implements [ichido.Attempt]: one pipeline of the record and the commit. The plain INSERT fails where an
// active record exists, whatever became of the locks, and what fails takes the work with it.
func (a *attempt) Complete(ctx context.Context, response ichido.Response) error {
	defer rollback(ctx, a.conn) // does nothing after a commit
	a.fate.closed.Store(true)
	if err := a.fate.unfit(a.conn.Conn()); err != nil {
		return err
	}
	var batch pgx.Batch
	if a.expired {
		batch.Queue(deleteExpiredSQL, a.claim.Key, a.claim.Scope)
	}
	batch.Queue(insertSQL, a.claim.Scope, a.claim.Key, a.claim.Fingerprint,
		int32(response.Status), response.Header, response.Body, a.claim.Retention.Microseconds())
	batch.Queue("COMMIT")
	err := readCommit(a.conn.SendBatch(ctx, &batch), a.expired)
	if err == nil {
		a.completed()
	}
	return err
}

func readCommit(results pgx.BatchResults, deletes bool) error {
	defer results.Close()
	if deletes {
		if _, err := results.Exec(); err != nil {
			return uncommitted("deleting the expired record", err)
		}
	}
	if _, err := results.Exec(); err != nil {
		if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.Code == "23505" && pgErr.TableName == "idempotency_keys" {
			return ichido.ErrLost
		}
		return uncommitted("storing the record", err)
	}
	return readCommitted(results)
}

// readCommitted reads the answer to COMMIT.
func readCommitted(results pgx.BatchResults) error {
	tag, err := results.Exec()
	if err != nil {
		return uncommitted("committing", err)
	}
	if tag.String() != "COMMIT" {
		return fmt.Errorf("pgstore: the server answered %s to COMMIT", tag)
	}
	return nil
}

// uncommitted classifies an error of the pipeline that ends in COMMIT. If the server refused a statement, nothing was
// committed. If it said nothing, or that the session ends, as a server that stops and a pooler that lost its server do,
// the commit may have happened: all was sent at once.
func uncommitted(doing string, err error) error {
	if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.SeverityUnlocalized == "ERROR" || pgconn.SafeToRetry(err) {
		return classify(doing, err)
	}
	return fmt.Errorf("%w: %w", ichido.ErrCommitUnknown, err)
}

const completedSQL = `SELECT EXISTS (SELECT FROM idempotency_keys
	WHERE idem_key = $1::text AND scope = $2::text AND expires_at > clock_timestamp() AND response_status IS NOT NULL)`

// Abandon implements [ichido.Attempt]. Work that refused may have refused because of rows of a winner whose record its
// claim did not see: then the winner's answer is the right one.
func (a *attempt) Abandon(ctx context.Context, cause error) error {
	a.fate.closed.Store(true)
	defer a.conn.Release() // closes a connection whose transaction is open
	if c := a.conn.Conn(); !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		_, _ = c.Exec(ctx, "ROLLBACK")
	}
	switch {
	case a.fate.serialization != nil:
		return classify("the work", a.fate.serialization)
	case isSerialization(cause):
		return classify("the work", cause)
	case a.conn.Conn().IsClosed():
		return nil
	}
	var completed bool
	if err := a.conn.QueryRow(ctx, completedSQL, a.claim.Key, a.claim.Scope).Scan(&completed); err == nil && completed {
		return ichido.ErrLost
	}
	return nil
}

// isSerialization reports whether the database aborted a transaction to keep order between transactions.
func isSerialization(err error) bool {
	pgErr := new(pgconn.PgError)
	return errors.As(err, &pgErr) && (pgErr.Code == "40001" || pgErr.Code == "40P01")
}

func classify(doing string, err error) error {
	if isSerialization(err) {
		return fmt.Errorf("%w: %w", ichido.ErrSerialization, err)
	}
	return fmt.Errorf("pgstore: %s: %w", doing, err)
}
