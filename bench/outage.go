package main

import (
	"context"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ichido-dev/ichido/client"
)

// An Outage is a server that is down for a while, for clients that go on as before. Times are real.
type Outage struct {
	PerSecond float64       `json:"operations_per_second"`
	Normal    float64       `json:"seconds_before"`
	Down      float64       `json:"seconds_down"` // all requests are answered by 503 at once
	After     float64       `json:"seconds_after"`
	Slice     float64       `json:"slice_seconds"` // of Sent
	Clients   []OutageLoads `json:"clients"`
}

// OutageLoads is the load that a client makes.
type OutageLoads struct {
	Name string `json:"name"`
	// Operations is how many the server first heard of while it was down, and Load the requests that it got then, for each.
	Operations int     `json:"operations"`
	Load       float64 `json:"load"`
	Peak       float64 `json:"peak"`              // of Sent, against normal
	Aim        float64 `json:"at_most,omitempty"` // of Load; 0 if there is no aim
	Met        bool    `json:"met"`
	Sent       []int   `json:"sent"` // requests that the server got, in each slice
}

const loadAim = 1.1

// measureOutage runs the clients at the same time, each against a server of its own.
func measureOutage(ctx context.Context, o *options) (Outage, error) {
	out := Outage{PerSecond: 200, Normal: 5, Down: 20, After: 15, Slice: 0.5}
	if o.quick {
		out = Outage{PerSecond: 1000, Normal: 0.2, Down: 0.8, After: 0.2, Slice: 0.1}
	}
	o.talk.begin(out.slices(), "a server that is down for %g s", out.Down)
	kinds := []struct {
		name    string
		retrier retrier
		budget  client.Budget
		aim     float64
	}{
		{"ichido", retriers[0], client.Budget{}, loadAim},
		{"ichido without a budget", retriers[0], client.Budget{Unlimited: true}, 0},
		{retriers[1].name, retriers[1], client.Budget{}, 0},
		{retriers[2].name, retriers[2], client.Budget{}, 0},
	}
	servers := make([]*outageServer, len(kinds))
	wraps := make([]http.RoundTripper, len(kinds))
	for i, k := range kinds {
		servers[i] = &outageServer{outage: &out, sent: make([]int, out.slices()+1)}
		var err error
		if wraps[i], err = k.retrier.wrap(servers[i], retrying{budget: k.budget}); err != nil {
			return out, err
		}
	}
	out.send(ctx, o, servers, wraps)
	for i, k := range kinds {
		s := servers[i]
		l := OutageLoads{Name: k.name, Aim: k.aim, Operations: s.operations, Load: float64(s.down) / float64(s.operations), Sent: s.sent[:len(s.sent)-1]}
		for _, n := range l.Sent {
			l.Peak = max(l.Peak, float64(n)/(out.PerSecond*out.Slice))
		}
		l.Met = l.Aim == 0 || l.Load <= l.Aim
		out.Clients = append(out.Clients, l)
	}
	return out, ctx.Err()
}

func (o *Outage) seconds() float64 { return o.Normal + o.Down + o.After }

func (o *Outage) slices() int { return int(math.Round(o.seconds() / o.Slice)) }

// downAt tells whether the server is down at a time since the begin.
func (o *Outage) downAt(seconds float64) bool {
	return seconds >= o.Normal && seconds < o.Normal+o.Down
}

// operationKey is what the sendings of an operation are counted under, in its context.
type operationKey struct{}

// send begins operations of all clients, at the same pace whatever becomes of them. What is waiting for a retry at the end
// is given up.
func (o *Outage) send(ctx context.Context, opts *options, servers []*outageServer, wraps []http.RoundTripper) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	began := time.Now()
	for _, s := range servers {
		s.began = began
	}
	slice := 0
	for n := 0; ctx.Err() == nil; n++ {
		at := float64(n) / o.PerSecond
		if at >= o.seconds() {
			break
		}
		pause(ctx, time.Until(began.Add(time.Duration(at*float64(time.Second)))))
		for _, rt := range wraps {
			all.Go(func() {
				r, _ := http.NewRequestWithContext(context.WithValue(ctx, operationKey{}, new(atomic.Int32)), http.MethodPost, "http://api.example.com/", strings.NewReader(requestBody))
				if res, err := rt.RoundTrip(r); err == nil {
					res.Body.Close()
				}
			})
		}
		for ; float64(slice) < at/o.Slice; slice++ {
			opts.talk.step()
		}
	}
}

// An outageServer counts what it gets.
type outageServer struct {
	outage     *Outage
	began      time.Time
	mu         sync.Mutex
	sent       []int // by slice; the last is of what came later
	down       int
	operations int
}

func (s *outageServer) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	at := time.Since(s.began).Seconds()
	status := http.StatusCreated
	first := r.Context().Value(operationKey{}).(*atomic.Int32).Add(1) == 1
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[min(int(at/s.outage.Slice), len(s.sent)-1)]++
	if s.outage.downAt(at) {
		s.down++
		if first {
			s.operations++
		}
		status = http.StatusServiceUnavailable
	}
	return &http.Response{StatusCode: status, Header: make(http.Header), Body: http.NoBody, Request: r}, nil
}
