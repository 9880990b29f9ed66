package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ichido-dev/ichido"
)

// finishConfig is a Config whose operations are finished without their clients.
func finishConfig(change func(*ichido.Config)) ichido.Config {
	return leasedConfig(func(c *ichido.Config) {
		c.Route, c.Finish, c.StepSecret = "things", true, []byte("a secret of sixteen bytes")
		if change != nil {
			change(c)
		}
	})
}

// finish has what was abandoned finished, as a worker in the process of the service does.
func (v *service) finish() (found, finished int) {
	v.s.Helper()
	found, finished, err := v.manager.Finish(v.s.context(), http.HandlerFunc(v.handle))
	if err != nil {
		v.s.Errorf("Finish: %v", err)
	}
	return found, finished
}

// orders are operations of three steps, which the hooks of a service run.
type orders struct {
	s       *suite
	mu      sync.Mutex
	running map[string]int // by key of the operation
	effects map[string]int // by key and step
	bodies  map[string]int // what the runs were given, by key
}

func newOrders(s *suite) *orders {
	return &orders{s: s, running: make(map[string]int), effects: make(map[string]int), bodies: make(map[string]int)}
}

// run is a hook that runs the steps. It dies behind the step that is given.
func (o *orders) run(dies string) hook {
	return func(w http.ResponseWriter, r *http.Request) bool {
		op, _ := ichido.OperationOf(r.Context())
		o.count(o.running, op.Key, 1)
		defer o.count(o.running, op.Key, -1)
		for _, name := range []string{"reserve", "charge", "mail"} {
			_, err := ichido.Step(r.Context(), name, func(context.Context, string) (string, error) {
				o.count(o.effects, op.Key+" "+name, 1)
				return name, nil
			})
			if err != nil {
				o.s.Errorf("%s: step %s: %v", op.Key, name, err)
				panic(http.ErrAbortHandler)
			}
			if name == dies {
				panic(http.ErrAbortHandler)
			}
		}
		return false
	}
}

// count counts, and finds an operation that two run at the same time, or a step with two effects.
func (o *orders) count(where map[string]int, key string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if where[key] += n; where[key] > 1 {
		o.s.Errorf("%s is run by two, or twice", key)
	}
}

// wantFinished checks an order that nobody sent again.
func (o *orders) wantFinished(v *service, key string) {
	o.s.Helper()
	for _, name := range []string{"reserve", "charge", "mail"} {
		if n := o.effects[key+" "+name]; n != 1 {
			o.s.Errorf("%s: %s took effect %d times, want 1", key, name, n)
		}
	}
	if r := v.post(key, key); r.status != 201 || !r.replayed || !strings.HasPrefix(r.body, "thing ") {
		o.s.Errorf("%s: its client came back and got %+v, want the answer", key, r)
	}
	if r := v.post(key, "another"); r.status != 422 {
		o.s.Errorf("%s: another request: %d, want 422", key, r.status)
	}
}

// finishWithoutTheClient: the process dies, the client never comes back, another process finishes what it began.
func finishWithoutTheClient(s *suite) {
	s.finisher()
	for _, dies := range []string{"reserve", "charge", "mail"} {
		o := newOrders(s)
		died, other := s.serve(finishConfig(nil)), s.serve(finishConfig(nil))
		died.before(o.run(dies))
		other.before(o.run(""))
		if found, _ := other.finish(); found != 0 {
			s.Errorf("%s: Finish found %d before anything was sent", dies, found)
		}
		died.post("k "+dies, "k "+dies)
		if found, finished := other.finish(); found != 1 || finished != 1 {
			s.Errorf("%s: Finish = %d, %d; want the one that died", dies, found, finished)
		}
		if found, _ := other.finish(); found != 0 {
			s.Errorf("%s: Finish found %d that are finished", dies, found)
		}
		o.wantFinished(died, "k "+dies)
	}
}

