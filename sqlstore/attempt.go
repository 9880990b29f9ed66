package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/ichido-dev/ichido"
)

// An attempt is an open transaction.
type attempt struct {
	transaction
	*statements
	claim   ichido.Claim
	expired bool // a record past its retention is in the way
	stepped bool // and has steps

	use   sync.Once // when the work asks for the transaction
	used  bool
	wrote int64 // what the connection had written until then
}

type attemptKey struct{}

// Tx returns the transaction of the attempt that ctx belongs to. What is written in it is committed together with the
// key and the answer, when the handler returns. Do not call its Commit or Rollback: what was committed so is not
// protected, and the request fails. It panics if ctx is not the context of an attempt in transaction mode on a Store of
// this package.
func Tx(ctx context.Context) *sql.Tx {
	value := ctx.Value(attemptKey{})
	if _, ok := value.(*leaseAttempt); ok {
		panic("sqlstore: Tx: lease mode has no transaction, because its work may call the outside world in between; use TxStep, or the *sql.DB")
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
	return a.commit()
}

// put stores the record.
func (a *attempt) put(ctx context.Context, response ichido.Response) error {
	d := a.store.dialect
	if a.expired {
		if _, err := a.tx.ExecContext(ctx, d.deleteExpired, a.claim.Key, a.claim.Scope); err != nil {
			return err
		}
	}
	if a.stepped {
		if _, err := a.tx.ExecContext(ctx, d.deleteSteps, a.claim.Key, a.claim.Scope); err != nil {
			return err
		}
	}
	// A statement that failed may have ended the transaction (a full disk, INSERT OR ROLLBACK): the record would be committed
	// by itself, and replay an effect that is not there.
	if _, err := a.tx.ExecContext(ctx, d.probe); err == nil {
		return errors.New("sqlstore: the transaction had ended when the work returned, by a statement of its own or one that failed; what the work wrote is not there")
	} else if errors.Is(err, sql.ErrTxDone) {
		return err
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
