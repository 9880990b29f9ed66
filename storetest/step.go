package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
)

// stepper opens a store, and skips the case if it keeps no steps.
func (s *suite) stepper() ichido.Stepper {
	s.Helper()
	store, ok := s.Open(s.T).(ichido.Stepper)
	if !ok {
		s.Skip("the store is no Stepper")
	}
	return store
}

// heldBy is the lease of the attempt of a claim.
func heldBy(c ichido.Claim) ichido.Held {
	return ichido.Held{Scope: c.Scope, Key: c.Key, Token: c.Lease.Token, Duration: c.Lease.Duration}
}

func step(name, result string) ichido.KeptStep {
	return ichido.KeptStep{Name: name, Result: []byte(result)}
}

// wantSteps begins the steps of an attempt, and wants those to be kept.
func (s *suite) wantSteps(store ichido.Stepper, c ichido.Claim, want ...ichido.KeptStep) {
	s.Helper()
	got, err := store.BeginSteps(s.context(), heldBy(c))
	same := slices.EqualFunc(got, want, func(a, b ichido.KeptStep) bool { return a.Name == b.Name && string(a.Result) == string(b.Result) })
	if err != nil || !same {
		s.Fatalf("%s: BeginSteps = %q, %v; want %q", c.Key, got, err, want)
	}
}

func (s *suite) keepStep(store ichido.Stepper, c ichido.Claim, number int, k ichido.KeptStep) {
	s.Helper()
	if err := store.KeepStep(s.context(), heldBy(c), number, k); err != nil {
		s.Fatalf("%s: KeepStep %d: %v", c.Key, number, err)
	}
}

// stepsAreKept hands the steps of an attempt to the next one, in order and to the byte.
func stepsAreKept(s *suite) {
	one, other := s.stepper(), s.stepper()
	c := leased("k", "x")
	attempt := s.begin(one, c)
	s.wantSteps(one, c)
	var kept []ichido.KeptStep
	for i, result := range []string{"reserved", "", "\x00\xff binary", string(make([]byte, 100_000))} {
		k := step(fmt.Sprint("step ", i, " é%_'"), result)
		s.keepStep(one, c, i+1, k)
		kept = append(kept, k)
		s.wantSteps(one, c, kept...)
	}
	s.abandon(attempt, errGone)
	for range 3 { // the record says Hold, and resumes all the same
		next := leased("k", "x")
		attempt = s.begin(other, next)
		s.wantSteps(other, next, kept...)
		k := step(fmt.Sprint("step ", len(kept)), "more")
		s.keepStep(other, next, len(kept)+1, k)
		kept = append(kept, k)
		s.abandon(attempt, errGone)
	}
	last := leased("k", "x")
	s.complete(s.begin(one, last), answer("done"))
	s.wantRecord(other, c, "x", answer("done"))
}

// stepsOfOthers keeps apart what belongs to other keys and scopes.
func stepsOfOthers(s *suite) {
	store := s.stepper()
	var claims []ichido.Claim
	for _, scope := range []string{"s", "S", "s "} {
		for _, key := range []string{"k", "K", "k%"} {
			c := leased(key, "x")
			c.Scope = scope
			s.begin(store, c)
			s.wantSteps(store, c)
			claims = append(claims, c)
		}
	}
	for i, c := range claims {
		s.keepStep(store, c, 1, step("one", fmt.Sprint(i)))
	}
	for i, c := range claims {
		s.wantSteps(store, c, step("one", fmt.Sprint(i)))
	}
}

// stepsAreFenced has attempts that have lost their lease keep nothing, and change nothing.
func stepsAreFenced(s *suite) {
	one, other := s.stepper(), s.stepper()
	wantLost := func(what string, c ichido.Claim) {
		s.Helper()
		if kept, err := one.BeginSteps(s.context(), heldBy(c)); !errors.Is(err, ichido.ErrLost) {
			s.Errorf("%s: BeginSteps = %q, %v; want ErrLost", what, kept, err)
		}
		for number := 1; number <= 3; number++ {
			if err := one.KeepStep(s.context(), heldBy(c), number, step("late", "late")); !errors.Is(err, ichido.ErrLost) {
				s.Errorf("%s: KeepStep %d: %v, want ErrLost", what, number, err)
			}
		}
	}
	c := leased("k", "x")
	wantLost("a key without a record", c)
	old := s.begin(one, c)
	s.wantSteps(one, c)
	s.keepStep(one, c, 1, step("one", "1"))
	s.abandon(old, errGone)
	wantLost("an attempt that ended", c)

	next := leased("k", "x")
	attempt := s.begin(other, next)
	wantLost("an attempt whose key was taken over", c)
	s.wantSteps(other, next, step("one", "1"))
	s.keepStep(other, next, 2, step("two", "2"))
	wantLost("the same, after a step of the next", c)
	s.complete(attempt, answer("done"))
	wantLost("the same, after the next has completed", c)
	wantLost("an attempt that has completed", next)

	over := leased("over", "x", short)
	s.begin(one, over)
	s.pass(one, time.Millisecond)
	wantLost("an attempt whose lease ran out", over)
	s.wantUnknown(other, over)
}

// stepsAreRepeatable keeps a step again, as after an acknowledgement that was lost, and refuses gaps and others.
func stepsAreRepeatable(s *suite) {
	store := s.stepper()
	c := leased("k", "x")
	s.begin(store, c)
	s.wantSteps(store, c)
	for range 2 {
		s.keepStep(store, c, 1, step("one", "1"))
	}
	s.keepStep(store, c, 2, step("two", "2"))
	s.keepStep(store, c, 2, step("two", "2"))
	for number, name := range map[int]string{1: "two", 2: "one", 4: "four"} {
		if err := store.KeepStep(s.context(), heldBy(c), number, step(name, "x")); !errors.Is(err, ichido.ErrLost) {
			s.Errorf("KeepStep %d %q: %v, want ErrLost", number, name, err)
		}
	}
	s.wantSteps(store, c, step("one", "1"), step("two", "2"))
}

