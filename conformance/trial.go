package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A trial is one scenario while it runs. It collects what came and what was wrong.
type trial struct {
	*runner
	item    string // the item code that the scenario's reservations are for
	begin   mark   // of the list, before the first request
	answers []answer
	created int // by the graded requests; -1 as long as they were not counted
	curl    string

	faults []string // if there is any, the scenario is broken
	unseen error    // else, if there is one, it is not testable: why something that matters could not be seen
}

// grade runs one scenario.
func (r *runner) grade(ctx context.Context, s scenario) Result {
	started := time.Now()
	t := &trial{runner: r, item: r.items + s.id, created: -1}
	t.begin, t.unseen = r.newest(ctx)
	s.run(ctx, t)

	result := Result{
		ID: s.id, Title: s.title, Promise: s.promise, Source: s.source, Expected: s.expected,
		Requests: len(t.answers), Created: t.created, Curl: t.curl,
		DurationMS: time.Since(started).Milliseconds(),
	}
	switch {
	case len(t.faults) > 0:
		result.Verdict, result.Got = Broken, t.summary()+" — "+strings.Join(t.faults, "; ")
	case t.unseen != nil:
		result.Verdict, result.Got = NotTestable, t.unseen.Error()
	default:
		result.Verdict, result.Got = Held, t.summary()
	}
	return result
}

// send sends one graded request; key "" means none.
func (t *trial) send(ctx context.Context, key, body string) answer {
	a := t.post(ctx, key, body)
	t.answers = append(t.answers, a)
	return a
}

// sendAtOnce sends one graded request under each key, all at the same time.
func (t *trial) sendAtOnce(ctx context.Context, keys []string, body string) []answer {
	answers := t.atOnce(ctx, keys, body)
	t.answers = append(t.answers, answers...)
	return answers
}

// body returns the request to reserve some of the trial's item.
func (t *trial) body(quantity int) string { return reservation(t.item, quantity) }

func reservation(item string, quantity int) string {
	return fmt.Sprintf(`{"item_code":"%s","quantity":%d,"reserved_by":"ichido verify"}`, item, quantity)
}

// fault notes what is wrong with an answer, if anything is.
func (t *trial) fault(which string, faults []string) {
	if len(faults) > 0 {
		t.faults = append(t.faults, which+": "+strings.Join(faults, ", "))
	}
}

// blind notes why the scenario cannot be tested.
func (t *trial) blind(reason error) {
	if t.unseen == nil {
		t.unseen = reason
	}
}

// served reports whether the server serves such requests at all, by its answers to some that it should execute. If it
// does not, there is no promise that it could break.
func (t *trial) served(answers ...answer) bool {
	if slices.ContainsFunc(answers, func(a answer) bool { return !a.unserved() }) {
		return true
	}
	t.unseen = fmt.Errorf("POST is answered %d%s: the server has another API, or lets only others in",
		answers[0].status, answers[0].detail())
	return false
}

// count compares how many reservations the graded requests made with how many they should have made.
func (t *trial) count(ctx context.Context, want int) {
	made, ok := t.made(ctx)
	if !ok {
		return
	}
	t.created = made[t.item]
	if t.created != want {
		t.faults = append(t.faults, fmt.Sprintf("%d created, not %d", t.created, want))
	}
}

// made returns how many reservations of each item were made since the trial began, and whether that could be seen.
func (t *trial) made(ctx context.Context) (map[string]int, bool) {
	if t.unseen != nil {
		return nil, false
	}
	made, err := t.since(ctx, t.begin)
	if err != nil {
		t.blind(err)
	}
	return made, err == nil
}

// summary returns the answers and the count, such as "201, 201 replayed; 1 created" or "1 × 201, 9 × 409; 1 created".
func (t *trial) summary() string {
	var words []string
	for _, a := range t.answers {
		words = append(words, a.String())
	}
	if len(words) > 3 { // no scenario sends as many one after the other: these have no order
		words = tally(words)
	}
	created := "not counted"
	if t.created >= 0 {
		created = fmt.Sprintf("%d created", t.created)
	}
	return strings.Join(words, ", ") + "; " + created
}

// tally returns each word once, with how often it is there.
func tally(words []string) []string {
	times := map[string]int{}
	for _, word := range words {
		times[word]++
	}
	var out []string
	for _, word := range slices.Sorted(maps.Keys(times)) {
		out = append(out, fmt.Sprintf("%d × %s", times[word], word))
	}
	return out
}
