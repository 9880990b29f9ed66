package ichido

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// A Mode says how an attempt, its work and its answer hang together.
type Mode int

const (
	// TransactionMode makes the claim, what the work writes and the answer one transaction of the database. It covers
	// what is in that database, and leaves nothing behind when it fails.
	TransactionMode Mode = iota

	// LeaseMode commits the claim first and the answer last, for work that leaves the database: it calls a payment
	// provider, sends a mail, writes to a queue. In between the key is in progress under a lease that the Manager renews.
	// If the process dies there, whether the work took effect is not known: see Config.OnLapse.
	LeaseMode
)

// A LapsePolicy says what happens to a key of lease mode whose attempt ended without an answer: its lease ran out, or the
// handler panicked, answered 5xx or returned an error.
type LapsePolicy int

const (
	// Hold makes the key unknown. Nothing runs under it until it is settled: by Config.Resolver, or by a person (ichido
	// keys, or Settle of the store).
	Hold LapsePolicy = iota

	// Rerun lets the next request with the key run the work again. Choose it only for work that is safe to repeat: the
	// work of an attempt that went may have taken effect, and of one that is merely late may yet.
	Rerun
)

const (
	beatsPerLease = 3 // how often a lease is renewed before it would run out
	minLease      = 100 * time.Millisecond
	maxClaims     = 3   // tries to hear of a claim
	maxOrphans    = 100 // claims of unknown outcome that are given back at the same time
)

// leases keeps the leases of one process alive: one statement a beat for all of them.
type leases struct {
	store   Leaser // nil if the Manager's store has no lease mode
	timeout time.Duration
	log     *slog.Logger

	mu       sync.Mutex
	held     map[*heldLease]struct{}
	beating  bool
	hurry    chan struct{} // wakes the beat for a lease that is due earlier
	stopping bool
	idle     chan struct{} // closed when nothing is held any more; nil while nobody waits
	orphans  int
}

// A heldLease is an attempt of lease mode with its heartbeat.
type heldLease struct {
	Attempt
	all     *leases
	claim   Claim
	work    *deadlineContext // nil until the work begins
	renewed time.Time        // when the claim, or the last renewal that was heard of, was sent
	ending  bool             // what the store says of the lease is no news any more
}

// hold begins the heartbeat of an attempt whose claim was sent at the time given.
func (ls *leases) hold(attempt Attempt, claim Claim, sent time.Time) *heldLease {
	h := &heldLease{Attempt: attempt, all: ls, claim: claim, renewed: sent}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.held == nil {
		ls.held = make(map[*heldLease]struct{})
	}
	ls.held[h] = struct{}{}
	if !ls.beating {
		ls.beating, ls.hurry = true, make(chan struct{}, 1)
		go ls.beat()
		return h
	}
	ls.wake()
	return h
}

// wake makes the heartbeat look at the leases again.
func (ls *leases) wake() {
	select {
	case ls.hurry <- struct{}{}:
	default: // it is awake
	}
}

// drop ends the heartbeat of an attempt.
func (ls *leases) drop(h *heldLease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.forget(h)
}

// forget is drop with ls.mu held.
func (ls *leases) forget(h *heldLease) {
	delete(ls.held, h)
	if len(ls.held) > 0 {
		return
	}
	if ls.beating {
		ls.wake()
	}
	if ls.idle != nil {
		close(ls.idle)
		ls.idle = nil
	}
}

// due is when a lease is to be renewed; after its work's deadline never.
func (h *heldLease) due() (time.Time, bool) {
	due := h.renewed.Add(h.claim.Lease.Duration / beatsPerLease)
	return due, h.work == nil || due.Before(h.work.deadline)
}

// over is when the lease is lost if no renewal is heard of. The store counts from later, so it may still be held there.
func (h *heldLease) over() time.Time { return h.renewed.Add(h.claim.Lease.Duration) }

// beat renews leases until none is held.
func (ls *leases) beat() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failing := false
	for {
		due, over, ok := ls.next()
		if !ok {
			return
		}
		now := time.Now()
		if !over.IsZero() && !due.After(now) {
			err := ls.renew(min(ls.timeout, over.Sub(now)/2)) // so that there is time for another try
			if err != nil && !failing {
				ls.log.Warn("ichido: leases could not be renewed; trying again", slog.Any("error", err))
			}
			failing = err != nil
			if !failing {
				continue
			}
			due = now.Add(minLease / 2)
			if over.Before(due) {
				due = over
			}
		}
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ls.hurry:
		}
	}
}

