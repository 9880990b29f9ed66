package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/ichido-dev/ichido"
)

// An attempt is an open transaction on a connection of its own.
type attempt struct {
	store *Store
	*statements
	conn    *sql.Conn
	tx      *sql.Tx
	claim   ichido.Claim
	expired bool // a record past its retention is in the way

	use   sync.Once // when the work asks for the transaction
	used  bool
	wrote int64 // what the connection had written until then
}

// begin begins the transaction. Its context would end it, so it gets none of the claim's. A request that runs again
// waits for its turn to write before it reads anything, and so meets no conflict a second time.
func (a *attempt) begin(ctx context.Context) (err error) {
	if a.conn, err = a.store.db.Conn(ctx); err != nil {
		return err
	}
	if a.tx, err = a.conn.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
		_ = a.conn.Close() // back to the pool
		return err
	}
	if a.claim.Reruns > 0 {
		if _, err = a.tx.ExecContext(ctx, a.store.dialect.lockToWrite); err != nil {
			a.rollback()
		}
	}
	return err
}

type attemptKey struct{}

// Tx returns the transaction of the attempt that ctx belongs to. What is written in it is committed together with the
// key and the answer, when the handler returns. Do not call its Commit or Rollback: what was committed so is not
// protected, and the request fails. It panics if ctx is not the context of an attempt in transaction mode on a Store of
// this package.
func Tx(ctx context.Context) *sql.Tx {
	value := ctx.Value(attemptKey{})
	if _, ok := value.(*leaseAttempt); ok {
		panic("sqlstore: Tx: lease mode has no transaction, because its work may call the outside world in between; use the *sql.DB")
	}
	a, ok := value.(*attempt)
	if !ok {
		panic("sqlstore: Tx: the context is not that of an attempt; take it from the request that a handler under ichido's Wrap gets, or from Do")
	}
	a.use.Do(func() {
		err := a.tx.StmtContext(ctx, a.written).QueryRowContext(ctx).Scan(&a.wrote)
		a.used = err == nil
	})
	return a.tx
}

func (a *attempt) Context(parent context.Context) context.Context {
	return context.WithValue(parent, attemptKey{}, a)
}

// Complete implements [ichido.Attempt]. The plain INSERT fails where an active record exists, and what fails takes the
// work with it.
func (a *attempt) Complete(ctx context.Context, response ichido.Response) error {
	d := a.store.dialect
	if err := a.put(ctx, response); err != nil {
		a.rollback()
		switch {
		case d.isUnique(err):
			return ichido.ErrLost
		case errors.Is(err, sql.ErrTxDone):
			return errors.New("sqlstore: the work ended the transaction itself; what it wrote is not protected; remove its Commit or Rollback")
		}
		return d.aborted("storing the record", err)
	}
	if err := a.tx.Commit(); err != nil {
		a.discard()
		if d.isCommitUnknown(err) {
			return fmt.Errorf("%w: %w", ichido.ErrCommitUnknown, err)
		}
		return d.aborted("committing", err)
	}
	_ = a.conn.Close() // back to the pool; the answer is committed whatever this says
	return nil
}

// put stores the record.
func (a *attempt) put(ctx context.Context, response ichido.Response) error {
	d := a.store.dialect
	if a.expired {
		if _, err := a.tx.ExecContext(ctx, d.deleteExpired, a.claim.Key, a.claim.Scope); err != nil {
			return err
		}
	}
	_, err := a.tx.StmtContext(ctx, a.insert).ExecContext(ctx, a.claim.Scope, a.claim.Key, a.claim.Fingerprint,
		response.Status, response.Header, response.Body, d.interval(a.claim.Retention))
	return err
}

// Abandon implements [ichido.Attempt].
func (a *attempt) Abandon(ctx context.Context, cause error) error {
	conflict := a.store.dialect.isBusy(cause) || errors.Is(cause, ichido.ErrServerError) && a.mayHaveConflicted(ctx)
	a.rollback()
	if conflict {
		return fmt.Errorf("%w: %w", ichido.ErrSerialization, cause)
	}
	// Work that refused may have refused because of rows of a winner in another process: then its answer is the right one.
	if r, err := read(ctx, a.read, a.claim.Scope, a.claim.Key); err == nil && r.completed() {
		return ichido.ErrLost
	}
	return nil
}

// mayHaveConflicted reports whether a handler that answered 5xx, without saying why, may have been refused its first
// write because of another transaction: it used the transaction and wrote nothing. Then it is run again, once, in a
// way that meets no conflict. A handler that failed for another reason fails again, and did no harm.
func (a *attempt) mayHaveConflicted(ctx context.Context) bool {
	if a.claim.Reruns > 0 || !a.used {
		return false
	}
	wrote := a.wrote
	err := a.tx.StmtContext(ctx, a.written).QueryRowContext(ctx).Scan(&wrote)
	return err == nil && wrote == a.wrote
}

// rollback ends the transaction and gives the connection back, or closes it if the database could not be told.
func (a *attempt) rollback() {
	if err := a.tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		a.discard()
		return
	}
	_ = a.conn.Close()
}

// discard closes the connection, and with it a transaction of unknown state, instead of giving it to the next user.
func (a *attempt) discard() {
	_ = a.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = a.conn.Close()
}
