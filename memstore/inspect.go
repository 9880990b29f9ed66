package memstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ichido-dev/ichido"
)

// describe returns what there is to show of an entry. s.mu is held.
func (e *entry) describe(now time.Time, whole bool) ichido.Entry {
	d := ichido.Entry{EntryID: e.id, Fingerprint: e.record.Fingerprint, CreatedAt: e.created, ExpiresAt: e.expires}
	switch {
	case e.listed != nil:
		d.Status, d.BodySize = e.record.Response.Status, len(e.record.Response.Body)
		if whole {
			r := e.record.Response
			d.Response = &r
		}
	case e.lease == nil || e.lease.runs(now) || e.lease.again():
		d.State = ichido.InProgress
	default:
		d.State = ichido.Unknown
	}
	if l := e.lease; l != nil {
		d.Route, d.Token, d.Attempts, d.Rerun, d.Asked = l.route, l.token, l.attempts, l.rerun, l.asked
		d.Owner, d.Resumes, d.MaxAttempts, d.Finishes = l.owner, l.resumes, l.maxAttempts, l.request != nil
		if e.listed == nil {
			d.LeaseUntil = l.until
		}
		for _, s := range l.steps {
			if whole {
				d.Steps = append(d.Steps, s.Name)
			}
		}
	}
	return d
}

func compareIDs(a, b ichido.EntryID) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Scope, b.Scope))
}

// List implements [ichido.Inspector]. Attempts of transaction mode have no record, and are not listed.
func (s *Store) List(ctx context.Context, f ichido.Filter) ([]ichido.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var chosen []ichido.Entry
	for _, e := range s.entries {
		if e.listed == nil && e.lease == nil || f.After != nil && compareIDs(e.id, *f.After) <= 0 {
			continue
		}
		d := e.describe(now, false)
		age := now.Sub(d.CreatedAt)
		if len(f.States) > 0 && !slices.Contains(f.States, d.State) ||
			f.Scope != "" && d.Scope != f.Scope || f.Route != "" && d.Route != f.Route ||
			f.Key != "" && d.Key != f.Key || !strings.HasPrefix(d.Key, f.KeyPrefix) ||
			age < f.OlderThan || f.NewerThan > 0 && age > f.NewerThan {
			continue
		}
		chosen = append(chosen, d)
	}
	slices.SortFunc(chosen, func(a, b ichido.Entry) int { return compareIDs(a.EntryID, b.EntryID) })
	return chosen[:min(len(chosen), f.Limit)], nil
}

// Look implements [ichido.Inspector].
func (s *Store) Look(ctx context.Context, scope, key string) (*ichido.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[ichido.EntryID{Scope: scope, Key: key}]
	if e == nil || e.listed == nil && e.lease == nil {
		return nil, ichido.ErrNoRecord
	}
	d := e.describe(time.Now(), true)
	return &d, nil
}

// Settlements implements [ichido.Inspector].
func (s *Store) Settlements(ctx context.Context, scope, key string) ([]ichido.Settlement, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var of []ichido.Settlement
	for _, t := range s.settlements {
		if t.Scope == scope && t.Key == key {
			of = append(of, t)
		}
	}
	return of, nil
}
