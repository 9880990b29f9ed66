package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// askSQL reserves keys without an answer that are chosen by what is put in, and returns what is put in with them. The first
// condition is that of the index on incomplete records.
const askSQL = `WITH chosen AS MATERIALIZED (
		SELECT k.idem_key, k.scope FROM idempotency_keys k
		WHERE k.response_status IS NULL AND (k.lease_until > now()) IS NOT TRUE
			AND k.expires_at > now() AND (k.asked_until > now()) IS NOT TRUE
			AND %s
	), asked AS (
		UPDATE idempotency_keys k SET asked = coalesce(k.asked, 0) + 1, asked_until = now() + $1::int8 * interval '1 microsecond'
		FROM chosen c WHERE k.idem_key = c.idem_key AND k.scope = c.scope
		RETURNING k.scope, k.idem_key, k.route, k.request_hash, k.lease_token, k.attempts, k.asked, k.created_at, k.lease_until, %s
	)
	SELECT * FROM asked ORDER BY lease_until`

var (
	askKeySQL    = fmt.Sprintf(askSQL, unknownSQL+`k.idem_key = $2::text AND k.scope = $3::text FOR UPDATE`, `NULL::bytea`)
	askRouteSQL  = fmt.Sprintf(askSQL, unknownSQL+dueSQL, `NULL::bytea`)
	abandonedSQL = fmt.Sprintf(askSQL, `k.request IS NOT NULL AND (k.rerun OR k.steps IS NOT NULL) AND `+againSQL+` AND `+dueSQL, `k.request`)
)

const (
	// unknownSQL leaves out those that the next claim runs whatever it says.
	unknownSQL = `(k.steps IS NULL OR NOT ` + againSQL + `) AND `

	// dueSQL: 10 s after the first question, or the attempt that followed it, then 20 s, and so on to an hour.
	dueSQL = `k.route = $2::text AND (coalesce(k.asked, 0) = 0 OR greatest(k.asked_until, k.lease_until) IS NULL
				OR greatest(k.asked_until, k.lease_until) + least(3600, 10 * 2 ^ least(k.asked - 1, 10)) * interval '1 second' <= now())
		ORDER BY k.lease_until LIMIT $3::int8 FOR UPDATE SKIP LOCKED`
)

// Ask implements [ichido.Settler].
func (s *Store) Ask(ctx context.Context, question ichido.Question) ([]ichido.UnknownKey, error) {
	sql, args := askRouteSQL, []any{question.Patience.Microseconds(), question.Route, int64(question.Limit)}
	if question.Key != "" {
		sql, args = askKeySQL, []any{question.Patience.Microseconds(), question.Key, question.Scope}
	}
	reserved, err := s.reserve(ctx, sql, args)
	if err != nil {
		return nil, classify("asking for unknown keys", err)
	}
	unknown := make([]ichido.UnknownKey, len(reserved))
	for i, k := range reserved {
		unknown[i] = k.UnknownKey
	}
	return unknown, nil
}

// Abandoned implements [ichido.Finisher].
func (s *Store) Abandoned(ctx context.Context, question ichido.Question) ([]ichido.AbandonedKey, error) {
	reserved, err := s.reserve(ctx, abandonedSQL, []any{question.Patience.Microseconds(), question.Route, int64(question.Limit)})
	if err != nil {
		return nil, classify("looking for abandoned operations", err)
	}
	return reserved, nil
}

// reserve runs one of the statements that reserve keys.
func (s *Store) reserve(ctx context.Context, sql string, args []any) (reserved []ichido.AbandonedKey, err error) {
	err = inOrder(ctx, func() error {
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		reserved, err = pgx.CollectRows(rows, scanReserved)
		return err
	})
	return reserved, err
}

func scanReserved(row pgx.CollectableRow) (k ichido.AbandonedKey, err error) {
	var created, since pgtype.Timestamptz
	err = row.Scan(&k.Scope, &k.Key, &k.Route, &k.Fingerprint, &k.Token, &k.Attempts, &k.Asked, &created, &since, &k.Request)
	k.CreatedAt, k.Since = timeOf(created), timeOf(since)
	return k, err
}

