package main

import (
	"context"
	"slices"
)

// leaseMode are the variants in lease mode.
var leaseMode = contest{(*api).leaseVariants, leaseAims}

func leaseAims(engine string, clients int) []aim {
	ofWrites := 0.0
	if engine == "postgres" && clients == 16 {
		ofWrites = 0.9
	}
	return []aim{{of: "first", to: "writes", least: ofWrites}, {of: "replay", to: "first"}}
}

// leaseRoundTrips are what is aimed at on PostgreSQL.
var leaseRoundTrips = map[string]float64{"first": 2, "replay": 1}

// measureLease compares requests in lease mode with two plain writes, and looks at the heartbeats of many attempts.
func measureLease(ctx context.Context, o *options) (*Lease, error) {
	out := new(Lease)
	var err error
	if out.Comparisons, err = compareEngines(ctx, o, leaseMode); err != nil {
		return nil, err
	}
	for _, c := range out.Comparisons {
		if c.Engine == "postgres" {
			aimAt(c.Requests, leaseRoundTrips)
		}
	}
	if slices.Contains(o.engines, "postgres") {
		out.Heartbeats, err = measureHeartbeats(ctx, o)
	}
	return out, err
}
