// Package memstore keeps idempotency records in the memory of one process. It is the reference implementation of
// [ichido.Store], for tests and for services whose effects are in the same memory: after a restart it knows nothing,
// and a second process has a store of its own.
package memstore

import (
	"bytes"
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
)

// A Store keeps records in memory. It is safe for concurrent use.
type Store struct {
	max int

	mu          sync.Mutex
	entries     map[ichido.EntryID]*entry
	completed   list.List // of *entry, the oldest completion first
	settlements []ichido.Settlement
}

// DefaultMaxRecords is the number of completed records that a Store keeps if Config does not say otherwise.
const DefaultMaxRecords = 100_000

// Config holds what has a default. nil means defaults.
type Config struct {
	// MaxRecords bounds the completed records kept. When one more is completed, the oldest goes, though its
	// retention has not passed: its key is then a new operation. Attempts in progress and unknown keys are never evicted
	// and do not count; but when there are as many of them, claims of lease mode fail. Settlements are bounded by the
	// same number. Zero means DefaultMaxRecords.
	MaxRecords int
}

var (
	_ ichido.Store     = (*Store)(nil)
	_ ichido.Settler   = (*Store)(nil)
	_ ichido.Finisher  = (*Store)(nil)
	_ ichido.Inspector = (*Store)(nil)
	_ ichido.Purger    = (*Store)(nil)
	_ ichido.Pinger    = (*Store)(nil)
)

// New returns an empty store.
func New(config *Config) *Store {
	limit := DefaultMaxRecords
	if config != nil && config.MaxRecords > 0 {
		limit = config.MaxRecords
	}
	return &Store{max: limit, entries: make(map[ichido.EntryID]*entry)}
}

// An entry is a key with an attempt in progress, or a record.
type entry struct {
	id      ichido.EntryID
	record  ichido.Record
	created time.Time
	expires time.Time
	listed  *list.Element // in Store.completed; nil while the key is not completed
	attempt attempt       // of transaction mode
	lease   *lease        // of lease mode, or nil
}

// expired reports whether the entry is as good as absent: past its retention, and no attempt is at it.
func (e *entry) expired(now time.Time) bool {
	switch {
	case e.listed == nil && e.lease == nil:
		return false
	case e.listed == nil && e.lease.runs(now):
		return false
	}
	return !now.Before(e.expires)
}

// Begin implements [ichido.Store]. It never waits.
func (s *Store) Begin(ctx context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	k := ichido.EntryID{Scope: claim.Scope, Key: claim.Key}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e := s.entries[k]
	if e != nil && e.expired(now) {
		s.remove(e)
		e = nil
	}
	same := e != nil && bytes.Equal(e.record.Fingerprint, claim.Fingerprint)
	switch {
	case e == nil && claim.Lease != nil && claim.Lease.Follows:
		return nil, nil, ichido.ErrNoRecord
	case e == nil && claim.Lease != nil:
		return s.lease(k, claim, now)
	case e == nil:
		e := &entry{id: k, record: ichido.Record{Fingerprint: claim.Fingerprint}}
		e.attempt = attempt{store: s, entry: e, retention: claim.Retention}
		s.entries[k] = e
		return &e.attempt, nil, nil
	case e.listed != nil:
		return nil, &e.record, nil
	case e.lease != nil && (claim.Lease != nil && claim.Lease.Token == e.lease.token || !e.lease.runs(now)):
		return s.reclaim(e, claim, same, now)
	case same:
		return nil, nil, ichido.ErrInProgress
	}
	return nil, nil, ichido.ErrMismatch
}

// Purge implements [ichido.Purger].
func (s *Store) Purge(_ context.Context, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	n := 0
	for _, e := range s.entries {
		if n >= limit {
			return n, nil
		}
		if e.expired(now) {
			s.remove(e)
			n++
		}
	}
	s.settlements = slices.DeleteFunc(s.settlements, func(t ichido.Settlement) bool {
		old := n < limit && now.Sub(t.At) >= ichido.SettlementRetention
		if old {
			n++
		}
		return old
	})
	return n, nil
}

// Ping implements [ichido.Pinger]: memory always answers.
func (s *Store) Ping(context.Context) error { return nil }

// remove forgets an entry. s.mu is held.
func (s *Store) remove(e *entry) {
	delete(s.entries, e.id)
	if e.listed != nil {
		s.completed.Remove(e.listed)
	}
}

// complete stores an answer. s.mu is held.
func (s *Store) complete(e *entry, response ichido.Response, retention time.Duration) {
	e.record.State, e.record.Response = ichido.Completed, response
	if e.lease != nil {
		e.lease.request = nil
	}
	e.created = time.Now()
	e.expires = e.created.Add(retention)
	e.listed = s.completed.PushBack(e)
	if s.completed.Len() > s.max {
		s.remove(s.completed.Front().Value.(*entry))
	}
}

// An attempt is one of transaction mode.
type attempt struct {
	store     *Store
	entry     *entry
	retention time.Duration
}

func (a *attempt) Context(parent context.Context) context.Context { return parent }

func (a *attempt) Complete(_ context.Context, response ichido.Response) error {
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	a.store.complete(a.entry, response, a.retention)
	return nil
}

func (a *attempt) Abandon(context.Context, error) error {
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	a.store.remove(a.entry)
	return nil
}
