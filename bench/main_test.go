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
	o, err := parseOptions(append(args, "--rounds", "1", "--duration", "40ms", "--json", file))
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
		"sqlite":   {"plain": {Statements: 3}, "first": {Statements: 6}, "replay": {Statements: 1}, "usual": {Statements: 5}},
		"postgres": {"plain": {RoundTrips: 3, Statements: 3}, "first": {RoundTrips: 3, Statements: 6}, "replay": {RoundTrips: 2, Statements: 4}, "usual": {RoundTrips: 6, Statements: 6}},
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
				if len(load.Timings) != 4 || len(load.Ratios) != 4 {
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
