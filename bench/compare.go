package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// A contest is the variants that are compared on each engine, and what is aimed at.
type contest struct {
	variants func(*api) ([]series, error)
	aims     func(engine string, clients int) []aim
}

// compareEngines runs a contest on the engines that the options name.
func compareEngines(ctx context.Context, o *options, between contest) ([]Comparison, error) {
	var out []Comparison
	for _, engine := range []struct {
		name string
		run  func(context.Context, *options, contest) (*Comparison, error)
	}{{"postgres", comparePostgres}, {"sqlite", compareSQLite}} {
		if !slices.Contains(o.engines, engine.name) {
			continue
		}
		c, err := engine.run(ctx, o, between)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", engine.name, err)
		}
		out = append(out, *c)
	}
	return out, nil
}

func comparePostgres(ctx context.Context, o *options, between contest) (*Comparison, error) {
	server, err := startPostgres(o)
	if err != nil {
		return nil, err
	}
	defer server.close()
	db, err := newPostgres(ctx, server, "postgres")
	if err != nil {
		return nil, err
	}
	defer db.close()
	return compare(ctx, o, db, between)
}

func compareSQLite(ctx context.Context, o *options, between contest) (*Comparison, error) {
	db, err := newSQLite(ctx, modernc)
	if err != nil {
		return nil, err
	}
	defer db.close()
	return compare(ctx, o, db, between)
}

// compare runs the variants on one database. Counting comes first and apart, because to count takes time.
func compare(ctx context.Context, o *options, db database, between contest) (*Comparison, error) {
	c := &Comparison{Engine: db.name()}
	var err error
	if c.Facts, err = db.facts(ctx); err != nil {
		return nil, err
	}
	o.talk.say("%s: counting", db.name())
	if c.Requests, err = countRequests(ctx, o, db, between.variants); err != nil {
		return nil, err
	}
	a, err := serve(ctx, db, poolSize, nil)
	if err != nil {
		return nil, err
	}
	defer a.close()
	variants, err := between.variants(a)
	if err != nil {
		return nil, err
	}
	var names []string
	variants = slices.DeleteFunc(variants, func(s series) bool {
		if !s.untimed {
			names = append(names, s.name)
		}
		return s.untimed || o.only != nil && !slices.Contains(o.only, s.name)
	})
	if len(variants) == 0 {
		return nil, fmt.Errorf("--only names none of the variants, which are %s", strings.Join(names, ", "))
	}
	for _, clients := range o.clients {
		got, err := alternate(ctx, o, clients, variants)
		if err != nil {
			return nil, err
		}
		c.Loads = append(c.Loads, got.load(clients, variants, between.aims(db.name(), clients)...))
	}
	return c, nil
}

// transactions are the variants in transaction mode.
var transactions = contest{(*api).variants, transactionAims}

func transactionAims(_ string, clients int) []aim {
	ofPlain := 0.9
	if clients == 1 {
		ofPlain = 0.97
	}
	return []aim{
		{of: "first", to: "plain", least: ofPlain},
		{of: "first", to: "usual", least: 1.5},
		{of: "replay", to: "first", least: 3},
		{of: "usual", to: "plain"},
		{of: "floor", to: "plain"},
		{of: "first", to: "floor"},
	}
}

// counted is how many requests are counted of a series that does not say it.
const counted = 1000

// counts is how many requests are counted where it is usually so many.
func (o *options) counts(usual int) int {
	if o.quick {
		return usual / 5
	}
	return usual
}

// uncounted is how many requests go before those that are counted: statements are prepared, tables are not empty.
func uncounted(counted int) int { return counted / 5 }

// countRequests counts what single requests cost.
func countRequests(ctx context.Context, o *options, db database, choose func(*api) ([]series, error)) ([]Request, error) {
	c := new(counter)
	a, err := serve(ctx, db, 1, c)
	if err != nil {
		return nil, err
	}
	defer a.close()
	all, err := choose(a)
	if err != nil {
		return nil, err
	}
	var out []Request
	for _, s := range all {
		r, err := countOne(ctx, o, db, c, s)
		if err != nil {
			return nil, fmt.Errorf("counting %s: %w", s.name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// named returns what was counted of a series.
func named(requests []Request, name string) Request {
	return requests[slices.IndexFunc(requests, func(r Request) bool { return r.Name == name })]
}

// aimAt says how many round trips are aimed at, by series.
func aimAt(requests []Request, aims map[string]float64) {
	for i := range requests {
		r := &requests[i]
		r.Aim = aims[r.Name]
		r.Met = r.Aim == 0 || r.RoundTrips == r.Aim
	}
}

func countOne(ctx context.Context, o *options, db database, c *counter, s series) (r Request, err error) {
	do, end, err := s.worker()
	if err != nil {
		return r, err
	}
	defer end()
	n := o.counts(cmp.Or(s.counted, counted))
	for range uncounted(n) {
		if err := do(); err != nil {
			return r, err
		}
	}
	before, err := db.logged(ctx)
	if err != nil {
		return r, err
	}
	c.roundTrips.Store(0)
	c.statements.Store(0)
	for range n {
		if err := do(); err != nil {
			return r, err
		}
	}
	roundTrips, statements := c.roundTrips.Load(), c.statements.Load()
	after, err := db.logged(ctx)
	each := func(all int64) float64 { return float64(all) / float64(n) }
	return Request{Name: s.name, RoundTrips: each(roundTrips), Statements: each(statements), LogBytes: each(after - before)}, err
}
