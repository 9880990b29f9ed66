package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ichido-dev/ichido"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// absentSQL says whether the record k is as good as absent: past its retention, and no lease on it is running.
	absentSQL = `k.expires_at <= now() AND (k.lease_until > now()) IS NOT TRUE`

	// againSQL says whether the record k has not had all its attempts.
	againSQL = `(k.attempts < nullif(k.max_attempts, 0)) IS NOT FALSE`

	// claimableSQL says whether a claim of lease mode may have the record k. It may also if an attempt went that may be
	// followed by another, and if the lease is its own.
	claimableSQL = `(` + absentSQL + `
		OR k.response_status IS NULL AND k.lease_until <= now() AND (k.rerun AND $8::bool OR k.steps IS NOT NULL)
			AND ` + againSQL + ` AND k.request_hash = $3::bytea
		OR k.lease_until > now() AND k.lease_token = $4::int8) IS TRUE`
)

// beginSQL reads the record of a key, and writes, by the statement that is put in, only if the claim may have it. What it read
// may be out of date, so that statement looks again. All of it goes by now(), when the statement began: after a wait for
// another one's row that is an early time, which leaves others their leases, and makes its own no longer than the caller knows.
const beginSQL = `WITH seen AS MATERIALIZED (
		SELECT k.request_hash, k.response_status, k.response_headers, k.response_body,
			` + claimableSQL + ` AS claimable, k.lease_until > now() AS leased
		FROM idempotency_keys k WHERE k.idem_key = $1::text AND k.scope = $2::text%s
	), claimed AS (
		%s
		RETURNING true
	)
	SELECT EXISTS (SELECT FROM claimed), s.request_hash, s.response_status, s.response_headers, s.response_body, s.claimable, s.leased
	FROM (SELECT) one LEFT JOIN seen s ON true`

var leaseSQL = fmt.Sprintf(beginSQL, ``, `INSERT INTO idempotency_keys AS k (scope, idem_key, request_hash, created_at, expires_at,
			lease_token, lease_until, attempts, rerun, route, asked, max_attempts, owner, request)
		SELECT $2::text, $1::text, $3::bytea, now(), now() + $6::int8 * interval '1 microsecond',
			$4::int8, now() + $5::int8 * interval '1 microsecond', 1, $8::bool, $7::text, 0,
			$9::int4, $10::text, $11::bytea
		WHERE NOT EXISTS (SELECT FROM seen WHERE NOT claimable)
		ON CONFLICT (idem_key, scope) DO UPDATE SET
			request_hash = excluded.request_hash, response_status = NULL, response_headers = NULL, response_body = NULL,
			expires_at = excluded.expires_at, lease_token = excluded.lease_token, lease_until = excluded.lease_until,
			rerun = excluded.rerun, route = excluded.route, max_attempts = excluded.max_attempts, owner = excluded.owner,
			created_at = CASE WHEN `+absentSQL+` THEN excluded.created_at ELSE k.created_at END,
			attempts = CASE WHEN `+absentSQL+` THEN 1 ELSE k.attempts + (k.lease_token <> excluded.lease_token)::int END,
			asked = CASE WHEN `+absentSQL+` THEN 0 ELSE k.asked END,
			asked_until = CASE WHEN `+absentSQL+` THEN NULL ELSE k.asked_until END,
			steps = CASE WHEN `+absentSQL+` THEN NULL ELSE k.steps END,
			request = CASE WHEN `+absentSQL+` THEN excluded.request ELSE k.request END
		WHERE `+claimableSQL)

// followSQL is leaseSQL for claims that follow an attempt. It does not see what is as good as absent, and inserts nothing: not
// even where the record goes while it looks. It has no parameter for a request.
var followSQL = fmt.Sprintf(beginSQL, ` AND NOT (`+absentSQL+`)`, `UPDATE idempotency_keys k SET
			expires_at = now() + $6::int8 * interval '1 microsecond', lease_token = $4::int8,
			lease_until = now() + $5::int8 * interval '1 microsecond', attempts = k.attempts + (k.lease_token <> $4::int8)::int,
			rerun = $8::bool, route = $7::text, max_attempts = $9::int4, owner = $10::text
		WHERE k.idem_key = $1::text AND k.scope = $2::text AND NOT (`+absentSQL+`) AND `+claimableSQL)

