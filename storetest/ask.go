package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ichido-dev/ichido"
)

// byName asks about the key of a claim, for as long as a case runs.
func byName(c ichido.Claim) ichido.Question {
	return ichido.Question{Scope: c.Scope, Key: c.Key, Patience: time.Hour}
}

// byRoute asks about the keys of a route, for as long as a case runs.
func byRoute(name string, limit int) ichido.Question {
	return ichido.Question{Route: name, Limit: limit, Patience: time.Hour}
}

func (s *suite) ask(store ichido.Settler, q ichido.Question) []ichido.UnknownKey {
	s.Helper()
	keys, err := store.Ask(s.context(), q)
	if err != nil {
		s.Fatalf("Ask(%+v): %v", q, err)
	}
	return keys
}

// wantAsked asks, and checks which keys it gets, in what order.
func (s *suite) wantAsked(store ichido.Settler, q ichido.Question, want ...string) []ichido.UnknownKey {
	s.Helper()
	keys := s.ask(store, q)
	var got []string
	for _, k := range keys {
		got = append(got, k.Key)
	}
	if !slices.Equal(got, want) {
		s.Errorf("Ask(%+v) = %q, want %q", q, got, want)
	}
	return keys
}

// askReserves asks about a key that is reserved for somebody else.
func askReserves(s *suite) {
	one, other := s.settler(), s.settler()
	c := leased("k", "x", short, route("orders"))
	s.lapsed(one, c)
	keys := s.wantAsked(one, byName(c), "k")
	if len(keys) != 1 {
		return
	}
	k := keys[0]
	s.wantNow("CreatedAt", k.CreatedAt)
	s.wantNow("Since", k.Since)
	if d := k.Since.Sub(k.CreatedAt); d < 0 || d > patience {
		s.Errorf("it is unknown since %v, %v after its claim", k.Since, d)
	}
	k.CreatedAt, k.Since = time.Time{}, time.Time{}
	want := ichido.UnknownKey{
		Scope: c.Scope, Key: c.Key, Route: "orders", Fingerprint: c.Fingerprint, Token: c.Lease.Token, Attempts: 1, Asked: 1,
	}
	if !reflect.DeepEqual(k, want) {
		s.Errorf("Ask = %+v, want %+v", k, want)
	}
	for _, store := range []ichido.Settler{one, other} {
		s.wantAsked(store, byName(c))
		s.wantAsked(store, byRoute("orders", 10))
	}
	if e := s.entry(one, c); e != nil && e.Asked != 1 {
		s.Errorf("the entry says that it was asked about %d times, want 1", e.Asked)
	}
	// It is as unknown as before, and somebody who knows need not wait.
	s.wantUnknown(other, c)
	s.wantSettle(other, settlement(c, ichido.SettledDone), nil)
	s.wantRecord(one, leased("k", "x"), "x", answer("settled"))
	s.wantSettle(one, settlement(c, ichido.SettledNotDone), ichido.ErrNotUnknown)
	s.wantRecord(one, leased("k", "x"), "x", answer("settled"))
}

// reservationsEnd lets a reservation run out.
func reservationsEnd(s *suite) {
	one, other := s.settler(), s.settler()
	c := leased("k", "x")
	s.unknown(one, c)
	q := byName(c)
	q.Patience = time.Millisecond
	for n := 1; n <= 3; n++ {
		var keys []ichido.UnknownKey
		s.until("nobody is asking about the key any more", func() bool {
			keys = s.ask(other, q)
			return len(keys) > 0
		})
		if len(keys) != 1 || keys[0].Asked != n {
			s.Fatalf("Ask = %+v, want the %d. question", keys, n)
		}
	}
	s.unknown(one, leased("fresh", "x", route("r")))
	q = byRoute("r", 10)
	q.Patience = time.Millisecond
	s.wantAsked(one, q, "fresh")
	q = byName(leased("fresh", "x"))
	s.until("the key can be asked about by its name", func() bool { return len(s.ask(other, q)) == 1 })
}