// finishersShareTheWork has two processes finish many operations at the same time.
func finishersShareTheWork(s *suite) {
	s.finisher()
	const many = 20
	o := newOrders(s)
	one, other := s.serve(finishConfig(nil)), s.serve(finishConfig(nil))
	one.before(o.run("reserve"))
	for i := range many {
		one.post(fmt.Sprint("k", i), fmt.Sprint("k", i))
	}
	var begun atomic.Int32
	both := make(chan struct{}) // closed when more are run than one process runs at a time
	finished := make(chan int)
	for _, v := range []*service{one, other} {
		resume := o.run("")
		v.before(func(w http.ResponseWriter, r *http.Request) bool {
			if begun.Add(1) == 5 {
				close(both)
			}
			select {
			case <-both:
			case <-r.Context().Done():
				s.Error("one process alone is at work")
			}
			return resume(w, r)
		})
		go func() {
			_, n := v.finish()
			finished <- n
		}()
	}
	if n := <-finished + <-finished; n != many {
		s.Fatalf("two at once finished %d, want %d", n, many)
	}
	for i := range many {
		o.wantFinished(other, fmt.Sprint("k", i))
	}
}

// clientComesBack while somebody else is at its operation: it is told so, or waits for that answer.
func clientComesBack(s *suite) {
	s.finisher()
	o := newOrders(s)
	worker, patient := s.serve(finishConfig(nil)), s.serve(finishConfig(func(c *ichido.Config) { c.InProgress = ichido.Wait }))
	worker.before(o.run("charge"))
	worker.post("k", "k")
	running, finish := make(chan struct{}), make(chan struct{})
	resume := o.run("")
	worker.before(func(w http.ResponseWriter, r *http.Request) bool {
		close(running)
		<-finish
		return resume(w, r)
	})
	done := make(chan int)
	go func() {
		_, n := worker.finish()
		done <- n
	}()
	select {
	case <-running:
	case n := <-done:
		s.Fatalf("Finish finished %d, and ran none", n)
	}
	if r := worker.post("k", "k"); r.status != 409 || strings.Contains(r.body, "outcome-unknown") {
		s.Errorf("the client that comes back: %+v, want 409", r)
	}
	if r := worker.post("k", "another"); r.status != 422 {
		s.Errorf("another request: %d, want 422", r.status)
	}
	waits := make(chan reply)
	go func() { waits <- patient.post("k", "k") }()
	s.until("the client waits", func() bool { return patient.arrived.Load() == 1 })
	close(finish)
	if n := <-done; n != 1 {
		s.Errorf("Finish finished %d, want 1", n)
	}
	if r := <-waits; r.status != 201 || !r.replayed {
		s.Errorf("the client that waits: %+v", r)
	}
	o.wantFinished(patient, "k")
}

// finishGivesUp: work that keeps failing has as many attempts as it may, whoever begins them, and is unknown then.
func finishGivesUp(s *suite) {
	s.finisher()
	for _, policy := range []ichido.LapsePolicy{ichido.Hold, ichido.Rerun} { // with steps, and without
		config := finishConfig(func(c *ichido.Config) { c.MaxAttempts, c.OnLapse = 3, policy })
		one, other := s.serve(config), s.serve(config)
		fails := func(w http.ResponseWriter, r *http.Request) bool {
			if policy == ichido.Hold {
				_, _ = ichido.Step(r.Context(), "charge", func(context.Context, string) (int, error) {
					return 0, errors.New("the provider is down")
				})
			}
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		one.before(fails)
		other.before(fails)
		key := fmt.Sprint("k", policy)
		if r := one.post(key, key); r.status != 502 {
			s.Errorf("the first attempt: %+v", r)
		}
		if found, finished := other.finish(); found != 1 || finished != 0 {
			s.Errorf("Finish = %d, %d; want one that is not finished", found, finished)
		}
		if r := one.post(key, key); r.status != 502 {
			s.Errorf("the third attempt: %+v", r)
		}
		for _, v := range []*service{one, other} {
			if r := v.post(key, key); r.status != 409 || !strings.Contains(r.body, "outcome-unknown") {
				s.Errorf("after all attempts: %+v, want 409 outcome-unknown", r)
			}
			if found, _ := v.finish(); found != 0 {
				s.Errorf("Finish found %d after all attempts", found)
			}
		}
		if n := one.runs.Load() + other.runs.Load(); n != 3 {
			s.Errorf("the work ran %d times, want 3", n)
		}
	}
}
