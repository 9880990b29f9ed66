package ichido

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	maxClaims     = 3    // tries to hear of a claim
	maxOrphans    = 1000 // claims of unknown outcome that are given back at the same time
)

// leases keeps the leases of one process alive: one statement a beat for all of them.
type leases struct {
	store   Leaser // nil if the Manager's store has no lease mode
	timeout time.Duration
	log     *slog.Logger

	mu       sync.Mutex
	held     map[*heldLease]struct{}
	beating  bool
	beatAt   time.Time     // when the heartbeat will look again
	hurry    chan struct{} // wakes the beat for a lease that is due earlier
	claiming int           // claims on their way, and those that are given back
	stopping bool
	idle     chan struct{} // closed when nothing is held and no claim is on its way; nil while nobody waits
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
	due, _ := h.due()
	switch {
	case !ls.beating:
		ls.beating, ls.hurry = true, make(chan struct{}, 1)
		go ls.beat()
	case due.Before(ls.beatAt): // else it is awake in time
		ls.wake()
	}
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

// holds reports whether the lease of an attempt is not known to be lost.
func (ls *leases) holds(h *heldLease) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	_, held := ls.held[h]
	return held
}

// forget is drop with ls.mu held.
func (ls *leases) forget(h *heldLease) {
	delete(ls.held, h)
	if len(ls.held) == 0 && ls.beating {
		ls.wake()
	}
	ls.rest()
}

// rest tells Shutdown, if it waits, when there is nothing left. ls.mu is held.
func (ls *leases) rest() {
	if len(ls.held) == 0 && ls.claiming == 0 && ls.idle != nil {
		close(ls.idle)
		ls.idle = nil
	}
}

// claims counts claims on their way.
func (ls *leases) claims(n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.claiming += n
	ls.rest()
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
		due, ok := ls.next()
		if !ok {
			return
		}
		now := time.Now()
		if !due.After(now) {
			err := ls.renew(now)
			if err != nil && !failing {
				ls.log.Warn("ichido: leases could not be renewed; trying again", slog.Any("error", err))
			}
			failing = err != nil
			if !failing {
				continue
			}
			due = now.Add(minLease / 4)
		}
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ls.hurry:
		}
	}
}

// next drops the leases that are lost, and returns when the first of the others is due. It reports false if none is left:
// then the heartbeat has ended.
func (ls *leases) next() (due time.Time, ok bool) {
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
		if !renewable {
			at = end
		}
		if due.IsZero() || at.Before(due) {
			due = at
		}
	}
	if due.IsZero() {
		ls.beating = false
	}
	ls.beatAt = due
	return due, ls.beating
}

// about tells the operator which attempt it is.
func (h *heldLease) about() slog.Attr { return about(h.claim.Lease.Route, h.claim.Scope, h.claim.Key) }

// about names a key in the log, by its route and a digest: who can read the log must not get to know keys.
func about(route, scope, key string) slog.Attr {
	sum := sha256.Sum256([]byte(scope + "\x00" + key))
	return slog.Group("operation", slog.String("route", route), slog.String("digest", hex.EncodeToString(sum[:8])))
}

// lose ends the work of an attempt whose lease is lost. ls.mu is held.
func (ls *leases) lose(h *heldLease) {
	ls.forget(h)
	if h.ending {
		return
	}
	ls.log.Warn("ichido: an attempt has lost its lease; its work is cancelled and its answer will be refused", h.about())
	if h.work != nil {
		h.work.fail(ErrLeaseLost)
	}
}

// renew renews the leases that are due, or will be soon, in one statement. It leaves time for another try.
func (ls *leases) renew(now time.Time) error {
	var all []*heldLease
	var asked []Held
	timeout := ls.timeout
	ls.mu.Lock()
	for h := range ls.held {
		due, renewable := h.due()
		if !renewable || due.Sub(now) > h.claim.Lease.Duration/beatsPerLease/2 {
			continue
		}
		all = append(all, h)
		asked = append(asked, Held{h.claim.Scope, h.claim.Key, h.claim.Lease.Token, h.claim.Lease.Duration})
		timeout = min(timeout, h.over().Sub(now)/2)
	}
	ls.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	sent := time.Now()
	held, err := ls.store.Renew(ctx, asked)
	if len(held) != len(asked) {
		if err == nil {
			err = fmt.Errorf("ichido: Renew of %d leases returned %d", len(asked), len(held))
		}
		return err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i, h := range all {
		if _, still := ls.held[h]; held[i] {
			h.renewed = sent
		} else if still && err == nil {
			ls.lose(h)
		}
	}
	return err
}

// begin claims a key in lease mode. A claim that failed may have been stored all the same: it is repeated, under the same
// token, and if that fails too, given back later. It is not bound to its client: who hangs up loses nothing.
func (ls *leases) begin(ctx context.Context, claim Claim) (Attempt, *Record, error) {
	ls.mu.Lock()
	stopping := ls.stopping
	ls.claiming++
	ls.mu.Unlock()
	defer ls.claims(-1)
	if stopping {
		return ls.look(ctx, claim)
	}
	uncertain := false // an earlier try may have been stored
	for again, tries := pauses(ctx), 1; ; tries++ {
		sent := time.Now()
		attempt, record, err := ls.store.Begin(ctx, claim)
		switch {
		case attempt != nil:
			return ls.hold(attempt, claim, sent), nil, nil
		case record != nil || errors.Is(err, ErrInProgress) || errors.Is(err, ErrMismatch) || errors.Is(err, ErrNoRecord):
			return nil, record, err // of another attempt: ours would have been recognised
		case !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrSerialization):
			uncertain = true
		}
		if uncertain && tries < maxClaims && again() {
			continue
		}
		if uncertain {
			ls.claims(+1)
			go ls.disown(claim, sent)
		}
		return nil, nil, err
	}
}

