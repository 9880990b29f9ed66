package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
)

// settler opens a store, and skips the case if its unknown keys cannot be settled.
func (s *suite) settler() ichido.Settler {
	s.Helper()
	store, ok := s.Open(s.T).(ichido.Settler)
	if !ok {
		s.Skip("the store is no Settler")
	}
	return store
}

// settlement settles the attempt of a claim.
func settlement(c ichido.Claim, how ichido.SettledHow) ichido.Settlement {
	t := ichido.Settlement{Scope: c.Scope, Key: c.Key, How: how, By: "the suite", Reason: "to see what happens"}
	if c.Lease != nil {
		t.Token = c.Lease.Token
	}
	if how == ichido.SettledDone {
		t.Response, t.Retention = answer("settled"), time.Hour
	}
	return t
}

func (s *suite) wantSettle(store ichido.Settler, t ichido.Settlement, want error) {
	s.Helper()
	if err := store.Settle(s.context(), t); !errors.Is(err, want) {
		s.Errorf("%s: Settle as %v with token %d returned %v, want %v", t.Key, t.How, t.Token, err, want)
	}
}

// wantNow says what a time of the store's clock must be: not that of another time zone.
func (s *suite) wantNow(what string, t time.Time) {
	s.Helper()
	if d := time.Since(t).Abs(); d > time.Hour {
		s.Errorf("%s is %v, which is %v from now", what, t, d)
	}
}

// settledDone settles keys with an answer, which counts as the attempt's, except to the attempt.
func settledDone(s *suite) {
	one, other := s.settler(), s.settler()
	for name, want := range answers() {
		c := leased(name, "x", short)
		late := s.lapsed(one, c)
		t := settlement(c, ichido.SettledDone)
		t.Response = want
		s.wantSettle(other, t, nil)
		for range 2 {
			s.wantRecord(one, claim(name, "x"), "x", want)
			s.wantRecord(one, leased(name, "y", rerun), "x", want)
			s.wantRecord(one, c, "x", want)
			for _, e := range s.endings() {
				s.wantLost(e.name+" after another settled it as done", e.end(late))
			}
			s.wantHeld(one, false, c)
		}
	}

	c := leased("short", "x")
	s.unknown(one, c)
	t := settlement(c, ichido.SettledDone)
	t.Retention = time.Nanosecond
	s.wantSettle(one, t, nil)
	s.complete(s.begin(other, leased("short", "y")), answer("new"))

	c = leased("created", "x", forgotten)
	c.Lease.UnknownRetention = 24 * time.Hour
	s.unknown(one, c)
	before := s.entry(one, c)
	s.pass(one, 2*time.Millisecond)
	s.wantSettle(one, settlement(c, ichido.SettledDone), nil)
	if e := s.entry(one, c); e != nil {
		if e.State != ichido.Completed || e.Token != 0 || !e.LeaseUntil.IsZero() || !e.CreatedAt.After(before.CreatedAt) {
			s.Errorf("the settled record is %+v, and was %+v; want it completed now", e, before)
		}
		s.wantApart("the settled record's retention", e.ExpiresAt.Sub(e.CreatedAt), time.Hour)
	}
}

// settledFreesTheKey settles keys so that they can be used again, as often as one likes.
func settledFreesTheKey(s *suite) {
	one, other := s.settler(), s.settler()
	for _, how := range []ichido.SettledHow{ichido.SettledNotDone, ichido.SettledDeleted} {
		for i := range 3 {
			c := leased("k", fmt.Sprint("content ", i), short, route("r"))
			s.lapsed(one, c)
			// A record of its own: due at once, and asked about for the first time.
			if keys := s.wantAsked(other, byRoute("r", 10), "k"); len(keys) == 1 && keys[0].Asked != 1 {
				s.Errorf("asked %d times, want 1", keys[0].Asked)
			}
			s.wantSettle(other, settlement(c, how), nil)
			s.wantSettle(other, settlement(c, how), ichido.ErrNoRecord)
			s.wantAsked(one, byName(c))
		}
		s.run(one, claim("k", "transaction"), answer("transaction"))
		s.wantRecord(other, leased("k", "x"), "transaction", answer("transaction"))
		s.wantSettle(other, settlement(claim("k", "x"), ichido.SettledDeleted), nil)
		c := leased("k", "x")
		s.complete(s.begin(one, c), answer("lease"))
		s.wantRecord(other, claim("k", "x"), "x", answer("lease"))
		s.wantSettle(other, settlement(c, ichido.SettledDeleted), nil)
		s.abandon(s.begin(one, leased("k", "y")), nil)
	}
}

