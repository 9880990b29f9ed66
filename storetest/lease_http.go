package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ichido-dev/ichido"
)

// leasedConfig is a Config of lease mode, with what a slow machine needs.
func leasedConfig(change func(*ichido.Config)) ichido.Config {
	c := ichido.Config{Mode: ichido.LeaseMode, Lease: 10 * time.Second, WaitLimit: patience, AttemptTimeout: patience, StoreTimeout: patience}
	if change != nil {
		change(&c)
	}
	return c
}

// leaseDuplicates sends one request many times at once to two processes: the work runs once, whatever the policy.
func leaseDuplicates(s *suite) {
	s.leaser()
	for _, policy := range []ichido.InProgressPolicy{ichido.Reject, ichido.Wait} {
		config := leasedConfig(func(c *ichido.Config) { c.InProgress = policy })
		one, other := s.serve(config), s.serve(config)
		for round := range 5 {
			key := fmt.Sprint("key-", policy, "-", round)
			before := one.runs.Load() + other.runs.Load()
			bodies := make(map[string]bool)
			for _, r := range s.duplicatesAtOnce(config, key, one, other) {
				switch {
				case r.status == 201:
					bodies[r.body+r.location] = true
				case r.status != 409 || policy == ichido.Wait:
					s.Errorf("%s: answered %d %q", key, r.status, r.body)
				}
			}
			if runs := one.runs.Load() + other.runs.Load() - before; runs != 1 || len(bodies) != 1 {
				s.Errorf("%s: the work ran %d times, the answers are %v", key, runs, bodies)
			}
			for _, v := range []*service{one, other} {
				if again := v.post(key, key); again.status != 201 || !again.replayed || !bodies[again.body+again.location] {
					s.Errorf("%s: sent again: %+v", key, again)
				}
				if r := v.post(key, "another"); r.status != 422 {
					s.Errorf("%s: another request: %d, want 422", key, r.status)
				}
			}
		}
	}
}

// leaseMismatchWhileRunning: the fingerprint of an attempt in lease mode can be read by everybody.
func leaseMismatchWhileRunning(s *suite) {
	s.leaser()
	one, other := s.serve(leasedConfig(nil)), s.serve(leasedConfig(nil))
	running, finish := make(chan struct{}), make(chan struct{})
	one.before(func(http.ResponseWriter, *http.Request) bool {
		close(running)
		<-finish
		return false
	})
	first := make(chan reply)
	go func() { first <- one.post("k", "one") }()
	<-running
	for _, v := range []*service{one, other} {
		if r := v.post("k", "two"); r.status != 422 {
			s.Errorf("another request under the running one's key: %d, want 422", r.status)
		}
		if r := v.post("k", "one"); r.status != 409 {
			s.Errorf("the same request: %d, want 409", r.status)
		}
	}
	close(finish)
	if r := <-first; r.status != 201 || r.replayed {
		s.Errorf("the first request: %+v", r)
	}
}

// leaseEveryWayOut ends attempts in all ways; what may have had an effect holds its key, and nothing leaks.
func leaseEveryWayOut(s *suite) {
	s.leaser()
	hold, rerun := s.serve(leasedConfig(nil)), s.serve(leasedConfig(func(c *ichido.Config) { c.OnLapse = ichido.Rerun }))
	for name, out := range map[string]struct {
		do   hook
		free bool
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(422); return true }, true},
		"failed":  {func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true }, false},
		"discarded": {func(w http.ResponseWriter, r *http.Request) bool {
			ichido.Discard(r.Context())
			w.WriteHeader(500)
			return true
		}, true},
		"panic":  {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, false},
		"Goexit": {func(http.ResponseWriter, *http.Request) bool { runtime.Goexit(); return true }, false},
	} {
		for _, v := range []*service{hold, rerun} {
			key := fmt.Sprint(name, v == hold)
			v.before(out.do)
			if r := v.post(key, key); r.status == 201 {
				s.Errorf("%s: answered %+v", key, r)
			}
			v.before(func(http.ResponseWriter, *http.Request) bool { return false })
			r := v.post(key, key)
			switch held := v == hold && !out.free; {
			case held && (r.status != 409 || !strings.Contains(r.body, "outcome-unknown")):
				s.Errorf("%s: then answered %d %s, want 409 outcome-unknown", key, r.status, r.body)
			case !held && (r.status != 201 || r.replayed):
				s.Errorf("%s: then answered %d %s, want a first answer", key, r.status, r.body)
			}
		}
	}
}

// leaseAttemptsHoldNoConnection runs many more attempts at once than there are connections.
func leaseAttemptsHoldNoConnection(s *suite) {
	s.leaser()
	attempts := 3*s.Connections + 10
	v := s.serve(leasedConfig(nil))
	var running sync.WaitGroup
	running.Add(attempts)
	finish := make(chan struct{})
	v.before(func(http.ResponseWriter, *http.Request) bool {
		running.Done()
		<-finish
		return false
	})
	replies := make(chan reply, attempts)
	for i := range attempts {
		go func() { replies <- v.post(fmt.Sprint("key", i), "x") }()
	}
	running.Wait()
	close(finish)
	for range attempts {
		if r := <-replies; r.status != 201 {
			s.Errorf("answered %+v", r)
		}
	}
}

