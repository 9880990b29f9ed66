package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/ichido-dev/ichido/client"
)

// A retrier is a library whose RoundTripper sends again. To add one, add it to retriers.
type retrier struct {
	name string
	wrap func(base http.RoundTripper, s retrying) (http.RoundTripper, error)
}

// A retrying is how it is to retry. Zero values are the library's own.
type retrying struct {
	attempts int
	longest  time.Duration // wait
	timeout  time.Duration // of an attempt, or of all where there is no other; ichido has one of 30 s by default
	budget   client.Budget // of ichido; the others have none by default
}

var retriers = []retrier{
	{"ichido", func(base http.RoundTripper, s retrying) (http.RoundTripper, error) {
		config := &client.Config{Base: base, Attempts: s.attempts, Budget: s.budget, MaxDelay: s.longest, AttemptTimeout: s.timeout}
		config.Targets = client.Targets{"api.example.com": client.Ichido, "127.0.0.1": client.Ichido}
		if s.longest != 0 {
			config.BaseDelay = min(s.longest, 200*time.Millisecond)
		}
		return client.NewTransport(config)
	}},
	{"go-retryablehttp", func(base http.RoundTripper, s retrying) (http.RoundTripper, error) {
		c := retryablehttp.NewClient()
		c.HTTPClient.Transport, c.HTTPClient.Timeout, c.Logger = base, s.timeout, nil
		if s.attempts != 0 {
			c.RetryMax = s.attempts - 1
		}
		if s.longest != 0 {
			c.RetryWaitMin, c.RetryWaitMax = min(s.longest, c.RetryWaitMin), s.longest
		}
		return &retryablehttp.RoundTripper{Client: c}, nil
	}},
	{"failsafe-go", func(base http.RoundTripper, s retrying) (http.RoundTripper, error) {
		policy := failsafehttp.NewRetryPolicyBuilder()
		if s.attempts != 0 {
			policy = policy.WithMaxAttempts(s.attempts)
		}
		if s.longest != 0 {
			policy = policy.WithDelay(s.longest)
		}
		policies := []failsafe.Policy[*http.Response]{policy.Build()}
		if s.timeout != 0 {
			policies = append(policies, timeout.New[*http.Response](s.timeout))
		}
		return failsafehttp.NewRoundTripper(base, policies...), nil
	}},
}

// Client compares ichido's client with other RoundTrippers that retry, on requests that succeed at once. Those of ichido
// get a key, and 30 s for each attempt. The others have their defaults, which are neither; where their name says so, the caller
// makes a key and they have that time-out too.
type Client struct {
	Calls  []Memory `json:"calls"`  // above what sends, without a network
	Ratios []Ratio  `json:"ratios"` // of the costs of these calls
	Loads  []Load   `json:"loads"`  // over HTTP; "bare" is http.Transport alone
}

// What is aimed at: ichido's cost, and that it is the least.
const (
	callAim      = 3000 // ns
	callAimAlloc = 12
)

func measureClient(ctx context.Context, o *options) (*Client, error) {
	out := new(Client)
	if err := out.measureCalls(o); err != nil {
		return nil, err
	}
	address, end, err := listen(handle(insertNothing))
	if err != nil {
		return nil, err
	}
	defer end()
	base := &http.Transport{MaxIdleConnsPerHost: 100}
	defer base.CloseIdleConnections()
	all := []series{posting("bare", "http://"+address+"/", base)}
	var aims []aim
	for _, r := range retriers {
		rt, err := r.wrap(base, retrying{})
		if err != nil {
			return nil, err
		}
		all = append(all, posting(r.name, "http://"+address+"/", rt))
		aims = append(aims, aim{of: r.name, to: "bare"})
	}
	for _, clients := range o.clients {
		got, err := alternate(ctx, o, clients, all)
		if err != nil {
			return nil, err
		}
		out.Loads = append(out.Loads, got.load(clients, all, aims...))
	}
	return out, nil
}

func posting(name, url string, rt http.RoundTripper) series {
	return series{name: name, worker: func() (func() error, func(), error) {
		return func() error { return postBy(rt, url, false) }, func() {}, nil
	}}
}

// postBy makes a request, with a key or without, and reads its answer, as a program does.
func postBy(rt http.RoundTripper, url string, key bool) error {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(requestBody))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if key {
		r.Header.Set("Idempotency-Key", `"`+uuid.NewString()+`"`)
	}
	res, err := rt.RoundTrip(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if err == nil && res.StatusCode != http.StatusCreated {
		err = fmt.Errorf("POST %s: %s", url, res.Status)
	}
	return err
}

// created reads what it is sent and answers at once.
type created struct{}

func (created) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return &http.Response{StatusCode: http.StatusCreated, Header: make(http.Header), Body: http.NoBody, Request: r}, err
}

// A caller is a RoundTripper, and whether whoever calls it makes a key.
type caller struct {
	name string
	http.RoundTripper
	key bool
}

// callers are what measureCalls compares, with the bare one first and ichido second.
func callers() ([]caller, error) {
	all := []caller{{"bare", created{}, false}}
	add := func(name string, r retrier, s retrying, key bool) error {
		rt, err := r.wrap(created{}, s)
		all = append(all, caller{name, rt, key})
		return err
	}
	for _, r := range retriers {
		if err := add(r.name, r, retrying{}, false); err != nil {
			return nil, err
		}
	}
	for _, r := range retriers[1:] {
		if err := add(r.name+", key and time-out", r, retrying{timeout: 30 * time.Second}, true); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// measureCalls measures what each adds to a call that does not leave the process.
func (c *Client) measureCalls(o *options) error {
	all, err := callers()
	if err != nil {
		return err
	}
	benchmarkFor(o.duration)
	results := make([][]testing.BenchmarkResult, len(all))
	var failed error
	o.talk.begin(o.rounds*len(all), "calls without a network")
	for round := range o.rounds {
		for i := range all {
			i = (i + round) % len(all)
			results[i] = append(results[i], testing.Benchmark(func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := postBy(all[i].RoundTripper, "https://api.example.com/reservations", all[i].key); err != nil {
						failed = cmp.Or(failed, err)
					}
				}
			}))
			o.talk.step()
		}
	}
	for i, one := range all[1:] {
		m := memoryCase{name: one.name}
		if i == 0 {
			m.aim, m.aimAlloc = callAim, callAimAlloc
		}
		c.Calls = append(c.Calls, m.result(results[0], results[i+1]))
		if i > 0 {
			most := 1.0
			if one.key { // nothing is aimed at
				most = 0
			}
			c.Ratios = append(c.Ratios, costRatio(all[1].name+"/"+one.name, results[0], results[1], results[i+1], most))
		}
	}
	return failed
}

// costRatio compares what is above the bare call, in each round.
func costRatio(name string, bare, of, to []testing.BenchmarkResult, most float64) Ratio {
	rounds := make([]int, len(bare))
	for i := range rounds {
		rounds[i] = i
	}
	return newRatio(name, spreadOf(rounds, func(i int) float64 {
		return (nanos(of[i]) - nanos(bare[i])) / (nanos(to[i]) - nanos(bare[i]))
	}), 0, most)
}
