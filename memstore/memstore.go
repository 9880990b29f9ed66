// Package memstore keeps idempotency records in the memory of one process. It is the reference implementation of
// [ichido.Store], for tests and for services whose effects are in the same memory: after a restart it knows nothing,
// and a second process has a store of its own.
package memstore

import (
	"bytes"
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
)

// A Store keeps records in memory. It is safe for concurrent use.
type Store struct {
	max int

	mu        sync.Mutex
	entries   map[id]*entry
	completed list.List // of *entry, the oldest completion first
}

// DefaultMaxRecords is the number of completed records that a Store keeps if Config does not say otherwise.
const DefaultMaxRecords = 100_000

// Config holds what has a default. nil means defaults.
type Config struct {
	// MaxRecords bounds the completed records kept. When one more is completed, the oldest goes, though its
	// retention has not passed: its key is then a new operation. Attempts in progress are never evicted and do not
	// count. Zero means DefaultMaxRecords.
	MaxRecords int
}

var (
	_ ichido.Store  = (*Store)(nil)
	_ ichido.Purger = (*Store)(nil)
	_ ichido.Pinger = (*Store)(nil)
)

// New returns an empty store.
func New(config *Config) *Store {
	limit := DefaultMaxRecords
	if config != nil && config.MaxRecords > 0 {
		limit = config.MaxRecords
	}
	return &Store{max: limit, entries: make(map[id]*entry)}
}

type id struct{ scope, key string }

// An entry is a key with an attempt in progress, or a completed one.
type entry struct {
	id      id
	record  ichido.Record
	expires time.Time
	listed  *list.Element // in Store.completed; nil while the attempt is in progress
	attempt attempt
}

// Begin implements [ichido.Store]. It never waits.
func (s *Store) Begin(_ context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	k := id{claim.Scope, claim.Key}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[k]; e != nil {
		switch {
		case e.listed == nil && bytes.Equal(e.record.Fingerprint, claim.Fingerprint):
			return nil, nil, ichido.ErrInProgress
		case e.listed == nil:
			return nil, nil, ichido.ErrMismatch
		case time.Now().Before(e.expires):
			return nil, &e.record, nil
		}
		s.remove(e)
	}
	e := &entry{id: k, record: ichido.Record{Fingerprint: claim.Fingerprint}}
	e.attempt = attempt{store: s, entry: e, retention: claim.Retention}
	s.entries[k] = e
	return &e.attempt, nil, nil
}

// Purge implements [ichido.Purger].
func (s *Store) Purge(_ context.Context, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	n := 0
	for el := s.completed.Front(); el != nil && n < limit; {
		e := el.Value.(*entry)
		el = el.Next()
		if !now.Before(e.expires) {
			s.remove(e)
			n++
		}
	}
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

type attempt struct {
	store     *Store
	entry     *entry
	retention time.Duration
}

func (a *attempt) Context(parent context.Context) context.Context { return parent }

func (a *attempt) Complete(_ context.Context, response ichido.Response) error {
	s := a.store
	s.mu.Lock()
	defer s.mu.Unlock()
	a.entry.record.Response = response
	a.entry.expires = time.Now().Add(a.retention)
	a.entry.listed = s.completed.PushBack(a.entry)
	if s.completed.Len() > s.max {
		s.remove(s.completed.Front().Value.(*entry))
	}
	return nil
}

func (a *attempt) Abandon(context.Context, error) error {
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	a.store.remove(a.entry)
	return nil
}
