// Package lab tries ways against double registration on a real database: the same few things happen to each, by real HTTP
// requests, and what came of them is counted.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Options say what to try, and where.
type Options struct {
	// Postgres is the URL of a database, in which the lab makes a schema of its own. Without it SQLitePath is a file, which
	// must not be there, and SQLiteDSN its data source name.
	Postgres, SQLitePath, SQLiteDSN string

	// Only are the ways and scenarios to try, by their names; of which there are none, all.
	Only []string

	// Runs is how often each scenario is tried; the median counts. 0 is 5.
	Runs int

	// Program returns the command that runs [Serve], to be killed.
	Program func(ctx context.Context) *exec.Cmd

	// Progress, if it is not nil, is called before each scenario.
	Progress func(way, scenario string)
}

// A Report is what came of a run.
type Report struct {
	Database  string     `json:"database"`
	Runs      int        `json:"runs"`
	Schemas   []Schema   `json:"schemas"`
	Results   []Result   `json:"results"`
	Surprises []Surprise `json:"surprises"`
}

// A Schema is what a way's tables are made by.
type Schema struct {
	Way        string   `json:"way"`
	Statements []string `json:"statements"`
	Emptied    []string `json:"emptied"` // what is run before each scenario
}

// A Result is what came of a scenario against a way.
type Result struct {
	Scenario   string      `json:"scenario"`
	Way        string      `json:"way"`
	Applies    bool        `json:"applies"`       // if not, there is nothing else
	Rows       int         `json:"rows"`          // orders made
	RightRows  int         `json:"right_rows"`    // orders that were meant
	Lost       int         `json:"lost"`          // changes that were answered with success and are not there
	Answers    []Answer    `json:"answers"`       // in the order of sending; of those at once by status
	Sees       string      `json:"sees"`          // what the user is left with
	Verdict    string      `json:"verdict"`       // right, told (right, but the user gets an error), or wrong
	Statements int         `json:"statements"`    // sent to the database
	Millis     float64     `json:"millis"`        // waited for answers
	Varied     bool        `json:"varied"`        // not every run had the same counts
	Log        []*Exchange `json:"log,omitempty"` // of the first run
}

type lab struct {
	options Options
	db      database
}

// ErrLeft is in an error of [Run] if something that it made could not be removed.
var ErrLeft = errors.New("not all that the lab made is removed")

// Run tries what the options say. Whatever it made is removed when it returns, also because ctx ended, unless the error is
// [ErrLeft].
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if o.Runs == 0 {
		o.Runs = 5
	}
	chosenWays, chosenScenarios, err := choose(o.Only)
	if err != nil {
		return nil, err
	}
	l := &lab{options: o}
	if o.Postgres != "" {
		l.db, err = newPostgres(ctx, o.Postgres)
	} else {
		l.db, err = newSQLite(ctx, o.SQLitePath, o.SQLiteDSN)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		dropping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if e := l.db.drop(dropping); e != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", ErrLeft, e))
		}
	}()

	report = &Report{Database: l.db.name(), Runs: o.Runs}
	byScenario := make(map[string][]Result)
	for _, w := range chosenWays {
		schema, err := l.prepare(ctx, w)
		if err != nil {
			return nil, err
		}
		report.Schemas = append(report.Schemas, schema)
		results, err := l.try(ctx, w, chosenScenarios)
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			byScenario[r.Scenario] = append(byScenario[r.Scenario], r)
		}
	}
	for _, s := range chosenScenarios {
		report.Results = append(report.Results, byScenario[s.id]...)
	}
	if len(o.Only) == 0 {
		report.Surprises, err = l.surprise(ctx)
	}
	return report, err
}

// choose returns the ways and the scenarios of the names. Names of one kind leave all of the other.
func choose(names []string) (ws []*way, ss []*scenario, err error) {
	for _, name := range names {
		if err := Check(name); err != nil {
			return nil, nil, err
		}
	}
	for _, w := range ways {
		if slices.Contains(names, w.id) {
			ws = append(ws, w)
		}
	}
	for _, s := range scenarios {
		if slices.Contains(names, s.id) {
			ss = append(ss, s)
		}
	}
	if ws == nil {
		ws = ways
	}
	if ss == nil {
		ss = scenarios
	}
	return ws, ss, nil
}

// Names are those of the ways and of the scenarios.
func Names() (names []string) {
	for _, w := range ways {
		names = append(names, w.id)
	}
	for _, s := range scenarios {
		names = append(names, s.id)
	}
	return names
}

// Check returns an error for a name that is none of [Names].
func Check(name string) error {
	if !slices.Contains(Names(), name) {
		return fmt.Errorf("there is nothing named %q to try; there are %s", name, strings.Join(Names(), ", "))
	}
	return nil
}

// Forget removes what a report has for explanations.
func (r *Report) Forget() {
	for i := range r.Results {
		r.Results[i].Log = nil
	}
}

func wayOf(id string) (*way, error) {
	for _, w := range ways {
		if w.id == id {
			return w, nil
		}
	}
	return nil, fmt.Errorf("there is no way %q", id)
}

