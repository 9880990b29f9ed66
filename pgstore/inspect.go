package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ichido-dev/ichido"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// stateSQL is the State of the record k.
var stateSQL = fmt.Sprintf(`CASE WHEN k.response_status IS NOT NULL THEN %d WHEN k.lease_until > now() OR (k.rerun OR k.steps IS NOT NULL) AND `+againSQL+` THEN %d ELSE %d END`,
	ichido.Completed, ichido.InProgress, ichido.Unknown)

// entrySQL reads entries. The length of a body is known without reading it.
var entrySQL = `SELECT k.scope, k.idem_key, ` + stateSQL + `, k.request_hash, coalesce(k.response_status, 0),
		coalesce(octet_length(k.response_body), 0), k.created_at, k.expires_at, coalesce(k.route, ''), coalesce(k.lease_token, 0),
		k.lease_until, coalesce(k.attempts, 0), coalesce(k.rerun, false), coalesce(k.asked, 0),
		k.steps IS NOT NULL, coalesce(k.owner, ''), coalesce(k.max_attempts, 0), k.request IS NOT NULL%s
	FROM idempotency_keys k`

func scanEntry(row pgx.CollectableRow, more ...any) (e ichido.Entry, err error) {
	var state int
	var created, expires, until pgtype.Timestamptz
	err = row.Scan(append([]any{&e.Scope, &e.Key, &state, &e.Fingerprint, &e.Status, &e.BodySize, &created, &expires, &e.Route,
		&e.Token, &until, &e.Attempts, &e.Rerun, &e.Asked, &e.Resumes, &e.Owner, &e.MaxAttempts, &e.Finishes}, more...)...)
	e.State, e.CreatedAt, e.ExpiresAt, e.LeaseUntil = ichido.State(state), timeOf(created), timeOf(expires), timeOf(until)
	return e, err
}

// List implements [ichido.Inspector]. A page is read in the order of the primary key, from where the last one ended.
func (s *Store) List(ctx context.Context, filter ichido.Filter) ([]ichido.Entry, error) {
	var w where
	if filter.After != nil {
		w.and("(k.idem_key, k.scope) > (%s::text, %s::text)", filter.After.Key, filter.After.Scope)
	}
	if filter.Key != "" {
		w.and("k.idem_key = %s::text", filter.Key)
	}
	if filter.KeyPrefix != "" {
		w.and("k.idem_key >= %s::text", filter.KeyPrefix)
		if end := prefixEnd(filter.KeyPrefix); end != "" {
			w.and("k.idem_key < %s::text", end)
		}
	}
	if filter.Scope != "" {
		w.and("k.scope = %s::text", filter.Scope)
	}
	if filter.Route != "" {
		w.and("k.route = %s::text", filter.Route)
	}
	if filter.OlderThan > 0 {
		w.and("k.created_at <= now() - %s::int8 * interval '1 microsecond'", filter.OlderThan.Microseconds())
	}
	if filter.NewerThan > 0 {
		w.and("k.created_at >= now() - %s::int8 * interval '1 microsecond'", filter.NewerThan.Microseconds())
	}
	if len(filter.States) > 0 {
		if !slices.Contains(filter.States, ichido.Completed) {
			w.and("k.response_status IS NULL") // for its index
		}
		states := make([]int32, len(filter.States))
		for i, state := range filter.States {
			states[i] = int32(state)
		}
		w.and(stateSQL+" = ANY (%s::int4[])", states)
	}
	sql := fmt.Sprintf(entrySQL, "") + w.sql.String() + " ORDER BY k.idem_key, k.scope LIMIT " + w.parameter(int64(filter.Limit)) + "::int8"
	rows, err := s.pool.Query(ctx, sql, w.args...)
	if err != nil {
		return nil, classify("listing keys", err)
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ichido.Entry, error) { return scanEntry(row) })
	if err != nil {
		return nil, classify("listing keys", err)
	}
	return entries, nil
}

// A where is a WHERE clause with its parameters.
type where struct {
	sql  strings.Builder
	args []any
}

// and adds a condition, in which each %s is a parameter.
func (w *where) and(condition string, args ...any) {
	word := " AND "
	if w.sql.Len() == 0 {
		word = " WHERE "
	}
	parameters := make([]any, len(args))
	for i, arg := range args {
		parameters[i] = w.parameter(arg)
	}
	w.sql.WriteString(word + fmt.Sprintf(condition, parameters...))
}

func (w *where) parameter(arg any) string {
	w.args = append(w.args, arg)
	return "$" + strconv.Itoa(len(w.args))
}

// prefixEnd returns the least text, by its bytes, that is greater than all that begin with the prefix, "" if there is none.
func prefixEnd(prefix string) string {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch r {
		case utf8.MaxRune:
			continue // as large as can be: it is the one before that is followed by another
		case 0xD7FF:
			r = 0xDFFF // surrogates are no characters
		}
		return prefix + string(r+1)
	}
	return ""
}

// namesSQL is the names of the kept steps of the record k.
const namesSQL = `ARRAY(SELECT s.name FROM idempotency_steps s
	WHERE s.idem_key = k.idem_key AND s.scope = k.scope AND s.number <= k.steps ORDER BY s.number)`

// Look implements [ichido.Inspector].
func (s *Store) Look(ctx context.Context, scope, key string) (*ichido.Entry, error) {
	rows, err := s.pool.Query(ctx, fmt.Sprintf(entrySQL, ", k.response_headers, k.response_body, "+namesSQL)+
		" WHERE k.idem_key = $1::text AND k.scope = $2::text", key, scope)
	if err != nil {
		return nil, classify("looking at a key", err)
	}
	entry, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (*ichido.Entry, error) {
		var response ichido.Response
		var steps []string
		entry, err := scanEntry(row, &response.Header, &response.Body, &steps)
		if len(steps) > 0 {
			entry.Steps = steps
		}
		if entry.State == ichido.Completed {
			response.Status = entry.Status
			entry.Response = &response
		}
		return &entry, err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, ichido.ErrNoRecord
	case err != nil:
		return nil, classify("looking at a key", err)
	}
	return entry, nil
}

// Settlements implements [ichido.Inspector].
func (s *Store) Settlements(ctx context.Context, scope, key string) ([]ichido.Settlement, error) {
	rows, err := s.pool.Query(ctx, `SELECT how, settled_by, reason, settled_at FROM idempotency_settlements
		WHERE idem_key = $1::text AND scope = $2::text ORDER BY settled_at`, key, scope)
	if err != nil {
		return nil, classify("reading settlements", err)
	}
	settlements, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ichido.Settlement, error) {
		t := ichido.Settlement{Scope: scope, Key: key}
		var name string
		var at pgtype.Timestamptz
		err := row.Scan(&name, &t.By, &t.Reason, &at)
		t.At = timeOf(at)
		for how, n := range hows {
			if n == name {
				t.How = how
			}
		}
		return t, err
	})
	if err != nil {
		return nil, classify("reading settlements", err)
	}
	return settlements, nil
}
