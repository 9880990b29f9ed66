package storetest

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
)

func tick() <-chan time.Time { return time.After(2 * time.Millisecond) }

// duplicatesAtOnce sends one request many times at once to two processes and returns the replies.
func (s *suite) duplicatesAtOnce(config ichido.Config, key string, services ...*service) []reply {
	replies := make([]reply, 24)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() {
			<-start
			replies[i] = services[i%len(services)].post(key, key)
		})
	}
	close(start)
	wg.Wait()
	return replies
}

func duplicatesRejected(s *suite) { duplicates(s, ichido.Config{InProgress: ichido.Reject}) }

func duplicatesWait(s *suite) {
	duplicates(s, ichido.Config{InProgress: ichido.Wait, WaitLimit: patience})
}

func duplicates(s *suite, config ichido.Config) {
	one, other := s.serve(config), s.serve(config)
	for round := range 5 {
		key := fmt.Sprint("key-", round)
		first, others := 0, 0
		var answer reply
		for _, r := range s.duplicatesAtOnce(config, key, one, other) {
			switch {
			case r.status == 201 && !r.replayed:
				first++
				answer = r
			case r.status == 201 && r.replayed:
			case r.status == 409 && config.InProgress == ichido.Reject:
			default:
				others++
				s.Errorf("%s: answered %d %q", key, r.status, r.body)
			}
		}
		if first != 1 {
			s.Errorf("%s: %d answers say that they are the first, want 1", key, first)
		}
		for _, v := range []*service{one, other} {
			again := v.post(key, key)
			answer.replayed = true
			if again != answer {
				s.Errorf("%s: sent again: %+v, want %+v", key, again, answer)
			}
		}
		s.wantRows(key, 1)
	}
}

// waitersHoldNoConnection has many more duplicates than connections wait for one slow request.
func waitersHoldNoConnection(s *suite) {
	const waiters = 500
	v := s.serve(ichido.Config{InProgress: ichido.Wait, WaitLimit: patience, AttemptTimeout: patience})
	running, finish := make(chan struct{}), make(chan struct{})
	var once sync.Once
	v.before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Idempotency-Key") == `"slow"` {
			once.Do(func() { close(running) })
			<-finish
		}
		return false
	})
	replies := make([]reply, waiters)
	var wg sync.WaitGroup
	send := func(i int) { wg.Go(func() { replies[i] = v.post("slow", "slow") }) }
	send(0)
	<-running
	for i := 1; i < waiters; i++ {
		send(i)
	}
	s.until("all duplicates have arrived", func() bool { return v.arrived.Load() == waiters })
	for i := range 20 { // others go on being served
		if r := v.post(fmt.Sprint("other", i), "other"); r.status != 201 {
			s.Errorf("another key, while %d wait: %d %s", waiters, r.status, r.body)
		}
	}
	close(finish)
	wg.Wait()
	first := 0
	for _, r := range replies {
		if !r.replayed {
			first++
		}
		if r.status != 201 || r.body != replies[0].body {
			s.Errorf("a waiter got %d %q, want %q", r.status, r.body, replies[0].body)
		}
	}
	if first != 1 {
		s.Errorf("%d answers say that they are the first, want 1", first)
	}
	s.wantRows("slow", 1)
	s.wantRows("other", 20)
}

