package storetest

import (
	"fmt"
	"time"

	"github.com/ichido-dev/ichido"
)

// keptAlive claims a key for a short time, extends its lease before it is over, and lets the first lease's end pass.
func (s *suite) keptAlive(extend func(ichido.Leaser, ichido.Claim) bool) {
	s.Helper()
	one, other := s.leaser(), s.leaser()
	for d := 20 * time.Millisecond; d < patience; d *= 2 {
		c := leased(fmt.Sprint("k", d), "x")
		c.Lease.Duration = d
		attempt := s.begin(one, c)
		if !extend(one, c) {
			continue // too late: the machine is slow
		}
		s.pass(other, d)
		s.wantBusy(other, c)
		s.wantHeld(one, true, c)
		s.complete(attempt, answer("done"))
		s.wantRecord(other, c, "x", answer("done"))
		return
	}
	s.Fatal("no lease was extended before its end")
}

func renewKeepsAlive(s *suite) {
	s.keptAlive(func(store ichido.Leaser, c ichido.Claim) bool {
		held, err := store.Renew(s.context(), []ichido.Held{heldOf(c)})
		if err != nil || len(held) != 1 {
			s.Fatalf("Renew = %v, %v", held, err)
		}
		return held[0]
	})
}

// renewReportsEach renews leases of every kind in one call.
func renewReportsEach(s *suite) {
	one, other := s.leaser(), s.leaser()
	in := func(scope string, c ichido.Claim) ichido.Claim {
		c.Scope = scope
		return c
	}
	a, b := leased("a", "x"), leased("b", "x")
	c, d := leased("c", "x"), leased("d", "x")
	first, second := in("scope 1", leased("same", "x")), in("scope 2", leased("same", "y"))
	for _, live := range []ichido.Claim{a, b, c, d, first, second} {
		s.begin(one, live)
	}
	completed, lapsed := leased("completed", "x"), leased("lapsed", "x", short)
	s.complete(s.begin(one, completed), answer("done"))
	s.lapsed(one, lapsed)
	gone, again, freed := leased("gone", "x"), leased("again", "x", short, rerun), leased("freed", "x")
	s.unknown(one, gone)
	s.lapsed(one, again)
	s.abandon(s.begin(one, freed), nil)
	old, next := leased("taken over", "x", rerun), leased("taken over", "x", rerun)
	s.unknown(one, old)
	s.begin(one, next)

	of := func(c ichido.Claim, token int64, hours int) ichido.Held {
		return ichido.Held{Scope: c.Scope, Key: c.Key, Token: token, Duration: time.Duration(hours) * time.Hour}
	}
	list := []struct {
		what  string
		lease ichido.Held
		held  bool
	}{
		{"one that is missing", of(leased("missing", "x"), newToken(), 9), false},
		{"a live one", of(a, a.Lease.Token, 100), true},
		{"one that ran out", of(lapsed, lapsed.Lease.Token, 9), false},
		{"a live one under another's token", of(c, d.Lease.Token, 9), false},
		{"that one under this one's token", of(d, c.Lease.Token, 9), false},
		{"the key in a second scope", of(second, second.Lease.Token, 20), true},
		{"one that is completed", of(completed, completed.Lease.Token, 9), false},
		{"one that was given up", of(gone, gone.Lease.Token, 9), false},
		{"one that was taken over", of(old, old.Lease.Token, 9), false},
		{"the one that took it over", of(next, next.Lease.Token, 30), true},
		{"the key in a third scope", of(in("scope 3", first), first.Lease.Token, 9), false},
		{"one that may be taken over", of(again, again.Lease.Token, 9), false},
		{"the key in a first scope", of(first, first.Lease.Token, 40), true},
		{"the same under the second's token", of(first, second.Lease.Token, 9), false},
		{"one that was freed", of(freed, freed.Lease.Token, 9), false},
		{"another live one", of(b, b.Lease.Token, 50), true},
		{"a live one under a token of nobody", of(b, newToken(), 9), false},
	}
	leases := make([]ichido.Held, len(list))
	for i, l := range list {
		leases[i] = l.lease
	}
	held, err := other.Renew(s.context(), leases)
	if err != nil || len(held) != len(list) {
		s.Fatalf("Renew of %d = %v, %v", len(list), held, err)
	}
	for i, l := range list {
		if held[i] != l.held {
			s.Errorf("%s: Renew says held %v, want %v", l.what, held[i], l.held)
		}
	}

	for _, live := range []ichido.Claim{a, b, c, d, first, second, next} {
		s.wantBusy(one, live)
	}
	s.wantUnknown(one, lapsed)
	s.wantUnknown(one, gone)
	s.wantUnknown(one, again)
	s.wantRecord(one, completed, "x", answer("done"))
	s.abandon(s.begin(one, leased("missing", "x")), nil)
	s.abandon(s.begin(one, freed), nil)
	for _, l := range []struct {
		claim ichido.Claim
		hours time.Duration
	}{{a, 100}, {b, 50}, {c, 1}, {d, 1}, {first, 40}, {second, 20}, {next, 30}} {
		if e := s.entry(one, l.claim); e != nil {
			s.wantApart(l.claim.Scope+" "+l.claim.Key+": the end of the lease, from its claim,", e.LeaseUntil.Sub(e.CreatedAt), l.hours*time.Hour)
		}
	}
}

// wantApart compares times of one clock, between which the case did something.
func (s *suite) wantApart(what string, got, want time.Duration) {
	s.Helper()
	if got < want-patience || got > want+patience {
		s.Errorf("%s is %v, want %v", what, got, want)
	}
}

func renewNoneAndMany(s *suite) {
	store := s.leaser()
	for _, none := range [][]ichido.Held{nil, {}} {
		if held, err := store.Renew(s.context(), none); err != nil || len(held) != 0 {
			s.Errorf("Renew of none = %v, %v", held, err)
		}
	}
	leases := make([]ichido.Held, 1000)
	for i := range leases {
		leases[i] = heldOf(leased(fmt.Sprint("missing", i), "x"))
	}
	live := map[int]bool{0: true, 1: true, 500: true, 998: true, 999: true}
	for i := range live {
		c := leased(fmt.Sprint("live", i), "x")
		s.begin(store, c)
		leases[i] = heldOf(c)
	}
	held, err := store.Renew(s.context(), leases)
	if err != nil || len(held) != len(leases) {
		s.Fatalf("Renew of %d = %d, %v", len(leases), len(held), err)
	}
	for i := range held {
		if held[i] != live[i] {
			s.Errorf("lease %d of %d: held %v, want %v", i, len(held), held[i], live[i])
		}
	}
}