// leaseHeartbeat keeps an attempt alive over several leases, by the store's own clock.
func leaseHeartbeat(s *suite) {
	l := s.leaser()
	counting := &countingLeaser{Leaser: l}
	config := leasedConfig(func(c *ichido.Config) { c.Lease = 2 * time.Second })
	v := s.serveOn(counting, config)
	v.before(func(_ http.ResponseWriter, r *http.Request) bool {
		s.until("the lease was renewed for longer than it lasts", func() bool { return counting.renewals.Load() >= 4 || r.Context().Err() != nil })
		return false
	})
	first := make(chan reply)
	go func() { first <- v.post("k", "x") }()
	other := s.serve(config)
	s.until("the attempt is renewed", func() bool { return counting.renewals.Load() >= 1 })
	for done := false; !done; {
		select {
		case r := <-first:
			if r.status != 201 || r.replayed {
				s.Errorf("the attempt: %+v", r)
			}
			done = true
		default:
			r := other.post("k", "x")
			if r.status != 409 && r.status != 201 || strings.Contains(r.body, "outcome-unknown") {
				s.Errorf("a duplicate: %+v", r)
			}
			<-tick()
		}
	}
	if n := other.runs.Load(); n != 0 {
		s.Errorf("a duplicate ran %d times", n)
	}
}

// A countingLeaser counts the renewals that were heard of.
type countingLeaser struct {
	ichido.Leaser
	renewals atomic.Int64
}

func (c *countingLeaser) Renew(ctx context.Context, leases []ichido.Held) ([]bool, error) {
	held, err := c.Leaser.Renew(ctx, leases)
	if err == nil {
		c.renewals.Add(1)
	}
	return held, err
}

// leaseResolver settles an unknown key with the next duplicates, which make one call, and by a sweep.
func leaseResolver(s *suite) {
	if _, ok := s.Open(s.T).(ichido.Settler); !ok {
		s.Skip("the store does not implement ichido.Settler")
	}
	var calls atomic.Int64
	config := leasedConfig(func(c *ichido.Config) {
		c.InProgress = ichido.Wait
		c.Route = "things"
		c.Resolver = func(_ context.Context, key ichido.UnknownKey) (ichido.Resolution, error) {
			calls.Add(1)
			switch {
			case key.Route != "things" || key.Attempts != 1:
				return ichido.Resolution{}, fmt.Errorf("asked about %+v", key)
			case strings.HasPrefix(key.Key, "done"):
				return ichido.Done(201, http.Header{"Location": {"/things/found"}}, []byte("found")), nil
			case strings.HasPrefix(key.Key, "not"):
				return ichido.NotDone(), nil
			}
			return ichido.Resolution{}, errors.New("nobody knows")
		}
	})
	v, other := s.serve(config), s.serve(config)
	fail := func(key string) {
		v.before(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
		v.post(key, key)
		v.before(func(http.ResponseWriter, *http.Request) bool { return false })
	}
	for _, c := range []struct {
		key  string
		want reply
	}{
		{"done", reply{201, "found", "/things/found", true}},
		{"unknown", reply{status: 409}},
	} {
		fail(c.key)
		before := calls.Load()
		replies := s.duplicatesAtOnce(config, c.key, v)
		for _, r := range replies {
			if c.want.status == 409 {
				r.body = ""
			}
			if r != c.want {
				s.Errorf("%s: answered %+v, want %+v", c.key, r, c.want)
			}
		}
		if n := calls.Load() - before; n < 1 || c.key == "done" && n != 1 {
			s.Errorf("%s: %d calls", c.key, n)
		}
	}
	fail("not")
	if r := other.post("not", "not"); r.status != 201 || r.replayed {
		s.Errorf("a key that was freed: %+v", r)
	}
	for i := range 7 {
		fail(fmt.Sprint("done-", i))
	}
	sweeps := make(chan int)
	for _, m := range []*ichido.Manager{v.manager, other.manager} {
		go func() {
			_, settled, err := m.Sweep(s.context())
			if err != nil {
				s.Errorf("sweeping: %v", err)
			}
			sweeps <- settled
		}()
	}
	if n := <-sweeps + <-sweeps; n != 7 {
		s.Errorf("two sweeps at once settled %d keys, want 7", n)
	}
	for i := range 7 {
		key := fmt.Sprint("done-", i)
		if r := other.post(key, key); r != (reply{201, "found", "/things/found", true}) {
			s.Errorf("%s: %+v", key, r)
		}
	}
}

// leaseHandedBack stops a process in the middle of its attempts: another one goes on at once.
func leaseHandedBack(s *suite) {
	s.leaser()
	config := leasedConfig(func(c *ichido.Config) { c.Lease, c.OnLapse = time.Hour, ichido.Rerun })
	stops, next := s.serve(config), s.serve(config)
	var running sync.WaitGroup
	running.Add(5)
	finish := make(chan struct{})
	stops.before(func(_ http.ResponseWriter, r *http.Request) bool {
		running.Done()
		<-r.Context().Done()
		<-finish
		return false
	})
	late := make(chan reply, 5)
	for i := range 5 {
		go func() { late <- stops.post(fmt.Sprint("key", i), "x") }()
	}
	running.Wait()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := stops.manager.Shutdown(over); !errors.Is(err, context.Canceled) {
		s.Errorf("Shutdown: %v", err)
	}
	for i := range 5 {
		if r := next.post(fmt.Sprint("key", i), "x"); r.status != 201 || r.replayed {
			s.Errorf("the next process: %+v", r)
		}
	}
	close(finish)
	for range 5 {
		if r := <-late; r.status == 201 && !r.replayed {
			s.Errorf("the stopped process acknowledged: %+v", r)
		}
	}
}
