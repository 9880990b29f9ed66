package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// document writes the report for people.
func (r *Report) document() *document {
	m := r.Machine
	d := &document{Facts: []string{
		fmt.Sprintf("%s, %d cores, %s, %s", cmp.Or(m.CPU, "unknown CPU"), m.Cores, m.OS, m.Go),
		cmp.Or(factsLine(m.Modules), "versions unknown"),
		"Medians over the rounds, and (least–most)",
	}}
	if slices.ContainsFunc(r.Runs, func(d Done) bool { return slices.Contains(strings.Fields(d.CommandLine), "--quick") }) {
		d.Facts = append(d.Facts, "Runs with --quick (How it was made): too short for any time or ratio to mean anything")
	}
	add := func(s section) { d.Sections = append(d.Sections, s) }
	for _, c := range r.Comparisons {
		add(c.section(c.Engine+", transaction mode", aboutTransactions))
	}
	if r.Memory != nil {
		add(section{Title: "In memory, transaction mode", About: "What ichido costs a request on memstore, without a network.", Parts: costs("bare handler", r.Memory)})
	}
	for _, c := range r.Duplicates {
		add(duplicatesSection(c))
	}
	if r.Rivals != nil {
		add(rivalsSection(r.Rivals))
	}
	if l := r.Lease; l != nil {
		for _, c := range l.Comparisons {
			add(c.section(c.Engine+", lease mode", aboutLease))
		}
		if l.Heartbeats != nil {
			add(l.Heartbeats.section())
		}
	}
	for _, c := range r.Steps {
		add(c.section(c.Engine+", steps", aboutSteps))
	}
	if r.Keys != nil {
		add(r.Keys.section())
	}
	if r.Schemas != nil {
		add(r.Schemas.section())
	}
	if r.Purge != nil {
		add(r.Purge.section())
	}
	for _, k := range r.Retention {
		add(k.section())
	}
	if r.Drivers != nil {
		s := section{Title: "Drivers for SQLite", About: "A commit, a point read, and a first request.", Facts: "SQLite in each: " + factsLine(r.Drivers.Versions)}
		s.loads("at once", r.Drivers.Loads)
		add(s)
	}
	if r.Client != nil {
		add(r.Client.section())
	}
	if r.Simulation != nil {
		add(lossySection(r.Simulation.Lossy))
		add(r.Simulation.Outage.section())
	}
	for _, s := range r.Storms {
		add(s.section())
	}
	add(runsSection(r.Runs))
	return d
}

// What the variants are; README.md says more.
const (
	aboutTransactions = "plain: the handler in a transaction, no idempotency. first: ichido, each request with a new key. replay: ichido, keys that are stored. " +
		"usual: as it is written by hand, with a lock, a placeholder row and an update of it. floor: the plain transaction and one more row, which is what can be reached."
	aboutLease      = "writes: a handler that makes two plain writes. first and replay: ichido, with a handler that makes none."
	aboutSteps      = "Operations in lease mode whose handler does nothing but so many steps; a TxStep does what plain does, which is the handler in a transaction."
	aboutDuplicates = "Requests of which a share repeats one that was answered before, by ichido and by hand (usual)."
	aboutRivals     = "Each library with its store in memory, over HTTP, on the server that it is made for: bare is a request of that server without keys."
	aboutKeys       = "First requests on tables that hold so many keys."
	aboutClient     = "RoundTrippers around one that answers at once, and around http.Transport. ichido makes a key for each request and bounds each attempt by 30 s. The others have their defaults, which do neither; \"key and time-out\": their caller makes a key, and they have that time-out."
)

func runsSection(all []Done) section {
	t := table{Head: []string{"run", "began (UTC)", "seconds", "load average before", "command"}}
	for _, d := range all {
		t.row(d.Name, d.Time.Format("2006-01-02 15:04"), fmt.Sprintf("%.0f", d.Seconds), d.LoadAverage, d.CommandLine)
	}
	return section{Title: "How it was made", Parts: []any{t}}
}

