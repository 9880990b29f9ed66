package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ichido-dev/ichido"
)

// finisher opens a store, and skips the case if it does not hand out what was abandoned.
func (s *suite) finisher() ichido.Finisher {
	s.Helper()
	store, ok := s.Open(s.T).(ichido.Finisher)
	if !ok {
		s.Skip("the store is no Finisher")
	}
	return store
}

// keeping has the request of an operation kept.
func keeping(request string) func(*ichido.Lease) {
	return func(l *ichido.Lease) { l.Request = []byte(request) }
}

func atMost(attempts int) func(*ichido.Lease) {
	return func(l *ichido.Lease) { l.MaxAttempts = attempts }
}

func owner(name string) func(*ichido.Lease) { return func(l *ichido.Lease) { l.Owner = name } }

// withSteps makes a key whose attempt went after it began its steps.
func (s *suite) withSteps(store ichido.Stepper, c ichido.Claim) {
	s.Helper()
	attempt := s.begin(store, c)
	s.wantSteps(store, c)
	s.abandon(attempt, errGone)
}

// wantAbandoned reserves abandoned operations, and checks which it gets, in what order.
func (s *suite) wantAbandoned(store ichido.Finisher, q ichido.Question, want ...string) []ichido.AbandonedKey {
	s.Helper()
	keys, err := store.Abandoned(s.context(), q)
	if err != nil {
		s.Fatalf("Abandoned(%+v): %v", q, err)
	}
	var got []string
	for _, k := range keys {
		got = append(got, k.Key)
	}
	if !slices.Equal(got, want) {
		s.Errorf("Abandoned(%+v) = %q, want %q", q, got, want)
	}
	return keys
}

// wantUnknownToAll asks for a key that must be unknown whatever the claim says.
func (s *suite) wantUnknownToAll(store ichido.Store, key string) {
	s.Helper()
	for _, again := range []ichido.Claim{claim(key, "x"), leased(key, "x"), leased(key, "x", rerun), leased(key, "x", rerun, atMost(1000)),
		leased(key, "y", rerun)} {
		if got := s.record(store, again); got.State != ichido.Unknown || string(got.Fingerprint) != "v:x" {
			s.Errorf("%s: the record is %v of %q, want unknown", key, got.State, got.Fingerprint)
		}
	}
}

// finishOnlyWhatWouldRun makes keys of every kind. Those that are abandoned are those that the next claim gets.
func finishOnlyWhatWouldRun(s *suite) {
	store := s.finisher()
	abandoned := []string{"rerun", "rerun, lease ran out", "rerun, below", "steps", "steps, below", "held by the last"}
	all := func(l *ichido.Lease) { l.Route, l.Request = "all", []byte("the request") }
	for key, prepare := range map[string]func(key string){
		"missing":     func(string) {},
		"in progress": func(key string) { s.begin(store, leased(key, "x", all, rerun)) },
		"in progress, with steps": func(key string) {
			c := leased(key, "x", all, rerun)
			s.begin(store, c)
			s.wantSteps(store, c)
		},
		"completed":            func(key string) { s.complete(s.begin(store, leased(key, "x", all, rerun)), answer("done")) },
		"transaction":          func(key string) { s.complete(s.begin(store, claim(key, "x")), answer("done")) },
		"freed":                func(key string) { s.abandon(s.begin(store, leased(key, "x", all, rerun)), nil) },
		"held":                 func(key string) { s.unknown(store, leased(key, "x", all)) },
		"rerun":                func(key string) { s.unknown(store, leased(key, "x", all, rerun)) },
		"rerun, lease ran out": func(key string) { s.lapsed(store, leased(key, "x", all, rerun, short)) },
		"rerun, below":         func(key string) { s.unknown(store, leased(key, "x", all, rerun, atMost(2))) },
		"rerun, had all":       func(key string) { s.unknown(store, leased(key, "x", all, rerun, atMost(1))) },
		"rerun, no request": func(key string) {
			s.unknown(store, leased(key, "x", all, rerun, func(l *ichido.Lease) { l.Request = nil }))
		},
		"rerun, past":       func(key string) { s.unknown(store, leased(key, "x", all, rerun, forgotten)) },
		"rerun, elsewhere":  func(key string) { s.unknown(store, leased(key, "x", all, rerun, route("ALL"))) },
		"steps":             func(key string) { s.withSteps(store, leased(key, "x", all)) },
		"steps, below":      func(key string) { s.withSteps(store, leased(key, "x", all, atMost(2))) },
		"steps, had all":    func(key string) { s.withSteps(store, leased(key, "x", all, atMost(1))) },
		"steps, no request": func(key string) { s.withSteps(store, leased(key, "x", all, func(l *ichido.Lease) { l.Request = nil })) },
		"steps, past":       func(key string) { s.withSteps(store, leased(key, "x", all, forgotten)) },
		"taken over": func(key string) {
			s.unknown(store, leased(key, "x", all, rerun))
			s.begin(store, leased(key, "x", all, rerun))
		},
		"no more by the last": func(key string) {
			s.unknown(store, leased(key, "x", all, rerun))
			s.unknown(store, leased(key, "x", all, rerun, atMost(2)))
		},
		"held by the last": func(key string) {
			s.withSteps(store, leased(key, "x", all, rerun))
			s.unknown(store, leased(key, "x", all))
		},
	} {
		prepare(key)
		if !slices.Contains(abandoned, key) {
			s.wantAbandoned(store, byRoute("all", 100))
			continue
		}
		keys := s.wantAbandoned(store, byRoute("all", 100), key)
		next := leased(key, "x", rerun)
		s.begin(store, next)
		if len(keys) == 1 {
			s.wantAttempts(store, next, keys[0].Attempts+1)
		}
	}
	s.wantAbandoned(store, byRoute("ALL", 100), "rerun, elsewhere")
	s.wantAbandoned(store, ichido.Question{Limit: 100, Patience: time.Hour})
}

