package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// beginStepsSQL returns a row for each kept step, or one without a name. Where it waited for the row of the key, it counts
// steps that its snapshot does not show, or shows as an earlier life of the key left them: then the snapshot has another
// count, or another token.
const beginStepsSQL = `WITH seen AS MATERIALIZED (
		SELECT coalesce(k.steps, 0) AS steps FROM idempotency_keys k
		WHERE k.idem_key = $1::text AND k.scope = $2::text AND k.lease_token = $3::int8
	), begun AS (
		UPDATE idempotency_keys k SET steps = coalesce(k.steps, 0) WHERE ` + ownSQL + ` RETURNING k.steps
	)
	SELECT b.steps, EXISTS (SELECT FROM seen WHERE seen.steps = b.steps), s.name, s.result
	FROM begun b LEFT JOIN idempotency_steps s ON s.idem_key = $1::text AND s.scope = $2::text AND s.number <= b.steps
	ORDER BY s.number`

// BeginSteps implements [ichido.Stepper]. It is one statement, which is repeated where the record changed while it looked.
func (s *Store) BeginSteps(ctx context.Context, lease ichido.Held) ([]ichido.KeptStep, error) {
	for tries := 1; ; tries++ {
		var steps []ichido.KeptStep
		var count int
		held, current := false, false
		err := inOrder(ctx, func() error {
			rows, err := s.pool.Query(ctx, beginStepsSQL, lease.Key, lease.Scope, lease.Token)
			if err != nil {
				return err
			}
			steps, held = nil, false
			var name *string
			var result []byte
			_, err = pgx.ForEachRow(rows, []any{&count, &current, &name, &result}, func() error {
				held = true
				if name != nil {
					steps = append(steps, ichido.KeptStep{Name: *name, Result: result})
				}
				return nil
			})
			return err
		})
		switch {
		case err != nil:
			return nil, fmt.Errorf("pgstore: reading the steps: %w", err)
		case !held:
			return nil, ichido.ErrLost
		case current && len(steps) == count:
			return steps, nil
		case current || tries == 5:
			return nil, fmt.Errorf("pgstore: reading the steps: %d are counted, and %d are there", count, len(steps))
		}
	}
}

// countSQL counts the step of a number as kept, if it is the next.
const countSQL = `UPDATE idempotency_keys k SET steps = $4::int4 WHERE ` + ownSQL + ` AND coalesce(k.steps, 0) = $4::int4 - 1 RETURNING k.steps`

const (
	insertStepSQL  = `INSERT INTO idempotency_steps (scope, idem_key, number, name, result, kept_at)`
	replaceStepSQL = `ON CONFLICT (idem_key, scope, number) DO UPDATE SET name = excluded.name, result = excluded.result, kept_at = excluded.kept_at`
)

// keepStepSQL also tells what it saw, for the case that it could not keep the step.
const keepStepSQL = `WITH seen AS (
		SELECT coalesce(k.steps, 0) AS steps, coalesce(k.steps, 0) >= $4::int4 AND EXISTS (SELECT FROM idempotency_steps s
			WHERE s.idem_key = $1::text AND s.scope = $2::text AND s.number = $4::int4 AND s.name = $5::text) AS before
		FROM idempotency_keys k WHERE ` + ownSQL + `
	), counted AS (` + countSQL + `), kept AS (
		` + insertStepSQL + ` SELECT $2::text, $1::text, c.steps, $5::text, coalesce($6::bytea, ''), clock_timestamp() FROM counted c
		` + replaceStepSQL + ` RETURNING true
	)
	SELECT EXISTS (SELECT FROM kept), s.steps, s.before FROM (SELECT) one LEFT JOIN seen s ON true`

// KeepStep implements [ichido.Stepper]. It is one statement, which is repeated where the record changed while it looked.
func (s *Store) KeepStep(ctx context.Context, lease ichido.Held, number int, step ichido.KeptStep) error {
	for {
		var kept bool
		var steps *int // nil without a lease
		var before *bool
		err := inOrder(ctx, func() error {
			return s.pool.QueryRow(ctx, keepStepSQL, lease.Key, lease.Scope, lease.Token, int32(number), step.Name, step.Result).
				Scan(&kept, &steps, &before)
		})
		switch {
		case err != nil:
			return fmt.Errorf("pgstore: keeping a step: %w", err)
		case kept || before != nil && *before:
			return nil
		case steps == nil || *steps != number-1:
			return ichido.ErrLost
		}
	}
}

