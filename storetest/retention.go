package storetest

import (
	"fmt"
	"time"

	"github.com/ichido-dev/ichido"
)

// purgeAll purges, if the store is a Purger, and checks how many records went.
func (s *suite) purgeAll(store ichido.Store, want int) {
	s.Helper()
	purger, ok := store.(ichido.Purger)
	if !ok {
		return
	}
	if n, err := purger.Purge(s.context(), 100); n != want || err != nil {
		s.Errorf("Purge = %d, %v; want %d", n, err, want)
	}
}

// expiredIsReplaced has claims of both modes meet records of both modes that are past their retention.
func expiredIsReplaced(s *suite) {
	one, other := s.leaser(), s.leaser()
	old := map[string]func(key string){
		"transaction": func(key string) { s.complete(s.begin(one, expiring(key, "old")), answer("old")) },
		"lease": func(key string) {
			c := leased(key, "old", rerun, route("old"))
			c.Retention = time.Nanosecond
			s.complete(s.begin(one, c), answer("old"))
		},
		"unknown": func(key string) { s.unknown(one, leased(key, "old", forgotten, route("old"))) },
		"rerun":   func(key string) { s.unknown(one, leased(key, "old", forgotten, rerun, route("old"))) },
		"lapsed": func(key string) {
			s.begin(one, leased(key, "old", forgotten, short))
			s.pass(other, time.Millisecond)
		},
	}
	for name, make := range old {
		key := name + ", then a lease"
		make(key)
		c := leased(key, "new", route("new"))
		attempt := s.begin(other, c)
		s.wantBusy(one, c)
		s.wantAttempts(one, c, 1)
		if e := s.entry(one, c); e != nil {
			s.wantFacts(e, ichido.Entry{
				EntryID: ichido.EntryID{Scope: c.Scope, Key: c.Key}, State: ichido.InProgress, Fingerprint: c.Fingerprint,
				Route: "new", Token: c.Lease.Token, Attempts: 1,
			})
		}
		s.complete(attempt, answer("new"))
		s.wantRecord(one, claim(key, "new"), "new", answer("new"))

		key = name + ", then a transaction"
		make(key)
		s.abandon(s.begin(other, claim(key, "failed")), nil)
		s.run(other, claim(key, "new"), answer("new"))
		s.wantRows(key, 1)
		s.wantRecord(one, leased(key, "new"), "new", answer("new"))

		key = name + ", then freed"
		make(key)
		s.abandon(s.begin(other, leased(key, "failed", rerun)), nil)
		s.complete(s.begin(one, leased(key, "new")), answer("new"))
	}
}

// retentionIsThatOfTheState has a record kept for one time while it is not completed, and for another from then on.
func retentionIsThatOfTheState(s *suite) {
	store := s.leaser()
	kept := leased("kept", "x", forgotten)
	s.complete(s.begin(store, kept), answer("done"))
	gone := leased("gone", "x")
	gone.Retention = time.Nanosecond
	s.complete(s.begin(store, gone), answer("done"))
	s.purgeAll(store, 1)
	s.wantRecord(store, kept, "x", answer("done"))
	s.abandon(s.begin(store, leased("gone", "y")), nil)

	// Both retentions count from what happened last.
	for name, end := range map[string]func(ichido.Attempt){
		"completed": func(a ichido.Attempt) { s.complete(a, answer("done")) },
		"given up":  func(a ichido.Attempt) { s.abandon(a, errGone) },
	} {
		c := leased(name, "x")
		attempt := s.begin(store, c)
		before := s.entry(store, c)
		s.pass(store, 2*time.Millisecond)
		end(attempt)
		after := s.entry(store, c)
		if before == nil {
			return
		}
		if !after.ExpiresAt.After(before.ExpiresAt) {
			s.Errorf("%s: kept until %v, want later than %v", name, after.ExpiresAt, before.ExpiresAt)
		}
		if completed := name == "completed"; after.CreatedAt.After(before.CreatedAt) != completed {
			s.Errorf("%s: created at %v, and %v while in progress", name, after.CreatedAt, before.CreatedAt)
		}
	}
}

// purgeSparesLeases has records that are past their retention while their lease is running, and others that are not.
func purgeSparesLeases(s *suite) {
	one, other := s.leaser(), s.leaser()
	purger, ok := other.(ichido.Purger)
	if !ok {
		s.Skip("the store is no Purger")
	}
	var live []ichido.Claim
	var attempts []ichido.Attempt
	for i := range 4 {
		c := leased(fmt.Sprint("live", i), "x", forgotten)
		if i%2 == 1 {
			c = leased(c.Key, "x", forgotten, rerun)
		}
		live = append(live, c)
		attempts = append(attempts, s.begin(one, c))
	}
	unknown := leased("unknown", "x")
	s.unknown(one, unknown)
	again := leased("again", "x", rerun)
	s.unknown(one, again)
	s.purgeAll(other, 0)
	for _, c := range live {
		s.wantBusy(other, c)
		s.wantHeld(one, true, c)
	}
	s.purgeAll(other, 0)
	s.wantUnknown(other, unknown)
	s.wantUnknown(other, again)

	for i := range 5 {
		s.unknown(one, leased(fmt.Sprint("forgotten", i), "x", forgotten))
		s.unknown(one, leased(fmt.Sprint("forgotten again", i), "x", forgotten, rerun))
	}
	for _, want := range []int{4, 4, 2, 0} {
		if n, err := purger.Purge(s.context(), 4); n != want || err != nil {
			s.Errorf("Purge(4) = %d, %v; want %d", n, err, want)
		}
	}
	s.complete(attempts[0], answer("done"))
	s.abandon(attempts[1], errGone)
	s.abandon(attempts[2], errGone)
	s.abandon(attempts[3], nil)
	s.purgeAll(other, 2)
	s.wantRecord(other, leased("live0", "x"), "x", answer("done"))
	s.wantUnknown(other, unknown)
	s.complete(s.begin(other, leased("again", "x", rerun)), answer("done"))
}