// lease is Begin in lease mode: one statement, which is repeated where somebody else was faster than its second look.
func (s *Store) lease(ctx context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	l, sql := claim.Lease, leaseSQL
	args := []any{claim.Key, claim.Scope, claim.Fingerprint, l.Token, l.Duration.Microseconds(), l.UnknownRetention.Microseconds(),
		l.Route, l.Rerun, int32(min(l.MaxAttempts, math.MaxInt32)), l.Owner}
	if l.Follows {
		sql = followSQL
	} else {
		args = append(args, l.Request)
	}
	for {
		var row claimRow
		err := inOrder(ctx, func() error {
			conn, err := s.acquire(ctx)
			if err != nil {
				return err
			}
			defer conn.Release()
			row, err = readRow(conn.QueryRow(ctx, sql, args...))
			return err
		})
		switch {
		case pgconn.SafeToRetry(err): // nothing was sent
			return nil, nil, fmt.Errorf("%w: pgstore: claiming the key: %w", ichido.ErrUnavailable, err)
		case err != nil:
			return nil, nil, classify("claiming the key", err)
		case row.claimed:
			return &leaseAttempt{s, claim}, nil, nil
		case l.Follows && !row.found:
			return nil, nil, ichido.ErrNoRecord
		case row.obstructs():
			record, err := row.answer(claim)
			return nil, record, err
		}
	}
}

// inOrder runs one of the statements of lease mode, a few times if the database aborts it to keep order.
func inOrder(ctx context.Context, run func() error) error {
	for tries := 1; ; tries++ {
		if err := run(); !isSerialization(err) || tries == 5 || ctx.Err() != nil {
			return err
		}
	}
}

// A leaseAttempt is one of lease mode. It holds no connection.
type leaseAttempt struct {
	store *Store
	claim ichido.Claim
}

// Context puts the attempt in the place of a transaction: Tx says then why there is none, and TxStep finds the store.
func (a *leaseAttempt) Context(parent context.Context) context.Context {
	return context.WithValue(parent, txKey{}, a)
}

// heldSQL says whether the lease of the record k is still running. An attempt asks so about its own, perhaps after it waited
// for the row: then the time after the wait counts.
const heldSQL = `k.response_status IS NULL AND k.lease_until > clock_timestamp()`

// completeSQL leaves as it is what was completed under the same token: by the attempt itself, because a settlement takes the
// token away.
const completeSQL = `UPDATE idempotency_keys k SET
		response_status = coalesce(k.response_status, $4::int4),
		response_headers = coalesce(k.response_headers, $5::bytea, ''),
		response_body = coalesce(k.response_body, $6::bytea, ''),
		created_at = CASE WHEN k.response_status IS NULL THEN clock_timestamp() ELSE k.created_at END,
		expires_at = CASE WHEN k.response_status IS NULL
			THEN clock_timestamp() + $7::int8 * interval '1 microsecond' ELSE k.expires_at END,
		lease_until = NULL, request = NULL
	WHERE k.idem_key = $1::text AND k.scope = $2::text AND k.lease_token = $3::int8
		AND (k.response_status IS NOT NULL OR ` + heldSQL + `)`

func (a *leaseAttempt) Complete(ctx context.Context, response ichido.Response) error {
	return a.exec(ctx, "completing the key", completeSQL, int32(response.Status), response.Header, response.Body,
		a.claim.Retention.Microseconds())
}

const (
	ownSQL = `k.idem_key = $1::text AND k.scope = $2::text AND k.lease_token = $3::int8 AND ` + heldSQL

	endLeaseSQL = `UPDATE idempotency_keys k
		SET lease_until = clock_timestamp(), expires_at = clock_timestamp() + $4::int8 * interval '1 microsecond'
		WHERE ` + ownSQL

	// An attempt that follows another frees nothing: the one before may have had an effect.
	freeSQL = `WITH deleted AS (DELETE FROM idempotency_keys k WHERE ` + ownSQL + ` AND k.attempts = 1 RETURNING k.steps),
		unstepped AS (` + deleteStepsSQL + `),
		ended AS (` + endLeaseSQL + ` AND k.attempts > 1 RETURNING true)
		SELECT FROM deleted UNION ALL SELECT FROM ended`
)

