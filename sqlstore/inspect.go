package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ichido-dev/ichido"
)

// List implements [ichido.Inspector].
func (s *Store) List(ctx context.Context, filter ichido.Filter) ([]ichido.Entry, error) {
	if filter.Limit < 1 {
		return nil, errors.New("sqlstore: the field Filter.Limit must be positive")
	}
	var entries []ichido.Entry
	query, args := s.dialect.list(filter)
	err := s.each(ctx, func(rows *sql.Rows) error {
		entry, err := readEntry(rows.Scan)
		entries = append(entries, entry)
		return err
	}, query, args...)
	if err != nil {
		return nil, s.dialect.unavailable("listing records", err)
	}
	return entries, nil
}

// Look implements [ichido.Inspector].
func (s *Store) Look(ctx context.Context, scope, key string) (*ichido.Entry, error) {
	var header, body []byte
	var steps keptSteps
	entry, err := readEntry(s.db.QueryRowContext(ctx, s.dialect.look, key, scope).Scan, &header, &body, &steps)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, ichido.ErrNoRecord
	case err != nil:
		return nil, s.dialect.unavailable("reading the record", err)
	}
	if entry.State == ichido.Completed {
		r := response(entry.Status, header, body)
		entry.Response = &r
	}
	for _, step := range steps {
		entry.Steps = append(entry.Steps, step.Name)
	}
	return &entry, nil
}

// readEntry reads the columns of an entry, and what else the query has behind them.
func readEntry(scan func(...any) error, more ...any) (ichido.Entry, error) {
	var e ichido.Entry
	var status, size sql.Null[int]
	var live, again bool
	err := scan(append([]any{&e.Scope, &e.Key, &e.Fingerprint, &status, &size, &live, (*millis)(&e.CreatedAt), (*millis)(&e.ExpiresAt),
		&e.Route, &e.Token, (*millis)(&e.LeaseUntil), &e.Attempts, &e.Rerun, &e.Asked, &e.Resumes,
		&again, &e.Owner, &e.MaxAttempts, &e.Finishes}, more...)...)
	switch {
	case status.Valid:
		e.State, e.Status, e.BodySize, e.LeaseUntil = ichido.Completed, status.V, size.V, time.Time{}
	case live || (e.Rerun || e.Resumes) && again:
		e.State = ichido.InProgress
	default:
		e.State = ichido.Unknown
	}
	return e, err
}

// Settlements implements [ichido.Inspector].
func (s *Store) Settlements(ctx context.Context, scope, key string) ([]ichido.Settlement, error) {
	var settlements []ichido.Settlement
	err := s.each(ctx, func(rows *sql.Rows) error {
		t := ichido.Settlement{Scope: scope, Key: key}
		var how string
		if err := rows.Scan(&how, &t.By, &t.Reason, (*millis)(&t.At)); err != nil {
			return err
		}
		for known, name := range settledHow {
			if name == how {
				t.How = known
				settlements = append(settlements, t)
				return nil
			}
		}
		return fmt.Errorf("a settlement is stored as %q, which this release does not know", how)
	}, s.dialect.settlements, key, scope)
	if err != nil {
		return nil, s.dialect.unavailable("reading settlements", err)
	}
	return settlements, nil
}
