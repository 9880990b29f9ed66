package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/ichido-dev/ichido"
)

// A transaction is one on a connection of its own.
type transaction struct {
	store *Store
	conn  *sql.Conn
	tx    *sql.Tx
}

// begin begins the transaction. Its context would end it, so it gets none of the caller's. Work that runs again waits for
// its turn to write before it reads anything, and so meets no conflict a second time.
func (t *transaction) begin(ctx context.Context, again bool) (err error) {
	if t.conn, err = t.store.db.Conn(ctx); err != nil {
		return err
	}
	if t.tx, err = t.conn.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
		_ = t.conn.Close() // back to the pool
		return err
	}
	if again {
		if _, err = t.tx.ExecContext(ctx, t.store.dialect.lockToWrite); err != nil {
			t.rollback()
		}
	}
	return err
}

func (t *transaction) commit() error {
	if err := t.tx.Commit(); err != nil {
		t.discard()
		if t.store.dialect.isCommitUnknown(err) {
			return fmt.Errorf("%w: %w", ichido.ErrCommitUnknown, err)
		}
		return t.store.dialect.aborted("committing", err)
	}
	_ = t.conn.Close() // back to the pool; it is committed whatever this says
	return nil
}

// rollback ends the transaction and gives the connection back, or closes it if the database could not be told.
func (t *transaction) rollback() {
	if err := t.tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		t.discard()
		return
	}
	_ = t.conn.Close()
}

// discard closes the connection, and with it a transaction of unknown state, instead of giving it to the next user.
func (t *transaction) discard() {
	_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = t.conn.Close()
}
