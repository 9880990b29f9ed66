package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
)

const (
	racers = 8  // attempts of one key at the same time
	rounds = 10 // races, each with a key of its own
)

func racingDuplicates(s *suite) { s.race("fresh", nil, transaction) }

func racingAfterExpiry(s *suite) {
	store := s.Open(s.T)
	s.race("expired", func(key string) {
		attempt := s.begin(store, expiring(key, "old"))
		s.complete(attempt, answer("old"))
	}, transaction)
}

// transaction makes the claims of all racers those of transaction mode.
func transaction(key string, _ int) ichido.Claim { return claim(key, "x") }

// race lets several processes send one request at the same time, until each has an answer, as clients do. claimOf makes
// the claim of each of them.
func (s *suite) race(name string, prepare func(key string), claimOf func(key string, racer int) ichido.Claim) {
	stores := []ichido.Store{s.Open(s.T), s.Open(s.T)}
	for round := range rounds {
		key := fmt.Sprintf("%s-%d", name, round)
		if prepare != nil {
			prepare(key)
		}
		start := make(chan struct{})
		bodies := make([]string, racers)
		claims := make([]ichido.Claim, racers)
		executed := make([]bool, racers)
		var wg sync.WaitGroup
		for i := range racers {
			claims[i] = claimOf(key, i)
			wg.Go(func() {
				<-start
				bodies[i], executed[i] = s.sendUntilAnswered(stores[i%len(stores)], claims[i], fmt.Sprint("by ", i))
			})
		}
		close(start)
		wg.Wait()

		winners, rows := 0, 0
		for i := range racers {
			if executed[i] {
				winners++
				if claims[i].Lease == nil {
					rows++
				}
			}
			if bodies[i] != bodies[0] {
				s.Errorf("%s: two answers, %q and %q", key, bodies[0], bodies[i])
			}
		}
		if winners != 1 {
			s.Errorf("%s: %d attempts were completed, want 1", key, winners)
		}
		s.wantRows(key, rows)
	}
}

// sendUntilAnswered tries until the key is completed, by this attempt or another, and returns the answer.
func (s *suite) sendUntilAnswered(store ichido.Store, c ichido.Claim, body string) (got string, executed bool) {
	ctx, key := s.context(), c.Key
	for ctx.Err() == nil {
		attempt, record, err := store.Begin(ctx, c)
		switch {
		case record != nil:
			return string(record.Response.Body), false
		case attempt == nil:
			if !errors.Is(err, ichido.ErrInProgress) && !errors.Is(err, ichido.ErrSerialization) {
				s.Errorf("%s: Begin: %v", key, err)
				return "", false
			}
			time.Sleep(time.Millisecond) // a client's pause before it sends again
			continue
		}
		if c.Lease == nil { // else there is no transaction to work in
			if err := s.work(attempt, key); err != nil {
				if e := attempt.Abandon(ctx, err); !errors.Is(e, ichido.ErrSerialization) {
					s.Errorf("%s: work: %v", key, err)
					return "", false
				}
				continue
			}
		}
		err = attempt.Complete(ctx, answer(body))
		switch {
		case err == nil:
			return body, true
		case !errors.Is(err, ichido.ErrLost) && !errors.Is(err, ichido.ErrSerialization):
			s.Errorf("%s: Complete: %v", key, err)
			return "", false
		}
	}
	s.Errorf("%s: no answer: %v", key, ctx.Err())
	return "", false
}
