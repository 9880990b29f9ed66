package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ichido-dev/ichido"
)

// BeginSteps implements [ichido.Stepper].
func (s *Store) BeginSteps(ctx context.Context, lease ichido.Held) ([]ichido.KeptStep, error) {
	var steps keptSteps
	err := s.db.QueryRowContext(ctx, s.dialect.beginSteps, lease.Key, lease.Scope, lease.Token).Scan(&steps)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, ichido.ErrLost
	case err != nil:
		return nil, s.dialect.unavailable("reading the steps", err)
	}
	return steps, nil
}

// KeepStep implements [ichido.Stepper]. A second statement looks whether a step that is not the next was kept before.
func (s *Store) KeepStep(ctx context.Context, lease ichido.Held, number int, step ichido.KeptStep) error {
	n, err := affected(s.db.ExecContext(ctx, s.dialect.keepStep, keepArgs(lease, number, step)...))
	if err != nil {
		return s.dialect.unavailable("keeping a step", err)
	}
	if n > 0 {
		return nil
	}
	kept, err := s.kept(ctx, lease, number, step.Name)
	if err == nil && !kept {
		return ichido.ErrLost
	}
	return err
}

func keepArgs(lease ichido.Held, number int, step ichido.KeptStep) []any {
	return []any{number, step.Name, step.Result, lease.Key, lease.Scope, lease.Token, number}
}

// kept reports whether a step of an attempt is kept.
func (s *Store) kept(ctx context.Context, lease ichido.Held, number int, name string) (kept bool, err error) {
	err = s.db.QueryRowContext(ctx, s.dialect.keptStep, lease.Key, lease.Scope, lease.Token, number, name).Scan(&kept)
	if err != nil {
		return false, s.dialect.unavailable("looking for a step", err)
	}
	return kept, nil
}

// keptSteps reads steps from a JSON array of [number, name, result in hexadecimal], which is in any order.
type keptSteps []ichido.KeptStep

func (k *keptSteps) Scan(value any) error {
	var text sql.Null[[]byte]
	if err := text.Scan(value); err != nil {
		return err
	}
	var rows []numberedStep
	if err := json.Unmarshal(text.V, &rows); err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b numberedStep) int { return a.number - b.number })
	for _, row := range rows {
		*k = append(*k, row.KeptStep)
	}
	return nil
}

type numberedStep struct {
	number int
	ichido.KeptStep
}

func (n *numberedStep) UnmarshalJSON(text []byte) error {
	var result string
	if err := json.Unmarshal(text, &[]any{&n.number, &n.Name, &result}); err != nil {
		return err
	}
	var err error
	n.Result, err = hex.DecodeString(result)
	return err
}

// TxStep is [ichido.Step] for work in the store's own database: do gets a transaction, and what it writes there is
// committed together with the step's result. So the step takes effect once, whatever dies in between, and needs no key.
//
//	id, err := sqlstore.TxStep(ctx, "book", func(ctx context.Context, tx *sql.Tx) (id int64, err error) {
//		err = tx.QueryRowContext(ctx, "INSERT INTO bookings (room) VALUES (?) RETURNING id", room).Scan(&id)
//		return id, err
//	})
//
// The transaction is on the store's pool, and holds a connection while do runs. Do not call its Commit or Rollback: what
// was committed so is not protected, and the step fails. From do's first write on nobody else writes, the renewals of
// leases included: the rest of do must take far less than Config.Lease.
//
// An error of do rolls back, and is returned. An error made by [ichido.Final] commits what do wrote, together with the
// error; if that must not stay, write it in a SAVEPOINT and roll that back.
//
// do is run again, a few times, if it returns the driver's error that another transaction was in the way (SQLITE_BUSY,
// SQLITE_BUSY_SNAPSHOT), wrapped or not. So it must do nothing outside of the transaction that cannot be repeated.
//
// The errors are those of [ichido.Step]. On ErrLost what do wrote is rolled back. ErrSerialization says that others were in
// the way each time. ErrCommitUnknown says that the disk failed while committing, and that the step was not found to be
// kept. ErrNoSteps says that ctx is not that of an attempt in lease mode on a Store of this package. In transaction mode
// the whole work is one transaction already: use [Tx].
func TxStep[T any](ctx context.Context, name string, do func(ctx context.Context, tx *sql.Tx) (T, error)) (value T, err error) {
	a, err := steppingAttempt(ctx)
	if err != nil {
		return value, fmt.Errorf("sqlstore: step %s: %w", name, err)
	}
	return ichido.RunStep(ctx, name, func(ctx context.Context, step *ichido.StepRun) (value T, err error) {
		if step.Held.Token != a.token {
			return value, fmt.Errorf("sqlstore: step %s: %w: the context is that of an attempt on another store, within one on this", name, ichido.ErrNoSteps)
		}
		var refusal error // of do, made by ichido.Final
		err = a.store.keepInTx(ctx, step, func(tx *sql.Tx) (ichido.KeptStep, error) {
			var err error
			if value, err = do(ctx, tx); err != nil && !ichido.IsFinal(err) {
				return ichido.KeptStep{}, err
			}
			refusal = err
			return step.Seal(value, err)
		})
		if err != nil {
			return value, err
		}
		return value, refusal
	})
}