// settleErrors settles keys in every state in every way.
func settleErrors(s *suite) {
	one, store := s.settler(), s.settler()
	hows := []ichido.SettledHow{ichido.StillUnknown, ichido.SettledDone, ichido.SettledNotDone, ichido.SettledDeleted}
	states := map[string]struct {
		want    error
		deleted error // what SettledDeleted returns
		prepare func(c ichido.Claim)
		check   func(c ichido.Claim) // that the record is as it was
	}{
		"missing": {
			ichido.ErrNoRecord, ichido.ErrNoRecord,
			func(ichido.Claim) {},
			func(c ichido.Claim) { s.abandon(s.begin(store, c), nil) },
		},
		"freed": {
			ichido.ErrNoRecord, ichido.ErrNoRecord,
			func(c ichido.Claim) { s.abandon(s.begin(one, c), nil) },
			func(c ichido.Claim) { s.abandon(s.begin(store, c), nil) },
		},
		"in progress": {
			ichido.ErrInProgress, ichido.ErrInProgress,
			func(c ichido.Claim) { s.begin(one, c) },
			func(c ichido.Claim) { s.wantBusy(store, c); s.wantHeld(store, true, c) },
		},
		"completed": {
			ichido.ErrNotUnknown, nil,
			func(c ichido.Claim) { s.complete(s.begin(one, c), answer("done")) },
			func(c ichido.Claim) { s.wantRecord(store, c, "x", answer("done")) },
		},
		"transaction": {
			ichido.ErrNotUnknown, nil,
			func(c ichido.Claim) { s.complete(s.begin(one, claim(c.Key, "x")), answer("done")) },
			func(c ichido.Claim) { s.wantRecord(store, c, "x", answer("done")) },
		},
		"settled": {
			ichido.ErrNotUnknown, nil,
			func(c ichido.Claim) {
				s.unknown(one, c)
				s.wantSettle(one, settlement(c, ichido.SettledDone), nil)
			},
			func(c ichido.Claim) { s.wantRecord(store, c, "x", answer("settled")) },
		},
		"unknown": {
			nil, nil,
			func(c ichido.Claim) { s.unknown(one, c) },
			func(c ichido.Claim) { s.wantUnknown(store, c) },
		},
		"to be run again": {
			nil, nil,
			func(c ichido.Claim) { c.Lease.Rerun = true; s.unknown(one, c) },
			func(c ichido.Claim) { s.wantUnknown(store, c) },
		},
	}
	for name, state := range states {
		for _, how := range hows {
			c := leased(fmt.Sprintf("%s, %v", name, how), "x")
			state.prepare(c)
			stale := settlement(c, how)
			stale.Token = newToken()
			err := store.Settle(s.context(), stale)
			switch {
			case errors.Is(err, ichido.ErrNotUnknown) && state.want != ichido.ErrNoRecord:
			case err != nil && state.want != nil && errors.Is(err, state.want):
			default:
				s.Errorf("%s: Settle with the token of nobody returned %v", c.Key, err)
			}
			state.check(c)

			t := settlement(c, how)
			t.Token = 0 // whatever is there
			want := state.want
			if how == ichido.SettledDeleted {
				want = state.deleted
			}
			s.wantSettle(store, t, want)
			switch {
			case want != nil || how == ichido.StillUnknown:
				state.check(c)
			case how == ichido.SettledDone:
				s.wantRecord(one, leased(c.Key, "x", rerun), "x", answer("settled"))
			default:
				s.abandon(s.begin(one, leased(c.Key, "y")), nil)
			}
		}
	}

	// Another scope's key of the same name is none of its business.
	c := leased("same", "x")
	s.unknown(one, c)
	elsewhere := settlement(c, ichido.SettledDeleted)
	elsewhere.Scope = "scope 2"
	s.wantSettle(store, elsewhere, ichido.ErrNoRecord)
	s.wantUnknown(store, c)

	// The attempt that was asked about is gone, and another one is unknown by now.
	s.wantSettle(store, settlement(c, ichido.SettledNotDone), nil)
	next := leased("same", "x")
	s.unknown(one, next)
	for _, how := range hows {
		s.wantSettle(store, settlement(c, how), ichido.ErrNotUnknown)
		s.wantUnknown(one, next)
	}
}

