package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
)

func leaseSameAnswer(s *suite) {
	store := s.leaser()
	for name, want := range answers() {
		s.complete(s.begin(store, leased(name, "x")), want)
		other := s.leaser()
		for range 2 {
			s.wantRecord(other, leased(name, "x"), "x", want)
			s.wantRecord(other, leased(name, "y", rerun), "x", want)
		}
	}
}

func modesShareRecords(s *suite) {
	one, other := s.leaser(), s.leaser()
	for name, want := range answers() {
		s.complete(s.begin(one, leased("lease "+name, "x")), want)
		s.wantRecord(other, claim("lease "+name, "x"), "x", want)
		s.wantRecord(other, claim("lease "+name, "y"), "x", want)
		s.run(one, claim("transaction "+name, "x"), want)
		s.wantRecord(other, leased("transaction "+name, "x"), "x", want)
		s.wantRecord(other, leased("transaction "+name, "y", rerun), "x", want)
		s.wantRows("transaction "+name, 1)
	}
}

func heldKeyIsRefused(s *suite) {
	one, other := s.leaser(), s.leaser()
	for name, c := range map[string]ichido.Claim{"hold": leased("hold", "x"), "rerun": leased("rerun", "x", rerun)} {
		attempt := s.begin(one, c)
		s.wantBusy(one, c)
		s.wantBusy(other, c)
		s.wantAttempts(other, c, 1)
		s.complete(attempt, answer(name))
		s.wantRecord(other, leased(name, "y", rerun), "x", answer(name))
	}
}

func racingClaims(s *suite) {
	stores := []ichido.Leaser{s.leaser(), s.leaser()}
	for what, prepare := range map[string]func(key string){
		"fresh":   func(string) {},
		"expired": func(key string) { s.run(stores[0], expiring(key, "old"), answer("old")) },
		"forgotten": func(key string) {
			s.unknown(stores[0], leased(key, "old", forgotten))
		},
	} {
		for round := range rounds {
			key := fmt.Sprint(what, round)
			prepare(key)
			claims := make([]ichido.Claim, racers)
			for i := range claims {
				claims[i] = leased(key, "x", rerun)
			}
			outcomes := s.claimAtOnce(stores, claims)
			winner := s.onlyWinner(key, outcomes)
			s.wantAttempts(stores[0], claims[winner], 1)
			s.complete(outcomes[winner].attempt, answer(key))
			s.wantRecord(stores[1], leased(key, "x"), "x", answer(key))
		}
	}
}

func modesRace(s *suite) {
	store := s.leaser()
	mixed := func(key string, racer int) ichido.Claim {
		if racer/2%2 == 0 {
			return claim(key, "x")
		}
		return leased(key, "x")
	}
	s.race("fresh", nil, mixed)
	s.race("expired", func(key string) { s.complete(s.begin(store, expiring(key, "old")), answer("old")) }, mixed)
	s.race("forgotten", func(key string) { s.unknown(store, leased(key, "old", forgotten)) }, mixed)
}

// transactionsLoseToALease begins a transaction, and then an attempt of lease mode. Stores that see the first refuse the
// second. The others must not commit the first.
func transactionsLoseToALease(s *suite) {
	one, other := s.leaser(), s.leaser()
	for what, prepare := range map[string]func(key string){
		"fresh":     func(string) {},
		"expired":   func(key string) { s.complete(s.begin(one, expiring(key, "old")), answer("old")) },
		"forgotten": func(key string) { s.unknown(one, leased(key, "old", forgotten)) },
	} {
		prepare(what)
		transaction := s.begin(one, claim(what, "x"))
		// What is past its retention, but not past its lease, must not be replaced either.
		attempt, record, err := other.Begin(s.context(), leased(what, "x", forgotten))
		if record != nil || attempt == nil && !errors.Is(err, ichido.ErrInProgress) {
			s.Fatalf("%s: Begin during a transaction = %v, %v, %v", what, attempt, record, err)
		}
		if attempt == nil {
			s.abandon(transaction, nil)
			continue
		}
		if err := s.work(transaction, what); err != nil {
			_ = transaction.Abandon(s.context(), err)
		} else {
			err := transaction.Complete(s.context(), answer("transaction"))
			if !errors.Is(err, ichido.ErrLost) && !errors.Is(err, ichido.ErrSerialization) {
				s.Errorf("%s: Complete of the transaction returned %v, want ErrLost", what, err)
			}
		}
		s.wantRows(what, 0)
		s.complete(attempt, answer("lease"))
		s.wantRecord(one, claim(what, "x"), "x", answer("lease"))
	}
}