// steppingAttempt returns the attempt of lease mode that ctx belongs to.
func steppingAttempt(ctx context.Context) (*leaseAttempt, error) {
	switch a := ctx.Value(attemptKey{}).(type) {
	case *leaseAttempt:
		return a, nil
	case *attempt:
		return nil, fmt.Errorf("%w: in transaction mode the whole work is one transaction already; use Tx", ichido.ErrNoSteps)
	}
	return nil, fmt.Errorf("%w: the context is not that of an attempt on a Store of this package; take it from the request that a handler under ichido's Wrap gets, or from Do", ichido.ErrNoSteps)
}

// keepInTx runs a step in a transaction, again where another transaction was in the way.
func (s *Store) keepInTx(ctx context.Context, step *ichido.StepRun, run func(*sql.Tx) (ichido.KeptStep, error)) error {
	for pause := firstPause; ; pause *= 2 {
		err := s.keepInTxOnce(ctx, step, run, pause > firstPause)
		switch {
		case errors.Is(err, errNotKept):
			return s.whyNotKept(ctx, step)
		case !s.dialect.isBusy(err):
			return err
		case pause > longPause:
			return s.dialect.aborted("step "+step.Name, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return s.dialect.aborted("step "+step.Name, err)
		}
	}
}

// errNotKept says that the record does not allow to keep the step.
var errNotKept = errors.New("sqlstore: the step could not be kept")

func (s *Store) keepInTxOnce(ctx context.Context, step *ichido.StepRun, run func(*sql.Tx) (ichido.KeptStep, error), again bool) error {
	t := transaction{store: s}
	if err := t.begin(ctx, again); err != nil {
		return fmt.Errorf("sqlstore: beginning the step's transaction: %w", err)
	}
	defer t.rollback() // does nothing after a commit
	kept, err := run(t.tx)
	if err != nil {
		return err
	}
	// A statement may have ended the transaction: one of the work's own, or one that failed, and SQLite rolled back.
	// What follows would be committed by itself.
	if _, err := t.tx.ExecContext(ctx, s.dialect.probe); err == nil || errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("sqlstore: step %s: its transaction had ended when the work returned, by a Commit, a Rollback, or a statement that failed; return the errors of statements, and end nothing", step.Name)
	}
	n, err := affected(t.tx.ExecContext(ctx, s.dialect.keepStep, keepArgs(step.Held, step.Number, kept)...))
	switch {
	case err != nil:
		return fmt.Errorf("sqlstore: keeping the step: %w", err)
	case n == 0:
		return errNotKept
	}
	return t.commit()
}

// whyNotKept says why a step could not be kept whose transaction is rolled back. It may be kept by an earlier run, whose
// commit was unknown: RunStep looks for it then.
func (s *Store) whyNotKept(ctx context.Context, step *ichido.StepRun) error {
	switch kept, err := s.kept(ctx, step.Held, step.Number, step.Name); {
	case err != nil:
		return err
	case kept:
		return fmt.Errorf("%w: an earlier run of the step was committed in the end", ichido.ErrCommitUnknown)
	}
	return ichido.ErrLost
}