// finishKeepsTheRequest hands out what was kept, to the byte, as the first claim of this life of the key had it.
func finishKeepsTheRequest(s *suite) {
	one, other := s.finisher(), s.finisher()
	for i, request := range []string{"{}", "\x00\xff\x80 binary\r\n", `{"item":"椅子"}`, strings.Repeat("large ", 200_000)} {
		name := fmt.Sprint("route ", i)
		c := leased(name, "x", rerun, route(name), keeping(request), atMost(7))
		s.begin(one, c)
		s.abandon(s.begin(other, c), errGone) // a repeated claim has the request too
		// What those have that follow does not count.
		s.unknown(other, leased(name, "x", rerun, route(name), keeping("another")))
		last := leased(name, "x", rerun, route(name))
		s.unknown(one, last)
		keys := s.wantAbandoned(other, byRoute(name, 10), name)
		if len(keys) != 1 {
			continue
		}
		k := keys[0]
		if string(k.Request) != request {
			s.Errorf("%s: a request of %d bytes came back as one of %d, or not to the byte", name, len(request), len(k.Request))
		}
		s.wantNow("CreatedAt", k.CreatedAt)
		s.wantNow("Since", k.Since)
		if d := k.Since.Sub(k.CreatedAt); d < 0 || d > patience {
			s.Errorf("it is abandoned since %v, %v after its claim", k.Since, d)
		}
		k.CreatedAt, k.Since = time.Time{}, time.Time{}
		want := ichido.UnknownKey{Scope: c.Scope, Key: name, Route: name, Fingerprint: c.Fingerprint, Token: last.Lease.Token, Attempts: 3, Asked: 1}
		if !reflect.DeepEqual(k.UnknownKey, want) {
			s.Errorf("Abandoned = %+v, want %+v", k.UnknownKey, want)
		}
	}
}

