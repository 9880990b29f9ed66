package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ichido-dev/ichido"
)

// errGone is the cause of attempts that end without knowing what they did.
var errGone = errors.New("the other side did not answer")

var lastToken atomic.Int64

// newToken returns a token of its own, so large that a float64 does not tell it from the one before.
func newToken() int64 { return 1<<60 + lastToken.Add(1) }

// leased is claim in lease mode. The lease is live for as long as a case runs, and a key that is not completed is held.
func leased(key, content string, change ...func(*ichido.Lease)) ichido.Claim {
	c := claim(key, content)
	c.Lease = &ichido.Lease{Token: newToken(), Duration: time.Hour, UnknownRetention: time.Hour}
	for _, f := range change {
		f(c.Lease)
	}
	return c
}

// short makes a lease one that is over as soon as it began.
func short(l *ichido.Lease) { l.Duration = time.Nanosecond }

func rerun(l *ichido.Lease) { l.Rerun = true }

// forgotten makes a record that nobody completes one that is kept only as long as its lease runs.
func forgotten(l *ichido.Lease) { l.UnknownRetention = time.Nanosecond }

func route(name string) func(*ichido.Lease) { return func(l *ichido.Lease) { l.Route = name } }

// leaser opens a store, and skips the case if it has no lease mode.
func (s *suite) leaser() ichido.Leaser {
	s.Helper()
	store, ok := s.Open(s.T).(ichido.Leaser)
	if !ok {
		s.Skip("the store is no Leaser")
	}
	return store
}

// lapsed makes an attempt that goes unheard: its claim has a short lease, and this waits until it is over.
func (s *suite) lapsed(store ichido.Store, c ichido.Claim) ichido.Attempt {
	s.Helper()
	attempt := s.begin(store, c)
	watch := leased(c.Key, "")
	watch.Scope, watch.Fingerprint = c.Scope, c.Fingerprint
	s.until("the lease is over", func() bool {
		taken, record, err := store.Begin(s.context(), watch)
		if taken != nil || record == nil && !errors.Is(err, ichido.ErrInProgress) {
			s.Fatalf("%s: Begin by a claim that holds what is unknown = %v, %v, %v; want ErrInProgress, then a record", c.Key, taken, record, err)
		}
		return record != nil
	})
	return attempt
}

// unknown makes a key unknown at once, and returns the attempt that went.
func (s *suite) unknown(store ichido.Store, c ichido.Claim) ichido.Attempt {
	s.Helper()
	attempt := s.begin(store, c)
	s.abandon(attempt, errGone)
	return attempt
}

// pass waits until a time has passed by the store's clock, and leaves nothing.
func (s *suite) pass(store ichido.Store, d time.Duration) {
	s.Helper()
	c := leased("time", "x", forgotten)
	c.Scope, c.Lease.Duration = "suite time", d
	s.begin(store, c)
	s.until("a lease that nobody keeps is over", func() bool {
		next := leased(c.Key, "x")
		next.Scope = c.Scope
		attempt, _, _ := store.Begin(s.context(), next)
		if attempt != nil {
			s.abandon(attempt, nil)
		}
		return attempt != nil
	})
}

// wantBusy asks for keys whose attempt must be in progress: in both modes, with the same request and with another.
func (s *suite) wantBusy(store ichido.Store, c ichido.Claim) {
	s.Helper()
	for _, again := range []ichido.Claim{claim(c.Key, ""), leased(c.Key, ""), leased(c.Key, "", rerun)} {
		again.Scope, again.Fingerprint = c.Scope, c.Fingerprint
		if attempt, record, err := store.Begin(s.context(), again); attempt != nil || record != nil || !errors.Is(err, ichido.ErrInProgress) {
			s.Fatalf("%s: Begin during an attempt = %v, %v, %v; want ErrInProgress", c.Key, attempt, record, err)
		}
		again.Fingerprint = []byte("v:another request")
		if attempt, record, err := store.Begin(s.context(), again); attempt != nil || record != nil || !errors.Is(err, ichido.ErrMismatch) {
			s.Fatalf("%s: Begin with another request during an attempt = %v, %v, %v; want ErrMismatch", c.Key, attempt, record, err)
		}
	}
}

