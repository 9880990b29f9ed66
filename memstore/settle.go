package memstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ichido-dev/ichido"
)

// unknown reports whether an entry can be asked about.
func (e *entry) unknown(now time.Time) bool {
	return e.waits(now) && !(e.lease.resumes && e.lease.again())
}

// waits reports whether an entry has no answer and nobody is at it.
func (e *entry) waits(now time.Time) bool {
	return e.listed == nil && e.lease != nil && !e.lease.runs(now) && !e.expired(now)
}

// Ask implements [ichido.Settler].
func (s *Store) Ask(ctx context.Context, q ichido.Question) ([]ichido.UnknownKey, error) {
	due, err := s.reserve(ctx, q, (*entry).unknown)
	unknown := make([]ichido.UnknownKey, len(due))
	for i, k := range due {
		unknown[i] = k.UnknownKey
	}
	return unknown, err
}

// Abandoned implements [ichido.Finisher].
func (s *Store) Abandoned(ctx context.Context, q ichido.Question) ([]ichido.AbandonedKey, error) {
	q.Key = ""
	return s.reserve(ctx, q, func(e *entry, now time.Time) bool {
		return e.waits(now) && e.lease.request != nil && e.lease.again()
	})
}

// reserve reserves entries for a question.
func (s *Store) reserve(ctx context.Context, q ichido.Question, fits func(*entry, time.Time) bool) ([]ichido.AbandonedKey, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var due []*entry
	for _, e := range s.entries {
		switch {
		case !fits(e, now) || now.Before(e.lease.askedUntil):
		case q.Key != "" && e.id == ichido.EntryID{Scope: q.Scope, Key: q.Key}:
			due = append(due, e)
		case q.Key == "" && e.lease.route == q.Route && !now.Before(e.lease.due()):
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *entry) int { return a.lease.until.Compare(b.lease.until) })
	if q.Key == "" {
		due = due[:min(len(due), q.Limit)]
	}
	reserved := make([]ichido.AbandonedKey, len(due))
	for i, e := range due {
		l := e.lease
		l.asked++
		l.askedUntil = now.Add(q.Patience)
		reserved[i] = ichido.AbandonedKey{Request: l.request, UnknownKey: ichido.UnknownKey{Scope: e.id.Scope, Key: e.id.Key, Route: l.route, Fingerprint: e.record.Fingerprint,
			Token: l.token, Attempts: l.attempts, Asked: l.asked, CreatedAt: e.created, Since: l.until}}
	}
	return reserved, nil
}

// due is when a sweep may ask again: a while after the last question, or the attempt that followed it.
func (l *lease) due() time.Time {
	if l.asked == 0 {
		return l.until
	}
	end := l.askedUntil
	if l.until.After(end) {
		end = l.until
	}
	return end.Add(min(10*time.Second<<min(l.asked-1, 10), time.Hour))
}

// Settle implements [ichido.Settler].
func (s *Store) Settle(ctx context.Context, t ichido.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e := s.entries[ichido.EntryID{Scope: t.Scope, Key: t.Key}]
	switch {
	case t.By == "":
		return errors.New("memstore: the field Settlement.By is empty; it names who settles the key")
	case e == nil || e.expired(now):
		return ichido.ErrNoRecord
	case e.listed != nil && t.How != ichido.SettledDeleted:
		return ichido.ErrNotUnknown
	case e.listed == nil && (e.lease == nil || e.lease.runs(now)):
		return ichido.ErrInProgress
	case t.Token != 0 && (e.lease == nil || e.lease.token != t.Token):
		return ichido.ErrNotUnknown
	}
	switch t.How {
	case ichido.StillUnknown:
		e.lease.askedUntil = now
		return nil
	case ichido.SettledDone:
		e.lease.token = 0 // the attempt did not store this answer
		s.complete(e, t.Response, t.Retention)
	default:
		s.remove(e)
	}
	t.At, t.Response = now, ichido.Response{}
	if len(s.settlements) >= s.max {
		s.settlements = s.settlements[1:]
	}
	s.settlements = append(s.settlements, t)
	return nil
}
