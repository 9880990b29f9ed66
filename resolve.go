package ichido

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"time"
)

// A Resolver finds out whether an operation took effect whose key is unknown, by asking where it would have: the payment
// provider, under the key that the work gave it. It is asked when a request comes with the key, and by [Manager.Sweep]; of
// one key by one at a time over all processes, as long as it answers within Config.ResolveTimeout, which bounds ctx.
//
// Of the requests of one Manager at most 16 have it asked at the same time, about different keys; others are told that their
// key is unknown.
//
// It returns [Done], [NotDone], or the zero Resolution if that is not known yet. NotDone frees the key, and the work runs
// again: say it only when the operation cannot take effect any more, not when it merely has not yet. An error is logged
// and means not known, and so does a panic.
type Resolver func(ctx context.Context, key UnknownKey) (Resolution, error)

// A Resolution is what a [Resolver] found out. The zero value is that it is not known.
type Resolution struct {
	how    SettledHow
	status int
	header http.Header
	body   []byte
	reason string
}

// Done says that the operation took effect, and with which answer: what its first request should have got. header may be
// nil. The answer is stored as one of the handler would be; of one that is too large, that it cannot be shown. For [Do] status is 200 and body the JSON of the value.
func Done(status int, header http.Header, body []byte) Resolution {
	return Resolution{how: SettledDone, status: status, header: header, body: body}
}

// NotDone says that the operation took no effect and will take none.
func NotDone() Resolution { return Resolution{how: SettledNotDone} }

// Because returns the resolution with a reason, which is kept with it for people to read.
func (r Resolution) Because(reason string) Resolution {
	r.reason = reason
	return r
}

// resolvesAtOnce bounds how many requests have the Resolver asked at the same time, over all keys.
const resolvesAtOnce = 16

// resolverName is who settled a key that a Resolver settled.
const resolverName = "resolver"

// unblock tries to make an unknown key usable, and reports whether it is worth claiming it again.
func (m *Manager) unblock(ctx context.Context, claim *Claim, record *Record, j job) bool {
	if m.config.Mode != LeaseMode {
		return false
	}
	if same, err := matches(*claim, record, j); err != nil || !same {
		return false
	}
	if !slices.Equal(claim.Fingerprint, record.Fingerprint) { // it has another form, in which the store did not know it
		claim.Fingerprint = record.Fingerprint
		return true
	}
	if m.config.Resolver == nil {
		return false
	}
	select {
	case m.resolves <- struct{}{}:
	default:
		return false // enough are being asked about; the sweep, or the next request, may find out
	}
	keys, err := m.reserve(ctx, Question{Scope: claim.Scope, Key: claim.Key, Limit: 1})
	settled := false
	if err != nil || len(keys) == 0 {
		<-m.resolves
	} else {
		settled, err = m.resolve(ctx, keys[0])
	}
	if err != nil {
		m.log.WarnContext(ctx, "ichido: an unknown key could not be settled", slog.Any("error", err), about(m.config.Route, claim.Scope, claim.Key))
	}
	return settled
}

// reserve reserves the keys of a question, for as long as it takes to ask about all of them, one after the other.
func (m *Manager) reserve(ctx context.Context, q Question) ([]UnknownKey, error) {
	q.Patience = time.Duration(q.Limit) * (m.config.ResolveTimeout + m.config.StoreTimeout)
	bounded := m.deadlines.apart(ctx, m.config.StoreTimeout)
	defer bounded.end()
	return m.store.(Settler).Ask(bounded, q) // fillLease has seen to it
}