// mismatchWhileRunning sends another request under the key of one that runs, in the same process.
func mismatchWhileRunning(s *suite) {
	for _, policy := range []ichido.InProgressPolicy{ichido.Reject, ichido.Wait} {
		v := s.serve(ichido.Config{InProgress: policy, WaitLimit: patience, AttemptTimeout: patience})
		key := fmt.Sprint("key", policy)
		running, finish := make(chan struct{}), make(chan struct{})
		v.before(func(http.ResponseWriter, *http.Request) bool {
			close(running)
			<-finish
			return false
		})
		first := make(chan reply)
		go func() { first <- v.post(key, "one") }()
		<-running
		if r := v.post(key, "two"); r.status != 422 {
			s.Errorf("policy %d: another request under the running one's key got %d %s, want 422", policy, r.status, r.body)
		}
		if policy == ichido.Reject {
			if r := v.post(key, "one"); r.status != 409 {
				s.Errorf("the same request got %d %s, want 409", r.status, r.body)
			}
		}
		close(finish)
		if r := <-first; r.status != 201 {
			s.Errorf("policy %d: the first request got %d %s", policy, r.status, r.body)
		}
		if r := v.post(key, "two"); r.status != 422 {
			s.Errorf("policy %d: another request afterwards got %d, want 422", policy, r.status)
		}
		if r := v.post(key, "one"); r.status != 201 || !r.replayed {
			s.Errorf("policy %d: the mismatch damaged the record: %+v", policy, r)
		}
		s.wantRows("two", 0)
	}
}

// everyWayOut lets a handler end in every way, after it wrote, more often than there are connections.
func everyWayOut(s *suite) {
	v := s.serve(ichido.Config{Stored: ichido.Stored{MaxBody: 1000}, InProgress: ichido.Wait, WaitLimit: patience})
	ways := map[string]struct {
		status int // 0: the connection breaks
		do     func(w http.ResponseWriter)
	}{
		"bad request":  {400, func(w http.ResponseWriter) { http.Error(w, "no", 400) }},
		"server error": {500, func(w http.ResponseWriter) { http.Error(w, "no", 500) }},
		"panic":        {500, func(http.ResponseWriter) { panic("boom") }},
		"abort":        {0, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }},
		"goexit":       {0, func(http.ResponseWriter) { runtime.Goexit() }},
		"too large":    {500, func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 1001)) }},
		"event stream": {500, func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream"); w.WriteHeader(200) }},
		"trailer":      {500, func(w http.ResponseWriter) { w.Header().Set("Trailer", "Digest"); w.WriteHeader(200) }},
		"hijack":       {500, func(w http.ResponseWriter) { _, _, _ = http.NewResponseController(w).Hijack() }},
	}
	for name, way := range ways {
		v.before(func(w http.ResponseWriter, r *http.Request) bool {
			if s.Work != nil {
				if err := s.Work(r.Context(), name); err != nil {
					s.Errorf("%s: %v", name, err)
				}
			}
			way.do(w)
			return true
		})
		for range 2*s.Connections + 1 {
			if r := v.post("key "+name, name); r.status != way.status {
				s.Errorf("%s: answered %d %s, want %d", name, r.status, r.body, way.status)
			}
		}
		s.wantRows(name, 0)
		v.before(func(http.ResponseWriter, *http.Request) bool { return false })
		if r := v.post("key "+name, name); r.status != 201 || r.replayed {
			s.Errorf("%s: the key does not work again: %+v", name, r)
		}
		s.wantRows(name, 1)
	}
}

// losersRefusal has the handler refuse a seat that is taken. A duplicate in another process, which does not see the
// first one's attempt, finds the seat taken: by its own operation.
func losersRefusal(s *suite) {
	if s.Work == nil {
		s.Skip("attempts have no transaction")
	}
	v, other := s.serve(ichido.Config{}), s.serve(ichido.Config{})
	running, finish := make(chan struct{}), make(chan struct{})
	var once sync.Once
	v.before(func(w http.ResponseWriter, _ *http.Request) bool {
		once.Do(func() { close(running); <-finish })
		if s.Rows(s.T, "seat") > 0 {
			http.Error(w, "the seat is taken", http.StatusConflict)
			return true
		}
		return false
	})
	slow := make(chan reply)
	go func() { slow <- v.post("k", "seat") }()
	<-running
	quick := other.post("k", "seat")
	close(finish)
	got := <-slow
	switch quick.status {
	case 409: // the other process sees the attempt
		if got.status != 201 {
			s.Errorf("the only attempt was answered %+v", got)
		}
	case 201:
		if quick.replayed = true; got != quick {
			s.Errorf("the duplicate was answered %+v, want the winner's answer %+v", got, quick)
		}
	default:
		s.Errorf("the other process answered %+v", quick)
	}
	s.wantRows("seat", 1)
}

