package conformance

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The escape sequences of a terminal's colours.
const (
	green  = "\x1b[32m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	blue   = "\x1b[36m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
)

// WriteTable writes the report for a person: a line for each scenario; below a broken one what was expected, what came
// and the command that reproduces it; and at the end the sum. With color it uses a terminal's escape sequences.
func (r *Report) WriteTable(w io.Writer, color bool) error {
	t := table{color: color, idWidth: width(r.Results, func(r Result) string { return r.ID }),
		titleWidth: width(r.Results, func(r Result) string { return r.Title })}
	fmt.Fprintf(&t.out, "%s\n\n", printable(r.URL))
	t.head()
	for _, result := range r.Results {
		t.row(result)
	}
	fmt.Fprintf(&t.out, "\n%s\n", r.summary())
	_, err := io.WriteString(w, t.out.String())
	return err
}

type table struct {
	out                 strings.Builder
	color               bool
	idWidth, titleWidth int // in characters
}

func (t *table) head() {
	columns := fmt.Sprintf("     %-*s  %-*s  %8s  %7s", t.idWidth, "", t.titleWidth, "", "requests", "created")
	fmt.Fprintln(&t.out, t.in(dim, columns))
}

func (t *table) row(r Result) {
	created := fmt.Sprint(r.Created)
	if r.Created < 0 {
		created = "?"
	}
	fmt.Fprintf(&t.out, "  %s  %-*s  %-*s  %8d  %7s\n", t.mark(r.Verdict), t.idWidth, printable(r.ID), t.titleWidth,
		printable(r.Title), r.Requests, created)
	switch r.Verdict {
	case Broken:
		t.detail("source", r.Source)
		t.detail("expected", r.Expected)
		t.detail("got", r.Got)
		t.detail("try", r.Curl)
	case Differs:
		t.detail("differs", r.Got)
	case NotTestable:
		t.detail("why", r.Got)
	}
}

func (t *table) detail(label, text string) {
	fmt.Fprintf(&t.out, "       %s  %s\n", t.in(dim, fmt.Sprintf("%-8s", label)), printable(text))
}

func (t *table) mark(v Verdict) string {
	switch v {
	case Held:
		return t.in(green, "✓")
	case Differs:
		return t.in(blue, "≠")
	case Broken:
		return t.in(red, "✗")
	}
	return t.in(yellow, "?")
}

func (t *table) in(color, text string) string {
	if !t.color {
		return text
	}
	return color + text + plain
}

// summary returns the last line, such as "6 of 8 held; 2 broken: no-key, member-order; 131ms".
func (r *Report) summary() string {
	parts := []string{fmt.Sprintf("%d of %d held", len(r.withVerdict(Held)), len(r.Results))}
	if ids := r.withVerdict(Differs); len(ids) > 0 {
		parts = append(parts, fmt.Sprintf("%d differ by choice: %s", len(ids), strings.Join(ids, ", ")))
	}
	if ids := r.withVerdict(Broken); len(ids) > 0 {
		parts = append(parts, fmt.Sprintf("%d broken: %s", len(ids), strings.Join(ids, ", ")))
	}
	if ids := r.withVerdict(NotTestable); len(ids) > 0 {
		parts = append(parts, fmt.Sprintf("%d not testable: %s", len(ids), strings.Join(ids, ", ")))
	}
	took := (time.Duration(r.DurationMS) * time.Millisecond).String()
	return printable(strings.Join(append(parts, took), "; "))
}

func width(results []Result, column func(Result) string) int {
	widest := 0
	for _, r := range results {
		widest = max(widest, utf8.RuneCountInString(column(r)))
	}
	return widest
}

// printable replaces what a server could use to write to the reader's terminal something else than it says.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}
