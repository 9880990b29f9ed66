package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Filter chooses operations; each field that is not zero must fit.
type Filter struct {
	States  []State
	Subject string
	// After is the id behind which the page begins, Limit how long it is at most. Default of Limit: 100.
	After int64
	Limit int
}

// List returns operations in the order of their ids, without bodies. If some cannot be read it returns the others, and an error.
func (o *Outbox) List(ctx context.Context, f Filter) ([]*Entry, error) {
	query, args := o.dialect.list, []any{f.After}
	add := func(value any) string {
		args = append(args, value)
		return o.dialect.place(fmt.Sprintf("$%d", len(args)))
	}
	if len(f.States) > 0 {
		var places []string
		for _, s := range f.States {
			places = append(places, add(string(s)))
		}
		query += " AND state IN (" + strings.Join(places, ", ") + ")"
	}
	if f.Subject != "" {
		query += " AND subject = " + add(f.Subject)
	}
	if f.Limit < 1 {
		f.Limit = 100
	}
	rows, err := o.db.QueryContext(ctx, query+" ORDER BY id LIMIT "+add(f.Limit), args...)
	if err != nil {
		return nil, fmt.Errorf("outbox: listing: %w", err)
	}
	return collect("listing", rows)
}

// collect returns the entries that can be read, and why others cannot: a row that somebody spoilt must not hold them up.
func collect(doing string, rows *sql.Rows) (entries []*Entry, err error) {
	defer rows.Close()
	for rows.Next() {
		e, bad := scan(rows)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("outbox: %s: %w", doing, bad))
			continue
		}
		entries = append(entries, e)
	}
	if bad := rows.Err(); bad != nil {
		return nil, errors.Join(err, fmt.Errorf("outbox: %s: %w", doing, bad))
	}
	// The rows of an UPDATE have no order.
	slices.SortFunc(entries, func(a, b *Entry) int { return int(a.ID - b.ID) })
	return entries, err
}

// Look returns an operation, or ErrNotFound.
func (o *Outbox) Look(ctx context.Context, id int64) (*Entry, error) {
	return o.look(ctx, named(id, ""), o.dialect.byID, id)
}

// LookName returns the operation of a name, or ErrNotFound. If all of that name were dropped it is the last one.
func (o *Outbox) LookName(ctx context.Context, name string) (*Entry, error) {
	return o.look(ctx, named(0, name), o.dialect.byName, name)
}

func (o *Outbox) look(ctx context.Context, what, query string, arg any) (*Entry, error) {
	e, err := scan(o.db.QueryRowContext(ctx, query, arg))
	switch {
	case err != nil:
		return nil, fmt.Errorf("outbox: looking for %s: %w", what, err)
	case e == nil:
		return nil, fmt.Errorf("%w: %s", ErrNotFound, what)
	}
	return e, nil
}

// Purge deletes at most limit operations that are past Config.Keep, and returns how many. [Outbox.Run] does so too.
func (o *Outbox) Purge(ctx context.Context, limit int) (int, error) {
	result, err := o.db.ExecContext(ctx, o.dialect.purge, limit)
	if err != nil {
		return 0, fmt.Errorf("outbox: purging: %w", err)
	}
	n, err := result.RowsAffected()
	return int(n), err
}
