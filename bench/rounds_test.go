package main

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

func TestSpreadIsMedianAndExtremes(t *testing.T) {
	value := func(f float64) float64 { return f }
	if got := spreadOf([]float64{9, 1, 4}, value); got != (Spread{4, 1, 9}) {
		t.Errorf("of three: %v", got)
	}
	if got := spreadOf([]float64{9, 1, 4, 2}, value); got != (Spread{3, 1, 9}) {
		t.Errorf("of four: %v", got)
	}
}

// A ratio is taken within the rounds: a round in which the machine was slow for both does not count against either.
func TestRatioIsTakenWithinRounds(t *testing.T) {
	r := &rounds{samples: map[string][]sample{
		"a": {{perSecond: 90}, {perSecond: 9}, {perSecond: 50}},
		"b": {{perSecond: 100}, {perSecond: 10}, {perSecond: 100}},
	}}
	if got := r.ratio(aim{of: "a", to: "b", least: 0.9}); got.Value.Median != 0.9 || !got.Met {
		t.Errorf("%+v", got)
	}
	if got := r.ratio(aim{of: "a", to: "b", least: 0.91}); got.Met {
		t.Errorf("%+v", got)
	}
}

// What should be small is met by what is below the aim, and missed by what is above it.
func TestRatioWithUpperBound(t *testing.T) {
	r := &rounds{samples: map[string][]sample{
		"a": {{p99: 120}, {p99: 1300}, {p99: 140}},
		"b": {{p99: 100}, {p99: 1000}, {p99: 100}},
	}}
	got := r.ratio(aim{of: "a", to: "b", what: p99, most: 1.3})
	if got.Name != "a/b p99" || got.Value.Median != 1.3 || got.AtMost != 1.3 || !got.Met {
		t.Errorf("%+v", got)
	}
	if got := r.ratio(aim{of: "a", to: "b", what: p99, most: 1.25}); got.Met {
		t.Errorf("%+v", got)
	}
}

// What happens while a series is counted ends the counting when it is done.
func TestMeasureEndsWithWhatHappensMeanwhile(t *testing.T) {
	var done atomic.Bool
	s := series{
		name:   "s",
		worker: func() (func() error, func(), error) { return func() error { return nil }, func() {}, nil },
		meanwhile: func(ctx context.Context) error {
			<-time.After(10 * time.Millisecond)
			done.Store(true)
			return ctx.Err()
		},
	}
	if got, err := measure(t.Context(), s, 1, 0, time.Hour); err != nil || !done.Load() || got.perSecond == 0 {
		t.Errorf("%+v, %v", got, err)
	}
	failed := errors.New("failed")
	s.meanwhile = func(context.Context) error { return failed }
	if _, err := measure(t.Context(), s, 1, 0, time.Hour); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}

// Messages arrive as pgx writes them: several at a time, or one in pieces.
func TestCountedConn(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		buf := make([]byte, 100)
		for range 5 {
			_, _ = there.Read(buf)
		}
		_, _ = there.Write([]byte("answer"))
		for {
			if _, err := there.Read(buf); err != nil {
				return
			}
		}
	}()
	c := &countedConn{Conn: here, counter: new(counter)}
	for _, piece := range []string{"startup: E\x00\x00", "B\x00\x00\x00\x04E\x00\x00\x00\x04S\x00\x00\x00\x04", "Q\x00\x00", "\x00\x06E", "\x00"} {
		if _, err := c.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if trips, statements := c.counter.roundTrips.Load(), c.counter.statements.Load(); trips != 1 || statements != 2 {
		t.Errorf("%d round trips, %d statements, want 1 and 2", trips, statements)
	}
	if _, err := c.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("Q\x00\x00\x00\x04")); err != nil {
		t.Fatal(err)
	}
	if trips, statements := c.counter.roundTrips.Load(), c.counter.statements.Load(); trips != 2 || statements != 3 {
		t.Errorf("%d round trips, %d statements, want 2 and 3", trips, statements)
	}
}
