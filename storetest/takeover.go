package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ichido-dev/ichido"
)

// unknownIsHeld has many claims, of every kind, meet a key whose attempt went and did not say Rerun.
func unknownIsHeld(s *suite) {
	stores := []ichido.Leaser{s.leaser(), s.leaser()}
	for round := range rounds {
		c := leased(fmt.Sprint("k", round), "x", short)
		s.lapsed(stores[0], c)
		claims := []ichido.Claim{claim(c.Key, "x")}
		for range racers {
			claims = append(claims, leased(c.Key, "x"), leased(c.Key, "x", rerun), leased(c.Key, "y", rerun))
		}
		for _, o := range s.claimAtOnce(stores, claims) {
			if o.attempt != nil || o.err != nil || o.record.State != ichido.Unknown || string(o.record.Fingerprint) != "v:x" {
				s.Fatalf("%s: Begin = %v, %v, %v; want a record that is unknown", c.Key, o.attempt, o.record, o.err)
			}
		}
		s.wantUnknown(stores[1], c)
		s.wantAttempts(stores[1], c, 1)
	}
}

// lapsedIsTakenOverOnce has many claims that say Rerun meet a key whose attempt went and said Rerun.
func lapsedIsTakenOverOnce(s *suite) {
	stores := []ichido.Leaser{s.leaser(), s.leaser(), s.leaser()}
	for round := range rounds {
		c := leased(fmt.Sprint("k", round), "x", short, rerun)
		old := s.lapsed(stores[0], c)
		claims := make([]ichido.Claim, racers)
		for i := range claims {
			claims[i] = leased(c.Key, "x", rerun)
		}
		outcomes := s.claimAtOnce(stores, claims)
		winner := s.onlyWinner(c.Key, outcomes)
		s.wantAttempts(stores[0], claims[winner], 2)
		s.wantBusy(stores[1], c)
		s.wantLost("Complete of the attempt that went", old.Complete(s.context(), answer("old")))
		s.complete(outcomes[winner].attempt, answer("new"))
		s.wantRecord(stores[2], leased(c.Key, "y", rerun), "x", answer("new"))
	}
}

// takenOverAgain counts the attempts of a key that is taken over several times, by claims that ask for something else.
func takenOverAgain(s *suite) {
	one, other := s.leaser(), s.leaser()
	c := leased("k", "x", rerun, route("first"))
	s.unknown(one, c)
	first := s.entry(one, c)
	for n := 2; n <= 4; n++ {
		s.pass(one, 2*time.Millisecond)
		c = leased("k", "x", rerun, route("first"))
		c.Lease.UnknownRetention = time.Duration(n) * 24 * time.Hour
		attempt := s.begin(other, c)
		s.begin(one, c) // a repeated claim is no further attempt
		s.wantAttempts(one, c, n)
		if e := s.entry(other, c); e != nil {
			if !e.CreatedAt.Equal(first.CreatedAt) {
				s.Errorf("attempt %d: created at %v, want the first claim's %v", n, e.CreatedAt, first.CreatedAt)
			}
			s.wantApart("the end of the retention, from the first claim,", e.ExpiresAt.Sub(e.CreatedAt), c.Lease.UnknownRetention)
		}
		s.wantBusy(one, c)
		s.abandon(attempt, errGone)
	}
	c = leased("k", "x", rerun)
	c.Retention = 48 * time.Hour
	s.complete(s.begin(one, c), answer("done"))
	s.wantAttempts(other, c, 5)
	if e := s.entry(other, c); e != nil {
		s.wantApart("retention", e.ExpiresAt.Sub(e.CreatedAt), c.Retention)
	}
}

// rerunOnOneSide has claims meet keys whose attempt went, where only one of both says Rerun, or neither.
func rerunOnOneSide(s *suite) {
	one, other := s.leaser(), s.leaser()

	held := leased("the record says hold", "x", short)
	s.lapsed(one, held)
	for range 3 {
		if got := s.record(other, leased(held.Key, "x", rerun)); got.State != ichido.Unknown {
			s.Errorf("%s: the record is %v, want unknown", held.Key, got.State)
		}
	}

	again := leased("the claim says hold", "x", short, rerun)
	s.lapsed(one, again)
	s.wantUnknown(other, again)
	s.wantAttempts(other, again, 1)
	// What those claims said is not stored: where both say Rerun it is still taken over.
	next := leased(again.Key, "x", rerun)
	s.begin(other, next)
	s.wantAttempts(one, next, 2)
}