// wantUnknown asks for a key that must be unknown: in both modes, with the same request and with another. Where the
// record says Rerun, claims that say so too are left out.
func (s *suite) wantUnknown(store ichido.Store, c ichido.Claim) {
	s.Helper()
	claims := []ichido.Claim{claim(c.Key, ""), leased(c.Key, "")}
	if !c.Lease.Rerun {
		claims = append(claims, leased(c.Key, "", rerun))
	}
	for _, again := range claims {
		for _, fingerprint := range [][]byte{c.Fingerprint, []byte("v:another request")} {
			again.Scope, again.Fingerprint = c.Scope, fingerprint
			got := s.record(store, again)
			if got.State != ichido.Unknown || string(got.Fingerprint) != string(c.Fingerprint) {
				s.Errorf("%s: the record is %v of %q, want unknown of %q", c.Key, got.State, got.Fingerprint, c.Fingerprint)
			}
		}
	}
}

func heldOf(c ichido.Claim) ichido.Held {
	return ichido.Held{Scope: c.Scope, Key: c.Key, Token: c.Lease.Token, Duration: time.Hour}
}

func (s *suite) wantHeld(store ichido.Leaser, want bool, c ichido.Claim) {
	s.Helper()
	got, err := store.Renew(s.context(), []ichido.Held{heldOf(c)})
	if err != nil || len(got) != 1 || got[0] != want {
		s.Errorf("%s: Renew = %v, %v; want %v", c.Key, got, err, want)
	}
}

// wantLost says what an attempt that has lost its key must hear, whatever it says.
func (s *suite) wantLost(what string, err error) {
	s.Helper()
	if !errors.Is(err, ichido.ErrLost) {
		s.Errorf("%s returned %v, want ErrLost", what, err)
	}
}

// entry looks at a record, if the store is an Inspector; else it returns nil.
func (s *suite) entry(store ichido.Store, c ichido.Claim) *ichido.Entry {
	s.Helper()
	inspector, ok := store.(ichido.Inspector)
	if !ok {
		return nil
	}
	e, err := inspector.Look(s.context(), c.Scope, c.Key)
	if err != nil || e == nil {
		s.Fatalf("Look(%q) = %v, %v", c.Key, e, err)
	}
	return e
}

// wantAttempts checks the count of attempts, if the store shows it.
func (s *suite) wantAttempts(store ichido.Store, c ichido.Claim, want int) {
	s.Helper()
	if e := s.entry(store, c); e != nil && (e.Attempts != want || e.Token != c.Lease.Token) {
		s.Errorf("%s: attempts %d, token %d; want %d, %d", c.Key, e.Attempts, e.Token, want, c.Lease.Token)
	}
}

// An outcome is what Begin returned.
type outcome struct {
	attempt ichido.Attempt
	record  *ichido.Record
	err     error
}

// claimAtOnce lets claims race from several stores.
func (s *suite) claimAtOnce(stores []ichido.Leaser, claims []ichido.Claim) []outcome {
	outcomes := make([]outcome, len(claims))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, c := range claims {
		wg.Go(func() {
			o := &outcomes[i]
			<-start
			for {
				o.attempt, o.record, o.err = stores[i%len(stores)].Begin(s.context(), c)
				if !errors.Is(o.err, ichido.ErrSerialization) {
					return
				}
			}
		})
	}
	close(start)
	wg.Wait()
	return outcomes
}

// onlyWinner returns the index of the one claim that got an attempt; the others must have met it in progress.
func (s *suite) onlyWinner(key string, outcomes []outcome) int {
	s.Helper()
	winner := -1
	for i, o := range outcomes {
		switch {
		case o.attempt != nil && o.record == nil && o.err == nil && winner < 0:
			winner = i
		case o.attempt != nil:
			s.Errorf("%s: two claims got an attempt", key)
		case o.record != nil || !errors.Is(o.err, ichido.ErrInProgress):
			s.Errorf("%s: Begin returned %v, %v; want ErrInProgress", key, o.record, o.err)
		}
	}
	if winner < 0 {
		s.Fatalf("%s: no claim got an attempt", key)
	}
	return winner
}
