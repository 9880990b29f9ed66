package main

import (
	"context"
	"slices"
	"strings"
	"time"
)

// A Spread is a median over the rounds and the extremes.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf[T any](samples []T, value func(T) float64) Spread {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	slices.Sort(values)
	n := len(values)
	return Spread{(values[n/2] + values[(n-1)/2]) / 2, values[0], values[n-1]}
}

// A Timing is what was measured of one series at one number of workers, over all rounds.
type Timing struct {
	Name      string `json:"name"`
	PerSecond Spread `json:"per_second"`
	P50       Spread `json:"p50_us"` // microseconds
	P99       Spread `json:"p99_us"`
}

// A Ratio is a comparison of two series, taken within each round so that what disturbs a whole round cancels out.
type Ratio struct {
	Name   string  `json:"name"` // "first/plain" of the throughput, "purging/quiet p99" of a latency
	Value  Spread  `json:"value"`
	Aim    float64 `json:"aim,omitempty"`     // at least this; 0 if there is no such aim
	AtMost float64 `json:"at_most,omitempty"` // the aim is at most this; 0 if there is no such aim
	Met    bool    `json:"met"`               // the median is within the aim
}

// rounds are the samples of several series that were taken in turns.
type rounds struct {
	samples   map[string][]sample // by series
	disturbed int                 // samples that were taken although the machine was busy
}

// alternate measures each series once in each round. Every round begins with another series, so that none is always
// the one after the same neighbour.
func alternate(ctx context.Context, o *options, workers int, all []series) (*rounds, error) {
	got := &rounds{samples: make(map[string][]sample)}
	o.talk.begin(o.rounds*len(all), "%s and %d more, %d at once", all[0].name, len(all)-1, workers)
	for round := range o.rounds {
		for i := range all {
			s := all[(i+round)%len(all)]
			if s.before != nil {
				if err := s.before(ctx); err != nil {
					return nil, err
				}
			}
			one, disturbed, err := undisturbed(ctx, o.patience, func() (sample, error) {
				return measure(ctx, s, workers, o.duration/5, o.duration)
			})
			if err != nil {
				return nil, err
			}
			if disturbed {
				got.disturbed++
			}
			got.samples[s.name] = append(got.samples[s.name], one)
			o.talk.step()
		}
	}
	return got, nil
}

func (r *rounds) timing(name string) Timing {
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return Timing{
		Name:      name,
		PerSecond: spreadOf(r.samples[name], func(s sample) float64 { return s.perSecond }),
		P50:       spreadOf(r.samples[name], func(s sample) float64 { return micros(s.p50) }),
		P99:       spreadOf(r.samples[name], func(s sample) float64 { return micros(s.p99) }),
	}
}

// load is what is reported of the rounds. A pair of series without samples has no ratio.
func (r *rounds) load(workers int, all []series, aims ...aim) Load {
	l := Load{Clients: workers, Disturbed: r.disturbed}
	for _, s := range all {
		l.Timings = append(l.Timings, r.timing(s.name))
	}
	for _, a := range aims {
		if r.samples[a.of] != nil && r.samples[a.to] != nil {
			l.Ratios = append(l.Ratios, r.ratio(a))
		}
	}
	return l
}

// An aim is a comparison of one series with another, and the least or the most that it should be; 0 if nothing is aimed
// at.
type aim struct {
	of, to string
	what   quantity
	least  float64
	most   float64
}

// A quantity is what is compared of two samples.
type quantity string

const (
	throughput quantity = ""
	p50        quantity = "p50"
	p99        quantity = "p99"
)

func (q quantity) of(s sample) float64 {
	switch q {
	case p50:
		return float64(s.p50)
	case p99:
		return float64(s.p99)
	}
	return s.perSecond
}

func (r *rounds) ratio(a aim) Ratio {
	type pair struct{ of, to sample }
	pairs := make([]pair, len(r.samples[a.of]))
	for i := range pairs {
		pairs[i] = pair{r.samples[a.of][i], r.samples[a.to][i]}
	}
	value := spreadOf(pairs, func(p pair) float64 { return a.what.of(p.of) / a.what.of(p.to) })
	return newRatio(strings.TrimSpace(a.of+"/"+a.to+" "+string(a.what)), value, a.least, a.most)
}

func newRatio(name string, value Spread, least, most float64) Ratio {
	return Ratio{name, value, least, most, value.Median >= least && (most == 0 || value.Median <= most)}
}
