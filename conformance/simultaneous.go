package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A burst is what atOnceOneKey leaves for onceMoreAfterwards.
type burst struct {
	trial    *trial
	key      string
	executed []answer // those that say that their request was executed
}

// atOnceOneKey sends one request many times at once under one key.
func atOnceOneKey(ctx context.Context, t *trial) {
	t.curl = t.script().atOnce(t.body(1), t.concurrency)
	key := newKey()
	answers := t.sendAtOnce(ctx, slices.Repeat([]string{key}, t.concurrency), t.body(1))
	executed := slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return !a.executed() })
	t.burst = &burst{trial: t, key: key, executed: executed}
	if !t.served(answers...) {
		return
	}
	if len(executed) != 1 {
		t.fault("the answers", []string{fmt.Sprintf("%d say that the request was executed, not 1", len(executed))})
	} else {
		var faults []string
		for _, a := range answers {
			faults = append(faults, a.loserFaults(executed[0])...)
		}
		t.fault("some answers", tally(faults))
	}
	t.count(ctx, 1)
}

// loserFaults returns what is wrong with one of the answers of which only first is that of an execution.
func (a answer) loserFaults(first answer) []string {
	switch {
	case a.err != nil:
		return []string{"no answer"}
	case a.executed():
		return nil
	case a.replayed():
		return a.replayFaults(first)
	}
	return a.conflictFaults()
}

// onceMoreAfterwards sends the request of atOnceOneKey again, now that no attempt is in progress. Where several of
// those were executed, that is their scenario's fault; here any of their answers will do.
func onceMoreAfterwards(ctx context.Context, t *trial) {
	before := t.burst
	body := before.trial.body(1)
	t.curl = t.script().atOnceAndAgain(body, t.concurrency)
	if len(before.executed) == 0 {
		t.blind(errors.New("none of the requests at once got a 201 that could be replayed"))
		return
	}
	again := t.send(ctx, before.key, body)
	best := again.replayFaults(before.executed[0])
	for _, first := range before.executed[1:] {
		if faults := again.replayFaults(first); len(faults) < len(best) {
			best = faults
		}
	}
	t.fault("the answer", best)

	made, ok := before.trial.made(ctx)
	if !ok || before.trial.created < 1 {
		t.blind(errors.New("the list did not show the reservation made before, so it proves nothing"))
		return
	}
	t.created = made[before.trial.item] - before.trial.created
	if t.created != 0 {
		t.fault("the list", []string{"it was executed again"})
	}
}

// atOnceOwnKeys is the control: the same requests under keys of their own are operations of their own, although they
// are equal.
func atOnceOwnKeys(ctx context.Context, t *trial) {
	t.curl = t.script().atOnceOwnKeys(t.body(1), t.concurrency)
	keys := make([]string, t.concurrency)
	for i := range keys {
		keys[i] = newKey()
	}
	answers := t.sendAtOnce(ctx, keys, t.body(1))
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