// look is begin for those who must not begin anything: it returns what the store has of the key.
func (ls *leases) look(ctx context.Context, claim Claim) (Attempt, *Record, error) {
	claim.Lease = nil
	attempt, record, err := ls.store.Begin(ctx, claim)
	if attempt != nil { // a transaction, which leaves nothing
		_ = attempt.Abandon(ctx, nil)
		err = fmt.Errorf("%w: %w", ErrUnavailable, ErrStopped)
	}
	if record != nil && record.State == Unknown { // it may be one that another process runs again
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, ErrStopped)
	}
	return nil, record, err
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
		ls.claims(-1)
	}()
	if many {
		ls.log.Warn("ichido: too many claims of unknown outcome; one is not given back, and its key may become unknown")
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), sent.Add(claim.Lease.Duration))
	defer cancel()
	for again := pauses(ctx); again(); { // until it is given back: what was sent may arrive late
		bounded, cancel := context.WithTimeout(ctx, ls.timeout)
		err := ls.store.GiveBack(bounded, claim)
		cancel()
		if err == nil {
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

// good reports whether work may begin: the lease is not known to be lost, nor over by our own clock, nor handed back.
func (h *heldLease) good() bool {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	_, held := h.all.held[h]
	return held && !h.ending && time.Now().Before(h.over())
}

// Context implements [Attempt].
func (h *heldLease) Context(parent context.Context) context.Context {
	h.all.mu.Lock()
	h.work = workOf(parent)
	h.work.lease = h
	h.all.mu.Unlock()
	return h.Attempt.Context(parent)
}

// Complete implements [Attempt]. The work is done and cannot be undone: what fails is tried again, for the client as long
// as ctx lasts, and after that as long as the lease is held.
func (h *heldLease) Complete(ctx context.Context, response Response) error {
	h.end()
	for again := pauses(ctx); ; {
		err := h.Attempt.Complete(ctx, response)
		switch {
		case err == nil || errors.Is(err, ErrLost):
			h.all.drop(h)
			return err
		case !again():
			go h.endLater(func(ctx context.Context) error { return h.Attempt.Complete(ctx, response) })
			return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
		}
	}
}

// endLater ends an attempt of which the store could not be told in time, as long as its lease is held.
func (h *heldLease) endLater(end func(context.Context) error) {
	defer h.all.drop(h)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for again := pauses(ctx); again() && h.all.holds(h); {
		bounded, cancel := context.WithTimeout(ctx, h.all.timeout)
		err := end(bounded)
		cancel()
		if err == nil || errors.Is(err, ErrLost) {
			return
		}
	}
	h.all.log.Warn("ichido: how an attempt ended could not be stored before its lease was lost; its key may become unknown", h.about())
}

// Abandon implements [Attempt]. Work that failed may have taken effect, unless it said by Discard that it has not.
func (h *heldLease) Abandon(ctx context.Context, cause error) error {
	h.end()
	if h.work != nil && h.work.verdict.said.Load() == discard {
		cause = nil
	} else if h.work != nil && cause == nil && h.work.keptSteps() {
		cause = errStepsKept
	}
	for again, tries := pauses(ctx), 1; ; tries++ {
		err := h.Attempt.Abandon(ctx, cause)
		switch {
		case errors.Is(err, ErrLost) && tries > 1: // an earlier try was heard, or the lease has run out
			err = nil
			fallthrough
		case err == nil || errors.Is(err, ErrLost):
			h.all.drop(h)
			return err
		case !again():
			go h.endLater(func(ctx context.Context) error { return h.Attempt.Abandon(ctx, cause) })
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
// when the lease has run out. Then Shutdown returns ctx's error; it may take Config.StoreTimeout longer than ctx. Attempts in transaction mode need none of this.
func (m *Manager) Shutdown(ctx context.Context) error {
	ls := m.leases
	ls.mu.Lock()
	ls.stopping = true
	if len(ls.held) == 0 && ls.claiming == 0 {
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
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), ls.timeout)
	defer cancel()
	n := ls.handBack(ending)
	select {
	case <-idle:
		if n == 0 {
			return nil // they were about to end
		}
	case <-ending.Done():
	}
	return fmt.Errorf("ichido: attempts that were still running and handed back their leases: %d: %w", n, ctx.Err())
}

// handBack ends the attempts whose work runs, and returns how many they were.
func (ls *leases) handBack(ctx context.Context) int {
	ls.mu.Lock()
	var all []*heldLease
	for h := range ls.held {
		if h.ending {
			continue
		}
		all = append(all, h)
		if h.work != nil {
			h.work.fail(ErrStopped)
		} else {
			h.ending = true // its work must not begin any more
		}
	}
	ls.mu.Unlock()
	var wg sync.WaitGroup
	slots := make(chan struct{}, looksAtOnce)
	for _, h := range all {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := h.Attempt.Abandon(ctx, ErrStopped); err != nil && !errors.Is(err, ErrLost) {
				ls.log.Warn("ichido: a lease could not be handed back; it will run out", slog.Any("error", err), h.about())
			}
			ls.drop(h)
		})
	}
	wg.Wait()
	return len(all)
}