// ownTokenIsRecognised repeats what an attempt said, as after a lost acknowledgement.
func ownTokenIsRecognised(s *suite) {
	one, other := s.leaser(), s.leaser()
	c := leased("k", "x", rerun)
	first := s.begin(one, c)
	for range 3 {
		s.begin(other, c)
	}
	again := s.begin(one, c)
	s.wantAttempts(one, c, 1)
	s.wantBusy(other, c)
	s.wantHeld(other, true, c)
	for _, attempt := range []ichido.Attempt{again, first, again} {
		s.complete(attempt, answer("done"))
		s.wantRecord(other, c, "x", answer("done")) // its own token gets no second attempt
	}
	s.wantRecord(other, leased("k", "x", rerun), "x", answer("done"))
	s.wantHeld(one, false, c)
}

// ownTokenRenews repeats a claim, whose lease begins anew with that.
func ownTokenRenews(s *suite) {
	s.keptAlive(func(store ichido.Leaser, c ichido.Claim) bool {
		again := *c.Lease
		again.Duration = time.Hour
		c.Lease = &again
		attempt, _, _ := store.Begin(s.context(), c)
		return attempt != nil
	})
}

func tokensAreExact(s *suite) {
	one, other := s.leaser(), s.leaser()
	settler, _ := one.(ichido.Settler)
	tokens := []int64{
		1, -1, 2, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32 + 1, math.MinInt32, 1 << 53, 1<<53 + 1, -1<<53 - 1,
		math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, math.MinInt64 + 2,
	}
	for _, token := range tokens {
		c := leased(fmt.Sprint("k", token), "x")
		c.Lease.Token = token
		attempt := s.begin(one, c)
		for _, near := range []int64{token - 1, token + 1, -token, token ^ math.MinInt64, token &^ 0xff, int64(int32(token))} {
			if near == token || near == 0 {
				continue
			}
			wrong := leased(c.Key, "x")
			wrong.Lease.Token = near
			s.wantHeld(other, false, wrong)
			if attempt, record, err := other.Begin(s.context(), wrong); !errors.Is(err, ichido.ErrInProgress) {
				s.Errorf("token %d passes for %d: Begin = %v, %v, %v; want ErrInProgress", near, token, attempt, record, err)
			}
		}
		s.wantHeld(other, true, c)
		s.begin(other, c)
		s.wantAttempts(other, c, 1)
		if settler == nil {
			s.complete(attempt, answer("done"))
			continue
		}
		s.abandon(attempt, errGone)
		if got := s.ask(settler, byName(c)); len(got) != 1 || got[0].Token != token {
			s.Errorf("Ask = %+v, want the token %d", got, token)
		}
		wrong := settlement(c, ichido.SettledNotDone)
		if wrong.Token = token - 1; wrong.Token != 0 {
			s.wantSettle(settler, wrong, ichido.ErrNotUnknown)
		}
		s.wantSettle(settler, settlement(c, ichido.SettledNotDone), nil)
	}
}

func abandonFreesTheKey(s *suite) {
	one, other := s.leaser(), s.leaser()
	for i := range 3 {
		c := leased("k", fmt.Sprint("content ", i), rerun)
		attempt := s.begin(one, c)
		s.begin(other, c) // a repeated claim is no further attempt
		s.abandon(attempt, nil)
		s.wantLost("Abandon(nil), repeated,", attempt.Abandon(s.context(), nil))
		s.wantLost("Complete after Abandon(nil)", attempt.Complete(s.context(), answer("late")))
		s.wantHeld(other, false, c)
	}
	s.run(other, claim("k", "transaction"), answer("done"))
	s.wantRecord(one, leased("k", "x"), "transaction", answer("done"))
}

func abandonWithCause(s *suite) {
	one, other := s.leaser(), s.leaser()
	for name, cause := range map[string]error{
		"gone": errGone, "server error": ichido.ErrServerError, "stopped": ichido.ErrStopped,
		"deadline": fmt.Errorf("calling: %w", context.DeadlineExceeded), "canceled": context.Canceled,
	} {
		c := leased("hold "+name, "x")
		attempt := s.begin(one, c)
		s.abandon(attempt, cause)
		s.wantUnknown(other, c)
		s.wantLost("Complete after Abandon", attempt.Complete(s.context(), answer("late")))
		s.wantLost("Abandon(nil) after Abandon", attempt.Abandon(s.context(), nil))
		s.wantLost("Abandon, repeated,", attempt.Abandon(s.context(), cause))
		s.wantHeld(one, false, c)
		s.wantUnknown(other, c)

		c = leased("rerun "+name, "x", rerun)
		s.unknown(one, c)
		s.wantUnknown(other, c)
		next := leased(c.Key, "x", rerun)
		attempt = s.begin(other, next)
		s.wantAttempts(one, next, 2)
		s.complete(attempt, answer("done"))
		s.wantRecord(one, c, "x", answer("done"))
	}
}