// TxStep is [ichido.Step] for work in the store's own database: do gets a transaction, and what it writes there is
// committed together with the step's result. So the step takes effect once, whatever dies in between, and needs no key.
//
//	id, err := pgstore.TxStep(ctx, "book", func(ctx context.Context, tx pgx.Tx) (id int64, err error) {
//		err = tx.QueryRow(ctx, "INSERT INTO bookings (room) VALUES ($1) RETURNING id", room).Scan(&id)
//		return id, err
//	})
//
// The transaction is on the store's pool, at the isolation level of [WithIsolation], and holds a connection while do runs.
// It ends with do: its Commit and Rollback only return an error, and Begin makes a savepoint.
//
// An error of do rolls back, and is returned. An error made by [ichido.Final] commits what do wrote, together with the
// error; if that must not stay, write it in a savepoint and roll that back. A statement that failed outside of a savepoint
// leaves nothing to commit: then the step is not kept, even if do returns nil or a Final error.
//
// do is run again, a few times, if the database aborts its transaction to keep order (a serialization failure or a
// deadlock), so it must do nothing outside of the transaction that cannot be repeated. At REPEATABLE READ and SERIALIZABLE
// a renewal of the lease does that too: there a step must take less than a third of Config.Lease.
//
// The errors are those of [ichido.Step]. On ErrLost what do wrote is rolled back. ErrCommitUnknown says that the connection
// was lost while committing, and that the step was not found to be kept. ErrNoSteps says that ctx is not that of an attempt
// in lease mode on a Store of this package. In transaction mode the whole work is one transaction already: use [Tx].
func TxStep[T any](ctx context.Context, name string, do func(ctx context.Context, tx pgx.Tx) (T, error)) (value T, err error) {
	a, err := steppingAttempt(ctx)
	if err != nil {
		return value, fmt.Errorf("pgstore: step %s: %w", name, err)
	}
	return ichido.RunStep(ctx, name, func(ctx context.Context, s *ichido.StepRun) (value T, err error) {
		if s.Held.Token != a.claim.Lease.Token {
			return value, fmt.Errorf("pgstore: step %s: %w: the context is that of an attempt on another store, within one on this", name, ichido.ErrNoSteps)
		}
		var refusal error // of do, made by ichido.Final
		err = a.store.keepInTx(ctx, s, func(tx pgx.Tx) (ichido.KeptStep, error) {
			var err error
			if value, err = do(ctx, tx); err != nil && !ichido.IsFinal(err) {
				return ichido.KeptStep{}, err
			}
			refusal = err
			return s.Seal(value, err)
		})
		if err != nil {
			return value, err
		}
		return value, refusal
	})
}

// steppingAttempt returns the attempt of lease mode that ctx belongs to.
func steppingAttempt(ctx context.Context) (*leaseAttempt, error) {
	switch t := ctx.Value(txKey{}).(type) {
	case *leaseAttempt:
		return t, nil
	case pgx.Tx:
		return nil, fmt.Errorf("%w: in transaction mode the whole work is one transaction already; use Tx", ichido.ErrNoSteps)
	}
	return nil, fmt.Errorf("%w: the context is not that of an attempt on a Store of this package; take it from the request that a handler under ichido's Wrap gets, or from Do", ichido.ErrNoSteps)
}

const (
	maxStepRuns  = 10
	firstRerun   = 2 * time.Millisecond // longest pause before the second run; doubles
	longestRerun = 100 * time.Millisecond
)

// keepInTx runs a step in a transaction, again where the database aborts it to keep order.
func (s *Store) keepInTx(ctx context.Context, step *ichido.StepRun, run func(pgx.Tx) (ichido.KeptStep, error)) error {
	for runs := 1; ; runs++ {
		err := s.keepInTxOnce(ctx, step, run)
		switch {
		case errors.Is(err, errNotKept):
			return s.whyNotKept(ctx, step)
		case !isSerialization(err) || errors.Is(err, ichido.ErrCommitUnknown) || runs == maxStepRuns || ctx.Err() != nil:
			return err
		}
		time.Sleep(rand.N(min(firstRerun<<(runs-1), longestRerun)))
	}
}

// keepInTxOnce begins a transaction, has the step run in it, and commits in one pipeline with the step's result: the row of
// the key, for which renewals of leases wait, is not locked for longer than the server needs.
func (s *Store) keepInTxOnce(ctx context.Context, step *ichido.StepRun, run func(pgx.Tx) (ichido.KeptStep, error)) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer rollback(ctx, conn) // only gives the connection back after a commit
	begun, err := conn.BeginTx(ctx, s.options)
	if err != nil {
		return fmt.Errorf("pgstore: beginning the step's transaction: %w", err)
	}
	fate := new(fate)
	defer fate.closed.Store(true) // do may panic
	kept, err := run(&tx{Tx: begun, fate: fate})
	fate.closed.Store(true)
	if err != nil && fate.serialization == nil {
		return err
	}
	if err := fate.unfit(conn.Conn()); err != nil {
		return err
	}
	var batch pgx.Batch
	h := step.Held
	batch.Queue(keepInTxSQL, h.Key, h.Scope, h.Token, int32(step.Number), kept.Name, kept.Result)
	batch.Queue("COMMIT")
	return readKept(conn.SendBatch(ctx, &batch))
}

// keepInTxSQL fails if it cannot keep the step, so that the COMMIT behind it does not commit: the number is NULL then. So is
// the result, which the server's log would show otherwise.
const keepInTxSQL = `WITH counted AS (` + countSQL + `)
	` + insertStepSQL + ` SELECT $2::text, $1::text, c.steps, $5::text,
		CASE WHEN c.steps IS NOT NULL THEN coalesce($6::bytea, '') END, clock_timestamp()
	FROM (SELECT) one LEFT JOIN counted c ON true
	` + replaceStepSQL

// errNotKept says that the record does not allow to keep the step.
var errNotKept = errors.New("pgstore: the step could not be kept")

func readKept(results pgx.BatchResults) error {
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.Code == "23502" && pgErr.TableName == "idempotency_steps" {
			return errNotKept
		}
		return uncommitted("keeping the step", err)
	}
	return readCommitted(results)
}

// whyNotKept says why a step could not be kept whose transaction is rolled back. An earlier run of it, whose commit was
// unknown, may have been committed since: RunStep looks for it then.
func (s *Store) whyNotKept(ctx context.Context, step *ichido.StepRun) error {
	kept, err := s.BeginSteps(ctx, step.Held)
	switch {
	case err != nil:
		return err
	case len(kept) >= step.Number:
		return fmt.Errorf("%w: an earlier run of the step was committed in the end", ichido.ErrCommitUnknown)
	}
	return ichido.ErrLost
}
