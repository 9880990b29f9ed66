package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A series is an operation that is measured against others. worker is called once for each concurrent worker, and
// returns what the worker does again and again, and what it does at its end. before, if not nil, is called before each
// round. meanwhile, if not nil, runs while the workers are counted, until its context ends; if it returns earlier, so
// does the counting. counted, if not zero, is how often it is
// done to count what it costs. What is untimed is only counted.
type series struct {
	name      string
	before    func(context.Context) error
	worker    func() (do func() error, end func(), err error)
	meanwhile func(context.Context) error
	counted   int
	untimed   bool
}

// A sample is what one series did in one round.
type sample struct {
	perSecond float64
	p50, p99  time.Duration
}

// The times of a measurement.
const (
	warming int32 = iota
	counting
	over
)

// measure lets workers run a series for a while that is not counted and then for a while that is. What began before the
// second ended, and ended after it began, is counted: nothing that it slowed down is left out.
func measure(ctx context.Context, s series, workers int, warm, counted time.Duration) (sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var now atomic.Int32
	latencies := make([][]time.Duration, workers)
	var wg sync.WaitGroup
	for i := range workers {
		do, end, err := s.worker()
		if err != nil {
			cancel(err)
			break
		}
		wg.Go(func() {
			defer end()
			for ctx.Err() == nil {
				began, then := time.Now(), now.Load()
				if err := do(); err != nil {
					cancel(fmt.Errorf("%s: %w", s.name, err))
					return
				}
				if then != over && now.Load() != warming {
					latencies[i] = append(latencies[i], time.Since(began))
				}
			}
		})
	}
	pause(ctx, warm)
	now.Store(counting)
	began := time.Now()
	err := s.pass(ctx, counted)
	now.Store(over)
	took := time.Since(began)
	if err == nil {
		err = errDone
	}
	cancel(err)
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errDone) {
		return sample{}, err
	}
	return summarise(slices.Concat(latencies...), took)
}

// pass lets the time pass in which a series is counted.
func (s series) pass(ctx context.Context, counted time.Duration) error {
	if s.meanwhile == nil {
		pause(ctx, counted)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, counted)
	defer cancel()
	return s.meanwhile(ctx)
}

var errDone = errors.New("done")

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func summarise(latencies []time.Duration, took time.Duration) (sample, error) {
	n := len(latencies)
	if n == 0 {
		return sample{}, fmt.Errorf("nothing was done within %s; give a longer --duration", took)
	}
	slices.Sort(latencies)
	return sample{float64(n) / took.Seconds(), latencies[n/2], latencies[n*99/100]}, nil
}

// A sender is a client that sends requests over one connection that it keeps. It is leaner than that of net/http because it shares the
// cores with what is measured, and would make the variants look more alike than they are.
type sender struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func dial(address string) (*sender, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &sender{conn: conn, in: bufio.NewReader(conn)}, nil
}

const replayedHeader = "Idempotent-Replayed"

// send sends a reservation. The body of its answer has to be read before the next.
func (c *sender) send(path, key string) (*http.Response, error) {
	c.out = fmt.Appendf(c.out[:0], "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"+
		"Idempotency-Key: \"%s\"\r\nContent-Length: %d\r\n\r\n%s", path, key, len(requestBody), requestBody)
	if _, err := c.conn.Write(c.out); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.in, nil)
}

// post sends a reservation. Any answer but a 201 that is a replay, or is none, as expected, is an error.
func (c *sender) post(path, key string, replay bool) error {
	res, err := c.send(path, key)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated || (res.Header.Get(replayedHeader) == "true") != replay {
		body, _ := io.ReadAll(res.Body)
		return fmt.Errorf("POST %s: %s, replayed %q: %s", path, res.Status, res.Header.Get(replayedHeader), body)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}