// resolve asks the Resolver about a key that is reserved, and reports whether it is settled now. The caller has taken a
// place in m.resolves, which is given back when the Resolver returns.
func (m *Manager) resolve(ctx context.Context, key UnknownKey) (settled bool, err error) {
	resolution, err := m.askResolver(ctx, key)
	if err != nil {
		m.log.WarnContext(ctx, "ichido: the Resolver failed; the key stays unknown", slog.Any("error", err), about(key.Route, key.Scope, key.Key))
	}
	if errors.Is(err, errResolverLate) {
		return false, nil // it may still be at it: the key stays reserved
	}
	s := Settlement{Scope: key.Scope, Key: key.Key, Token: key.Token, How: resolution.how, Retention: m.config.Retention,
		By: resolverName, Reason: resolution.reason}
	if s.How == SettledDone {
		claim := Claim{Scope: key.Scope, Key: key.Key, Fingerprint: key.Fingerprint}
		s.Response, err = m.config.Stored.pack(&claim, resolution.status, snapshot(resolution.header), resolution.body)
		if resolution.status < 200 || resolution.status > 999 {
			err = fmt.Errorf("its status is %d", resolution.status)
		}
		if err != nil {
			m.log.WarnContext(ctx, "ichido: the answer of the Resolver cannot be stored; the key stays unknown",
				slog.Any("error", err), about(key.Route, key.Scope, key.Key))
			s.How = StillUnknown
		}
	}
	ending := m.deadlines.apart(ctx, m.config.StoreTimeout)
	defer ending.end()
	switch err := m.store.(Settler).Settle(ending, s); {
	case errors.Is(err, ErrNotUnknown) || errors.Is(err, ErrNoRecord) || errors.Is(err, ErrInProgress):
		return true, nil // somebody else settled it
	case err != nil:
		return false, err
	}
	return s.How != StillUnknown, nil
}

var errResolverLate = errors.New("it did not answer in time")

// askResolver calls the Resolver, for a bounded time. A Resolver that does not heed its context is left behind, and keeps its
// place in m.resolves.
func (m *Manager) askResolver(ctx context.Context, key UnknownKey) (Resolution, error) {
	bounded := m.deadlines.apart(ctx, m.config.ResolveTimeout)
	defer bounded.end()
	type said struct {
		resolution Resolution
		err        error
	}
	answered := make(chan said, 1)
	go func() {
		var s said
		defer func() {
			if p := recover(); p != nil {
				s = said{err: panicked{p, debug.Stack()}}
			}
			<-m.resolves
			answered <- s
		}()
		s.resolution, s.err = m.config.Resolver(bounded, key)
	}()
	select {
	case s := <-answered:
		if s.err != nil {
			return Resolution{}, s.err
		}
		return s.resolution, nil
	case <-bounded.Done():
		return Resolution{}, fmt.Errorf("%w (%s)", errResolverLate, m.config.ResolveTimeout)
	}
}

// A sweep reserves a few keys at a time, and ends after many: what is left is for the next.
const (
	sweepBatch = 20
	maxSweep   = 1000
)

// Sweep asks the Resolver about the unknown keys of Config.Route that are due, one after the other, and returns how many
// there were and how many of them it settled, also when it returns an error. Several processes may sweep at once. A key is
// asked about at growing intervals, from 10 s to an hour. It is an error to sweep without a Resolver.
func (m *Manager) Sweep(ctx context.Context) (asked, settled int, err error) {
	if m.config.Resolver == nil {
		return 0, 0, errors.New("ichido: Sweep: the field Config.Resolver is nil")
	}
	for asked < maxSweep {
		keys, err := m.reserve(ctx, Question{Route: m.config.Route, Limit: sweepBatch})
		if err != nil {
			return asked, settled, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		for _, key := range keys {
			select {
			case m.resolves <- struct{}{}:
			case <-ctx.Done():
				return asked, settled, ctx.Err()
			}
			asked++
			done, err := m.resolve(ctx, key)
			if done {
				settled++
			}
			if err != nil {
				return asked, settled, fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
		}
		if len(keys) < sweepBatch {
			break
		}
	}
	return asked, settled, ctx.Err()
}

// SweepEvery calls [Manager.Sweep] at once and then every interval, which must be positive, until ctx ends. It tells
// done, if that is not nil, how each sweep went.
func (m *Manager) SweepEvery(ctx context.Context, interval time.Duration, done func(asked, settled int, err error)) {
	every(ctx, interval, func() {
		asked, settled, err := m.Sweep(ctx)
		if done != nil && ctx.Err() == nil {
			done(asked, settled, err)
		}
	})
}