// finishForgetsTheRequest ends the life of a key in every way: no later life has its request.
func finishForgetsTheRequest(s *suite) {
	store := s.finisher()
	ends := map[string]func(ichido.Claim, ichido.Attempt){
		"completed": func(_ ichido.Claim, a ichido.Attempt) { s.complete(a, answer("done")) },
		"freed":     func(_ ichido.Claim, a ichido.Attempt) { s.abandon(a, nil) },
		"forgotten": func(_ ichido.Claim, a ichido.Attempt) { s.abandon(a, errGone) },
		"a transaction came": func(c ichido.Claim, a ichido.Attempt) {
			s.complete(a, answer("done"))
			s.complete(s.begin(store, expiring(c.Key, "t")), answer("by a transaction"))
		},
		"a transaction came to what was forgotten": func(c ichido.Claim, a ichido.Attempt) {
			s.abandon(a, errGone)
			s.complete(s.begin(store, expiring(c.Key, "t")), answer("by a transaction"))
		},
	}
	if settler, ok := store.(ichido.Settler); ok {
		for _, how := range []ichido.SettledHow{ichido.SettledDone, ichido.SettledNotDone, ichido.SettledDeleted} {
			ends["settled as "+how.String()] = func(c ichido.Claim, a ichido.Attempt) {
				c = leased(c.Key+" ", "x", rerun, keeping("old"), route("old"))
				s.unknown(store, c)
				t := settlement(c, how)
				t.Retention = time.Nanosecond
				s.wantSettle(settler, t, nil)
				s.abandon(a, nil) // of the key without a space
			}
		}
	}
	for name, end := range ends {
		c := leased(name, "x", rerun, forgotten, keeping("old"), route("old"))
		c.Retention = time.Nanosecond
		end(c, s.begin(store, c))
		for _, key := range []string{name, name + " "} {
			if inspector, ok := store.(ichido.Inspector); ok {
				if e, err := inspector.Look(s.context(), c.Scope, key); err == nil && e.State == ichido.Completed && e.Finishes {
					s.Errorf("%s: the request is kept after the completion", name)
				}
			}
			s.wantAbandoned(store, byRoute("old", 10))
			next := leased(key, "y", rerun, route("new "+key))
			s.unknown(store, next)
			s.wantAbandoned(store, byRoute("new "+key, 10))
		}
		// A life that keeps a request has its own.
		c = leased(name+" again", "x", rerun, forgotten, keeping("old"), route("old"))
		c.Retention = time.Nanosecond
		s.complete(s.begin(store, c), answer("done"))
		s.unknown(store, leased(c.Key, "y", rerun, keeping("new"), route(c.Key)))
		if keys := s.wantAbandoned(store, byRoute(c.Key, 10), c.Key); len(keys) == 1 && string(keys[0].Request) != "new" {
			s.Errorf("%s: the request is %q, want that of this life", c.Key, keys[0].Request)
		}
	}
}

// finishReserves hands an operation to one, for a time, and then not again at once.
func finishReserves(s *suite) {
	one, other := s.finisher(), s.finisher()
	c := leased("k", "x", rerun, route("r"), keeping("request"))
	s.unknown(one, c)
	q := byRoute("r", 10)
	q.Patience = time.Millisecond
	s.wantAbandoned(one, q, "k")
	s.wantAbandoned(other, byRoute("r", 10))
	s.pass(one, 2*time.Millisecond)
	s.wantAbandoned(one, q) // the next time is 10 s after the end of the reservation
	if e := s.entry(other, c); e != nil && (e.Asked != 1 || e.Attempts != 1) {
		s.Errorf("the entry is %+v; want one that was asked about once", e)
	}
	// Its client may come back all the same.
	next := leased("k", "x", rerun, route("r"))
	attempt := s.begin(other, next)
	s.wantHeld(one, true, next)
	s.complete(attempt, answer("done"))
	s.wantRecord(one, c, "x", answer("done"))
	s.wantAbandoned(one, q)
}

// finishByRoute hands out the operations of several routes, which begin to wait one after the other.
func finishByRoute(s *suite) {
	store := s.finisher()
	for _, key := range []string{"e", "d", "c", "b", "a"} {
		for _, name := range []string{"r", "R", "r%", ""} {
			s.unknown(store, leased(name+key, "x", rerun, route(name), keeping(name+key)))
		}
		s.pass(store, 2*time.Millisecond)
	}
	s.wantAbandoned(store, byRoute("r", 0))
	s.wantAbandoned(store, byRoute("r", 2), "re", "rd")
	s.wantAbandoned(store, byRoute("R", 100), "Re", "Rd", "Rc", "Rb", "Ra")
	named := byRoute("r", 2) // its name is not heeded
	named.Scope, named.Key = claim("", "").Scope, "ra"
	s.wantAbandoned(store, named, "rc", "rb")
	s.wantAbandoned(store, byRoute("r", 2), "ra")
	s.wantAbandoned(store, byRoute("r", 2))
	s.wantAbandoned(store, byRoute("_", 2))
	for _, k := range s.wantAbandoned(store, byRoute("r%", 100), "r%e", "r%d", "r%c", "r%b", "r%a") {
		if string(k.Request) != k.Key {
			s.Errorf("%s comes with the request of %q", k.Key, k.Request)
		}
	}
	s.wantAbandoned(store, byRoute("", 100), "e", "d", "c", "b", "a")
}