// next drops the leases that are lost, and returns when the first of the others is due, and when the first of those that
// may be renewed is lost. It reports false if none is left: then the heartbeat has ended.
func (ls *leases) next() (due, over time.Time, ok bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := time.Now()
	for h := range ls.held {
		end := h.over()
		if !now.Before(end) {
			ls.lose(h)
			continue
		}
		at, renewable := h.due()
		switch {
		case !renewable:
			at = end
		case over.IsZero() || end.Before(over):
			over = end
		}
		if due.IsZero() || at.Before(due) {
			due = at
		}
	}
	if due.IsZero() {
		ls.beating = false
	}
	return due, over, ls.beating
}

// lose ends the work of an attempt whose lease is lost. ls.mu is held.
func (ls *leases) lose(h *heldLease) {
	ls.forget(h)
	if h.ending {
		return
	}
	ls.log.Warn("ichido: an attempt has lost its lease; its work is cancelled and its answer will be refused")
	if h.work != nil {
		h.work.fail(ErrLeaseLost)
	}
}

// renew renews all leases that may be, in one statement.
func (ls *leases) renew(timeout time.Duration) error {
	var all []*heldLease
	var asked []Held
	ls.mu.Lock()
	for h := range ls.held {
		if _, renewable := h.due(); renewable {
			all = append(all, h)
			asked = append(asked, Held{h.claim.Scope, h.claim.Key, h.claim.Lease.Token, h.claim.Lease.Duration})
		}
	}
	ls.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	sent := time.Now()
	held, err := ls.store.Renew(ctx, asked)
	if err == nil && len(held) != len(asked) {
		err = fmt.Errorf("ichido: Renew of %d leases returned %d", len(asked), len(held))
	}
	if err != nil {
		return err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i, h := range all {
		if held[i] {
			h.renewed = sent
		} else if _, still := ls.held[h]; still {
			ls.lose(h)
		}
	}
	return nil
}

// begin claims a key in lease mode. A claim that failed may have been stored all the same: it is repeated, under the same
// token, and if that fails too, given back later. It is not bound to its client: who hangs up loses nothing.
func (ls *leases) begin(ctx context.Context, claim Claim) (Attempt, *Record, error) {
	ls.mu.Lock()
	stopping := ls.stopping
	ls.mu.Unlock()
	if stopping {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, ErrStopped)
	}
	for again, tries := pauses(ctx), 1; ; tries++ {
		sent := time.Now()
		attempt, record, err := ls.store.Begin(ctx, claim)
		switch {
		case attempt != nil:
			return ls.hold(attempt, claim, sent), nil, nil
		case record != nil || isAnswer(err) || errors.Is(err, ErrUnavailable):
			return nil, record, err
		case tries == maxClaims || !again():
			go ls.disown(claim, sent)
			return nil, nil, err
		}
	}
}

// isAnswer reports whether an error of Begin is what the store has to say of the key, not a failure.
func isAnswer(err error) bool {
	return errors.Is(err, ErrInProgress) || errors.Is(err, ErrMismatch) || errors.Is(err, ErrSerialization)
}

// newToken returns a fencing token. It is random and not a count, because a count begins anew when the record of a key
// was deleted: then an attempt of before could pose as one of after.
func newToken() int64 {
	for {
		if token := int64(rand.Uint64()); token != 0 {
			return token
		}
	}
}

// disown gives back a claim of which it is not known whether it was stored. Without that it would become unknown, though
// nothing ran. It ends with the lease.
func (ls *leases) disown(claim Claim, sent time.Time) {
	ls.mu.Lock()
	ls.orphans++
	many := ls.orphans > maxOrphans
	ls.mu.Unlock()
	defer func() {
		ls.mu.Lock()
		ls.orphans--
		ls.mu.Unlock()
	}()
	if many {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), sent.Add(claim.Lease.Duration))
	defer cancel()
	for again := pauses(ctx); again(); {
		bounded, cancel := context.WithTimeout(ctx, ls.timeout)
		attempt, record, err := ls.store.Begin(bounded, claim)
		if attempt != nil {
			err = attempt.Abandon(bounded, nil)
		}
		cancel()
		if err == nil || record != nil || errors.Is(err, ErrLost) || isAnswer(err) && !errors.Is(err, ErrSerialization) {
			return
		}
	}
}

