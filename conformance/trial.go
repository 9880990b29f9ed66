package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A trial is one scenario while it runs. It collects what came and what was wrong.
type trial struct {
	*runner
	scenario scenario
	item     string // what the scenario's requests are about
	begin    mark   // before the first request
	answers  []answer
	created  int // by the graded requests; -1 as long as they were not counted
	curl     string

	faults []string // if there is any, the scenario is broken
	unseen error    // else, if there is one, it is not testable: why something that matters could not be seen
	notes  []string // else, if there is any, it differs by choice
}

// grade runs one scenario.
func (r *runner) grade(ctx context.Context, s scenario) Result {
	started := time.Now()
	t := r.start(ctx, s)
	if t.unseen == nil || !errors.Is(t.unseen, errNotDescribed) {
		s.run(ctx, t)
	}
	result := Result{
		ID: s.id, Title: s.title.EN, Level: s.level, Promise: s.promise, Source: s.source, Expected: s.expected.EN,
		Requests: len(t.answers), Created: t.created, Curl: r.redact(t.curl),
		DurationMS: time.Since(started).Milliseconds(),
	}
	switch {
	case len(t.faults) > 0:
		result.Verdict, result.Got = Broken, t.summary()+" — "+strings.Join(t.faults, "; ")
	case t.unseen != nil:
		result.Verdict, result.Got = NotTestable, t.unseen.Error()
	case len(t.notes) > 0:
		result.Verdict, result.Got = Differs, t.summary()+" — "+strings.Join(t.notes, "; ")
	default:
		result.Verdict, result.Got = Held, t.summary()
	}
	result.Got = r.redact(result.Got)
	return result
}

// errNotDescribed is why a scenario for which the description has nothing does not run.
var errNotDescribed = errors.New("not described")

// start prepares the trial of a scenario.
func (r *runner) start(ctx context.Context, s scenario) *trial {
	t := &trial{runner: r, scenario: s, item: r.items + s.id, created: -1}
	if s.needs != nil {
		if missing := s.needs(r); missing != "" {
			t.unseen = notDescribed(missing)
			return t
		}
	}
	if !s.uncounted {
		t.begin, t.unseen = r.mark(ctx)
		if t.unseen == nil {
			t.unseen = r.chooses(ctx, t.item)
		}
	}
	return t
}

// notDescribed is an errNotDescribed that says what is missing.
type notDescribed string

func (n notDescribed) Error() string        { return string(n) }
func (n notDescribed) Is(target error) bool { return target == errNotDescribed }

// post sends one graded request with keys; none means without one.
func (t *trial) post(ctx context.Context, body string, keys ...string) answer {
	return t.graded(ctx, t.message(body, keys...))
}

// graded sends one graded request.
func (t *trial) graded(ctx context.Context, m message) answer {
	a := t.send(ctx, m)
	t.answers = append(t.answers, a)
	return a
}

// atOnce sends graded requests, all at the same time.
func (t *trial) atOnce(ctx context.Context, messages []message) []answer {
	answers := t.sendAll(ctx, messages)
	for _, a := range answers {
		if t.api.Effects.Get != "" {
			a.body = nil // nothing counts by it, and there may be many, of 4 MiB each
		}
		t.answers = append(t.answers, a)
	}
	return answers
}

// control makes something else in the way that every API lets one, and reports whether that worked. If it does not,
// refusals prove nothing.
func (t *trial) control(ctx context.Context) bool {
	a := t.send(ctx, t.message(fill(t.api.Request.Body, t.item+"-seen", 1), newKey()))
	if !t.served(a) {
		return false
	}
	if !a.success() {
		t.blind(fmt.Errorf("an ordinary request is answered %s%s, so the others prove nothing", a, a.detail()))
		return false
	}
	if t.unseen == nil && !t.api.Effects.listed() {
		t.begin, t.unseen = t.mark(ctx)
	}
	return true
}

// body returns the request about the trial's item.
func (t *trial) body() string { return fill(t.api.Request.Body, t.item, 1) }

// other returns another request about the trial's item.
func (t *trial) other() string { return fill(t.api.Request.Other, t.item, 2) }

// slow returns the request that takes longest.
func (t *trial) slow() string { return fill(t.api.Request.Slow, t.item, 1) }

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
	t.unseen = fmt.Errorf("%s is answered %d%s: the server has another API, or lets only others in",
		t.api.Request.Method, answers[0].status, answers[0].detail())
	return false
}

// count compares how many the graded requests made with how many they should have made.
func (t *trial) count(ctx context.Context, want int) {
	made, ok := t.made(ctx)
	if !ok {
		return
	}
	t.created = made
	if t.created != want {
		t.faults = append(t.faults, fmt.Sprintf("%d created, not %d", t.created, want))
	}
}

// made returns how many were made since the trial began, and whether that could be seen.
func (t *trial) made(ctx context.Context) (int, bool) {
	if t.unseen != nil {
		return 0, false
	}
	if t.api.Effects.Get == "" {
		made, err := t.named()
		if err != nil {
			t.blind(err)
		}
		return made, err == nil
	}
	made, err := t.effects(ctx, t.item, t.begin)
	if err != nil {
		t.blind(err)
	}
	return made, err == nil
}

// named counts by the names in the answers, which is possible only if every request was executed or replayed.
func (t *trial) named() (int, error) {
	if t.api.Effects.Answer == "" {
		return 0, errUncounted
	}
	names := map[string]bool{}
	for _, a := range t.answers {
		name := ""
		if a.success() {
			name = word(a.body, t.api.Effects.Answer)
		}
		if name == "" {
			return 0, fmt.Errorf("the effects cannot be counted: the answer %s has no %s, and the description has no effects.get",
				a, t.api.Effects.Answer)
		}
		names[name] = true
	}
	return len(names), nil
}

// summary returns the answers and the count, such as "201, 201 replayed; 1 created" or "1 × 201, 9 × 409; 1 created".
func (t *trial) summary() string {
	var words []string
	for _, a := range t.answers {
		words = append(words, a.String())
	}
	if len(words) > 4 { // no scenario sends as many one after the other: these have no order
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
