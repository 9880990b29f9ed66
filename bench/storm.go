package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Storm is clients that go on sending while a server stalls. The spreads are over the rounds, and Answered and Sent are of
// the first.
type Storm struct {
	Stalls   string            `json:"stalls"` // "database": the table of the work is locked; "network": nothing is read or written
	Clients  int               `json:"clients"`
	Before   float64           `json:"seconds_before"`
	Stall    float64           `json:"seconds_stalled"`
	After    float64           `json:"seconds_after"`
	Timeout  float64           `json:"timeout_seconds"` // of a client, for each sending
	Slice    float64           `json:"slice_seconds"`   // of Answered and Sent
	Facts    map[string]string `json:"facts"`
	Variants []StormVariant    `json:"variants"`
}

// A StormVariant is the same clients with keys or without. "no keys" is the plain handler; "reject" and "wait" are ichido's
// policies for a duplicate of what is in progress.
type StormVariant struct {
	Name       string `json:"name"`
	Operations Spread `json:"operations"`
	Twice      Spread `json:"booked_more_than_once"` // operations
	Sendings   Spread `json:"sendings_per_operation"`
	MostInside Spread `json:"most_requests_inside"` // of the server, at once
	// Recovery is how long after the stall the last operation was answered that had begun before its end.
	Recovery Spread `json:"recovery_ms"`
	Longest  Spread `json:"longest_ms"` // operation
	Met      bool   `json:"met"`        // with keys: nothing is booked more than once
	Answered []int  `json:"answered"`   // operations, in each slice
	Sent     []int  `json:"sent"`       // sendings, in each slice
}

// A storm is the settings of one.
type storm struct {
	clients              int
	before, stall, after time.Duration
	timeout              time.Duration // of a sending
	pause                time.Duration // the mean time between two operations of a client
	longestWait          time.Duration // the longest before a retry
	slice                time.Duration
}

func stormOf(o *options) storm {
	if o.quick {
		return storm{20, 200 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond, 200 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond}
	}
	return storm{200, 2 * time.Second, 5 * time.Second, 5 * time.Second, time.Second, 400 * time.Millisecond, time.Second, 250 * time.Millisecond}
}

// stormRounds is enough for a spread of what takes twelve seconds each.
const stormRounds = 3

func measureStorms(ctx context.Context, o *options) ([]Storm, error) {
	if !slices.Contains(o.engines, "postgres") {
		return nil, nil
	}
	server, err := startPostgres(o)
	if err != nil {
		return nil, err
	}
	defer server.close()
	db, err := newPostgres(ctx, server, "storm")
	if err != nil {
		return nil, err
	}
	defer db.close()
	facts, err := db.facts(ctx)
	if err != nil {
		return nil, err
	}
	settings, rounds := stormOf(o), min(o.rounds, stormRounds)
	variants := []struct{ name, path string }{{"no keys", "/plain"}, {"reject", "/ichido"}, {"wait", "/wait"}}
	var out []Storm
	for _, stalls := range []string{"database", "network"} {
		one := Storm{
			Stalls: stalls, Clients: settings.clients, Before: settings.before.Seconds(), Stall: settings.stall.Seconds(),
			After: settings.after.Seconds(), Timeout: settings.timeout.Seconds(), Slice: settings.slice.Seconds(), Facts: facts,
		}
		o.talk.begin(rounds*len(variants), "%d clients, the %s stalls", settings.clients, stalls)
		got := make([][]*stormRun, len(variants))
		for range rounds {
			for i, v := range variants {
				r, err := settings.run(ctx, db, stalls, v.path)
				if err != nil {
					return nil, fmt.Errorf("%s stalls, %s: %w", stalls, v.name, err)
				}
				got[i] = append(got[i], r)
				o.talk.step()
			}
		}
		for i, v := range variants {
			one.Variants = append(one.Variants, stormVariant(v.name, got[i]))
		}
		out = append(out, one)
	}
	return out, nil
}

func stormVariant(name string, all []*stormRun) StormVariant {
	v := StormVariant{
		Name:       name,
		Operations: spreadOf(all, func(r *stormRun) float64 { return float64(r.operations) }),
		Twice:      spreadOf(all, func(r *stormRun) float64 { return float64(r.twice) }),
		Sendings:   spreadOf(all, func(r *stormRun) float64 { return float64(r.sendings) / float64(r.operations) }),
		MostInside: spreadOf(all, func(r *stormRun) float64 { return float64(r.mostInside) }),
		Recovery:   spreadOf(all, func(r *stormRun) float64 { return millis(r.recovery) }),
		Longest:    spreadOf(all, func(r *stormRun) float64 { return millis(r.longest) }),
		Answered:   all[0].answered, Sent: all[0].sent,
	}
	v.Met = v.Twice.Max == 0 || name == "no keys"
	return v
}

// A stormRun is what one storm did.
type stormRun struct {
	storm
	began time.Time

	mu         sync.Mutex
	operations int // that were answered
	sendings   int
	stallEnd   time.Time // zero before
	recovery   time.Duration
	longest    time.Duration
	answered   []int
	sent       []int

	twice      int
	mostInside int64
}

// stormEnd is how long operations may take that have begun.
const stormEnd = 30 * time.Second

