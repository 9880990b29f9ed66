package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/ichido-dev/ichido"
)

// steps are the variants in lease mode with steps.
func steps(o *options) contest {
	return contest{func(a *api) ([]series, error) { return a.stepVariants(o.counts(countedSteps)) }, stepAims}
}

func stepAims(string, int) []aim {
	return []aim{{of: "1 step", to: "0 steps"}, {of: "5 steps", to: "0 steps"}, {of: "1 TxStep", to: "0 steps"}}
}

// stepRoundTrips are what is aimed at on PostgreSQL. An operation that resumes makes one for its claim, one for all results
// and one for its completion.
var stepRoundTrips = map[string]float64{"0 steps": 2, "20 steps resumed": 3}

// measureSteps compares operations of some steps with those of none.
func measureSteps(ctx context.Context, o *options) ([]Comparison, error) {
	all, err := compareEngines(ctx, o, steps(o))
	for i := range all {
		c := &all[i]
		if c.Parts = partsOf(c.Requests); c.Engine != "postgres" {
			continue
		}
		aimAt(c.Requests, stepRoundTrips)
		// The result rides with the COMMIT: a TxStep costs no more round trips than a plain transaction.
		plain := named(c.Requests, "plain").RoundTrips
		aimAt(c.Parts, map[string]float64{"the first step begins": 1, "a Step": 1, "a TxStep": plain})
	}
	return all, err
}

// partsOf returns what parts of an operation cost, which is what requests differ by.
func partsOf(requests []Request) []Request {
	none, one, tx := named(requests, "0 steps"), named(requests, "1 step"), named(requests, "1 TxStep")
	step := difference("a Step", named(requests, "20 steps"), one, 19)
	begins := difference("the first step begins", difference("", one, none, 1), step, 1)
	return []Request{begins, step, difference("a TxStep", difference("", tx, none, 1), begins, 1)}
}

func difference(name string, a, b Request, parts float64) Request {
	return Request{
		Name:       name,
		RoundTrips: (a.RoundTrips - b.RoundTrips) / parts,
		Statements: (a.Statements - b.Statements) / parts,
		LogBytes:   (a.LogBytes - b.LogBytes) / parts,
	}
}

// stepVariants are the series that are compared in lease mode with steps, of which so many requests are counted.
func (a *api) stepVariants(counted int) ([]series, error) {
	all := []series{
		a.series("plain", "/plain", false, newKey),
		a.series("0 steps", "/steps/0", false, newKey),
		a.series("1 step", "/steps/1", false, newKey),
		a.series("5 steps", "/steps/5", false, newKey),
		a.series("20 steps", "/steps/20", false, newKey),
		a.series("1 TxStep", "/txstep", false, newKey),
		a.resumed(counted),
	}
	for i := range all {
		all[i].counted = countedSteps
	}
	return all, nil
}

// countedSteps is how many requests are counted: with steps each of them is many commits.
const countedSteps = 200

// resumed is the series of requests whose operations were abandoned before, when all of their steps were kept.
func (a *api) resumed(counted int) series {
	const path = "/resumed"
	s := series{name: "20 steps resumed", untimed: true}
	s.worker = func() (func() error, func(), error) {
		keys, err := a.abandon(path, counted+uncounted(counted))
		if err != nil {
			return nil, nil, err
		}
		next := 0
		return a.series(s.name, path, false, func() string { next++; return keys[next-1] }).worker()
	}
	return s
}

// abandon sends requests that fail, and returns their keys.
func (a *api) abandon(path string, n int) ([]string, error) {
	c, err := dial(a.address)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = newKey()
		res, err := c.send(path, keys[i])
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(res.Body)
		if err == nil && res.StatusCode != http.StatusInternalServerError {
			err = fmt.Errorf("POST %s, to be abandoned: %s: %s", path, res.Status, body)
		}
		if err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// A stepFunc runs a step that makes a reservation and returns its id.
type stepFunc func(ctx context.Context, name string, r reservation) (int64, error)

// stepOutside is a step that calls somebody, which takes no time.
func stepOutside(ctx context.Context, name string, r reservation) (int64, error) {
	return ichido.Step(ctx, name, func(ctx context.Context, _ string) (int64, error) { return insertNothing(ctx, r) })
}

// inSteps is the work of a handler that makes its reservation in steps.
func inSteps(n int, step stepFunc) insertFunc {
	return func(ctx context.Context, r reservation) (id int64, err error) {
		id, err = insertNothing(ctx, r)
		for i := 0; i < n && err == nil; i++ {
			id, err = step(ctx, fmt.Sprint("step ", i+1), r)
		}
		return id, err
	}
}

var errAbandoned = errors.New("a step has run")

// failsOnce fails after the last step, unless all of them were run by an attempt before.
func failsOnce(n int) insertFunc {
	return func(ctx context.Context, r reservation) (int64, error) {
		ran := false
		id, err := inSteps(n, func(ctx context.Context, name string, r reservation) (int64, error) {
			return ichido.Step(ctx, name, func(ctx context.Context, _ string) (int64, error) {
				ran = true
				return insertNothing(ctx, r)
			})
		})(ctx, r)
		if err == nil && ran {
			err = errAbandoned
		}
		return id, err
	}
}