// askOnlyUnknown asks about keys in every other state.
func askOnlyUnknown(s *suite) {
	store := s.settler()
	all := func(l *ichido.Lease) { l.Route = "all" }
	states := map[string]func(key string){
		"missing":     func(string) {},
		"in progress": func(key string) { s.begin(store, leased(key, "x", all)) },
		"completed":   func(key string) { s.complete(s.begin(store, leased(key, "x", all)), answer("done")) },
		"transaction": func(key string) { s.complete(s.begin(store, claim(key, "x")), answer("done")) },
		"freed":       func(key string) { s.abandon(s.begin(store, leased(key, "x", all)), nil) },
		"taken over": func(key string) {
			s.unknown(store, leased(key, "x", all, rerun))
			s.begin(store, leased(key, "x", all, rerun))
		},
		"forgotten":       func(key string) { s.unknown(store, leased(key, "x", all, forgotten)) },
		"forgotten rerun": func(key string) { s.unknown(store, leased(key, "x", all, forgotten, rerun)) },
		"settled": func(key string) {
			c := leased(key, "x", all)
			s.unknown(store, c)
			s.wantSettle(store, settlement(c, ichido.SettledDone), nil)
		},
		"settled, in progress again": func(key string) {
			c := leased(key, "x", all)
			s.unknown(store, c)
			s.wantSettle(store, settlement(c, ichido.SettledNotDone), nil)
			s.begin(store, leased(key, "x", all))
		},
	}
	for key, prepare := range states {
		prepare(key)
		s.wantAsked(store, byName(claim(key, "x")))
	}
	s.wantAsked(store, byRoute("all", 100))
	s.wantAsked(store, byRoute("", 100))
	s.unknown(store, leased("unknown", "x", all))
	s.wantAsked(store, byRoute("all", 100), "unknown")

	c := leased("same", "x")
	s.unknown(store, c)
	for _, elsewhere := range [][2]string{{"scope 2", "same"}, {c.Scope, "SAME"}, {c.Scope, "s%"}, {c.Scope, "sam"}} {
		s.wantAsked(store, ichido.Question{Scope: elsewhere[0], Key: elsewhere[1], Patience: time.Hour})
	}
	s.wantAsked(store, byName(c), "same")
}

// askDoesNotLookAtRerun asks about keys that the next claim may run again.
func askDoesNotLookAtRerun(s *suite) {
	one, other := s.settler(), s.settler()
	c := leased("k", "x", short, rerun, route("r"))
	s.lapsed(one, c)
	last := leased("k", "x", short, rerun, route("r"))
	late := s.lapsed(other, last)
	keys := s.wantAsked(one, byRoute("r", 10), "k")
	if len(keys) == 1 && (keys[0].Token != last.Lease.Token || keys[0].Attempts != 2 || keys[0].Asked != 1) {
		s.Errorf("Ask = %+v, want the second attempt's token %d, asked once", keys[0], last.Lease.Token)
	}
	s.wantAsked(other, byName(c))
	s.wantAsked(other, byRoute("r", 10))
	s.wantSettle(other, settlement(c, ichido.SettledDone), ichido.ErrNotUnknown)
	s.wantSettle(other, settlement(last, ichido.SettledDone), nil)
	s.wantRecord(one, leased("k", "x", rerun), "x", answer("settled"))
	s.wantLost("Complete", late.Complete(s.context(), answer("late")))

	// A claim that says Rerun does not wait for who is asking, and who asked cannot end its attempt.
	c = leased("taken over", "x", rerun, route("r"))
	s.unknown(one, c)
	s.wantAsked(other, byName(c), c.Key)
	next := leased(c.Key, "x", rerun, route("r"))
	attempt := s.begin(one, next)
	for _, how := range []ichido.SettledHow{ichido.StillUnknown, ichido.SettledDone, ichido.SettledNotDone, ichido.SettledDeleted} {
		err := other.Settle(s.context(), settlement(c, how))
		if !errors.Is(err, ichido.ErrInProgress) && !errors.Is(err, ichido.ErrNotUnknown) {
			s.Errorf("Settle as %v of a key that was taken over returned %v", how, err)
		}
	}
	s.wantHeld(other, true, next)
	s.complete(attempt, answer("done"))
	s.wantRecord(other, c, "x", answer("done"))
}