// run lets the clients send to one path through a stall.
func (s storm) run(ctx context.Context, db *postgres, stalls, path string) (*stormRun, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.before+s.stall+s.after+stormEnd, fmt.Errorf("operations have no answer %s after the end", stormEnd))
	defer cancel()
	h, err := db.open(ctx, poolSize, nil)
	if err != nil {
		return nil, err
	}
	defer h.close()
	g := new(gate)
	in := &inside{Handler: h.mux()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: in}
	go server.Serve(gatedListener{listener, g})
	defer server.Close()

	if _, err := db.admin.Exec(ctx, "TRUNCATE reservations"); err != nil {
		return nil, err
	}
	all := int((s.before + s.stall + s.after) / s.slice)
	r := &stormRun{storm: s, began: time.Now(), answered: make([]int, all+1), sent: make([]int, all+1)}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	base := &http.Transport{MaxIdleConnsPerHost: s.clients}
	defer base.CloseIdleConnections()
	for i := range s.clients {
		clients.Go(func() {
			r.send(ctx, stop, &http.Client{Transport: base, Timeout: s.timeout}, "http://"+listener.Addr().String()+path, i)
		})
	}
	pause(ctx, s.before)
	err = s.stallNow(ctx, db, g, stalls)
	r.stalled()
	pause(ctx, s.after)
	close(stop)
	clients.Wait()
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return nil, err
	}
	r.answered, r.sent = r.answered[:all], r.sent[:all]
	r.mostInside = in.most.Load()
	var once int
	err = db.admin.QueryRow(ctx, `SELECT count(*) FILTER (WHERE n = 1), count(*) FILTER (WHERE n > 1)
		FROM (SELECT count(*) AS n FROM reservations GROUP BY reserved_by) booked`).Scan(&once, &r.twice)
	if err == nil && once+r.twice < r.operations {
		err = fmt.Errorf("%d operations were answered, and %d are booked", r.operations, once+r.twice)
	}
	return r, err
}

// stallNow stalls until it is over.
func (s storm) stallNow(ctx context.Context, db *postgres, g *gate, stalls string) error {
	if stalls == "network" {
		open := g.shut()
		defer open()
		pause(ctx, s.stall)
		return nil
	}
	tx, err := db.admin.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "LOCK TABLE reservations IN ACCESS EXCLUSIVE MODE"); err != nil {
		return err
	}
	pause(ctx, s.stall)
	return nil
}

// send makes operations one after the other, each until it is answered, as a client does that has a loop around its call:
// the same key again after a random wait, which grows. An operation that has begun is ended after stop too.
func (r *stormRun) send(ctx context.Context, stop <-chan struct{}, c *http.Client, url string, number int) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		case <-time.After(rand.N(2 * r.storm.pause)):
		}
		began, key := time.Now(), newKey()
		body := fmt.Sprintf(`{"item_code":"PJ-001","quantity":1,"reserved_by":"%d-%d"}`, number, n)
		for wait := r.longestWait / 16; ctx.Err() == nil; wait = min(2*wait, r.longestWait) {
			r.count(r.sent, &r.sendings)
			if sendOnce(ctx, c, url, key, body) {
				r.done(began)
				break
			}
			pause(ctx, rand.N(wait))
		}
	}
}

// sendOnce tells whether the operation was answered.
func sendOnce(ctx context.Context, c *http.Client, url, key, body string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return false
	}
	req.Header["Content-Type"] = []string{"application/json"}
	req.Header["idempotency-key"] = []string{`"` + key + `"`} // written so, net/http does not send it again by itself
	res, err := c.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusCreated
}

func (r *stormRun) count(slices []int, total *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*total++
	slices[min(int(time.Since(r.began)/r.slice), len(slices)-1)]++
}

func (r *stormRun) done(began time.Time) {
	r.count(r.answered, &r.operations)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longest = max(r.longest, time.Since(began))
	if began.Before(r.stallEnd) {
		r.recovery = max(r.recovery, time.Since(r.stallEnd))
	}
}

func (r *stormRun) stalled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stallEnd = time.Now()
}

// inside counts the requests that are inside of a handler.
type inside struct {
	http.Handler
	now, most atomic.Int64
}

func (i *inside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := i.now.Add(1)
	defer i.now.Add(-1)
	for most := i.most.Load(); n > most && !i.most.CompareAndSwap(most, n); most = i.most.Load() {
	}
	i.Handler.ServeHTTP(w, r)
}

// A gate that is shut holds up all that goes through connections, as a server does that gets no time to run: what was begun
// goes on, and nobody hears of it.
type gate struct{ opened atomic.Pointer[chan struct{}] }

func (g *gate) shut() (open func()) {
	c := make(chan struct{})
	g.opened.Store(&c)
	return func() { g.opened.Store(nil); close(c) }
}

func (g *gate) pass() {
	if c := g.opened.Load(); c != nil {
		<-*c
	}
}

type gatedListener struct {
	net.Listener
	gate *gate
}

func (l gatedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return gatedConn{conn, l.gate}, err
}

type gatedConn struct {
	net.Conn
	gate *gate
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.pass()
	return n, err
}

func (c gatedConn) Write(b []byte) (int, error) {
	c.gate.pass()
	return c.Conn.Write(b)
}
