package conformance

import "time"

// A Verdict says how a scenario ended.
type Verdict string

// The verdicts.
const (
	Held        Verdict = "held"         // the answers were right, and it could be seen that they were true
	Differs     Verdict = "differs"      // another way than the source asks for, which an API may choose; Result.Got says which
	Broken      Verdict = "broken"       // an answer, or the number of effects, was wrong
	NotTestable Verdict = "not-testable" // it could not be seen; Result.Got says why
)

// A Report is what one run found.
type Report struct {
	URL        string    `json:"url"` // the base URL, without a password
	API        string    `json:"api"` // the name in the description
	Started    time.Time `json:"started"`
	DurationMS int64     `json:"duration_ms"`
	Results    []Result  `json:"results"` // one for each scenario, in the order in which they ran
}

// A Result is how one scenario ended.
type Result struct {
	ID       string  `json:"id"`      // names the scenario, in every version; "same-key-twice"
	Title    string  `json:"title"`   // what the scenario shows if it holds
	Level    Level   `json:"level"`   // "core", "robust", "published" or "crash"
	Promise  string  `json:"promise"` // the promise of ichido it belongs to, "P1" to "P8", or ""
	Source   string  `json:"source"`  // where it is asked for: a section of a specification, or "practice"
	Verdict  Verdict `json:"verdict"`
	Expected string  `json:"expected"` // what should have come
	Got      string  `json:"got"`      // what came; and what was wrong with it, or different
	// Requests is the number of requests that were graded. Reads that count effects, and a request that only shows that
	// they can be trusted, are not among them.
	Requests int `json:"requests"`
	// Created is the number of effects that those requests had, or -1 if they could not be counted.
	Created    int    `json:"created"`
	DurationMS int64  `json:"duration_ms"`
	Curl       string `json:"curl"` // a shell command that sends the scenario's requests, under a new key
}

// Held reports whether every scenario held, or differs by choice. What could not be tested did not hold.
func (r *Report) Held() bool {
	return len(r.Results) > 0 && r.Count(Held)+r.Count(Differs) == len(r.Results)
}

// Broken returns the number of broken scenarios. It may be 0 although the report has not [Report.Held].
func (r *Report) Broken() int { return r.Count(Broken) }

// Count returns the number of scenarios that ended with v.
func (r *Report) Count(v Verdict) int { return len(r.withVerdict(v)) }

// withVerdict returns the ids of the scenarios that ended with v.
func (r *Report) withVerdict(v Verdict) []string {
	var ids []string
	for _, result := range r.Results {
		if result.Verdict == v {
			ids = append(ids, result.ID)
		}
	}
	return ids
}
