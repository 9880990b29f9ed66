package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/client"
	"github.com/ichido-dev/ichido/memstore"
)

// A Simulation is what retries do where sending fails.
type Simulation struct {
	Lossy  []Lossy `json:"lossy"`
	Outage Outage  `json:"outage"`
}

// simulate measures both parts.
func simulate(ctx context.Context, o *options) (*Simulation, error) {
	out := new(Simulation)
	for _, v := range []struct {
		retrier
		keys bool
	}{{retriers[0], true}, {retriers[1], false}, {retriers[2], false}} {
		o.talk.say("%s, a server that fails and loses answers", v.name)
		one, err := simulateLosses(ctx, operationsOf(o), v.retrier, v.keys)
		if err != nil {
			return nil, err
		}
		out.Lossy = append(out.Lossy, *one)
	}
	var err error
	out.Outage, err = measureOutage(ctx, o)
	return out, err
}

func operationsOf(o *options) int {
	if o.quick {
		return 2000
	}
	return 100_000
}

// Lossy is a server behind ichido that fails, and a network that loses answers, in one process and without waits: each
// sending is independent of the others, by a random source whose seed is fixed.
type Lossy struct {
	Client     string  `json:"client"`
	Keys       bool    `json:"keys"` // whether requests carry keys; without them they run unprotected
	Fails      float64 `json:"fails"`
	Loses      float64 `json:"loses"`
	Operations int     `json:"operations"`
	Once       int     `json:"booked_once"`
	More       int     `json:"booked_more_than_once"`
	Never      int     `json:"never_booked"`
	Unanswered int     `json:"unanswered"` // operations of which the client did not learn the outcome
	Replays    int     `json:"replays"`    // answers from the record
	// Sendings counts operations by how often they were sent; the first is of those that were sent once.
	Sendings     []int   `json:"sendings"`
	PerOperation float64 `json:"sendings_per_operation"`
	Limit        float64 `json:"limit"`             // what PerOperation tends to
	Aim          float64 `json:"at_most,omitempty"` // of PerOperation; 0 if there is no aim
	Met          bool    `json:"met"`               // the aim, and all are booked once and answered
	Seconds      float64 `json:"seconds"`
}

const (
	failing     = 0.3
	losing      = 0.1
	sendingsAim = 1.7
)

const simulationWorkers = 8

// simulateLosses books operations, each once.
func simulateLosses(ctx context.Context, operations int, r retrier, keys bool) (*Lossy, error) {
	manager, err := ichido.New(memstore.New(nil), ichido.Shared, &ichido.Config{Optional: !keys})
	if err != nil {
		return nil, err
	}
	book := &ledger{bookings: make(map[string]int, operations)}
	server := manager.Wrap(book)
	out := &Lossy{
		Client: r.name, Keys: keys, Fails: failing, Loses: losing, Operations: operations,
		Limit: 1 / ((1 - failing) * (1 - losing)),
	}
	began := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for worker := range simulationWorkers {
		n := operations*(worker+1)/simulationWorkers - operations*worker/simulationWorkers
		all.Go(func() {
			w := &lossyWorker{number: worker, way: &lossyWay{server: server, random: rand.New(rand.NewPCG(1, uint64(worker)))}}
			err := w.book(ctx, n, r)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			w.addTo(out)
		})
	}
	all.Wait()
	out.Seconds = time.Since(began).Seconds()
	for _, n := range book.bookings {
		if n == 1 {
			out.Once++
		} else {
			out.More++
		}
	}
	out.Never = operations - out.Once - out.More
	sendings := 0
	for i, n := range out.Sendings {
		sendings += (i + 1) * n
	}
	out.PerOperation = float64(sendings) / float64(operations)
	out.Met = true
	if keys {
		out.Aim = sendingsAim
		out.Met = out.PerOperation <= out.Aim && out.Once == operations && out.Unanswered == 0
	}
	return out, failed
}

// A ledger is the API: it books what it is sent, unless the request is one that fails.
type ledger struct {
	mu       sync.Mutex
	bookings map[string]int // by operation
}

type failsHere struct{}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Context().Value(failsHere{}) != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	l.mu.Lock()
	l.bookings[string(body)]++
	l.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body)
}

// A lossyWay leads to the server. It is not safe for concurrent use.
type lossyWay struct {
	server   http.Handler
	random   *rand.Rand
	sendings int
	replays  int
}

var errLost = errors.New("connection reset by peer")

// RoundTrip sends. Where a request that is to fail would not get as far as the handler, because it is a replay, something in
// front of it fails.
func (l *lossyWay) RoundTrip(r *http.Request) (*http.Response, error) {
	l.sendings++
	fails, loses := l.random.Float64() < failing, l.random.Float64() < losing
	if fails {
		r = r.WithContext(context.WithValue(r.Context(), failsHere{}, true))
	}
	rec := &recorder{header: make(http.Header)}
	l.server.ServeHTTP(rec, r)
	r.Body.Close()
	switch {
	case loses:
		return nil, errLost
	case fails && rec.status < http.StatusInternalServerError:
		rec = &recorder{header: make(http.Header), status: http.StatusServiceUnavailable}
	case rec.header.Get(replayedHeader) == "true":
		l.replays++
	}
	return &http.Response{StatusCode: rec.status, Header: rec.header, Body: io.NopCloser(&rec.body), Request: r}, nil
}

// A recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// A lossyWorker books its part of the operations, one after the other.
type lossyWorker struct {
	number     int
	way        *lossyWay
	sendings   []int
	unanswered int
}

func (w *lossyWorker) book(ctx context.Context, n int, r retrier) error {
	// The budget has to be as large as what fails; attempts end after so many that one in 10¹⁷ operations comes to it.
	rt, err := r.wrap(w.way, retrying{attempts: 40, longest: 1, budget: client.Budget{Ratio: 1, Reserve: 1000}})
	if err != nil {
		return err
	}
	for i := range n {
		name := fmt.Sprintf("%d-%d", w.number, i)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.example.com/bookings", strings.NewReader(name))
		if err != nil {
			return err
		}
		before := w.way.sendings
		res, err := rt.RoundTrip(req)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		sent := w.way.sendings - before
		for len(w.sendings) < sent {
			w.sendings = append(w.sendings, 0)
		}
		w.sendings[sent-1]++
		if err != nil {
			w.unanswered++
			continue
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusCreated || string(text) != name {
			w.unanswered++
		}
	}
	return nil
}

func (w *lossyWorker) addTo(l *Lossy) {
	l.Unanswered += w.unanswered
	l.Replays += w.way.replays
	for i, n := range w.sendings {
		if i == len(l.Sendings) {
			l.Sendings = append(l.Sendings, 0)
		}
		l.Sendings[i] += n
	}
}