// stepsEndWithTheRecord gives a key that begins anew no steps of before.
func stepsEndWithTheRecord(s *suite) {
	store := s.stepper()
	settler, _ := store.(ichido.Settler)
	ends := map[string]func(c ichido.Claim, a ichido.Attempt){
		"refused": func(_ ichido.Claim, a ichido.Attempt) { s.abandon(a, nil) },
		"expired": func(_ ichido.Claim, a ichido.Attempt) { s.complete(a, answer("done")) },
		"purged": func(_ ichido.Claim, a ichido.Attempt) {
			s.complete(a, answer("done"))
			if p, ok := store.(ichido.Purger); ok {
				if _, err := p.Purge(s.context(), 100); err != nil {
					s.Fatal(err)
				}
			}
		},
	}
	if settler != nil {
		ends["settled"] = func(c ichido.Claim, a ichido.Attempt) {
			s.abandon(a, errGone)
			s.wantSettle(settler, settlement(c, ichido.SettledNotDone), nil)
		}
	}
	for name, end := range ends {
		c := leased(name, "x")
		c.Retention = time.Nanosecond
		a := s.begin(store, c)
		s.wantSteps(store, c)
		s.keepStep(store, c, 1, step("one", "old"))
		s.keepStep(store, c, 2, step("two", "old"))
		end(c, a)

		again := leased(name, "y")
		s.begin(store, again)
		s.wantSteps(store, again)
		s.keepStep(store, again, 1, step("other", "new"))
		s.wantSteps(store, again, step("other", "new"))
	}
}

// stepsResumeOnce has many claims meet an operation that resumes.
func stepsResumeOnce(s *suite) {
	stores := []ichido.Leaser{s.stepper(), s.stepper()}
	one := stores[0].(ichido.Stepper)
	for round := range rounds {
		c := leased(fmt.Sprint("k", round), "x")
		a := s.begin(one, c)
		s.wantSteps(one, c)
		s.keepStep(one, c, 1, step("one", "1"))
		s.abandon(a, errGone)
		claims := make([]ichido.Claim, racers)
		for i := range claims {
			claims[i] = leased(c.Key, "x")
		}
		outcomes := s.claimAtOnce(stores, claims)
		winner := s.onlyWinner(c.Key, outcomes)
		s.wantSteps(one, claims[winner], step("one", "1"))
		s.wantAttempts(one, claims[winner], 2)
	}
	c := leased("other", "x")
	a := s.begin(one, c)
	s.wantSteps(one, c)
	s.abandon(a, errGone)
	if a, record, err := one.Begin(s.context(), leased("other", "y")); a != nil || err != nil || string(record.Fingerprint) != "v:x" {
		s.Errorf("another request: Begin = %v, %v, %v; want the record of the first", a, record, err)
	}
}

// stepsRace has an attempt and a late one keep steps at the same time.
func stepsRace(s *suite) {
	one, other := s.stepper(), s.stepper()
	for round := range rounds {
		c := leased(fmt.Sprint("k", round), "x")
		old := s.begin(one, c)
		s.wantSteps(one, c)
		var wg sync.WaitGroup
		late := make([]error, 4)
		for i := range late {
			wg.Go(func() { late[i] = one.KeepStep(s.context(), heldBy(c), 1, step("one", "old")) })
		}
		var taken ichido.Claim
		wg.Go(func() {
			_ = old.Abandon(s.context(), errGone)
			taken = leased(c.Key, "x")
			s.begin(other, taken)
		})
		wg.Wait()
		kept, err := other.BeginSteps(s.context(), heldBy(taken))
		if err != nil {
			s.Fatal(err)
		}
		heard := slices.ContainsFunc(late, func(err error) bool { return err == nil })
		if heard != (len(kept) == 1) {
			s.Errorf("%s: KeepStep of the one that went returned %v, and %q is kept", c.Key, late, kept)
		}
	}
}

// stepsAreShown looks at an operation that is to be resumed, which nobody is asked about.
func stepsAreShown(s *suite) {
	store := s.stepper()
	c := leased("k", "x", route("orders"))
	a := s.begin(store, c)
	s.wantSteps(store, c)
	s.keepStep(store, c, 1, step("reserve", "secret"))
	s.keepStep(store, c, 2, step("charge", "secret"))
	s.abandon(a, errGone)
	if settler, ok := store.(ichido.Settler); ok {
		s.wantAsked(settler, byName(c))
		s.wantAsked(settler, byRoute("orders", 10))
	}
	inspector, ok := store.(ichido.Inspector)
	if !ok {
		return
	}
	e, err := inspector.Look(s.context(), c.Scope, c.Key)
	if err != nil || e.State != ichido.InProgress || !e.Resumes || !slices.Equal(e.Steps, []string{"reserve", "charge"}) {
		s.Errorf("Look: %+v, %v", e, err)
	}
	all, err := inspector.List(s.context(), ichido.Filter{States: []ichido.State{ichido.InProgress}, Limit: 10})
	if err != nil || len(all) != 1 || !all[0].Resumes || all[0].Steps != nil {
		s.Errorf("List: %+v, %v", all, err)
	}
	unknown, err := inspector.List(s.context(), ichido.Filter{States: []ichido.State{ichido.Unknown}, Limit: 10})
	if err != nil || len(unknown) != 0 {
		s.Errorf("List of what is unknown: %+v, %v", unknown, err)
	}
}
