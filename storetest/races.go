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

func racingDuplicates(s *suite) { s.race("fresh", nil) }

func racingAfterExpiry(s *suite) {
	store := s.Open(s.T)
	s.race("expired", func(key string) {
		attempt := s.begin(store, expiring(key, "old"))
		s.complete(attempt, answer("old"))
	})
}

// race lets several processes send one request at the same time, until each has an answer, as clients do.
func (s *suite) race(name string, prepare func(key string)) {
	stores := []ichido.Store{s.Open(s.T), s.Open(s.T)}
	for round := range rounds {
		key := fmt.Sprintf("%s-%d", name, round)
		if prepare != nil {
			prepare(key)
		}
		start := make(chan struct{})
		bodies := make([]string, racers)
		executed := make([]bool, racers)
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				<-start
				bodies[i], executed[i] = s.sendUntilAnswered(stores[i%len(stores)], key, fmt.Sprint("by ", i))
			})
		}
		close(start)
		wg.Wait()

		winners := 0
		for i := range racers {
			if executed[i] {
				winners++
			}
			if bodies[i] != bodies[0] {
				s.Errorf("%s: two answers, %q and %q", key, bodies[0], bodies[i])
			}
		}
		if winners != 1 {
			s.Errorf("%s: %d attempts were completed, want 1", key, winners)
		}
		s.wantRows(key, 1)
	}
}

// sendUntilAnswered tries until the key is completed, by this attempt or another, and returns the answer.
func (s *suite) sendUntilAnswered(store ichido.Store, key, body string) (got string, executed bool) {
	ctx := s.context()
	for ctx.Err() == nil {
		attempt, record, err := store.Begin(ctx, claim(key, "x"))
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
		if err := s.work(attempt, key); err != nil {
			if e := attempt.Abandon(ctx, err); !errors.Is(e, ichido.ErrSerialization) {
				s.Errorf("%s: work: %v", key, err)
				return "", false
			}
			continue
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