func noTakeoverByAnotherRequest(s *suite) {
	one, other := s.leaser(), s.leaser()
	c := leased("k", "x", short, rerun)
	s.lapsed(one, c)
	for _, content := range []string{"y", "", "X", "xx"} {
		for range 2 {
			got := s.record(other, leased("k", content, rerun))
			if got.State != ichido.Unknown || string(got.Fingerprint) != "v:x" {
				s.Errorf("another request gets a record that is %v of %q, want unknown of %q", got.State, got.Fingerprint, "v:x")
			}
		}
	}
	s.wantAttempts(one, c, 1)
	s.complete(s.begin(other, leased("k", "x", rerun)), answer("done"))
	s.wantRecord(one, leased("k", "y", rerun), "x", answer("done"))
}

// An ending is what an attempt says at its end.
type ending struct {
	name string
	end  func(ichido.Attempt) error
}

func (s *suite) endings() []ending {
	return []ending{
		{"Complete", func(a ichido.Attempt) error { return a.Complete(s.context(), answer("late")) }},
		{"Abandon(nil)", func(a ichido.Attempt) error { return a.Abandon(s.context(), nil) }},
		{"Abandon(cause)", func(a ichido.Attempt) error { return a.Abandon(s.context(), errGone) }},
	}
}

// lateAttempts lets a key pass from one attempt to another, in every way, and then the first speak again.
func lateAttempts(s *suite) {
	one, other := s.leaser(), s.leaser()
	ways := map[string]func(key string) (old, next ichido.Claim, late ichido.Attempt){
		"taken over": func(key string) (ichido.Claim, ichido.Claim, ichido.Attempt) {
			old := leased(key, "x", short, rerun)
			return old, leased(key, "x", rerun), s.lapsed(one, old)
		},
		"given up": func(key string) (ichido.Claim, ichido.Claim, ichido.Attempt) {
			old := leased(key, "x", rerun)
			return old, leased(key, "x", rerun), s.unknown(one, old)
		},
		"freed": func(key string) (ichido.Claim, ichido.Claim, ichido.Attempt) {
			old := leased(key, "x")
			late := s.begin(one, old)
			s.abandon(late, nil)
			return old, leased(key, "x"), late
		},
		"forgotten": func(key string) (ichido.Claim, ichido.Claim, ichido.Attempt) {
			old := leased(key, "x", forgotten)
			return old, leased(key, "other", forgotten), s.unknown(one, old)
		},
		"expired": func(key string) (ichido.Claim, ichido.Claim, ichido.Attempt) {
			old := leased(key, "x")
			old.Retention = time.Nanosecond
			late := s.begin(one, old)
			s.complete(late, answer("old"))
			return old, leased(key, "other"), late
		},
	}
	if settler, ok := other.(ichido.Settler); ok {
		for _, how := range []ichido.SettledHow{ichido.SettledNotDone, ichido.SettledDeleted} {
			ways["settled as "+how.String()] = func(key string) (ichido.Claim, ichido.Claim, ichido.Attempt) {
				old := leased(key, "x", short)
				late := s.lapsed(one, old)
				s.wantSettle(settler, settlement(old, how), nil)
				return old, leased(key, "x"), late
			}
		}
	}
	for way, pass := range ways {
		for _, e := range s.endings() {
			old, next, late := pass(way + " " + e.name)
			content := string(next.Fingerprint[len("v:"):])
			attempt := s.begin(other, next)
			s.wantLost(way+": the late "+e.name, e.end(late))
			s.wantHeld(one, false, old)
			s.wantHeld(other, true, next)
			s.wantBusy(one, next)
			s.complete(attempt, answer("new"))
			s.wantLost(way+": the late "+e.name+" after the other's completion", e.end(late))
			s.wantHeld(one, false, old)
			s.wantRecord(one, leased(next.Key, content), content, answer("new"))
			s.complete(attempt, answer("new")) // it still knows its own
		}
	}
}

