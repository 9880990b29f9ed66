package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/ichido-dev/ichido"
)

// A lease is what an entry of lease mode has in addition.
type lease struct {
	token    int64 // of the last attempt
	until    time.Time
	rerun    bool
	route    string
	owner    string
	attempts int

	asked      int
	askedUntil time.Time // nobody else asks until then

	resumes     bool
	steps       []ichido.KeptStep
	maxAttempts int
	request     []byte
}

// again reports whether another attempt may follow, if the next claim agrees.
func (l *lease) again() bool {
	return (l.rerun || l.resumes) && (l.maxAttempts == 0 || l.attempts < l.maxAttempts)
}

func (l *lease) runs(now time.Time) bool { return now.Before(l.until) }

// lease begins the first attempt of a key. s.mu is held.
func (s *Store) lease(k ichido.EntryID, claim ichido.Claim, now time.Time) (ichido.Attempt, *ichido.Record, error) {
	if len(s.entries)-s.completed.Len() >= s.max {
		return nil, nil, fmt.Errorf("%w: memstore: %d keys are in progress or unknown, which is as many as Config.MaxRecords allows", ichido.ErrUnavailable, s.max)
	}
	e := &entry{id: k, record: ichido.Record{Fingerprint: claim.Fingerprint, State: ichido.Unknown}, created: now}
	e.lease = &lease{request: claim.Lease.Request}
	s.entries[k] = e
	return s.hold(e, claim, now), nil, nil
}

// hold gives an entry to the attempt of a claim. s.mu is held.
func (s *Store) hold(e *entry, claim ichido.Claim, now time.Time) ichido.Attempt {
	l := e.lease
	if l.token != claim.Lease.Token {
		l.attempts++
	}
	l.maxAttempts, l.owner, l.route = claim.Lease.MaxAttempts, claim.Lease.Owner, claim.Lease.Route
	l.token, l.rerun, l.until = claim.Lease.Token, claim.Lease.Rerun, now.Add(claim.Lease.Duration)
	e.expires = now.Add(claim.Lease.UnknownRetention)
	return &leaseAttempt{s, e.id, claim}
}

// reclaim decides about a claim of an entry whose lease has run out, or is the claim's own. s.mu is held.
func (s *Store) reclaim(e *entry, claim ichido.Claim, same bool, now time.Time) (ichido.Attempt, *ichido.Record, error) {
	own := claim.Lease != nil && claim.Lease.Token == e.lease.token && e.lease.runs(now)
	if own || same && claim.Lease != nil && e.lease.again() && (e.lease.resumes || claim.Lease.Rerun) {
		return s.hold(e, claim, now), nil, nil
	}
	return nil, &ichido.Record{Fingerprint: e.record.Fingerprint, State: ichido.Unknown}, nil
}

// held returns the entry of a lease that is still held, or nil. s.mu is held.
func (s *Store) held(id ichido.EntryID, token int64, now time.Time) *entry {
	e := s.entries[id]
	if e == nil || e.listed != nil || e.lease == nil || e.lease.token != token || !e.lease.runs(now) {
		return nil
	}
	return e
}

// Renew implements [ichido.Leaser].
func (s *Store) Renew(ctx context.Context, leases []ichido.Held) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	held := make([]bool, len(leases))
	for i, h := range leases {
		if e := s.held(ichido.EntryID{Scope: h.Scope, Key: h.Key}, h.Token, now); e != nil {
			e.lease.until = now.Add(h.Duration)
			held[i] = true
		}
	}
	return held, nil
}

// A leaseAttempt is one of lease mode.
type leaseAttempt struct {
	store *Store
	id    ichido.EntryID
	claim ichido.Claim
}

func (a *leaseAttempt) Context(parent context.Context) context.Context { return parent }

func (a *leaseAttempt) Complete(_ context.Context, response ichido.Response) error {
	s := a.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[a.id]; e != nil && e.listed != nil && e.lease != nil && e.lease.token == a.claim.Lease.Token {
		return nil
	}
	e := s.held(a.id, a.claim.Lease.Token, time.Now())
	if e == nil {
		return ichido.ErrLost
	}
	s.complete(e, response, a.claim.Retention)
	return nil
}

func (a *leaseAttempt) Abandon(_ context.Context, cause error) error {
	s := a.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e := s.held(a.id, a.claim.Lease.Token, now)
	switch {
	case e == nil:
		return ichido.ErrLost
	case cause == nil && e.lease.attempts == 1: // else an attempt of before may have had an effect
		s.remove(e)
	default:
		e.lease.until = now
		e.expires = now.Add(a.claim.Lease.UnknownRetention)
	}
	return nil
}

// GiveBack implements [ichido.Leaser].
func (s *Store) GiveBack(ctx context.Context, claim ichido.Claim) error {
	return (&leaseAttempt{s, ichido.EntryID{Scope: claim.Scope, Key: claim.Key}, claim}).Abandon(ctx, nil)
}
