package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ichido-dev/ichido"
)

// lease claims a key in lease mode. It reads first, so that what is not to be had is refused without waiting for those
// who write. What it finds free may be taken by the time it writes; then it begins anew.
func (s *Store) lease(ctx context.Context, st *statements, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	if !isText(claim.Scope) || !isText(claim.Key) {
		return nil, nil, errors.New("sqlstore: in lease mode scope and key must be UTF-8 text without NUL")
	}
	l := *claim.Lease
	var request any // NULL if there is none: of a nil slice drivers make what they like
	if l.Request != nil {
		request = l.Request
	}
	for {
		r, err := read(ctx, st.read, claim.Scope, claim.Key)
		if err != nil {
			return nil, nil, s.dialect.unavailable("reading the record", err)
		}
		if r.active() && !r.leasable(claim) {
			record, err := r.answer(claim.Fingerprint)
			return nil, record, err
		}
		if l.Follows && !r.active() {
			return nil, nil, ichido.ErrNoRecord
		}
		n, err := affected(s.db.ExecContext(ctx, s.dialect.claim, claim.Scope, claim.Key, claim.Fingerprint,
			s.dialect.interval(l.UnknownRetention), l.Token, s.dialect.interval(l.Duration), l.Rerun, l.Route,
			l.MaxAttempts, l.Owner, request, !l.Follows, claim.Key, claim.Scope))
		if err != nil {
			return nil, nil, s.dialect.unavailable("claiming the key", err)
		}
		if n > 0 {
			return &leaseAttempt{store: s, claim: claim, token: l.Token, unknownRetention: l.UnknownRetention}, nil, nil
		}
	}
}

// leasable reports whether a claim in lease mode may have the key of an active record. The statement of the claim has the
// same conditions.
func (r *row) leasable(claim ichido.Claim) bool {
	switch {
	case r.status.Valid:
		return false
	case r.live:
		return r.token == claim.Lease.Token // the acknowledgement was lost
	}
	return r.again && (r.resumes || r.rerun && claim.Lease.Rerun) && bytes.Equal(r.fingerprint, claim.Fingerprint)
}

// isText reports whether JSON, in which Renew sends it, keeps a string as it is.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// A leaseAttempt is one in lease mode. It holds nothing.
type leaseAttempt struct {
	store            *Store
	claim            ichido.Claim
	token            int64
	unknownRetention time.Duration
}

// Context implements [ichido.Attempt]. It leads [TxStep] to the attempt, and lets [Tx] say why there is no transaction.
func (a *leaseAttempt) Context(parent context.Context) context.Context {
	return context.WithValue(parent, attemptKey{}, a)
}

// Complete implements [ichido.Attempt].
func (a *leaseAttempt) Complete(ctx context.Context, response ichido.Response) error {
	d := a.store.dialect
	return a.end(ctx, "storing the answer", d.complete, response.Status, response.Header, response.Body,
		d.interval(a.claim.Retention), a.claim.Key, a.claim.Scope, a.token)
}

// Abandon implements [ichido.Attempt].
func (a *leaseAttempt) Abandon(ctx context.Context, cause error) error {
	d := a.store.dialect
	if cause == nil {
		// An attempt that follows another frees nothing: the one before may have had an effect.
		if err := a.discard(ctx); !errors.Is(err, ichido.ErrLost) {
			return err
		}
	}
	return a.end(ctx, "ending the lease", d.lapse, d.interval(a.unknownRetention), a.claim.Key, a.claim.Scope, a.token)
}

// discard deletes the record. If it has steps, they are deleted first, by a statement of their own.
func (a *leaseAttempt) discard(ctx context.Context) error {
	d := a.store.dialect
	err := a.end(ctx, "deleting the record", d.discard, a.claim.Key, a.claim.Scope, a.token)
	if errors.Is(err, ichido.ErrLost) {
		if err = a.end(ctx, "deleting the steps", d.forget, a.claim.Key, a.claim.Scope, a.token); err == nil {
			err = a.end(ctx, "deleting the record", d.discard, a.claim.Key, a.claim.Scope, a.token)
		}
	}
	return err
}

const (
	firstPause = 10 * time.Millisecond
	longPause  = time.Second
)

// end runs a statement that ends the attempt. The work has been done, so it is worth more than one wait for others who
// write.
func (a *leaseAttempt) end(ctx context.Context, doing, statement string, args ...any) error {
	for pause := firstPause; ; pause *= 2 {
		n, err := affected(a.store.db.ExecContext(ctx, statement, args...))
		switch {
		case err == nil && n == 0:
			return ichido.ErrLost
		case err == nil:
			return nil
		case !a.store.dialect.isBusy(err) || pause > longPause:
			return fmt.Errorf("sqlstore: %s: %w", doing, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("sqlstore: %s: %w", doing, err)
		}
	}
}

// Renew implements [ichido.Leaser]. The leases are one parameter, because SQLite bounds how many there may be.
func (s *Store) Renew(ctx context.Context, leases []ichido.Held) ([]bool, error) {
	held := make([]bool, len(leases))
	if len(leases) == 0 {
		return held, nil
	}
	list := make([][4]any, len(leases))
	for i, l := range leases {
		list[i] = [4]any{l.Scope, l.Key, strconv.FormatInt(l.Token, 10), s.dialect.interval(l.Duration)}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	type lease struct {
		scope, key string
		token      int64
	}
	renewed := make(map[lease]bool, len(leases))
	err = s.each(ctx, func(rows *sql.Rows) error {
		var l lease
		err := rows.Scan(&l.scope, &l.key, &l.token)
		renewed[l] = true
		return err
	}, s.dialect.renew, string(text))
	if err != nil {
		return nil, s.dialect.unavailable("renewing leases", err)
	}
	for i, l := range leases {
		held[i] = renewed[lease{l.Scope, l.Key, l.Token}]
	}
	return held, nil
}

// each reads all rows of a query. A statement with RETURNING is committed behind its last row.
func (s *Store) each(ctx context.Context, read func(*sql.Rows) error, query string, args ...any) error {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// GiveBack implements [ichido.Leaser].
func (s *Store) GiveBack(ctx context.Context, claim ichido.Claim) error {
	return (&leaseAttempt{store: s, claim: claim, token: claim.Lease.Token, unknownRetention: claim.Lease.UnknownRetention}).Abandon(ctx, nil)
}
