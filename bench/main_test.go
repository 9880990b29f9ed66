package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	if err := execute(t.Context(), o, &table); err != nil {
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
				// What the database writes by itself is shared by few requests.
				if replay := got.Name == "replay"; (got.LogBytes < 100) != replay {
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
	k := runQuick(t, "--postgres", url, "--keys", "2000,10", "--clients", "2").Keys
	if len(k.Tables) != 2 || k.Tables[0].Stored != 10 || k.Tables[1].Sizes["idempotency_keys"] < 2000*200 || len(k.Loads[0].Ratios) != 2 {
		t.Errorf("%+v", k)
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

func TestOptions(t *testing.T) {
	for _, args := range [][]string{{"--purge", "--keys", "9"}, {"--keys", "-1"}, {"--clients", "0"}, {"--clients", "x"}, {"--rounds", "0"}, {"--lease", "x"}, {"--db", "postgre"}, {"--db", ""}} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	for _, c := range []struct {
		args string
		runs string // with the clients and keys of each
	}{
		{"", "transactions [1 16] []"},
		{"--keys 5", "stored-keys [1 16] [5]"},
		{"--purge", "purge [1 4] [10000000]"},
		{"--lease --steps --clients 3", "lease [3] [], steps [3] []"},
		{"--schema-variants --keys 7", "schema-variants [1 16] [7]"},
		{"--from x", ""},
		{"--all --keys 20", "transactions [1 4 16 64] [20], duplicates [16] [20], rivals [1 16] [20], lease [1 16] [20], steps [1 16] [20], " +
			"stored-keys [1 16] [20], purge [1 4] [20], retention [1 16] [100000], drivers [1 16] [20], client [1 16] [20], " +
			"simulation [1 16] [20], storm [1 16] [20]"},
	} {
		o, err := parseOptions(strings.Fields(c.args))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		var got []string
		for _, r := range o.runs {
			one := o.of(r)
			got = append(got, fmt.Sprint(r.name, " ", one.clients, " ", one.keys))
		}
		if text := strings.Join(got, ", "); text != c.runs {
			t.Errorf("%s: %s, want %s", c.args, text, c.runs)
		}
	}
}

// A command line makes one run again, and holds no password.
func TestCommandLine(t *testing.T) {
	o, err := parseOptions([]string{"--all", "--quick", "--rounds", "3", "--json", "x", "--postgres", "postgres://me:secret@host/db"})
	if err != nil {
		t.Fatal(err)
	}
	if got := o.commandLine(o.runs[1]); got != "go run ./bench --duplicates --postgres=URL --quick --rounds=3" {
		t.Error(got)
	}
}

// What was measured before stays, but for what is run again.
func TestFrom(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	run := func(args ...string) error {
		o, err := parseOptions(append(args, "--quick"))
		if err != nil {
			return err
		}
		return execute(t.Context(), o, io.Discard)
	}
	if err := run("--db", "memory", "--json", file); err != nil {
		t.Fatal(err)
	}
	if err := run("--from", file, "--db", "memory", "--duplicates", "--json", file, "--markdown", filepath.Join(dir, "report.md")); err != nil {
		t.Fatal(err)
	}
	r := new(Report)
	if err := r.read(file); err != nil {
		t.Fatal(err)
	}
	if len(r.Memory) != 3 || len(r.Runs) != 2 || r.Runs[1].Name != "duplicates" {
		t.Errorf("%+v", r)
	}
	text, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil || !strings.Contains(string(text), "## In memory") {
		t.Errorf("%s, %v", text, err)
	}
	r.Machine.Cores++
	var b bytes.Buffer
	if err := errors.Join(r.json(&b), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := run("--from", file, "--db", "memory", "--duplicates"); err == nil {
		t.Error("a report of two machines")
	}
}

// A run that fails, or is stopped, loses nothing of what was measured before, and says how to go on.
func TestStopped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all := []run{
		{name: "drivers", measure: func(_ context.Context, _ *options, r *Report) error {
			r.Drivers = &Drivers{Versions: map[string]string{"modernc": "now"}}
			return nil
		}},
		{name: "lease", measure: func(ctx context.Context, _ *options, r *Report) error {
			r.Lease = nil // as a run does that returns nothing but an error
			cancel()
			return ctx.Err()
		}},
		{name: "steps"},
	}
	before := &Report{Machine: thisMachine(), Runs: []Done{{Name: "lease"}}, Lease: &Lease{Heartbeats: &Heartbeats{}}}
	var b bytes.Buffer
	if err := errors.Join(before.json(&b), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	o := &options{runs: all, from: file, json: file, args: []string{"--quick"}}
	err := execute(ctx, o, io.Discard)
	if want := "1 of 3 runs are in the report; this adds the others:\n  go run ./bench --from " + file + " --json " + file + " --lease --steps --quick"; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	r := new(Report)
	if err := r.read(file); err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 2 || r.Runs[1].Name != "drivers" || r.Drivers == nil || r.Lease == nil {
		t.Errorf("%+v", r)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o.runs = all[1:] // nothing is done: nothing is written
	if err := execute(ctx, o, io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(text, now) {
		t.Errorf("%v: %s", err, now)
	}
}

func TestOnly(t *testing.T) {
	for only, want := range map[string]string{"first": "", "frist": "none of the variants, which are plain, first, "} {
		o, err := parseOptions([]string{"--quick", "--db", "sqlite", "--clients", "1", "--only", only})
		if err != nil {
			t.Fatal(err)
		}
		if err := execute(t.Context(), o, io.Discard); err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("--only %s: %v", only, err)
		}
	}
}

// What cannot be written is found out before anything is measured, and nothing is left of the attempt.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	for flag, o := range map[string]*options{
		"--json":     {json: filepath.Join(dir, "no", "report")},
		"--report":   {json: filepath.Join(dir, "report.json"), html: filepath.Join(dir, "no", "report")},
		"--markdown": {markdown: dir},
	} {
		o.runs = []run{{measure: func(context.Context, *options, *Report) error {
			t.Errorf("%s: it measures", flag)
			return nil
		}}}
		if err := execute(t.Context(), o, io.Discard); err == nil {
			t.Errorf("%s: no error", flag)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestDrivers(t *testing.T) {
	if r := runQuick(t, "--drivers", "--clients", "2"); len(r.Drivers.Loads) != 3 {
		t.Errorf("%+v", r.Drivers)
	}
}

func TestDuplicates(t *testing.T) {
	c := runQuick(t, "--duplicates", "--db", "sqlite", "--clients", "2").Duplicates[0]
	if len(c.Requests) != 2*len(shares) || len(c.Loads) != 1 || len(c.Loads[0].Timings) != 2*len(shares) || len(c.Loads[0].Ratios) != len(shares) {
		t.Fatalf("%+v", c)
	}
	first, most := named(c.Requests, sharing("ichido", 0)).LogBytes, named(c.Requests, sharing("ichido", 0.9)).LogBytes
	if part := most / first; part < 0.02 || part > 0.3 {
		t.Errorf("with 90 %% of replays a request writes %.0f bytes, without any %.0f", most, first)
	}
}

func TestRivals(t *testing.T) {
	r := runQuick(t, "--rivals", "--clients", "2").Rivals
	if len(r.Loads) != 1 || len(r.Loads[0].Timings) != 3*len(rivals) || len(r.Loads[0].Ratios) != 2*len(rivals) {
		t.Errorf("%+v", r)
	}
}

func TestMemory(t *testing.T) {
	for _, m := range runQuick(t, "--db", "memory").Memory {
		if m.Nanos.Median <= 0 || m.Allocs < m.BareAlloc {
			t.Errorf("%+v", m)
		}
	}
}
