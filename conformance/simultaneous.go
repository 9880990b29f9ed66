package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A burst is what atOnceOneKey leaves for onceMoreAfterwards.
type burst struct {
	trial    *trial
	key      string
	executed []answer // those that say that their request was executed
}

// atOnceOneKey sends one request many times at once under one key.
func atOnceOneKey(ctx context.Context, t *trial) {
	t.burst = t.sendBurst(ctx, t.concurrency)
}

// sendBurst sends the trial's request n times at once under one key, and grades it.
func (t *trial) sendBurst(ctx context.Context, n int) *burst {
	t.curl = t.script().atOnce(t.body(), n)
	key := newKey()
	answers := t.atOnce(ctx, t.repeated(t.body(), key, n))
	b := &burst{trial: t, key: key, executed: executions(answers)}
	if !t.served(answers...) {
		return b
	}
	if len(b.executed) != 1 {
		t.fault("the answers", []string{fmt.Sprintf("%d say that the request was executed, not 1", len(b.executed))})
	} else {
		var faults []string
		for _, a := range answers {
			faults = append(faults, a.loserFaults(b.executed[0])...)
		}
		t.fault("some answers", tally(faults))
	}
	t.count(ctx, 1)
	return b
}

// executions returns the answers that say that something was executed, one for each execution.
func executions(answers []answer) []answer {
	var executed []answer
	for _, a := range answers {
		if a.executed() && !slices.ContainsFunc(executed, a.sameAs) {
			executed = append(executed, a)
		}
	}
	return executed
}

// loserFaults returns what is wrong with one of the answers of which only first is that of an execution. With which
// status a conflict is refused is judged by another scenario.
func (a answer) loserFaults(first answer) []string {
	switch {
	case a.err != nil:
		return []string{"no answer"}
	case a.refused():
		return nil
	case a.executed() && a.api.Key.Marker != "":
		return nil
	}
	return a.replayFaults(first)
}

// onceMoreAfterwards sends the request of atOnceOneKey again, now that no attempt is in progress. Where several of
// those were executed, that is their scenario's fault; here any of their answers will do.
func onceMoreAfterwards(ctx context.Context, t *trial) {
	if t.burst == nil { // it runs without the other
		i := slices.IndexFunc(scenarios(t.concurrency), func(s scenario) bool { return s.id == "ten-at-once-one-key" })
		t.grade(ctx, scenarios(t.concurrency)[i])
	}
	before := t.burst
	body := before.trial.body()
	t.curl = t.script().atOnceAndAgain(body, t.concurrency)
	if len(before.executed) == 0 {
		t.blind(errors.New("none of the requests at once had a success that could be replayed"))
		return
	}
	again := t.post(ctx, body, before.key)
	best := again.replayFaults(before.executed[0])
	for _, first := range before.executed[1:] {
		if faults := again.replayFaults(first); len(faults) < len(best) {
			best = faults
		}
	}
	t.fault("the answer", best)
	if t.api.Effects.Get == "" {
		if err := before.trial.unseen; err != nil || !again.success() {
			t.blind(errUncounted)
			return
		}
		t.created = 1
		if slices.ContainsFunc(before.executed, again.sameAs) {
			t.created = 0
		}
	} else {
		made, ok := before.trial.made(ctx)
		if !ok || before.trial.created < 1 {
			t.blind(errors.New("the list did not show what was made before, so it proves nothing"))
			return
		}
		t.created = made - before.trial.created
	}
	if t.created != 0 {
		t.fault("the list", []string{"it was executed again"})
	}
}

// atOnceOwnKeys is the control: the same requests under keys of their own are operations of their own, although they
// are equal.
func atOnceOwnKeys(ctx context.Context, t *trial) {
	t.curl = t.script().atOnceOwnKeys(t.body(), t.concurrency)
	var messages []message
	for range t.concurrency {
		messages = append(messages, t.message(t.body(), newKey()))
	}
	answers := t.atOnce(ctx, messages)
	if !t.served(answers...) {
		return
	}
	var faults []string
	for _, a := range answers {
		faults = append(faults, a.executionFaults()...)
	}
	t.fault("some answers", tally(faults))
	t.count(ctx, t.concurrency)
}

const (
	// rounds is how often a scenario that needs requests to meet tries it.
	rounds = 20
	// longWork is the least time that the server's work must take if duplicates that were sent with a request have surely
	// come while it ran, and waitRounds in how many rounds none must be refused before it is said that they wait: on a busy
	// machine all of one may come late.
	longWork   = 20 * time.Millisecond
	waitRounds = 3
)

var errNoMeeting = errors.New("no request was seen while another one ran: each was too quick; make the server's work take " +
	"longer, or describe a request.slow")

// A meeting is what came of duplicates that were sent at once.
type meeting struct {
	first    answer
	executed int
	refused  []answer // that are neither an execution nor a replay
	waited   bool     // none was refused, although they came while the first one ran
	rounds   int      // each of which should have made one
}