func (c *Comparison) section(title, about string) section {
	s := section{Title: title, About: about, Facts: factsLine(c.Facts)}
	if len(c.Loads) > 1 {
		s.add(byClients(c.Loads))
	}
	s.requests("per request", c.Requests)
	if c.Parts != nil {
		s.requests("of which", c.Parts)
	}
	s.loads("clients", c.Loads)
	return s
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

// requests adds what was counted.
func (s *section) requests(title string, requests []Request) {
	t := table{Head: []string{title, "round trips", "statements", "WAL bytes"}}
	var aims judgements
	for _, r := range requests {
		trips := "-"
		if r.RoundTrips > 0 {
			trips = fmt.Sprintf("%.2f", r.RoundTrips)
		}
		t.row(r.Name, trips, fmt.Sprintf("%.2f", r.Statements), fmt.Sprintf("%.0f", r.LogBytes))
		if r.Aim > 0 {
			aims = append(aims, judgement{fmt.Sprintf("%s, round trips %.2f", r.Name, r.RoundTrips), fmt.Sprintf("= %.0f", r.Aim), r.Met})
		}
	}
	s.add(t)
	if aims != nil {
		s.add(aims)
	}
}

// loads adds what was timed, and how it compares.
func (s *section) loads(workers string, loads []Load) {
	for _, l := range loads {
		t := table{Head: []string{count(l.Clients, workers), "per second", "p50 µs", "p99 µs"}}
		for _, v := range l.Timings {
			t.row(v.Name, spread("%.0f", v.PerSecond), spread("%.0f", v.P50), spread("%.0f", v.P99))
		}
		s.add(t)
		if l.Disturbed > 0 {
			s.add(paragraph(fmt.Sprintf("%d samples were disturbed by other programs.", l.Disturbed)))
		}
		var ratios judgements
		for _, r := range l.Ratios {
			ratios = append(ratios, r.judgement(", "+count(l.Clients, workers)+":"))
		}
		if ratios != nil {
			s.add(ratios)
		}
	}
}

// judgement says where a ratio was taken, because there may be others of the same name.
func (r Ratio) judgement(where string) judgement {
	j := judgement{What: fmt.Sprintf("%s%s %s", r.Name, where, spread("%.3f", r.Value)), Met: r.Met}
	switch {
	case r.Aim > 0:
		j.Aim = fmt.Sprintf("≥ %.2f", r.Aim)
	case r.AtMost > 0:
		j.Aim = fmt.Sprintf("≤ %.2f", r.AtMost)
	}
	return j
}

// byClients shows loads by their numbers of clients.
func byClients(loads []Load) figures {
	var labels []string
	for _, l := range loads {
		labels = append(labels, fmt.Sprint(l.Clients))
	}
	return plots("clients", labels, loads[0].Timings, func(i int, name string) (Timing, bool) { return timingOf(loads[i], name) })
}

func timingOf(l Load, name string) (Timing, bool) {
	i := slices.IndexFunc(l.Timings, func(t Timing) bool { return t.Name == name })
	if i < 0 {
		return Timing{}, false
	}
	return l.Timings[i], true
}

// plots shows throughput and latencies of lines; at returns what was measured of a line at the i-th label.
func plots(x string, labels []string, lines []Timing, at func(i int, name string) (Timing, bool)) figures {
	out := figures{
		{Title: "Throughput", y: "requests a second", x: x, labels: labels},
		{Title: "Latency, median", y: "µs", x: x, labels: labels, log: true},
		{Title: "Latency, p99", y: "µs", x: x, labels: labels, log: true},
	}
	for _, l := range lines {
		points := make([][]point, len(out))
		for i := range labels {
			t, ok := at(i, l.Name)
			if !ok {
				continue
			}
			for j, y := range []Spread{t.PerSecond, t.P50, t.P99} {
				points[j] = append(points[j], point{float64(i), y})
			}
		}
		for j := range out {
			out[j].Lines = append(out[j].Lines, line{l.Name, points[j]})
		}
	}
	return out
}

func duplicatesSection(c Comparison) section {
	s := section{Title: c.Engine + ", by share of duplicates", About: aboutDuplicates, Facts: factsLine(c.Facts)}
	var labels []string
	for _, share := range shares {
		labels = append(labels, fmt.Sprintf("%g", 100*share))
	}
	for _, l := range c.Loads {
		s.add(plots(fmt.Sprintf("%% of the requests are replays, %s", count(l.Clients, "clients")), labels, []Timing{{Name: "ichido"}, {Name: "usual"}},
			func(i int, name string) (Timing, bool) { return timingOf(l, sharing(name, shares[i])) }))
	}
	s.loads("clients", c.Loads)
	return s
}

func rivalsSection(r *Rivals) section {
	s := section{Title: "Other libraries, in memory", About: aboutRivals}
	if len(r.Loads) > 1 {
		s.add(byClients(r.Loads))
	}
	s.loads("clients", r.Loads)
	return s
}

// costs shows what something adds to a call.
func costs(below string, all []Memory) []any {
	t := table{Head: []string{"", "ns", "allocs", below + ", ns", "allocs", "cost, ns", "allocs above"}}
	var aims judgements
	for _, m := range all {
		above := m.Allocs - m.BareAlloc
		t.row(m.Name, spread("%.0f", m.Nanos), fmt.Sprintf("%.0f", m.Allocs), spread("%.0f", m.Bare), fmt.Sprintf("%.0f", m.BareAlloc),
			fmt.Sprintf("%.0f", m.Cost), fmt.Sprintf("%.0f", above))
		if m.Aim == 0 {
			continue
		}
		j := judgement{fmt.Sprintf("%s: %.0f ns", m.Name, m.Cost), fmt.Sprintf("≤ %.0f ns", m.Aim), m.Met}
		if m.AimAlloc > 0 {
			j.What += fmt.Sprintf(", %.0f allocations", above)
			j.Aim += fmt.Sprintf(", %.0f allocations", m.AimAlloc)
		}
		aims = append(aims, j)
	}
	return []any{t, aims}
}

func (h *Heartbeats) section() section {
	s := section{Title: fmt.Sprintf("Heartbeats of %d attempts in flight", h.Attempts), Facts: factsLine(h.Facts)}
	s.add(judgements{
		{fmt.Sprintf("statements for a renewal of all leases %s", spread("%.2f", h.Statements)), fmt.Sprintf("= %.0f", h.Aim), h.Met},
		{What: fmt.Sprintf("a renewal takes %s ms", spread("%.1f", h.Millis))},
		{What: fmt.Sprintf("WAL bytes for each lease of a renewal %s", spread("%.0f", h.LogBytes))},
		{What: fmt.Sprintf("HOT updates %.1f %%", 100*h.HotUpdates)},
	})
	return s
}

func (k *Keys) section() section {
	s := section{Title: "First requests by stored keys", About: aboutKeys, Facts: factsLine(k.Facts)}
	if len(k.Tables) > 1 {
		s.add(k.plots())
	}
	for _, t := range k.Tables {
		s.add(paragraph(fmt.Sprintf("%d keys: %s.", t.Stored, sizesLine(t.Sizes))))
	}
	s.requests("per request", k.Requests)
	s.loads("clients", k.Loads)
	return s
}

func (k *Keys) plots() figures {
	labels := []string{"0"}
	for _, t := range k.Tables {
		labels = append(labels, short(t.Stored))
	}
	var lines []Timing
	for _, l := range k.Loads {
		lines = append(lines, Timing{Name: count(l.Clients, "clients")})
	}
	return plots("stored keys", labels, lines, func(i int, name string) (Timing, bool) {
		l := slices.IndexFunc(lines, func(t Timing) bool { return t.Name == name })
		return k.Loads[l].Timings[i], true
	})
}

// count writes a number of things, whose word is in the plural.
func count(n int, things string) string {
	if n == 1 {
		things = strings.TrimSuffix(things, "s")
	}
	return fmt.Sprint(n, " ", things)
}

// short writes a number as people say it.
func short(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%g million", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%gk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

func (c *Schemas) section() section {
	s := section{Title: fmt.Sprintf("Schemas, %d stored keys, the statements of a first request", c.Stored), Facts: factsLine(c.Facts)}
	t := table{Head: []string{"schema", "WAL bytes per request", "size"}}
	for _, v := range c.Tables {
		t.row(v.Name, fmt.Sprintf("%.0f", v.LogBytes), sizesLine(v.Sizes))
	}
	s.add(t)
	s.loads("connections", c.Loads)
	return s
}

func (p *Purge) section() section {
	s := section{Title: fmt.Sprintf("First requests while keys are purged; %d stored, %d of them expired", p.Stored, p.Expired)}
	s.Facts = factsLine(p.Facts) + "; " + sizesLine(p.Sizes)
	for i, v := range p.Speeds {
		s.loads("clients", p.Loads[i:i+1])
		s.add(paragraph(fmt.Sprintf("Purged %d keys, %s a second; a batch takes %s ms, p99 %.1f.",
			v.Purged, spread("%.0f", v.PerSecond), spread("%.1f", v.Batch), v.BatchP99)))
	}
	s.add(paragraph(fmt.Sprintf("A purge that finds nothing takes %s ms.", spread("%.1f", p.Idle))))
	return s
}

func (r *Retention) section() section {
	s := section{Title: fmt.Sprintf("%s, %d keys in each period of retention", r.Engine, r.Keys), Facts: factsLine(r.Facts)}
	names := slices.Sorted(maps.Keys(r.Periods[0].Sizes))
	t := table{Head: slices.Concat([]string{"MB after period"}, names, []string{"total", "purged", "a second"})}
	f := figure{Title: "Size on disk", y: "MB", x: "period", Lines: []line{{Name: "total"}}}
	for i, p := range r.Periods {
		cells := []string{fmt.Sprint(i + 1)}
		for _, name := range names {
			cells = append(cells, fmt.Sprintf("%.2f", float64(p.Sizes[name])/1e6))
		}
		perSecond := "-"
		if p.Purged > 0 {
			perSecond = fmt.Sprintf("%.0f", float64(p.Purged)/p.Seconds)
		}
		mb := float64(p.Size) / 1e6
		t.row(append(cells, fmt.Sprintf("%.2f", mb), fmt.Sprint(p.Purged), perSecond)...)
		f.labels = append(f.labels, fmt.Sprint(i+1))
		f.Lines[0].points = append(f.Lines[0].points, point{float64(i), exactly(mb)})
	}
	s.add(figures{f}, t, judgements{r.Growth.judgement("")})
	return s
}

func (c *Client) section() section {
	s := section{Title: "The client and other RoundTrippers, requests that succeed at once", About: aboutClient}
	var ratios judgements
	for _, r := range c.Ratios {
		ratios = append(ratios, r.judgement(", cost of a call:"))
	}
	f := figure{Title: "Cost of a call without a network", y: "ns", bars: true}
	for i, m := range c.Calls {
		f.labels = append(f.labels, m.Name)
		f.Lines = append(f.Lines, line{m.Name, []point{{float64(i), exactly(m.Cost)}}})
	}
	s.add(figures{f})
	s.add(costs("what sends", c.Calls)...)
	s.add(ratios)
	s.loads("clients", c.Loads)
	return s
}

func lossySection(all []Lossy) section {
	first := all[0]
	s := section{Title: "A server that fails, and answers that get lost", About: fmt.Sprintf(
		"%d operations; %g %% of the sendings fail, and of %g %% the answer is lost. The server is ichido on memstore, in one process; without keys it lets requests run unprotected.", first.Operations, 100*first.Fails, 100*first.Loses)}
	t := table{Head: []string{"client", "booked once", "more than once", "never", "outcome not known to the client", "replays", "sendings per operation", "seconds"}}
	var aims judgements
	more := figure{Title: "Booked more than once", y: "operations", bars: true}
	for _, l := range all {
		name := l.Client
		if !l.Keys {
			name += ", no keys"
		}
		t.row(name, fmt.Sprint(l.Once), fmt.Sprint(l.More), fmt.Sprint(l.Never), fmt.Sprint(l.Unanswered), fmt.Sprint(l.Replays),
			fmt.Sprintf("%.3f", l.PerOperation), fmt.Sprintf("%.1f", l.Seconds))
		if l.Aim > 0 {
			aims = append(aims, judgement{
				fmt.Sprintf("%s: %d of %d booked exactly once, %.3f sendings per operation (the limit is %.3f)", name, l.Once, l.Operations, l.PerOperation, l.Limit),
				fmt.Sprintf("all, ≤ %.2f", l.Aim), l.Met,
			})
		}
		more.labels = append(more.labels, name)
		more.Lines = append(more.Lines, line{name, []point{{float64(len(more.Lines)), exactly(float64(l.More))}}})
	}
	s.add(figures{more, first.figure()}, t, aims)
	return s
}

// figure shows operations by how often they were sent, as measured and as chance has it.
func (l Lossy) figure() figure {
	measured, expected := line{Name: "measured"}, line{Name: "expected"}
	for i, n := range l.Sendings {
		if n == 0 {
			break
		}
		x := float64(i + 1)
		measured.points = append(measured.points, point{x, exactly(float64(n))})
		expected.points = append(expected.points, point{x, exactly(float64(l.Operations) / l.Limit * math.Pow(1-1/l.Limit, x-1))})
	}
	return figure{Title: "Operations by sendings, " + l.Client, y: "operations", x: "sendings", log: true, Lines: []line{measured, expected}}
}

// exactly is a spread of one number.
func exactly(n float64) Spread { return Spread{n, n, n} }

func (o *Outage) section() section {
	s := section{Title: "Load on a server that is down", About: fmt.Sprintf(
		"%g operations a second begin, whatever becomes of them; the server is down for %g s after %g s. Each client has its default settings, but for what is named.", o.PerSecond, o.Down, o.Normal)}
	t := table{Head: []string{"client", "load while down", "peak"}}
	var aims judgements
	f := figure{Title: "Load over time", y: "times normal", x: "seconds"}
	for _, c := range o.Clients {
		t.row(c.Name, fmt.Sprintf("%.3f", c.Load), fmt.Sprintf("%.2f", c.Peak))
		if c.Aim > 0 {
			aims = append(aims, judgement{fmt.Sprintf("%s: load while the server is down %.3f of normal", c.Name, c.Load), fmt.Sprintf("≤ %.2f", c.Aim), c.Met})
		}
		f.Lines = append(f.Lines, overTime(c.Name, c.Sent, o.Slice, o.PerSecond*o.Slice))
	}
	s.add(figures{f}, t, aims)
	return s
}

// overTime draws numbers of slices of time, in units.
func overTime(name string, numbers []int, slice, unit float64) line {
	l := line{Name: name}
	for i, n := range numbers {
		l.points = append(l.points, point{(float64(i) + 0.5) * slice, exactly(float64(n) / unit)})
	}
	return l
}

func (st *Storm) section() section {
	s := section{Title: fmt.Sprintf("A retry storm: the %s stalls for %g s", st.Stalls, st.Stall), Facts: factsLine(st.Facts), About: fmt.Sprintf(
		"%d clients, each sending until it is answered, with a time-out of %g s for each sending. no keys: the handler in a transaction. reject and wait: ichido, by its policy for a request whose key is in progress.", st.Clients, st.Timeout)}
	t := table{Head: []string{"", "operations", "booked more than once", "sendings per operation", "most requests inside", "recovery, ms", "longest operation, ms"}}
	var aims judgements
	answered := figure{Title: "Operations answered", y: "a second", x: "seconds"}
	sent := figure{Title: "Sendings", y: "a second", x: "seconds"}
	for _, v := range st.Variants {
		t.row(v.Name, spread("%.0f", v.Operations), spread("%.0f", v.Twice), spread("%.2f", v.Sendings), spread("%.0f", v.MostInside), spread("%.0f", v.Recovery), spread("%.0f", v.Longest))
		if v.Name != "no keys" {
			aims = append(aims, judgement{fmt.Sprintf("%s: booked more than once %s", v.Name, spread("%.0f", v.Twice)), "= 0", v.Met})
		}
		answered.Lines = append(answered.Lines, overTime(v.Name, v.Answered, st.Slice, st.Slice))
		sent.Lines = append(sent.Lines, overTime(v.Name, v.Sent, st.Slice, st.Slice))
	}
	s.add(figures{answered, sent}, t, aims)
	return s
}