// racingSettlements has several settle one key at the same time, in different ways.
func racingSettlements(s *suite) {
	stores := []ichido.Settler{s.settler(), s.settler()}
	for round := range rounds {
		c := leased(fmt.Sprint("k", round), "x")
		s.unknown(stores[0], c)
		settlements := make([]ichido.Settlement, racers)
		errs := make([]error, racers)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range racers {
			t := settlement(c, ichido.SettledDone)
			if round%2 == 1 && i%2 == 1 {
				t = settlement(c, ichido.SettledNotDone)
			}
			t.By, t.Response = fmt.Sprint("by ", i), answer(fmt.Sprint("by ", i))
			settlements[i] = t
			wg.Go(func() {
				<-start
				errs[i] = stores[i%2].Settle(s.context(), t)
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case err == nil:
				s.Errorf("%s was settled by two", c.Key)
			case errors.Is(err, ichido.ErrNotUnknown):
			case errors.Is(err, ichido.ErrNoRecord) && round%2 == 1:
			default:
				s.Errorf("%s: Settle returned %v", c.Key, err)
			}
		}
		if winner < 0 {
			s.Fatalf("%s was settled by nobody", c.Key)
		}
		s.wantSettlements(stores[1], c, settlements[winner])
		if settlements[winner].How == ichido.SettledDone {
			s.wantRecord(stores[1], leased(c.Key, "x"), "x", settlements[winner].Response)
		} else {
			s.abandon(s.begin(stores[1], leased(c.Key, "x")), nil)
		}
	}
}

// wantSettlements checks what the store says of how a key was settled, if it is an Inspector.
func (s *suite) wantSettlements(store ichido.Settler, c ichido.Claim, want ...ichido.Settlement) {
	s.Helper()
	inspector, ok := store.(ichido.Inspector)
	if !ok {
		return
	}
	got, err := inspector.Settlements(s.context(), c.Scope, c.Key)
	if err != nil || len(got) != len(want) {
		s.Errorf("%s: Settlements = %+v, %v; want %+v", c.Key, got, err, want)
		return
	}
	for i, g := range got {
		w := want[i]
		if g.Scope != w.Scope || g.Key != w.Key || g.How != w.How || g.By != w.By || g.Reason != w.Reason {
			s.Errorf("%s: settlement %d is %+v, want %+v", c.Key, i, g, w)
		}
		s.wantNow("a settlement's time", g.At)
		if i > 0 && !g.At.After(got[i-1].At) {
			s.Errorf("%s: settlement %d was at %v, the one before at %v", c.Key, i, g.At, got[i-1].At)
		}
	}
}

// settlementsAreKept settles one key again and again, also in ways that fail.
func settlementsAreKept(s *suite) {
	one, other := s.settler(), s.settler()
	if _, ok := one.(ichido.Inspector); !ok {
		s.Skip("the store is no Inspector")
	}
	c := leased("k", "x")
	var want []ichido.Settlement
	settle := func(how ichido.SettledHow, by, reason string) {
		t := settlement(c, how)
		t.By, t.Reason = by, reason
		t.At = time.Unix(1, 0) // the store's clock decides
		if how == ichido.SettledDeleted {
			t.Token = 0 // a record that was settled as done has none
		}
		s.wantSettle(one, t, nil)
		if how != ichido.StillUnknown {
			want = append(want, t)
		}
		s.pass(one, 2*time.Millisecond)
	}
	s.wantSettlements(other, c)
	s.unknown(one, c)
	s.wantSettle(one, settlement(leased("k", "x"), ichido.SettledDone), ichido.ErrNotUnknown)
	settle(ichido.StillUnknown, "resolver", "the bank is down")
	s.wantSettlements(other, c)
	settle(ichido.SettledNotDone, "zoe", "the bank says \"no such payment\"; it's 100 % sure\nreally")
	s.wantSettlements(other, c, want...)
	s.wantSettle(one, settlement(c, ichido.SettledDone), ichido.ErrNoRecord)

	c = leased("k", "x")
	s.unknown(one, c)
	settle(ichido.SettledDone, "予約係", "支払い済み")
	s.wantSettle(one, settlement(c, ichido.SettledNotDone), ichido.ErrNotUnknown)
	settle(ichido.SettledDeleted, "adam", "")
	s.wantSettle(one, settlement(c, ichido.SettledDeleted), ichido.ErrNoRecord)

	elsewhere := leased("k", "x")
	elsewhere.Scope = "scope 2"
	s.unknown(one, elsewhere)
	s.wantSettle(one, settlement(elsewhere, ichido.SettledDone), nil)

	s.purgeAll(one, 0)
	s.wantSettlements(other, c, want...)
	s.wantSettlements(other, elsewhere, settlement(elsewhere, ichido.SettledDone))
	s.wantSettlements(other, leased("K", "x"))
	s.complete(s.begin(one, leased("k", "y")), answer("new"))
	s.wantSettlements(other, c, want...)
}