// finishEachOnce has several stores look for abandoned operations at the same time.
func finishEachOnce(s *suite) {
	stores := []ichido.Finisher{s.finisher(), s.finisher()}
	const keys = 30
	for i := range keys {
		s.unknown(stores[0], leased(fmt.Sprint("k", i), "x", rerun, route("r"), keeping(fmt.Sprint("k", i))))
	}
	var mu sync.Mutex
	got := map[string]int{}
	count := func(reserved []ichido.AbandonedKey) int {
		mu.Lock()
		defer mu.Unlock()
		for _, k := range reserved {
			if got[k.Key]++; got[k.Key] > 1 || k.Asked != 1 || string(k.Request) != k.Key {
				s.Errorf("%s was handed out to several, for the %d. time, or with the request of %q", k.Key, k.Asked, k.Request)
			}
		}
		return len(got)
	}
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			for ctx := s.context(); ; {
				reserved, err := stores[i%2].Abandoned(ctx, byRoute("r", 1+i%3))
				if err != nil || len(reserved) > 1+i%3 {
					s.Errorf("Abandoned = %d keys, %v", len(reserved), err)
					return
				}
				if count(reserved) == keys {
					return
				}
			}
		})
	}
	wg.Wait()
	s.wantAbandoned(stores[0], byRoute("r", 100))
}

// following makes a claim one that must follow an attempt.
func following(l *ichido.Lease) { l.Rerun, l.Follows = true, true }

// finishFollows has claims that must follow an attempt meet keys in every state.
func finishFollows(s *suite) {
	one, other := s.finisher(), s.finisher()
	absent := map[string]func(key string){
		"missing":               func(string) {},
		"freed":                 func(key string) { s.abandon(s.begin(one, leased(key, "x", rerun)), nil) },
		"forgotten":             func(key string) { s.unknown(one, leased(key, "x", rerun, forgotten)) },
		"forgotten, with steps": func(key string) { s.withSteps(one, leased(key, "x", forgotten)) },
		"past": func(key string) {
			c := leased(key, "x", rerun)
			c.Retention = time.Nanosecond
			s.complete(s.begin(one, c), answer("done"))
		},
		"past, by a transaction": func(key string) { s.complete(s.begin(one, expiring(key, "x")), answer("done")) },
	}
	if settler, ok := one.(ichido.Settler); ok {
		for _, how := range []ichido.SettledHow{ichido.SettledNotDone, ichido.SettledDeleted} {
			absent[how.String()] = func(key string) {
				c := leased(key, "x", rerun)
				s.unknown(one, c)
				s.wantSettle(settler, settlement(c, how), nil)
			}
		}
	}
	for key, prepare := range absent {
		prepare(key)
		for range 2 {
			attempt, record, err := other.Begin(s.context(), leased(key, "x", following, keeping("request")))
			if attempt != nil || record != nil || !errors.Is(err, ichido.ErrNoRecord) {
				s.Errorf("%s: Begin = %v, %v, %v; want ErrNoRecord", key, attempt, record, err)
			}
		}
		first := leased(key, "x", rerun)
		s.begin(one, first)
		s.wantAttempts(other, first, 1)
	}

	for key, prepare := range map[string]func(c ichido.Claim){
		"rerun": func(c ichido.Claim) { c.Lease.Rerun = true; s.unknown(one, c) },
		"steps": func(c ichido.Claim) { s.withSteps(one, c) },
	} {
		c := leased(key, "x", keeping("request"), atMost(9), route("before"), owner("before"))
		prepare(c)
		next := leased(key, "x", following, route("r"), owner("next"), atMost(7))
		s.begin(other, next)
		attempt := s.begin(one, next) // a repeated claim
		s.wantAttempts(one, next, 2)
		if e := s.entry(one, next); e != nil && (e.Route != "r" || e.Owner != "next" || e.MaxAttempts != 7 || !e.Rerun || !e.Finishes) {
			s.Errorf("%s: the entry is %+v", key, e)
		}
		s.wantHeld(other, true, next)
		s.wantHeld(other, false, c)
		for content, want := range map[string]error{"x": ichido.ErrInProgress, "y": ichido.ErrMismatch} {
			if attempt, record, err := one.Begin(s.context(), leased(key, content, following)); attempt != nil || record != nil || !errors.Is(err, want) {
				s.Errorf("%s: Begin during the attempt = %v, %v, %v; want %v", key, attempt, record, err, want)
			}
		}
		s.abandon(attempt, errGone)
		s.wantAbandoned(other, byRoute("r", 10), key)
		if got := s.record(other, leased(key, "y", following)); got.State != ichido.Unknown {
			s.Errorf("%s: to another request the record is %v, want unknown", key, got.State)
		}
		s.complete(s.begin(other, leased(key, "x", following)), answer("done"))
		if got := s.record(one, leased(key, "x", following)); got.State != ichido.Completed {
			s.Errorf("%s: the record is %v, want completed", key, got.State)
		}
	}

	s.unknown(one, leased("held", "x"))
	s.unknown(one, leased("had all", "x", rerun, atMost(1)))
	for _, key := range []string{"held", "had all"} {
		if got := s.record(other, leased(key, "x", following)); got.State != ichido.Unknown {
			s.Errorf("%s: the record is %v, want unknown", key, got.State)
		}
	}
}