// prepare makes the tables of a way.
func (l *lab) prepare(ctx context.Context, w *way) (Schema, error) {
	s := Schema{Way: w.id, Statements: l.db.schema(w), Emptied: l.db.emptied(w)}
	err := l.db.exec(ctx, append([]string{"DROP TABLE IF EXISTS orders", "DROP TABLE IF EXISTS items"}, s.Statements...)...)
	if err == nil && w.keys {
		var migrations []string
		migrations, err = l.db.migrate(ctx)
		s.Statements = append(s.Statements, migrations...)
	}
	return s, err
}

// try lets all scenarios befall a way.
func (l *lab) try(ctx context.Context, w *way, chosen []*scenario) (results []Result, err error) {
	p, err := l.db.place().open(ctx, false)
	if err != nil {
		return nil, err
	}
	defer p.close()
	for _, s := range chosen {
		if l.options.Progress != nil {
			l.options.Progress(w.id, s.id)
		}
		r := Result{Scenario: s.id, Way: w.id}
		if !w.inapplicable[s.id] {
			if r, err = l.repeat(ctx, w, s, p); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", w.id, s.id, err)
			}
		}
		results = append(results, r)
	}
	return results, nil
}

// repeat runs a scenario as often as it is to be.
func (l *lab) repeat(ctx context.Context, w *way, s *scenario, p pool) (Result, error) {
	runs := l.options.Runs
	if s.once {
		runs = 1
	}
	var all []Result
	for range runs {
		r, err := l.run(ctx, w, s, p)
		if err != nil {
			return r, err
		}
		all = append(all, r)
	}
	return worst(all), nil
}

// worst is what to tell of several runs: the medians, and where the data differ, the worst.
func worst(all []Result) Result {
	result := all[0]
	result.Statements = median(all, func(r Result) int { return r.Statements })
	result.Millis = median(all, func(r Result) float64 { return r.Millis })
	for _, r := range all {
		if r.Rows != result.Rows || r.Lost != result.Lost || r.Sees != result.Sees {
			result.Varied = true
		}
		if rank(r.Verdict) > rank(result.Verdict) {
			result.Rows, result.Lost, result.Answers, result.Sees, result.Verdict, result.Log = r.Rows, r.Lost, r.Answers, r.Sees, r.Verdict, r.Log
		}
	}
	return result
}

func rank(verdict string) int { return slices.Index([]string{"right", "told", "wrong"}, verdict) }

func median[T int | float64](all []Result, of func(Result) T) T {
	var values []T
	for _, r := range all {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// run runs a scenario once and counts.
func (l *lab) run(ctx context.Context, w *way, s *scenario, p pool) (Result, error) {
	r := Result{Scenario: s.id, Way: w.id, Applies: true, RightRows: s.orders}
	t, err := l.newTrial(ctx, w, p)
	if err != nil {
		return r, err
	}
	defer t.server.close()
	if err := s.play(ctx, t); err != nil {
		return r, err
	}
	if err := l.db.row(ctx, "SELECT count(*) FROM orders", &r.Rows); err != nil {
		return r, err
	}
	var now item
	if err := l.db.row(ctx, "SELECT name, price FROM items", &now.Name, &now.Price); err != nil {
		return r, err
	}
	for _, e := range t.log {
		if e.Opening {
			continue
		}
		r.Statements += len(e.sent())
		a := e.answered()
		r.Answers = append(r.Answers, a)
		if e.Method == http.MethodPut && a.Status < 400 && !has(now, e.Who) {
			r.Lost++
		}
	}
	if s.id == "at-once" {
		slices.SortStableFunc(r.Answers, func(a, b Answer) int {
			if a.Status != b.Status {
				return a.Status - b.Status
			}
			return strings.Compare(fmt.Sprint(a.Replayed), fmt.Sprint(b.Replayed))
		})
	}
	r.Millis = float64(t.spent.Microseconds()) / 1000
	r.Log = t.log
	r.Sees = sees(s, r)
	r.Verdict = verdictOf(r.Sees)
	return r, nil
}

// has reports whether an item has what a user changed.
func has(now item, who string) bool {
	if who == "taro" {
		return now.Name == "Office chair"
	}
	return now.Price == 120
}

// sees names what the user is left with, by what was counted.
func sees(s *scenario, r Result) string {
	refused, same, answered := false, true, []Answer{}
	for _, a := range r.Answers {
		if a.Status != 0 {
			answered = append(answered, a)
		}
		refused = refused || a.Status >= 400
	}
	for _, a := range answered {
		same = same && a.Status == answered[0].Status && a.Body == answered[0].Body
	}
	switch {
	case r.Lost > 0:
		return "overwritten"
	case r.Rows > r.RightRows:
		return "double"
	case r.Rows < r.RightRows && refused:
		return "refused"
	case r.Rows < r.RightRows:
		return "swallowed"
	case refused && s.again:
		return "error"
	case refused:
		return "stale"
	case len(answered) == 1:
		return "answered"
	case s.again && same:
		return "same"
	case s.again:
		return "other"
	}
	return "each"
}

// verdictOf says how good that is.
func verdictOf(sees string) string {
	switch sees {
	case "same", "each", "answered", "stale":
		return "right"
	case "error", "other":
		return "told"
	}
	return "wrong"
}