// lapsedAttempts lets attempts speak after their lease is over, before anybody else came.
func lapsedAttempts(s *suite) {
	one, other := s.leaser(), s.leaser()
	for name, change := range map[string]func(*ichido.Lease){"hold": func(*ichido.Lease) {}, "rerun": rerun} {
		for _, e := range s.endings() {
			c := leased(name+" "+e.name, "x", short, change)
			attempt := s.lapsed(one, c)
			s.wantHeld(one, false, c)
			s.wantLost(e.name+" after the end of the lease", e.end(attempt))
			s.wantLost(e.name+", repeated,", e.end(attempt))
			s.wantHeld(other, false, c)
			s.wantUnknown(other, c)
			s.wantAttempts(other, c, 1)
		}
	}
}

// A takeover is a race of claims for a key whose lease will be over.
type takeover struct {
	won   atomic.Int32 // how many claims got an attempt
	first atomic.Pointer[taken]
}

type taken struct {
	claim   ichido.Claim
	attempt ichido.Attempt
}

// waitForTheEnd lets claims of a key race until one has taken over or the key is completed.
func (s *suite) waitForTheEnd(wg *sync.WaitGroup, store ichido.Leaser, c ichido.Claim) *takeover {
	var t takeover
	for range 3 {
		wg.Go(func() {
			next := leased(c.Key, "x", rerun)
			for ctx := s.context(); t.first.Load() == nil; {
				attempt, record, err := store.Begin(ctx, next)
				switch {
				case attempt != nil:
					t.won.Add(1)
					t.first.Store(&taken{next, attempt})
				case record != nil:
					if record.State != ichido.Completed {
						s.Errorf("%s: the record is %v, want completed", c.Key, record.State)
					}
					return
				case !errors.Is(err, ichido.ErrInProgress) && !errors.Is(err, ichido.ErrSerialization):
					s.Errorf("%s: Begin: %v", c.Key, err)
					return
				}
			}
		})
	}
	return &t
}

// completionRacesTakeover has an attempt complete its key at the moment at which its lease is over and others are
// waiting for that.
func completionRacesTakeover(s *suite) {
	one, other := s.leaser(), s.leaser()
	for round := range 2 * rounds {
		c := leased(fmt.Sprint("k", round), "x", rerun)
		c.Lease.Duration = time.Duration(round+1) * 250 * time.Microsecond
		old := s.begin(one, c)
		var wg sync.WaitGroup
		t := s.waitForTheEnd(&wg, other, c)
		for range round % 4 { // a little later each time
			s.entry(one, c)
		}
		completed := old.Complete(s.context(), answer("old"))
		wg.Wait()
		want, winners := "old", int32(0)
		if completed != nil {
			s.wantLost("Complete", completed)
			want, winners = "new", 1
		}
		if n := t.won.Load(); n != winners {
			s.Fatalf("%s: %d claims took the key over from an attempt whose Complete returned %v", c.Key, n, completed)
		}
		if winners == 1 {
			s.complete(t.first.Load().attempt, answer("new"))
		}
		s.wantRecord(one, leased(c.Key, "x"), "x", answer(want))
	}
}

// renewalRacesTakeover has an attempt renew its lease when it is nearly over, while others are waiting for its end.
func renewalRacesTakeover(s *suite) {
	one, other := s.leaser(), s.leaser()
	for round := range 2 * rounds {
		c := leased(fmt.Sprint("k", round), "x", rerun)
		c.Lease.Duration = time.Duration(round+1) * 250 * time.Microsecond
		old := s.begin(one, c)
		lease := heldOf(c)
		lease.Duration = c.Lease.Duration
		var wg sync.WaitGroup
		t := s.waitForTheEnd(&wg, other, c)
		for range 100 {
			gone := t.first.Load() != nil
			held, err := one.Renew(s.context(), []ichido.Held{lease})
			if err != nil || len(held) != 1 {
				s.Errorf("Renew = %v, %v", held, err)
				break
			}
			if gone && held[0] {
				s.Errorf("%s: the attempt renewed a lease that another had taken over", c.Key)
			}
			if !held[0] {
				break
			}
		}
		wg.Wait()
		if n := t.won.Load(); n != 1 {
			s.Fatalf("%s: %d claims took the key over, want 1", c.Key, n)
		}
		next := t.first.Load()
		s.wantHeld(one, false, c)
		s.wantHeld(one, true, next.claim)
		s.wantLost("Complete", old.Complete(s.context(), answer("late")))
		s.complete(next.attempt, answer("new"))
		s.wantRecord(one, c, "x", answer("new"))
	}
}