// meet sends duplicates at once, in rounds under new keys, until some were seen to come while the first one ran. It
// reports false if there were none, or no answers to tell by.
func (t *trial) meet(ctx context.Context) (meeting, bool) {
	long := t.worksLong(ctx)
	for round := 1; round <= rounds && ctx.Err() == nil; round++ {
		answers := t.atOnce(ctx, t.repeated(t.slow(), newKey(), t.concurrency))
		if !t.served(answers...) {
			return meeting{}, false
		}
		m := meeting{rounds: round}
		executed := executions(answers)
		for _, a := range answers {
			if a.err != nil || !a.success() {
				m.refused = append(m.refused, a)
			}
		}
		if len(executed) == 0 {
			return m, len(m.refused) > 0
		}
		m.first, m.executed = inOrder(executed)[0], len(executed)
		m.waited = long && round >= waitRounds && m.executed == 1 && len(m.refused) == 0
		if m.waited || len(m.refused) > 0 || m.executed > 1 {
			return m, true
		}
	}
	return meeting{rounds: rounds}, false
}

// worksLong reports whether executing a request takes much longer than replaying it. It is measured once, by requests
// that are not graded.
func (t *trial) worksLong(ctx context.Context) bool {
	if t.work != nil {
		return *t.work >= longWork
	}
	const tries = 3 // of which the quickest counts
	first, again := t.timeout, t.timeout
	for range tries {
		key, body := newKey(), fill(t.api.Request.Slow, t.item+"-seen", 1)
		for _, best := range []*time.Duration{&first, &again} {
			started := time.Now()
			if a := t.send(ctx, t.message(body, key)); a.success() {
				*best = min(*best, time.Since(started))
			}
		}
	}
	work := first - again
	t.runner.work = &work
	if t.unseen == nil && t.api.Effects.Get != "" && !t.api.Effects.listed() {
		t.begin, t.unseen = t.mark(ctx)
	}
	return work >= longWork
}

// whileInProgress judges what a duplicate of a running request gets.
func whileInProgress(ctx context.Context, t *trial) {
	t.curl = t.script().atOnce(t.slow(), t.concurrency)
	m, ok := t.meet(ctx)
	switch {
	case !ok:
		t.blind(errNoMeeting)
	case m.executed > 1:
		t.fault("the answers", []string{fmt.Sprintf("%d say that the request was executed, not 1", m.executed)})
	case m.waited:
		t.judge("a duplicate", inProgressPoint, t.api.Expect.InProgress, wait, answer{})
	default:
		for _, a := range m.refused {
			before := len(t.faults)
			t.judge("a duplicate", inProgressPoint, t.api.Expect.InProgress, a.reply(&m.first), a)
			if len(t.faults) > before {
				break // the others are like it
			}
		}
	}
	if m.rounds > 0 && t.unseen == nil {
		t.count(ctx, m.rounds)
	}
}

// mismatchInFlight sends two requests at once under one key, half of the messages each. One of the two wins; what the
// other gets is judged.
func mismatchInFlight(ctx context.Context, t *trial) {
	slow, other, long := t.slow(), t.other(), t.worksLong(ctx)
	t.curl = t.script().atOnceTwo(slow, other, t.concurrency)
	for round := 1; round <= rounds && ctx.Err() == nil; round++ {
		key := newKey()
		var messages []message
		for i := range t.concurrency {
			messages = append(messages, t.message([]string{slow, other}[i%2], key))
		}
		answers := t.atOnce(ctx, messages)
		if !t.served(answers...) {
			return
		}
		seen, ok := t.judgeFlight(answers)
		seen = seen || long && round >= waitRounds
		if ok && !seen && round < rounds {
			continue
		}
		if ok && !seen {
			t.blind(errNoMeeting)
		}
		t.count(ctx, round*max(1, t.bothRun()))
		return
	}
}

// bothRun returns 2 if it is promised that both of two requests under one key are executed.
func (t *trial) bothRun() int {
	if slices.Contains(t.api.Expect.Mismatch, execute) {
		return 2
	}
	return 1
}

// judgeFlight judges the answers to two requests, in turn, under one key. It reports whether one that lost was answered
// while the winner ran, and false if they cannot be judged any further.
func (t *trial) judgeFlight(answers []answer) (seen, ok bool) {
	var winners [2][]answer
	for i, a := range answers {
		if a.executed() {
			winners[i%2] = append(winners[i%2], a)
		}
	}
	executed := executions(append(slices.Clone(winners[0]), winners[1]...))
	switch {
	case len(executed) == 0:
		t.fault("the answers", []string{"none says that its request was executed"})
		return false, false
	case len(executed) > 1 && t.bothRun() == 1:
		t.fault("the answers", []string{fmt.Sprintf("%d say that a request was executed, not 1", len(executed))})
		return false, false
	}
	winner := inOrder(executed)[0]
	side := 0
	if !slices.ContainsFunc(winners[0], func(a answer) bool { return a.begun.Equal(winner.begun) }) {
		side = 1
	}
	promised := t.api.Expect.Mismatch
	if promised != nil { // a server that cannot compare yet says that the key is in progress
		promised = slices.Concat(promised, Replies{"409"}, t.api.Expect.InProgress)
	}
	faulty := len(t.faults)
	for i, a := range answers {
		if i%2 == side || len(t.faults) > faulty {
			continue
		}
		seen = seen || a.begun.Before(winner.begun)
		t.judge("the other request", mismatchPoint, promised, a.reply(&winner), a)
	}
	return seen, len(t.faults) == faulty
}
