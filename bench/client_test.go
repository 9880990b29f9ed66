package main

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestClient(t *testing.T) {
	c := runQuick(t, "--client", "--clients", "2").Client
	if len(c.Calls) != 2*len(retriers)-1 || len(c.Ratios) != 2*len(retriers)-2 || len(c.Loads) != 1 || len(c.Loads[0].Timings) != len(retriers)+1 {
		t.Fatalf("%+v", c)
	}
	if m := c.Calls[0]; m.Name != "ichido" || m.Aim != callAim || m.Allocs-m.BareAlloc > callAimAlloc {
		t.Errorf("%+v", m)
	}
}

// All of them send again, and those that are to carry a key do.
func TestRetriers(t *testing.T) {
	for _, r := range retriers {
		sent := 0
		rt, err := r.wrap(roundTrip(func(r *http.Request) (*http.Response, error) {
			sent++
			if _, err := (created{}).RoundTrip(r); err != nil || sent < 3 {
				return nil, errLost
			}
			if r.Header.Get("Idempotency-Key") == "" {
				t.Error("no key")
			}
			return created{}.RoundTrip(r)
		}), retrying{attempts: 3, longest: 1, timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := postBy(rt, "http://api.example.com/", true); err != nil || sent != 3 {
			t.Errorf("%s: %d sendings, %v", r.name, sent, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Every operation is booked once and answered, in about as many sendings as chance has it; without keys some are booked
// again. The random source is the same every time.
func TestLosses(t *testing.T) {
	const operations = 5000
	one, err := simulateLosses(t.Context(), operations, retriers[0], true)
	if err != nil {
		t.Fatal(err)
	}
	if !one.Met || one.Once != operations || one.More != 0 || one.Never != 0 || one.Unanswered != 0 || one.PerOperation < 1.5 || one.PerOperation > sendingsAim {
		t.Errorf("%+v", one)
	}
	counted, sendings := 0, 0
	for i, n := range one.Sendings {
		counted += n
		sendings += (i + 1) * n
	}
	// Of 1.59 sendings one in ten loses its answer, and of those seven in ten had one to be replayed.
	if counted != operations || one.PerOperation != float64(sendings)/operations || one.Replays < operations/20 || one.Replays > operations/5 {
		t.Errorf("%+v", one)
	}
	again, err := simulateLosses(t.Context(), operations, retriers[0], true)
	if err != nil || !slices.Equal(one.Sendings, again.Sendings) {
		t.Errorf("%v, and again %v, %v", one.Sendings, again.Sendings, err)
	}
	for _, r := range retriers[1:] {
		without, err := simulateLosses(t.Context(), operations, r, false)
		if err != nil || without.More < operations/20 || without.Once+without.More != operations || without.Unanswered != 0 {
			t.Errorf("%+v, %v", without, err)
		}
	}
}

func TestSimulation(t *testing.T) {
	s := runQuick(t, "--simulation").Simulation
	if len(s.Lossy) != 3 || !s.Lossy[0].Keys || s.Lossy[1].Keys || len(s.Outage.Clients) != 4 {
		t.Fatalf("%+v", s)
	}
	ours, unlimited := s.Outage.Clients[0], s.Outage.Clients[1]
	// 10 retries are there at the start, each operation adds 0.08, and the time less than one.
	if most := 1.08 + 11/float64(ours.Operations); ours.Load < 1 || ours.Load > most || unlimited.Load < 1.2 || len(ours.Sent) != 12 {
		t.Errorf("load at most %.3f: %+v", most, s.Outage)
	}
}