// settleSQL changes a record by the statement that is put in, if it may be settled, and makes a note of it. It also tells
// what is there, for the case that it may not.
const settleSQL = `WITH seen AS (
		SELECT ` + absentSQL + ` AS absent, (k.lease_until > now()) IS TRUE AS leased,
			k.response_status IS NOT NULL AS completed, ($3::int8 = 0 OR k.lease_token = $3::int8) IS TRUE AS meant
		FROM idempotency_keys k WHERE k.idem_key = $1::text AND k.scope = $2::text
	), settled AS (
		%s
		WHERE k.idem_key = $1::text AND k.scope = $2::text AND (k.lease_until > now()) IS NOT TRUE AND k.expires_at > now()
			AND ($3::int8 = 0 OR k.lease_token = $3::int8) AND %s
		RETURNING k.steps
	)%s
	SELECT EXISTS (SELECT FROM settled), s.absent, s.leased, s.completed, s.meant FROM (SELECT) one LEFT JOIN seen s ON true`

const (
	incompleteSQL = `k.response_status IS NULL`

	noteSQL = `, noted AS (
		INSERT INTO idempotency_settlements (scope, idem_key, how, settled_by, reason, settled_at, expires_at)
		SELECT $2::text, $1::text, $4::text, $5::text, $6::text, now(), now() + $7::int8 * interval '1 microsecond' FROM settled
	)`

	unsteppedSQL = `, deleted AS (SELECT steps FROM settled), unstepped AS (` + deleteStepsSQL + `)`
)

var (
	stillUnknownSQL   = fmt.Sprintf(settleSQL, `UPDATE idempotency_keys k SET asked_until = now()`, incompleteSQL, ``)
	settledNotDoneSQL = fmt.Sprintf(settleSQL, `DELETE FROM idempotency_keys k`, incompleteSQL, noteSQL+unsteppedSQL)
	settledDeletedSQL = fmt.Sprintf(settleSQL, `DELETE FROM idempotency_keys k`, `true`, noteSQL+unsteppedSQL)

	// Without its token the attempt that went, should it be late, does not take the answer for its own.
	settledDoneSQL = fmt.Sprintf(settleSQL, `UPDATE idempotency_keys k SET response_status = $8::int4,
			response_headers = coalesce($9::bytea, ''), response_body = coalesce($10::bytea, ''), created_at = now(),
			expires_at = now() + $11::int8 * interval '1 microsecond', lease_token = NULL, lease_until = NULL,
			request = NULL`, incompleteSQL, noteSQL)
)

// How settlements are named in the database.
var hows = map[ichido.SettledHow]string{
	ichido.SettledDone: "done", ichido.SettledNotDone: "not_done", ichido.SettledDeleted: "deleted",
}

// Settle implements [ichido.Settler]. It is one statement, which is repeated where the record changed while it looked.
func (s *Store) Settle(ctx context.Context, settlement ichido.Settlement) error {
	if settlement.By == "" {
		return errors.New("pgstore: the field Settlement.By is empty; it names who settles the key")
	}
	args := []any{settlement.Key, settlement.Scope, settlement.Token}
	noted := append(args, hows[settlement.How], settlement.By, settlement.Reason, ichido.SettlementRetention.Microseconds())
	var sql string
	switch settlement.How {
	case ichido.StillUnknown:
		sql = stillUnknownSQL
	case ichido.SettledNotDone:
		sql, args = settledNotDoneSQL, noted
	case ichido.SettledDeleted:
		sql, args = settledDeletedSQL, noted
	case ichido.SettledDone:
		r := settlement.Response
		sql, args = settledDoneSQL, append(noted, int32(r.Status), r.Header, r.Body, settlement.Retention.Microseconds())
	default:
		return fmt.Errorf("pgstore: Settle: the field How is %v", settlement.How)
	}
	for {
		var settled bool
		var absent, leased, completed, meant *bool // nil without a record
		err := inOrder(ctx, func() error {
			return s.pool.QueryRow(ctx, sql, args...).Scan(&settled, &absent, &leased, &completed, &meant)
		})
		switch {
		case err != nil:
			return classify("settling the key", err)
		case settled:
			return nil
		case absent == nil || *absent:
			return ichido.ErrNoRecord
		case *leased:
			return ichido.ErrInProgress
		case !*meant || *completed && settlement.How != ichido.SettledDeleted:
			return ichido.ErrNotUnknown
		}
	}
}

// farFuture stands for infinity, which people give to records that are to stay.
var farFuture = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// timeOf returns the zero time for NULL and minus infinity.
func timeOf(t pgtype.Timestamptz) time.Time {
	if t.InfinityModifier == pgtype.Infinity {
		return farFuture
	}
	return t.Time
}