// clientHangsUp has the client leave in the middle of the work, which goes on.
func clientHangsUp(s *suite) {
	v := s.serve(ichido.Config{InProgress: ichido.Wait, WaitLimit: patience})
	running := make(chan context.Context)
	v.before(func(_ http.ResponseWriter, r *http.Request) bool {
		running <- r.Context()
		<-running
		return false
	})
	ctx, cancel := context.WithCancel(s.context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		v.postContext(ctx, "k", "k")
	}()
	working := <-running
	cancel()
	<-gone
	running <- nil
	if err := working.Err(); err != nil {
		s.Errorf("the work's context ended with the client: %v", err)
	}
	if r := v.post("k", "k"); r.status != 201 || !r.replayed {
		s.Errorf("sent again: %+v, want the stored answer", r)
	}
	if n := v.runs.Load(); n != 1 {
		s.Errorf("the handler ran %d times, want 1", n)
	}
	s.wantRows("k", 1)
}

// conflictingTransactions has many keys change the same row at once; the database aborts some of them.
func conflictingTransactions(s *suite) {
	if s.Add == nil {
		s.Skip("the database offers no counter")
	}
	v, w := s.serve(ichido.Config{}), s.serve(ichido.Config{})
	add := func(rw http.ResponseWriter, r *http.Request) bool {
		if err := s.Add(r.Context()); err != nil {
			http.Error(rw, "the work failed: "+err.Error(), http.StatusInternalServerError)
			return true
		}
		return false
	}
	v.before(add)
	w.before(add)
	const requests = 24
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() {
			key := fmt.Sprint("add", i)
			for ctx := s.context(); ctx.Err() == nil; { // as a client does while it is told to try again
				r := []*service{v, w}[i%2].post(key, "add")
				if r.status == 201 {
					return
				}
				if r.status != 503 {
					s.Errorf("%s: answered %d %s; a conflict between transactions is ours to retry", key, r.status, r.body)
					return
				}
			}
			s.Errorf("%s: never answered", key)
		})
	}
	wg.Wait()
	if got := s.Total(s.T); got != requests {
		s.Errorf("the counter says %d, want %d", got, requests)
	}
	s.wantRows("add", requests)
}

func doRunsOnce(s *suite) {
	type receipt struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
	}
	manager, err := ichido.New(s.Open(s.T), ichido.Shared, &ichido.Config{InProgress: ichido.Wait, WaitLimit: patience})
	if err != nil {
		s.Fatal(err)
	}
	op := ichido.Operation{Scope: "queue", Key: "message-1", Input: []byte("chair")}
	runs := 0
	work := func(ctx context.Context) (receipt, error) {
		runs++
		if s.Work != nil {
			if err := s.Work(ctx, "chair"); err != nil {
				return receipt{}, err
			}
		}
		if runs == 1 {
			return receipt{}, fmt.Errorf("not yet")
		}
		return receipt{runs, "chair"}, nil
	}
	if _, err := ichido.Do(s.context(), manager, op, work); err == nil || err.Error() != "not yet" {
		s.Fatalf("Do returned %v, want the work's error", err)
	}
	s.wantRows("chair", 0)
	for i := range 3 {
		got, err := ichido.Do(s.context(), manager, op, work)
		if want := (ichido.Result[receipt]{Value: receipt{2, "chair"}, Replayed: i > 0}); err != nil || got != want {
			s.Errorf("Do = %+v, %v; want %+v", got, err, want)
		}
	}
	op.Input = []byte("table")
	if _, err := ichido.Do(s.context(), manager, op, work); err == nil || runs != 2 {
		s.Errorf("another input under the same key: %v after %d runs, want ErrMismatch after 2", err, runs)
	}
	s.wantRows("chair", 1)
}