// pauses returns a function that waits, longer each time, and reports whether ctx is still good.
func pauses(ctx context.Context) func() bool {
	pause := firstLook
	return func() bool {
		timer := time.NewTimer(pause/2 + rand.N(pause))
		defer timer.Stop()
		pause = min(pause*2, longestLook)
		select {
		case <-timer.C:
			return ctx.Err() == nil
		case <-ctx.Done():
			return false
		}
	}
}

// Context implements [Attempt].
func (h *heldLease) Context(parent context.Context) context.Context {
	h.all.mu.Lock()
	h.work = workOf(parent)
	h.work.lease = h
	_, held := h.all.held[h]
	h.all.mu.Unlock()
	if !held {
		h.work.fail(ErrLeaseLost)
	}
	return h.Attempt.Context(parent)
}

// Complete implements [Attempt]. The work is done and cannot be undone: what fails is tried again, as long as there is
// time.
func (h *heldLease) Complete(ctx context.Context, response Response) error {
	defer h.all.drop(h)
	h.end()
	for again := pauses(ctx); ; {
		err := h.Attempt.Complete(ctx, response)
		switch {
		case err == nil || errors.Is(err, ErrLost):
			return err
		case !again():
			return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
		}
	}
}

// Abandon implements [Attempt]. Work that failed may have taken effect, unless it said by Discard that it has not.
func (h *heldLease) Abandon(ctx context.Context, cause error) error {
	defer h.all.drop(h)
	h.end()
	if h.work != nil && h.work.verdict.said.Load() == discard {
		cause = nil
	} else if h.work != nil && cause == nil && h.work.keptSteps() {
		cause = errStepsKept
	}
	for again, tries := pauses(ctx), 1; ; tries++ {
		err := h.Attempt.Abandon(ctx, cause)
		switch {
		case errors.Is(err, ErrLost) && tries > 1:
			return nil // an earlier try was heard
		case err == nil || errors.Is(err, ErrLost) || !again():
			return err
		}
	}
}

// errStepsKept is why a refusal does not free a key.
var errStepsKept = errors.New("ichido: steps of the operation are kept")

func (h *heldLease) end() {
	h.all.mu.Lock()
	h.ending = true
	h.all.mu.Unlock()
}

// Shutdown lets the attempts in lease mode finish, of this Manager and of those that [Manager.With] made from it. Call it
// after http.Server.Shutdown. New ones are refused with 503. When ctx ends, the context of those that still run ends
// with ErrStopped as its cause, and they hand back their leases: their keys are unknown, or run again, at once instead of
// when the lease has run out. Then Shutdown returns ctx's error. Attempts in transaction mode need none of this.
func (m *Manager) Shutdown(ctx context.Context) error {
	ls := m.leases
	ls.mu.Lock()
	ls.stopping = true
	if len(ls.held) == 0 {
		ls.mu.Unlock()
		return nil
	}
	if ls.idle == nil {
		ls.idle = make(chan struct{})
	}
	idle := ls.idle
	ls.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	if n := ls.handBack(context.WithoutCancel(ctx)); n > 0 {
		return fmt.Errorf("ichido: %d attempts were still running and handed back their leases: %w", n, ctx.Err())
	}
	return nil
}

// handBack ends all attempts and returns how many they were.
func (ls *leases) handBack(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, ls.timeout)
	defer cancel()
	ls.mu.Lock()
	var all []*heldLease
	for h := range ls.held {
		if !h.ending {
			all = append(all, h)
		}
	}
	ls.mu.Unlock()
	var wg sync.WaitGroup
	slots := make(chan struct{}, looksAtOnce)
	for _, h := range all {
		if h.work != nil {
			h.work.fail(ErrStopped)
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := h.Attempt.Abandon(ctx, ErrStopped); err != nil && !errors.Is(err, ErrLost) {
				ls.log.Warn("ichido: a lease could not be handed back; it will run out", slog.Any("error", err))
			}
			ls.drop(h)
		})
	}
	wg.Wait()
	return len(all)
}