// deleteStepsSQL deletes the steps of the record that a statement has just deleted. It does not look for them where the
// record had none.
const deleteStepsSQL = `DELETE FROM idempotency_steps s
	WHERE s.idem_key = $1::text AND s.scope = $2::text AND EXISTS (SELECT FROM deleted WHERE steps IS NOT NULL)`

func (a *leaseAttempt) Abandon(ctx context.Context, cause error) error {
	doing, sql := "ending the lease", endLeaseSQL
	if cause == nil {
		doing, sql = "freeing the key", freeSQL
	}
	return a.exec(ctx, doing, sql, a.claim.Lease.UnknownRetention.Microseconds())
}

// exec runs a statement that changes the record of the attempt, if it is still the attempt's.
func (a *leaseAttempt) exec(ctx context.Context, doing, sql string, args ...any) error {
	args = append([]any{a.claim.Key, a.claim.Scope, a.claim.Lease.Token}, args...)
	return inOrder(ctx, func() error {
		switch tag, err := a.store.pool.Exec(ctx, sql, args...); {
		case err != nil:
			return fmt.Errorf("pgstore: %s: %w", doing, err) // never ErrSerialization: the work is not run again
		case tag.RowsAffected() == 0:
			return ichido.ErrLost
		}
		return nil
	})
}

// renewSQL goes by the primary key: the planner expects few elements of arrays that it cannot look into. It must never
// compare each lease with each row, as it does where it believes that there is hardly a row with a lease. So all that
// narrows k is part of the join, and no plan is kept from a time when the table was empty.
//
// Rows that somebody else has locked are left out: one of them must not make the others wait, and lose their leases.
const renewSQL = `WITH free AS MATERIALIZED (
		SELECT k.ctid AS place, h.token, h.duration, h.n FROM ` + leasesSQL + ` FOR NO KEY UPDATE OF k SKIP LOCKED
	)
	UPDATE idempotency_keys k SET lease_until = clock_timestamp() + f.duration * interval '1 microsecond'
	FROM free f WHERE k.ctid = f.place AND k.lease_token = f.token AND ` + heldSQL + `
	RETURNING f.n`

// stillHeldSQL finds leases that are held, without waiting for anybody.
const stillHeldSQL = `SELECT h.n FROM ` + leasesSQL

const leasesSQL = `unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::int8[]), (SELECT $4::int8[]))
			WITH ORDINALITY AS h (idem_key, scope, token, duration, n)
		JOIN idempotency_keys k ON k.idem_key = h.idem_key AND k.scope = h.scope
			AND CASE WHEN k.lease_token = h.token THEN ` + heldSQL + ` END`

// Renew implements [ichido.Leaser].
func (s *Store) Renew(ctx context.Context, leases []ichido.Held) ([]bool, error) {
	held := make([]bool, len(leases))
	if len(leases) == 0 {
		return held, nil
	}
	keys, scopes := make([]string, len(leases)), make([]string, len(leases))
	tokens, durations := make([]int64, len(leases)), make([]int64, len(leases))
	for i, h := range leases {
		keys[i], scopes[i], tokens[i], durations[i] = h.Key, h.Scope, h.Token, h.Duration.Microseconds()
	}
	mode := pgx.QueryExecModeExec // planned anew each time
	if s.pool.Config().ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		mode = pgx.QueryExecModeSimpleProtocol // so is this
	}
	numbers := func(sql string) (numbers []int64, err error) {
		err = inOrder(ctx, func() error {
			rows, err := s.pool.Query(ctx, sql, mode, keys, scopes, tokens, durations)
			if err != nil {
				return err
			}
			numbers, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		})
		return numbers, err
	}
	renewed, err := numbers(renewSQL)
	if err != nil {
		return nil, classify("renewing leases", err)
	}
	for _, n := range renewed {
		held[n-1] = true
	}
	if len(renewed) == len(leases) {
		return held, nil
	}
	still, err := numbers(stillHeldSQL)
	if err != nil {
		return held, classify("looking for leases that were not renewed", err)
	}
	for _, n := range still {
		if !held[n-1] {
			return held, errors.New("pgstore: renewing leases: records are locked by somebody else")
		}
	}
	return held, nil
}

// GiveBack implements [ichido.Leaser].
func (s *Store) GiveBack(ctx context.Context, claim ichido.Claim) error {
	return (&leaseAttempt{s, claim}).Abandon(ctx, nil)
}
