package main

import (
	"context"
	"slices"
	"strings"
)

// A run measures one part of a report. defaults puts its own into the options where given, what the caller said, has
// nothing.
type run struct {
	name      string // of its flag
	about     string
	defaults  func(o, given *options)
	leastKeys int // of --keys, if they are given
	measure   func(context.Context, *options, *Report) error
}

const schemaVariants = "schema-variants"

// runs are all there are, in the order of the report.
var runs = []run{
	{
		name: "transactions", about: "transaction mode, on each engine, and the costs in memory; the default",
		defaults: func(o, given *options) {
			if given.clients == nil && o.all {
				o.clients = []int{1, 4, 16, 64}
			}
		},
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			if r.Comparisons, err = compareEngines(ctx, o, transactions); err == nil && slices.Contains(o.engines, "memory") {
				r.Memory = measureMemory(o)
			}
			return err
		},
	},
	{
		name: "duplicates", about: "requests of which a share is replays, on each engine",
		defaults: func(o, given *options) {
			if given.clients == nil {
				o.clients = []int{16}
			}
		},
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Duplicates, err = compareEngines(ctx, o, duplicates)
			return err
		},
	},
	{
		name: "rivals", about: "other libraries for keys, each in memory, over HTTP",
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Rivals, err = measureRivals(ctx, o)
			return err
		},
	},
	{
		name: "lease", about: "lease mode against two plain writes, and its heartbeats",
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Lease, err = measureLease(ctx, o)
			return err
		},
	},
	{
		name: "steps", about: "lease mode, operations of steps against those of none",
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Steps, err = measureSteps(ctx, o)
			return err
		},
	},
	{
		name: "stored-keys", about: "tables full of --keys (default 10000,1000000,10000000) against an empty one, on PostgreSQL",
		defaults: defaultKeys([]int{10_000, 1_000_000, 10_000_000}, []int{100, 1000}),
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Keys, err = measureKeys(ctx, o)
			return err
		},
	},
	{
		name: schemaVariants, about: "other primary keys and indexes against ours, at --keys (default 10000000)",
		defaults: defaultKeys([]int{10_000_000}, []int{1000}),
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Schemas, err = measureSchemas(ctx, o)
			return err
		},
	},
	{
		name: "purge", about: "requests while keys are purged, of --keys (default 10000000) a tenth",
		defaults: func(o, given *options) {
			defaultKeys([]int{10_000_000}, []int{50_000})(o, given)
			if given.clients == nil {
				o.clients = []int{1, 4}
			}
		},
		leastKeys: 10,
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Purge, err = measurePurge(ctx, o)
			return err
		},
	},
	{
		name: "retention", about: "bytes on disk over ten periods, with --keys (default 100000) in each",
		defaults: func(o, given *options) {
			if o.all { // --keys is meant for a table that is full
				o.keys = nil
			}
			defaultKeys([]int{100_000}, []int{1000})(o, o)
		},
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Retention, err = measureRetention(ctx, o)
			return err
		},
	},
	{
		name: "drivers", about: "the drivers for SQLite against each other",
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Drivers, err = measureDrivers(ctx, o)
			return err
		},
	},
	{
		name: "client", about: "the client against other RoundTrippers that retry",
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Client, err = measureClient(ctx, o)
			return err
		},
	},
	{
		name: "simulation", about: "operations against a server that fails and loses answers, and load on one that is down",
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Simulation, err = simulate(ctx, o)
			return err
		},
	},
	{
		name: "storm", about: "a server that stalls while clients retry, on PostgreSQL",
		measure: func(ctx context.Context, o *options, r *Report) (err error) {
			r.Storms, err = measureStorms(ctx, o)
			return err
		},
	},
}

func defaultKeys(usual, quick []int) func(o, given *options) {
	return func(o, given *options) {
		switch {
		case given.keys != nil:
		case o.quick:
			o.keys = quick
		default:
			o.keys = usual
		}
	}
}

// commandLine makes one run of those that the options ask for.
func (o *options) commandLine(r run) string {
	return strings.Join(append([]string{"go run ./bench --" + r.name}, o.args...), " ")
}