// followersRaceWithSettling: whoever says that an operation was not done can rely on that nobody goes on with it.
func followersRaceWithSettling(s *suite) {
	store, other := s.finisher(), s.finisher()
	settler, ok := other.(ichido.Settler)
	if !ok {
		s.Skip("the store is no Settler")
	}
	for round := range rounds {
		c := leased(fmt.Sprint("k", round), "x", rerun, keeping("request"))
		s.unknown(store, c)
		how := []ichido.SettledHow{ichido.SettledNotDone, ichido.SettledDeleted}[round%2]
		var settled error
		var wg sync.WaitGroup
		wg.Go(func() { settled = settler.Settle(s.context(), settlement(c, how)) })
		attempt, record, err := store.Begin(s.context(), leased(c.Key, "x", following))
		wg.Wait()
		switch {
		case attempt != nil && (errors.Is(settled, ichido.ErrInProgress) || errors.Is(settled, ichido.ErrNotUnknown)):
		case errors.Is(err, ichido.ErrNoRecord) && settled == nil:
		default:
			s.Errorf("%s: Begin = %v, %v, %v, and Settle = %v", c.Key, attempt, record, err, settled)
		}
	}
}

// attemptsAreBounded has exactly as many attempts as there may be, whatever makes the work run again.
func attemptsAreBounded(s *suite) {
	one, other := s.finisher(), s.finisher()
	const limit = 3
	for _, steps := range []bool{false, true} {
		key := fmt.Sprint("k", steps)
		var last ichido.Claim
		for n := 1; n <= limit; n++ {
			last = leased(key, "x", rerun, route("r"), keeping("request"), atMost(limit))
			attempt := s.begin(one, last)
			if steps {
				s.wantSteps(one, last)
			}
			s.begin(other, last) // a repeated claim is no further attempt, the last one's neither
			s.wantAttempts(other, last, n)
			s.abandon(attempt, errGone)
			if e := s.entry(other, last); e != nil && (e.MaxAttempts != limit || (e.State == ichido.Unknown) != (n == limit)) {
				s.Errorf("%s: after %d attempts the entry is %+v", key, n, e)
			}
		}
		s.wantUnknownToAll(other, key)
		s.wantAttempts(one, last, limit)
		s.wantAbandoned(one, byRoute("r", 10))
		if inspector, ok := one.(ichido.Inspector); ok {
			for state, want := range map[ichido.State]int{ichido.Unknown: 1, ichido.InProgress: 0} {
				if l := s.list(inspector, ichido.Filter{Key: key, States: []ichido.State{state}, Limit: 10}); len(l) != want {
					s.Errorf("%s: %d entries are listed as %v, want %d", key, len(l), state, want)
				}
			}
		}
		if settler, ok := one.(ichido.Settler); ok {
			s.wantAsked(settler, byRoute("r", 10), key)
			s.wantSettle(settler, settlement(last, ichido.StillUnknown), nil)
			s.wantAsked(settler, byName(last), key)
			s.wantSettle(settler, settlement(last, ichido.SettledNotDone), nil)
			again := leased(key, "y", rerun, atMost(limit))
			s.begin(one, again)
			s.wantAttempts(other, again, 1)
		}
	}

	// A lease that has run out is not extended, nor completed, by what cannot be taken over.
	c := leased("ran out", "x", rerun, short, atMost(1))
	late := s.lapsed(one, c)
	s.wantUnknownToAll(other, c.Key)
	s.wantLost("Complete", late.Complete(s.context(), answer("late")))

	// A later life of a key begins to count anew.
	s.unknown(one, leased("forgotten", "x", rerun, forgotten, atMost(1)))
	c = leased("forgotten", "x", rerun)
	s.begin(other, c)
	s.wantAttempts(one, c, 1)
}