// eachIsAskedOnce has several stores ask at the same time.
func eachIsAskedOnce(s *suite) {
	stores := []ichido.Settler{s.settler(), s.settler()}
	const keys = 20
	for i := range keys {
		s.unknown(stores[0], leased(fmt.Sprint("k", i), "x", route("r")))
	}
	var mu sync.Mutex
	asked := map[string]int{}
	count := func(got []ichido.UnknownKey) int {
		mu.Lock()
		defer mu.Unlock()
		for _, k := range got {
			if asked[k.Key]++; asked[k.Key] > 1 || k.Asked != 1 {
				s.Errorf("%s was asked about by several, for the %d. time", k.Key, k.Asked)
			}
		}
		return len(asked)
	}
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			for ctx := s.context(); ; {
				got, err := stores[i%2].Ask(ctx, byRoute("r", 3))
				if err != nil || len(got) > 3 {
					s.Errorf("Ask = %d keys, %v", len(got), err)
					return
				}
				if count(got) == keys {
					return
				}
			}
		})
	}
	wg.Wait()
	s.wantAsked(stores[0], byRoute("r", 100))

	for round := range rounds {
		c := leased(fmt.Sprint("named", round), "x")
		s.unknown(stores[0], c)
		var askers atomic.Int32
		start := make(chan struct{})
		for i := range racers {
			wg.Go(func() {
				<-start
				got, err := stores[i%2].Ask(s.context(), byName(c))
				if err != nil {
					s.Errorf("Ask: %v", err)
				}
				askers.Add(int32(len(got)))
			})
		}
		close(start)
		wg.Wait()
		if n := askers.Load(); n != 1 {
			s.Errorf("%s: %d got the key, want 1", c.Key, n)
		}
	}
}

// sweepsByRoute asks about the keys of several routes, which begin to wait one after the other.
func sweepsByRoute(s *suite) {
	store := s.settler()
	for _, key := range []string{"e", "d", "c", "b", "a"} {
		for _, name := range []string{"r", "R", "r%", ""} {
			s.unknown(store, leased(name+key, "x", route(name)))
		}
		s.pass(store, 2*time.Millisecond)
	}
	s.wantAsked(store, byRoute("r", 2), "re", "rd")
	s.wantAsked(store, byRoute("R", 100), "Re", "Rd", "Rc", "Rb", "Ra")
	s.wantAsked(store, byRoute("r", 2), "rc", "rb")
	s.wantAsked(store, byRoute("", 1), "e")
	s.wantAsked(store, byRoute("r", 2), "ra")
	s.wantAsked(store, byRoute("r", 2))
	s.wantAsked(store, byRoute("_", 2))
	s.wantAsked(store, byRoute("", 100), "d", "c", "b", "a")
	for _, k := range s.wantAsked(store, byRoute("r%", 100), "r%e", "r%d", "r%c", "r%b", "r%a") {
		if k.Route != "r%" {
			s.Errorf("%s: route %q", k.Key, k.Route)
		}
	}
}

// stillUnknown asks until the next question that a sweep may ask is far away.
func stillUnknown(s *suite) {
	one, other := s.settler(), s.settler()
	c := leased("k", "x", route("r"))
	s.unknown(one, c)
	s.wantAsked(one, byRoute("r", 1), "k")
	for n := 2; n < 10; n++ {
		s.wantAsked(other, byName(c))
		s.wantSettle(one, settlement(c, ichido.StillUnknown), nil)
		keys := s.wantAsked(other, byName(c), "k")
		if len(keys) == 1 && keys[0].Asked != n {
			s.Errorf("asked %d times, want %d", keys[0].Asked, n)
		}
	}
	s.wantSettle(one, settlement(c, ichido.StillUnknown), nil)
	s.unknown(one, leased("fresh", "x", route("r")))
	s.wantAsked(other, byRoute("r", 10), "fresh")
	s.wantUnknown(other, c)
	s.wantSettlements(one, c)
	s.wantAsked(other, byName(c), "k")
}
