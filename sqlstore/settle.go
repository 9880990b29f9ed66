package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ichido-dev/ichido"
)

// Ask implements [ichido.Settler].
func (s *Store) Ask(ctx context.Context, q ichido.Question) ([]ichido.UnknownKey, error) {
	query, args := s.dialect.ask, []any{s.dialect.interval(q.Patience), q.Route, max(q.Limit, 0)}
	if q.Key != "" {
		query, args = s.dialect.askOne, []any{s.dialect.interval(q.Patience), q.Key, q.Scope}
	}
	reserved, err := s.reserve(ctx, query, args)
	if err != nil {
		return nil, s.dialect.unavailable("asking for unknown keys", err)
	}
	unknown := make([]ichido.UnknownKey, len(reserved))
	for i, k := range reserved {
		unknown[i] = k.UnknownKey
	}
	return unknown, nil
}

// Abandoned implements [ichido.Finisher].
func (s *Store) Abandoned(ctx context.Context, q ichido.Question) ([]ichido.AbandonedKey, error) {
	reserved, err := s.reserve(ctx, s.dialect.abandoned, []any{s.dialect.interval(q.Patience), q.Route, max(q.Limit, 0)})
	if err != nil {
		return nil, s.dialect.unavailable("looking for abandoned operations", err)
	}
	return reserved, nil
}

// reserve runs one of the statements that reserve keys.
func (s *Store) reserve(ctx context.Context, query string, args []any) (reserved []ichido.AbandonedKey, err error) {
	err = s.each(ctx, func(rows *sql.Rows) error {
		var k ichido.AbandonedKey
		err := rows.Scan(&k.Scope, &k.Key, &k.Route, &k.Fingerprint, &k.Token, &k.Attempts, &k.Asked,
			(*millis)(&k.CreatedAt), (*millis)(&k.Since), &k.Request)
		reserved = append(reserved, k)
		return err
	}, query, args...)
	// What RETURNING returns has no order.
	slices.SortFunc(reserved, func(a, b ichido.AbandonedKey) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Scope, b.Scope))
	})
	return reserved, err
}

// settledHow is how settlements are stored.
var settledHow = map[ichido.SettledHow]string{
	ichido.SettledDone:    "done",
	ichido.SettledNotDone: "not_done",
	ichido.SettledDeleted: "deleted",
}

// Settle implements [ichido.Settler]. Its first statement writes, or finds nothing to write, with the database's write
// lock: what it finds stays so until the end.
func (s *Store) Settle(ctx context.Context, t ichido.Settlement) error {
	if t.By == "" {
		return errors.New("sqlstore: the field Settlement.By is empty; it names who settles the key")
	}
	d := s.dialect
	var statement string
	args := []any{t.Key, t.Scope, t.Token}
	switch t.How {
	case ichido.StillUnknown:
		statement = d.stillUnknown
	case ichido.SettledDone:
		r := t.Response
		statement, args = d.settleDone, append([]any{r.Status, r.Header, r.Body, d.interval(t.Retention)}, args...)
	case ichido.SettledNotDone:
		statement = d.settleNot
	case ichido.SettledDeleted:
		statement = d.settleDelete
	default:
		return fmt.Errorf("sqlstore: the field Settlement.How is %v, which is none", t.How)
	}
	st, err := s.statements(ctx)
	if err != nil {
		return d.unavailable("preparing the statements", err)
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return d.unavailable("beginning the transaction", err)
	}
	defer tx.Rollback() // does nothing after a commit
	n, err := affected(tx.ExecContext(ctx, statement, args...))
	if err != nil {
		return d.unavailable("settling the key", err)
	}
	if n == 0 {
		return s.unsettled(ctx, tx.StmtContext(ctx, st.read), t)
	}
	if t.How == ichido.SettledNotDone || t.How == ichido.SettledDeleted {
		if _, err := tx.ExecContext(ctx, d.deleteSteps, t.Key, t.Scope); err != nil {
			return d.unavailable("deleting the steps", err)
		}
	}
	if how, ok := settledHow[t.How]; ok {
		if _, err := tx.ExecContext(ctx, d.settlement, t.Scope, t.Key, how, t.By, t.Reason, d.interval(ichido.SettlementRetention)); err != nil {
			return d.unavailable("recording the settlement", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return d.unavailable("committing", err)
	}
	return nil
}

// unsettled says why there was nothing to settle.
func (s *Store) unsettled(ctx context.Context, stmt *sql.Stmt, t ichido.Settlement) error {
	r, err := read(ctx, stmt, t.Scope, t.Key)
	switch {
	case err != nil:
		return s.dialect.unavailable("reading the record", err)
	case !r.active():
		return ichido.ErrNoRecord
	case r.live:
		return ichido.ErrInProgress
	}
	return ichido.ErrNotUnknown
}

// millis reads a time from milliseconds since 1970; NULL is the zero time.
type millis time.Time

func (m *millis) Scan(value any) error {
	var ms sql.Null[int64]
	if err := ms.Scan(value); err != nil {
		return err
	}
	*m = millis{}
	if ms.Valid {
		*m = millis(time.UnixMilli(ms.V).UTC())
	}
	return nil
}