// limitOfTheRecordCounts has claims meet records whose limit is another.
func limitOfTheRecordCounts(s *suite) {
	one, other := s.finisher(), s.finisher()
	// attempt makes the n-th attempt, which says how many there may be.
	attempt := func(key string, n, limit int) {
		s.Helper()
		c := leased(key, "x", rerun, atMost(limit))
		s.unknown(one, c)
		s.wantAttempts(other, c, n)
	}
	attempt("lower", 1, 1)
	s.wantUnknownToAll(other, "lower")

	attempt("raised", 1, 2)
	for n := 2; n <= 4; n++ {
		attempt("raised", n, 4)
	}
	s.wantUnknownToAll(other, "raised")

	attempt("lowered", 1, 5)
	attempt("lowered", 2, 1)
	s.wantUnknownToAll(other, "lowered")

	for n := range 30 {
		attempt("none", n+1, 0)
	}
	attempt("none", 31, 31)
	s.wantUnknownToAll(other, "none")

	attempt("many", 1, 1<<40)
	attempt("many", 2, 0)
}

// attemptsRace has many claim a key whose attempts all go at once, until it is unknown.
func attemptsRace(s *suite) {
	stores := []ichido.Leaser{s.finisher(), s.finisher()}
	const limit = 5
	for round := range rounds {
		c := leased(fmt.Sprint("k", round), "x", rerun, atMost(limit))
		s.unknown(stores[0], c)
		var attempts atomic.Int32
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				for ctx := s.context(); ; {
					attempt, record, err := stores[i%2].Begin(ctx, leased(c.Key, "x", rerun, atMost(limit)))
					switch {
					case attempt != nil:
						attempts.Add(1)
						if err := attempt.Abandon(ctx, errGone); err != nil {
							s.Errorf("%s: Abandon: %v", c.Key, err)
						}
					case record != nil:
						if record.State != ichido.Unknown {
							s.Errorf("%s: the record is %v, want unknown", c.Key, record.State)
						}
						return
					case !errors.Is(err, ichido.ErrInProgress) && !errors.Is(err, ichido.ErrSerialization):
						s.Errorf("%s: Begin: %v", c.Key, err)
						return
					}
				}
			})
		}
		wg.Wait()
		if n := attempts.Load(); n != limit-1 {
			s.Errorf("%s: %d attempts after the first, want %d", c.Key, n, limit-1)
		}
		s.wantUnknownToAll(stores[1], c.Key)
	}
}

// ownerIsShown looks who is at a key, or was at it last.
func ownerIsShown(s *suite) {
	one, other := s.finisher(), s.finisher()
	inspector, ok := one.(ichido.Inspector)
	if !ok {
		s.Skip("the store is no Inspector")
	}
	want := func(when string, c ichido.Claim, owner string, attempts int, finishes bool) {
		s.Helper()
		e := s.both(inspector, c)
		if e.Owner != owner || e.Attempts != attempts || e.MaxAttempts != 5 || e.Finishes != finishes {
			s.Errorf("%s: the entry is %+v; want the owner %q, %d of 5 attempts, Finishes %v", when, e, owner, attempts, finishes)
		}
	}
	begin := func(name string) (ichido.Claim, ichido.Attempt) {
		c := leased("k", "x", rerun, owner(name), keeping("request"), atMost(5), route("r"))
		return c, s.begin(one, c)
	}
	c, attempt := begin("blue é:1")
	want("claimed", c, "blue é:1", 1, true)
	renewed := heldOf(c)
	renewed.Duration = 2 * time.Hour
	if held, err := other.Renew(s.context(), []ichido.Held{renewed}); err != nil || !held[0] {
		s.Fatalf("Renew = %v, %v", held, err)
	}
	want("renewed", c, "blue é:1", 1, true)
	s.wantSteps(other, c)
	s.keepStep(other, c, 1, step("one", "1"))
	if attempt, record, err := other.Begin(s.context(), leased("k", "x", rerun, owner("red"))); attempt != nil || record != nil || err == nil {
		s.Errorf("Begin during an attempt = %v, %v, %v", attempt, record, err)
	}
	want("refused another", c, "blue é:1", 1, true)
	s.abandon(attempt, errGone)
	s.wantAbandoned(other, byRoute("r", 1), "k")
	want("abandoned", c, "blue é:1", 1, true)

	c, attempt = begin("green:2")
	want("taken over", c, "green:2", 2, true)
	s.abandon(attempt, errGone)
	c, attempt = begin("")
	want("taken over by nobody in particular", c, "", 3, true)
	s.abandon(attempt, errGone)
	c, attempt = begin("white:4")
	s.complete(attempt, answer("done"))
	want("completed", c, "white:4", 4, false)
}
