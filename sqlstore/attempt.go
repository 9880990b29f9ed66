package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/ichido-dev/ichido"
)

// An attempt is an open transaction on a connection of its own.
type attempt struct {
	store   *Store
	conn    *sql.Conn
	tx      *sql.Tx
	claim   ichido.Claim
	expired bool // a record past its retention is in the way
}

type txKey struct{}

// Tx returns the transaction of the attempt that ctx belongs to. What is written in it is committed together with the
// key and the answer, when the handler returns. Do not call its Commit or Rollback: what was committed so is not
// protected, and the request fails. It panics if ctx is not the context of an attempt on a Store of this package.
func Tx(ctx context.Context) *sql.Tx {
	tx, ok := ctx.Value(txKey{}).(*sql.Tx)
	if !ok {
		panic("sqlstore: Tx: the context is not that of an attempt; take it from the request that a handler under ichido's Wrap gets, or from Do")
	}
	return tx
}

func (a *attempt) Context(parent context.Context) context.Context {
	return context.WithValue(parent, txKey{}, a.tx)
}

// Complete implements [ichido.Attempt]. The plain INSERT fails where an active record exists, and what fails takes the
// work with it.
func (a *attempt) Complete(ctx context.Context, response ichido.Response) error {
	d := a.store.dialect
	if err := a.insert(ctx, response); err != nil {
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

func (a *attempt) insert(ctx context.Context, response ichido.Response) error {
	d := a.store.dialect
	if a.expired {
		if _, err := a.tx.ExecContext(ctx, d.deleteExpired, a.claim.Key, a.claim.Scope); err != nil {
			return err
		}
	}
	_, err := a.tx.ExecContext(ctx, d.insert, a.claim.Scope, a.claim.Key, a.claim.Fingerprint,
		response.Status, response.Header, response.Body, d.interval(a.claim.Retention))
	return err
}

// Abandon implements [ichido.Attempt].
func (a *attempt) Abandon(ctx context.Context, cause error) error {
	d := a.store.dialect
	aborted := d.isBusy(cause) || errors.Is(cause, ichido.ErrServerError) && d.cannotWrite(ctx, a.tx)
	a.rollback()
	if aborted {
		return fmt.Errorf("%w: %w", ichido.ErrSerialization, cause)
	}
	return nil
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
