package pgstore

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errNotYours is what a handler gets that tries to end the transaction.
var errNotYours = errors.New("pgstore: the transaction is committed or rolled back when the handler returns, by its answer; remove this call")

// A tx is the pgx.Tx that the work gets, or a savepoint in it. The work cannot end the transaction, nor use it after
// its end, when the connection is somebody else's; and it is remembered when the database aborted it to keep order,
// whatever the work makes of that error.
type tx struct {
	pgx.Tx
	fate      *fate
	savepoint bool
}

// A fate is what became of a transaction.
type fate struct {
	closed        atomic.Bool
	serialization error // the first that was seen
}

func (f *fate) note(err error) error {
	if err != nil && f.serialization == nil && isSerialization(err) {
		f.serialization = err
	}
	return err
}

// unfit says why the transaction cannot be committed, if it cannot.
func (f *fate) unfit(conn *pgx.Conn) error {
	switch {
	case f.serialization != nil:
		return classify("the work", f.serialization)
	case conn.IsClosed():
		return errors.New("pgstore: the connection was lost while the work ran")
	case conn.PgConn().IsBusy():
		return errors.New("pgstore: the work left a query open; close its rows before returning")
	}
	switch conn.PgConn().TxStatus() {
	case 'I':
		return errors.New("pgstore: the work ended the transaction by a statement of its own; what it wrote before is not protected")
	case 'E':
		return errors.New("pgstore: a statement of the work failed, which aborted the transaction, but the work answered with success; put what may fail into a savepoint (Tx.Begin)")
	}
	return nil
}

func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if t.fate.closed.Load() {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	tag, err := t.Tx.Exec(ctx, sql, args...)
	return tag, t.fate.note(err)
}

func (t *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if t.fate.closed.Load() {
		return nil, pgx.ErrTxClosed
	}
	r, err := t.Tx.Query(ctx, sql, args...)
	if err != nil {
		return r, t.fate.note(err)
	}
	return &rows{r, t.fate}, nil
}

func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if t.fate.closed.Load() {
		return failedRow{pgx.ErrTxClosed}
	}
	return row{t.Tx.QueryRow(ctx, sql, args...), t.fate}
}

func (t *tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if t.fate.closed.Load() {
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed)
	}
	return &batchResults{t.Tx.SendBatch(ctx, b), t.fate}
}

func (t *tx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error) {
	if t.fate.closed.Load() {
		return 0, pgx.ErrTxClosed
	}
	n, err := t.Tx.CopyFrom(ctx, table, columns, source)
	return n, t.fate.note(err)
}

func (t *tx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if t.fate.closed.Load() {
		return nil, pgx.ErrTxClosed
	}
	d, err := t.Tx.Prepare(ctx, name, sql)
	return d, t.fate.note(err)
}

// Begin sets a savepoint.
func (t *tx) Begin(ctx context.Context) (pgx.Tx, error) {
	if t.fate.closed.Load() {
		return nil, pgx.ErrTxClosed
	}
	inner, err := t.Tx.Begin(ctx)
	if err != nil {
		return nil, t.fate.note(err)
	}
	return &tx{Tx: inner, fate: t.fate, savepoint: true}, nil
}

// Conn returns the connection, nil after the end. What is sent on it past the transaction is not watched: an abort to keep
// order is not recognised.
func (t *tx) Conn() *pgx.Conn {
	if t.fate.closed.Load() {
		return nil
	}
	return t.Tx.Conn()
}

func (t *tx) Commit(ctx context.Context) error { return t.end(ctx, t.Tx.Commit) }

func (t *tx) Rollback(ctx context.Context) error { return t.end(ctx, t.Tx.Rollback) }

func (t *tx) end(ctx context.Context, how func(context.Context) error) error {
	switch {
	case t.fate.closed.Load():
		return pgx.ErrTxClosed
	case !t.savepoint:
		return errNotYours
	}
	return t.fate.note(how(ctx))
}

// rows, row and batchResults pass on what the database answers and note its errors on the way.

type rows struct {
	pgx.Rows
	fate *fate
}

func (r *rows) Err() error { return r.fate.note(r.Rows.Err()) }

func (r *rows) Next() bool {
	more := r.Rows.Next()
	if !more {
		_ = r.fate.note(r.Rows.Err())
	}
	return more
}

type row struct {
	pgx.Row
	fate *fate
}

func (r row) Scan(dest ...any) error { return r.fate.note(r.Row.Scan(dest...)) }

type batchResults struct {
	pgx.BatchResults
	fate *fate
}

func (b *batchResults) Exec() (pgconn.CommandTag, error) {
	tag, err := b.BatchResults.Exec()
	return tag, b.fate.note(err)
}

func (b *batchResults) Query() (pgx.Rows, error) {
	r, err := b.BatchResults.Query()
	if err != nil {
		return r, b.fate.note(err)
	}
	return &rows{r, b.fate}, nil
}

func (b *batchResults) QueryRow() pgx.Row { return row{b.BatchResults.QueryRow(), b.fate} }

func (b *batchResults) Close() error { return b.fate.note(b.BatchResults.Close()) }

// failedRow answers for a transaction that has ended.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
