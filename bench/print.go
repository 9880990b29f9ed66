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
		c.print(w, c.Engine)
	}
	if r.Memory != nil {
		printMemory(w, r.Memory)
	}
	if k := r.Keys; k != nil {
		fmt.Fprintf(w, "\n## %d stored keys against none, first requests\n%s\nfull: %s\n\n",
			k.Stored, factsLine(k.Facts), sizesLine(k.Sizes))
		printRequests(w, "per request", k.Requests)
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
	if l := r.Lease; l != nil {
		for _, c := range l.Comparisons {
			c.print(w, c.Engine+", lease mode")
		}
		if l.Heartbeats != nil {
			l.Heartbeats.print(w)
		}
	}
	for _, c := range r.Steps {
		c.print(w, c.Engine+", steps")
	}
	if r.Purge != nil {
		r.Purge.print(w)
	}
	for _, k := range r.Retention {
		k.print(w)
	}
}

func (c *Comparison) print(w io.Writer, title string) {
	fmt.Fprintf(w, "\n## %s\n%s\n\n", title, factsLine(c.Facts))
	printRequests(w, "per request", c.Requests)
	if c.Parts != nil {
		fmt.Fprintln(w)
		printRequests(w, "of which", c.Parts)
	}
	printLoads(w, "clients", c.Loads)
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

func printRequests(w io.Writer, title string, requests []Request) {
	t := table(w)
	fmt.Fprintf(t, "%s\tround trips\tstatements\tWAL bytes\t\n", title)
	for _, r := range requests {
		trips := "-"
		if r.RoundTrips > 0 {
			trips = fmt.Sprintf("%.2f", r.RoundTrips)
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.0f\t\n", r.Name, trips, r.Statements, r.LogBytes)
	}
	t.Flush()
	for _, r := range requests {
		if r.Aim > 0 {
			fmt.Fprintf(w, "  %s, round trips %.2f  aim = %.0f: %s\n", r.Name, r.RoundTrips, r.Aim, verdict(r.Met))
		}
	}
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
			r.print(w)
		}
	}
}

func (r Ratio) print(w io.Writer) {
	fmt.Fprintf(w, "  %s %s", r.Name, spread("%.3f", r.Value))
	switch {
	case r.Aim > 0:
		fmt.Fprintf(w, "  aim ≥ %.2f: %s", r.Aim, verdict(r.Met))
	case r.AtMost > 0:
		fmt.Fprintf(w, "  aim ≤ %.2f: %s", r.AtMost, verdict(r.Met))
	}
	fmt.Fprintln(w)
}

// spread writes a spread whose numbers have the format.
func spread(format string, s Spread) string {
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.Median, s.Min, s.Max)
}

func (h *Heartbeats) print(w io.Writer) {
	fmt.Fprintf(w, "\n## Heartbeats of %d attempts in flight\n%s\n\n", h.Attempts, factsLine(h.Facts))
	fmt.Fprintf(w, "  statements for a renewal of all leases %s  aim = %.0f: %s\n", spread("%.2f", h.Statements), h.Aim, verdict(h.Met))
	fmt.Fprintf(w, "  a renewal takes %s ms\n", spread("%.1f", h.Millis))
	fmt.Fprintf(w, "  WAL bytes for each lease of a renewal %s\n", spread("%.0f", h.LogBytes))
	fmt.Fprintf(w, "  HOT updates %.1f %%\n", 100*h.HotUpdates)
}

func (p *Purge) print(w io.Writer) {
	fmt.Fprintf(w, "\n## First requests while keys are purged; %d stored, %d of them expired\n%s\n%s\n",
		p.Stored, p.Expired, factsLine(p.Facts), sizesLine(p.Sizes))
	for i, s := range p.Speeds {
		printLoads(w, "clients", p.Loads[i:i+1])
		fmt.Fprintf(w, "  purged %d keys, %s a second; a batch takes %s ms, p99 %.1f\n",
			s.Purged, spread("%.0f", s.PerSecond), spread("%.1f", s.Batch), s.BatchP99)
	}
	fmt.Fprintf(w, "\n  a purge that finds nothing takes %s ms\n", spread("%.1f", p.Idle))
}

func (r *Retention) print(w io.Writer) {
	fmt.Fprintf(w, "\n## %s, %d keys in each period of retention\n%s\n\n", r.Engine, r.Keys, factsLine(r.Facts))
	names := slices.Sorted(maps.Keys(r.Periods[0].Sizes))
	t := table(w)
	fmt.Fprintf(t, "MB after period\t%s\ttotal\tpurged\ta second\t\n", strings.Join(names, "\t"))
	for i, p := range r.Periods {
		fmt.Fprintf(t, "%d\t", i+1)
		for _, name := range names {
			fmt.Fprintf(t, "%.2f\t", float64(p.Sizes[name])/1e6)
		}
		perSecond := "-"
		if p.Purged > 0 {
			perSecond = fmt.Sprintf("%.0f", float64(p.Purged)/p.Seconds)
		}
		fmt.Fprintf(t, "%.2f\t%d\t%s\t\n", float64(p.Size)/1e6, p.Purged, perSecond)
	}
	t.Flush()
	r.Growth.print(w)
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
