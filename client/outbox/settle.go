package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

var (
	// ErrState: the operation is in a state in which that cannot be done.
	ErrState = errors.New("outbox: the operation is in another state")
	// ErrForgotten: the server may have forgotten the key. To send the operation again under it could do it twice.
	ErrForgotten = errors.New("outbox: the server may have forgotten the key")
)

// A Settlement is a person's decision about an operation.
type Settlement struct {
	// ID is that of the operation.
	ID int64
	// By and Reason say who decides, and why, for those who look later.
	By, Reason string
}

// Retry has an operation sent again at once, under its key: one that waits, is unknown, or is not done. ErrForgotten refuses
// it if the server may have forgotten the key: find out what became of the operation, then drop it, and put it anew if it did
// not take effect.
func (o *Outbox) Retry(ctx context.Context, s Settlement) (*Entry, error) {
	e, err := o.settle(ctx, "retried", s, o.dialect.retry, s.ID, null(s.By), null(s.Reason))
	if err == nil {
		o.Wake()
	}
	return e, err
}

// Drop says that an operation is not to be sent any more: one that waits, is unknown, or is not done. Its name is free; By
// and Reason must be given. It does not tell the server anything: what was sent may have taken effect.
func (o *Outbox) Drop(ctx context.Context, s Settlement) (*Entry, error) {
	if strings.TrimSpace(s.By) == "" || strings.TrimSpace(s.Reason) == "" {
		return nil, errors.New("outbox: to drop an operation, Settlement.By and Reason must say who does so and why")
	}
	return o.settle(ctx, "dropped", s, o.dialect.drop, s.ID, s.By, s.Reason, o.config.Keep.Milliseconds())
}

func (o *Outbox) settle(ctx context.Context, how string, s Settlement, statement string, args ...any) (*Entry, error) {
	if !utf8.ValidString(s.By+s.Reason) || strings.ContainsRune(s.By+s.Reason, 0) {
		return nil, errors.New("outbox: Settlement.By and Reason must be UTF-8 without NUL")
	}
	e, err := scan(o.db.QueryRowContext(ctx, statement, args...))
	if err != nil {
		return nil, fmt.Errorf("outbox: settling %s: %w", named(s.ID, ""), err)
	}
	if e != nil {
		return e, nil
	}
	if e, err = o.Look(ctx, s.ID); err != nil {
		return nil, err
	}
	switch {
	case e.State == Sending && e.DueAt.After(e.now):
		return e, fmt.Errorf("%w: %s is being sent; a worker has it for another %s, or shorter", ErrState, e, e.DueAt.Sub(e.now).Round(time.Second))
	case e.State == Done || e.State == Dropped:
		return e, fmt.Errorf("%w: %s is %s, and cannot be %s", ErrState, e, e.State, how)
	}
	return e, fmt.Errorf("%w: that of %s, which was first sent at %s", ErrForgotten, e, e.FirstSentAt.UTC().Format(time.RFC3339))
}