// abandonAfterAnother ends attempts that say that they did nothing, after one that did not say so.
func abandonAfterAnother(s *suite) {
	one, other := s.leaser(), s.leaser()
	first := leased("k", "x", rerun)
	s.unknown(one, first)
	for n := 2; n <= 4; n++ {
		c := leased("k", "x", rerun)
		attempt := s.begin(other, c)
		s.abandon(attempt, nil)
		s.wantUnknown(one, c)
		if got := s.record(one, leased("k", "y", rerun)); got.State != ichido.Unknown || string(got.Fingerprint) != "v:x" {
			s.Errorf("another request gets a record that is %v of %q, want unknown of %q", got.State, got.Fingerprint, "v:x")
		}
		s.wantHeld(one, false, c)
		s.wantLost("Complete after Abandon(nil)", attempt.Complete(s.context(), answer("late")))
		s.wantLost("Abandon(nil), repeated,", attempt.Abandon(s.context(), nil))
		s.wantAttempts(one, c, n)
	}
	s.complete(s.begin(one, leased("k", "x", rerun)), answer("done"))
	s.wantRecord(other, first, "x", answer("done"))
}

// completedIsFinal says everything else that an attempt can say after it completed its key.
func completedIsFinal(s *suite) {
	store := s.leaser()
	c := leased("k", "x", rerun)
	attempt := s.begin(store, c)
	s.complete(attempt, answer("done"))
	for _, cause := range []error{nil, errGone} {
		s.wantLost(fmt.Sprintf("Abandon(%v) after Complete", cause), attempt.Abandon(s.context(), cause))
		s.wantHeld(store, false, c)
		s.wantRecord(store, leased("k", "x", rerun), "x", answer("done"))
	}
}

func leaseKeysAndScopesAreApart(s *suite) {
	store := s.leaser()
	var claims []ichido.Claim
	var attempts []ichido.Attempt
	for _, id := range [][2]string{
		{"scope", "key"}, {"scope", "KEY"}, {"scope", "key "}, {"scope ", "key"}, {"SCOPE", "key"}, {"scopek", "ey"},
		{"scope", "%"}, {"scope", "_ey"}, {"scope", `';--`}, {"予約", "key"}, {"scope", "予約"}, {"scope", "\\x00"},
	} {
		c := leased(id[1], "x")
		c.Scope = id[0]
		claims = append(claims, c)
		attempts = append(attempts, s.begin(store, c))
	}
	for i, c := range claims {
		s.wantBusy(store, c)
		s.wantHeld(store, true, c)
		switch i % 3 {
		case 0:
			s.complete(attempts[i], answer(fmt.Sprint(i)))
		case 1:
			s.abandon(attempts[i], nil)
		case 2:
			s.abandon(attempts[i], errGone)
		}
	}
	for i, c := range claims {
		switch i % 3 {
		case 0:
			s.wantRecord(store, c, "x", answer(fmt.Sprint(i)))
		case 1:
			s.abandon(s.begin(store, c), nil)
		case 2:
			s.wantUnknown(store, c)
		}
	}
}

func leaseClaimsFailWithTheirContext(s *suite) {
	store := s.leaser()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if attempt, _, err := store.Begin(ctx, leased("k", "x")); err == nil {
		// A store that waits for nothing need not look at the context.
		s.abandon(attempt, nil)
	}
	s.complete(s.begin(store, leased("k", "x")), answer("done"))
}

func leasesOutliveTheirClaim(s *suite) {
	store := s.leaser()
	type contextKey struct{}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	c := leased("k", "x")
	attempt, _, err := store.Begin(ctx, c)
	if err != nil {
		s.Fatal(err)
	}
	cancel()
	parent, stop := context.WithCancel(context.WithValue(s.context(), contextKey{}, "value"))
	work := attempt.Context(parent)
	if work.Err() != nil || work.Value(contextKey{}) != "value" {
		s.Errorf("the attempt's context has the error %v and the value %v", work.Err(), work.Value(contextKey{}))
	}
	stop()
	if work.Err() == nil {
		s.Error("the attempt's context does not end with its parent")
	}
	s.wantBusy(store, c)
	s.wantHeld(store, true, c)
	s.complete(attempt, answer("done"))
	s.wantRecord(store, c, "x", answer("done"))
}

// leasesHoldNoConnection has many more attempts in progress than there are connections.
func leasesHoldNoConnection(s *suite) {
	store := s.leaser()
	n := 3*s.Connections + 10
	var claims []ichido.Claim
	var leases []ichido.Held
	var attempts []ichido.Attempt
	for i := range n {
		c := leased(fmt.Sprint("k", i), "x")
		claims, leases = append(claims, c), append(leases, heldOf(c))
		attempts = append(attempts, s.begin(store, c))
	}
	s.run(store, claim("transaction", "x"), answer("done"))
	if held, err := store.Renew(s.context(), leases); err != nil || len(held) != n || slices.Contains(held, false) {
		s.Errorf("Renew = %v, %v; want %d held", held, err, n)
	}
	var wg sync.WaitGroup
	for i, attempt := range attempts {
		wg.Go(func() {
			if err := attempt.Complete(s.context(), answer(claims[i].Key)); err != nil {
				s.Errorf("Complete: %v", err)
			}
		})
	}
	wg.Wait()
	for _, c := range claims {
		s.wantRecord(store, c, "x", answer(c.Key))
	}
}
