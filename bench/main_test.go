package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// runQuick runs the program, too short to mean anything, and returns its report.
func runQuick(t *testing.T, args ...string) *Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	o, err := parseOptions(append(args, "--quick", "--json", file))
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := run(t.Context(), o, &table); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	report := new(Report)
	if err := json.Unmarshal(text, report); err != nil {
		t.Fatal(err)
	}
	t.Log(table.String())
	return report
}

// What is counted does not depend on the machine. Of ichido it is said in its own tests; here it is bounded.
func TestCounts(t *testing.T) {
	for engine, most := range map[string]map[string]Request{
		"sqlite":   {"plain": {Statements: 3}, "first": {Statements: 7}, "replay": {Statements: 1}, "usual": {Statements: 5}, "floor": {Statements: 4}},
		"postgres": {"plain": {RoundTrips: 3, Statements: 3}, "first": {RoundTrips: 3, Statements: 6}, "replay": {RoundTrips: 2, Statements: 4}, "usual": {RoundTrips: 6, Statements: 6}, "floor": {RoundTrips: 3, Statements: 4}},
	} {
		t.Run(engine, func(t *testing.T) {
			args := []string{"--db", engine, "--clients", "1,4"}
			if engine == "postgres" {
				args = append(args, "--postgres", pgtest.Shared(t).URL("postgres"))
			}
			report := runQuick(t, args...)
			if len(report.Comparisons) != 1 || len(report.Comparisons[0].Loads) != 2 {
				t.Fatalf("%+v", report)
			}
			for _, got := range report.Comparisons[0].Requests {
				ours := got.Name == "first" || got.Name == "replay"
				w := most[got.Name]
				if got.RoundTrips > w.RoundTrips || got.Statements > w.Statements || !ours && (got.RoundTrips < w.RoundTrips || got.Statements < w.Statements) {
					t.Errorf("%s: %v round trips, %v statements, want %v and %v",
						got.Name, got.RoundTrips, got.Statements, w.RoundTrips, w.Statements)
				}
				if replay := got.Name == "replay"; (got.LogBytes < 50) != replay {
					t.Errorf("%s: %v WAL bytes", got.Name, got.LogBytes)
				}
			}
			for _, load := range report.Comparisons[0].Loads {
				if len(load.Timings) != 5 || len(load.Ratios) != 6 {
					t.Errorf("%+v", load)
				}
			}
		})
	}
}

func TestKeysAndSchemas(t *testing.T) {
	url := pgtest.Shared(t).URL("postgres")
	if r := runQuick(t, "--postgres", url, "--keys", "2000", "--clients", "2"); r.Keys.Sizes["idempotency_keys"] < 2000*200 {
		t.Errorf("%+v", r.Keys)
	}
	r := runQuick(t, "--postgres", url, "--keys", "2000", "--schema-variants", "--clients", "2")
	if len(r.Schemas.Tables) != len(schemas) || r.Schemas.Loads[0].Timings[0].PerSecond.Median == 0 {
		t.Errorf("%+v", r.Schemas)
	}
}

// In lease mode what is counted is what is aimed at.
func TestLease(t *testing.T) {
	r := runQuick(t, "--lease", "--postgres", pgtest.Shared(t).URL("postgres"), "--clients", "4")
	if len(r.Lease.Comparisons) != 2 {
		t.Fatalf("%+v", r.Lease)
	}
	for _, c := range r.Lease.Comparisons {
		most := map[string]Request{"writes": {Statements: 2}, "first": {Statements: 3}, "replay": {Statements: 1}}
		if c.Engine == "postgres" {
			most = map[string]Request{"writes": {RoundTrips: 2, Statements: 2}, "first": {RoundTrips: 2, Statements: 2}, "replay": {RoundTrips: 1, Statements: 1}}
		}
		for _, got := range c.Requests {
			if w := most[got.Name]; got.RoundTrips != w.RoundTrips || got.Statements > w.Statements || c.Engine == "postgres" && !got.Met {
				t.Errorf("%s, %s: %v round trips, %v statements, want %v and %v",
					c.Engine, got.Name, got.RoundTrips, got.Statements, w.RoundTrips, w.Statements)
			}
		}
		if len(c.Requests) != 3 || len(c.Loads) != 1 || len(c.Loads[0].Timings) != 3 || len(c.Loads[0].Ratios) != 2 {
			t.Errorf("%+v", c)
		}
	}
	if h := r.Lease.Heartbeats; h.Attempts != 500 || !h.Met || h.Millis.Median <= 0 || h.LogBytes.Median < 50 || h.HotUpdates < 0 || h.HotUpdates > 1 {
		t.Errorf("%+v", h)
	}
}

