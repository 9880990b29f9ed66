package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ichido-dev/ichido"
)

func purge(s *suite) {
	store := s.Open(s.T)
	purger, ok := store.(ichido.Purger)
	if !ok {
		s.Skip("the store is no Purger")
	}
	for i := range 25 {
		s.run(store, expiring(fmt.Sprint("old", i), "x"), answer("old"))
		s.run(store, claim(fmt.Sprint("new", i), "x"), answer("new"))
	}
	running := s.begin(store, claim("running", "x"))
	for _, want := range []int{10, 10, 5, 0} {
		if n, err := purger.Purge(s.context(), 10); n != want || err != nil {
			s.Fatalf("Purge(10) = %d, %v; want %d", n, err, want)
		}
	}
	for i := range 25 {
		s.record(store, claim(fmt.Sprint("new", i), "x"))
		s.abandon(s.begin(store, claim(fmt.Sprint("old", i), "x")), nil)
	}
	s.complete(running, answer("done"))
	s.record(store, claim("running", "x"))
	s.wantRows("old0", 1) // what the work wrote stays
}

func purgersShareTheWork(s *suite) {
	store := s.Open(s.T)
	if _, ok := store.(ichido.Purger); !ok {
		s.Skip("the store is no Purger")
	}
	const expired = 60
	for i := range expired {
		s.run(store, expiring(fmt.Sprint("old", i), "x"), answer("old"))
	}
	var total atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		purger := s.Open(s.T).(ichido.Purger)
		wg.Go(func() {
			for range expired {
				n, err := purger.Purge(s.context(), 7)
				if err != nil {
					s.Errorf("Purge: %v", err)
					return
				}
				total.Add(int64(n))
			}
		})
	}
	wg.Wait()
	if total.Load() != expired {
		s.Errorf("%d records were purged, want %d", total.Load(), expired)
	}
}

func migrateTwiceAtOnce(s *suite) {
	store := s.Open(s.T)
	if _, ok := store.(ichido.Migrator); !ok {
		s.Skip("the store is no Migrator")
	}
	s.run(store, claim("kept", "x"), answer("kept"))
	var wg sync.WaitGroup
	for range 4 {
		migrator := s.Open(s.T).(ichido.Migrator)
		wg.Go(func() {
			if applied, err := migrator.Migrate(s.context()); err != nil || len(applied) != 0 {
				s.Errorf("Migrate on a database that has the schema = %v, %v; want nothing", applied, err)
			}
		})
	}
	wg.Wait()
	s.record(store, claim("kept", "x"))
}
