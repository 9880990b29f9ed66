package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// print writes the report for people.
func (r *Report) print(w io.Writer) {
	m := r.Machine
	fmt.Fprintf(w, "%s\n%s, %d cores, %s, %s, load %s\n", strings.Join(m.CommandLine, " "),
		cmp.Or(m.CPU, "unknown CPU"), m.Cores, m.OS, m.Go, cmp.Or(m.LoadAverage, "unknown"))
	fmt.Fprintln(w, "Medians over the rounds, and (least–most).")
	for _, c := range r.Comparisons {
		fmt.Fprintf(w, "\n## %s\n%s\n\n", c.Engine, factsLine(c.Facts))
		printRequests(w, c.Requests)
		printLoads(w, "clients", c.Loads)
	}
	if r.Memory != nil {
		printMemory(w, r.Memory)
	}
	if k := r.Keys; k != nil {
		fmt.Fprintf(w, "\n## %d stored keys against none, first requests\n%s\nfull: %s\n\n",
			k.Stored, factsLine(k.Facts), sizesLine(k.Sizes))
		printRequests(w, k.Requests)
		printLoads(w, "clients", k.Loads)
	}
	if s := r.Schemas; s != nil {
		fmt.Fprintf(w, "\n## Schemas, %d stored keys, the statements of a first request\n%s\n\n", s.Stored, factsLine(s.Facts))
		for _, t := range s.Tables {
			fmt.Fprintf(w, "%-20s %6.0f WAL bytes/request; %s\n", t.Name, t.LogBytes, sizesLine(t.Sizes))
		}
		printLoads(w, "connections", s.Loads)
	}
	if d := r.Drivers; d != nil {
		fmt.Fprintf(w, "\n## Drivers for SQLite\nSQLite in each: %s\n", factsLine(d.Versions))
		printLoads(w, "at once", d.Loads)
	}
}

func factsLine(facts map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		parts = append(parts, name+" "+facts[name])
	}
	return strings.Join(parts, ", ")
}

func sizesLine(sizes map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		parts = append(parts, fmt.Sprintf("%s %.1f MB", name, float64(sizes[name])/1e6))
	}
	return strings.Join(parts, ", ")
}

func table(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

func printRequests(w io.Writer, requests []Request) {
	t := table(w)
	fmt.Fprintln(t, "per request\tround trips\tstatements\tWAL bytes\t")
	for _, r := range requests {
		trips := "-"
		if r.RoundTrips > 0 {
			trips = fmt.Sprintf("%.2f", r.RoundTrips)
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.0f\t\n", r.Name, trips, r.Statements, r.LogBytes)
	}
	t.Flush()
}

func printLoads(w io.Writer, workers string, loads []Load) {
	for _, l := range loads {
		fmt.Fprintln(w)
		t := table(w)
		fmt.Fprintf(t, "%d %s\tper second\t\tp50 µs\t\tp99 µs\t\t\n", l.Clients, workers)
		for _, v := range l.Timings {
			fmt.Fprintf(t, "%s\t%.0f\t(%.0f–%.0f)\t%.0f\t(%.0f–%.0f)\t%.0f\t(%.0f–%.0f)\t\n", v.Name,
				v.PerSecond.Median, v.PerSecond.Min, v.PerSecond.Max,
				v.P50.Median, v.P50.Min, v.P50.Max, v.P99.Median, v.P99.Min, v.P99.Max)
		}
		t.Flush()
		if l.Disturbed > 0 {
			fmt.Fprintf(w, "  %d samples were disturbed by other programs\n", l.Disturbed)
		}
		for _, r := range l.Ratios {
			aim := ""
			if r.Aim > 0 {
				aim = fmt.Sprintf("  aim ≥ %.2f: %s", r.Aim, verdict(r.Met))
			}
			fmt.Fprintf(w, "  %s %.3f (%.3f–%.3f)%s\n", r.Name, r.Value.Median, r.Value.Min, r.Value.Max, aim)
		}
	}
}

func printMemory(w io.Writer, all []Memory) {
	fmt.Fprintln(w, "\n## In memory: memstore, no network")
	t := table(w)
	fmt.Fprintln(t, "request\tns\t\tallocs\tbare ns\tbare allocs\tcost ns\taim ns\tallocs above\taim\t\t")
	for _, m := range all {
		aimAlloc := "-"
		if m.AimAlloc > 0 {
			aimAlloc = fmt.Sprintf("%.0f", m.AimAlloc)
		}
		fmt.Fprintf(t, "%s\t%.0f\t(%.0f–%.0f)\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%s\t\n", m.Name,
			m.Nanos.Median, m.Nanos.Min, m.Nanos.Max, m.Allocs, m.Bare.Median, m.BareAlloc,
			m.Cost, m.Aim, m.Allocs-m.BareAlloc, aimAlloc, verdict(m.Met))
	}
	t.Flush()
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}