// What steps cost is what is aimed at.
func TestSteps(t *testing.T) {
	all := runQuick(t, "--steps", "--postgres", pgtest.Shared(t).URL("postgres"), "--clients", "2").Steps
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	for _, c := range all {
		want := map[string]Request{"plain": {Statements: 3}, "0 steps": {Statements: 3}, "1 step": {Statements: 5}, "5 steps": {Statements: 9},
			"20 steps": {Statements: 24}, "1 TxStep": {Statements: 9}, "20 steps resumed": {Statements: 4},
			"the first step begins": {Statements: 1}, "a Step": {Statements: 1}, "a TxStep": {Statements: 5}}
		if c.Engine == "postgres" {
			want = map[string]Request{"plain": {RoundTrips: 3, Statements: 3}, "0 steps": {RoundTrips: 2, Statements: 2},
				"1 step": {RoundTrips: 4, Statements: 4}, "5 steps": {RoundTrips: 8, Statements: 8}, "20 steps": {RoundTrips: 23, Statements: 23},
				"1 TxStep": {RoundTrips: 6, Statements: 7}, "20 steps resumed": {RoundTrips: 3, Statements: 3},
				"the first step begins": {RoundTrips: 1, Statements: 1}, "a Step": {RoundTrips: 1, Statements: 1}, "a TxStep": {RoundTrips: 3, Statements: 4}}
		}
		costs := append(c.Requests, c.Parts...)
		for _, got := range costs {
			if w := want[got.Name]; got.RoundTrips != w.RoundTrips || got.Statements > w.Statements || c.Engine == "postgres" && !got.Met {
				t.Errorf("%s, %s: %v round trips, %v statements, want %v and %v",
					c.Engine, got.Name, got.RoundTrips, got.Statements, w.RoundTrips, w.Statements)
			}
		}
		if len(costs) != len(want) || len(c.Loads) != 1 || len(c.Loads[0].Timings) != 6 || len(c.Loads[0].Ratios) != 3 {
			t.Errorf("%+v", c)
		}
	}
}

func TestPurge(t *testing.T) {
	p := runQuick(t, "--purge", "--postgres", pgtest.Shared(t).URL("postgres"), "--clients", "1,2").Purge
	if p.Stored != 50_000 || p.Expired < 4900 || p.Idle.Median <= 0 || len(p.Loads) != 2 || len(p.Speeds) != 2 {
		t.Fatalf("%+v", p)
	}
	for i, load := range p.Loads {
		if s := p.Speeds[i]; len(load.Timings) != 2 || load.Ratios[0].AtMost != 1.25 || s.Purged == 0 || s.PerSecond.Median == 0 || s.Batch.Max == 0 {
			t.Errorf("%+v, %+v", load, s)
		}
	}
}

func TestRetention(t *testing.T) {
	all := runQuick(t, "--retention", "--postgres", pgtest.Shared(t).URL("postgres")).Retention
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	for _, r := range all {
		if len(r.Periods) != periods || r.Periods[0].Size < int64(r.Keys)*500 || r.Periods[9].Purged != r.Keys || !r.Growth.Met {
			t.Errorf("%+v", r)
		}
	}
	if toast := all[0].Periods[0].Sizes["toast"]; toast < int64(all[0].Keys)*400 {
		t.Errorf("long answers take %d bytes", toast)
	}
}

// Runs that exclude each other are refused, and so is a purge of nothing.
func TestOptions(t *testing.T) {
	for _, args := range [][]string{{"--lease", "--purge"}, {"--lease", "--steps"}, {"--purge", "--keys", "9"}, {"--keys", "-1"}, {"--retention", "--drivers"}} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	o, err := parseOptions([]string{"--purge"})
	if err != nil || o.keys != 10_000_000 || len(o.clients) != 2 || o.clients[1] != 4 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestDrivers(t *testing.T) {
	if r := runQuick(t, "--drivers", "--clients", "2"); len(r.Drivers.Loads) != 3 {
		t.Errorf("%+v", r.Drivers)
	}
}

func TestMemory(t *testing.T) {
	for _, m := range runQuick(t, "--db", "memory").Memory {
		if m.Nanos.Median <= 0 || m.Allocs < m.BareAlloc {
			t.Errorf("%+v", m)
		}
	}
}
