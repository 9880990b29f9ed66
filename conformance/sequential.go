package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// noKey sends a request without a key. That nothing came of it can only be believed if the list shows something that
// must be there, so a request with a key is sent for comparison.
func noKey(ctx context.Context, t *trial) {
	t.curl = t.script().once(t.body(), "")
	control := t.send(ctx, t.message(t.body(), newKey()))
	if !t.served(control) {
		return
	}
	var before int
	var seen bool
	if t.api.Effects.Get != "" {
		before, seen = t.made(ctx)
	}
	a := t.post(ctx, t.body())
	t.judge("the answer", noKeyPoint, t.api.Expect.NoKey, a.reply(nil), a)
	if t.api.Effects.Get == "" {
		t.countNames(ctx)
		return
	}
	after, ok := t.made(ctx)
	switch executed := a.success() && slices.Contains(t.api.Expect.NoKey, execute); {
	case !seen || !ok:
	case before == 0:
		t.blind(errors.New("the list does not show what was made with a key, so it proves nothing"))
	default:
		t.created = after - before
		if t.created > 0 && !executed {
			t.fault("the list", []string{"it was executed"})
		}
		if t.created != 1 && executed {
			t.fault("the list", []string{fmt.Sprintf("%d created, not 1", t.created)})
		}
	}
}

// countNames counts by the names in the answers, or says why that cannot be done.
func (t *trial) countNames(ctx context.Context) {
	if made, ok := t.made(ctx); ok {
		t.created = made
	}
}

// sameKeyTwice sends a request, and sends it again.
func sameKeyTwice(ctx context.Context, t *trial) {
	t.inTurn(ctx, t.body(), t.body(), func(first, second answer) {
		t.fault("the second answer", append(second.replayFaults(first), second.fieldFaults(first)...))
	})
}

// memberOrder sends a request, and sends it again as another library would write it.
func memberOrder(ctx context.Context, t *trial) {
	again, ok := rewritten(t.body(), t.api.Request.Headers["Content-Type"])
	if !ok {
		t.blind(errors.New("the body is neither a JSON object nor a form of two fields or more, so it has no order"))
		return
	}
	t.inTurn(ctx, t.body(), again, func(first, second answer) {
		if second.isMismatch() && !second.sameAs(first) {
			t.differ(fmt.Sprintf("%d: it compares bytes, as draft-07 section 2.4 lets it%s", second.status, second.detail()))
			return
		}
		t.fault("the second answer", second.replayFaults(first))
	})
}

// rewritten returns a body with the same members in the opposite order, and for JSON with other white space.
func rewritten(body, contentType string) (string, bool) {
	if strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		fields := strings.Split(body, "&")
		slices.Reverse(fields)
		return strings.Join(fields, "&"), len(fields) > 1
	}
	d := json.NewDecoder(strings.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return "", false
	}
	var members []string
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return "", false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return "", false
		}
		quoted, _ := json.Marshal(name) // a string always can be
		members = append(members, fmt.Sprintf("%s : %s", quoted, value))
	}
	slices.Reverse(members)
	return "{ " + strings.Join(members, ",  ") + " }", true
}

// inTurn sends two requests under one key, of which the second should replay the first.
func (t *trial) inTurn(ctx context.Context, body, again string, check func(first, second answer)) {
	t.curl = t.script().inTurn(body, again)
	key := newKey()
	first := t.post(ctx, body, key)
	second := t.post(ctx, again, key)
	if !t.served(first) {
		return
	}
	t.fault("the first answer", first.executionFaults())
	if first.executed() {
		check(first, second)
	}
	t.count(ctx, 1)
}

// otherQuantity sends a request, then another one under its key, and then the first again, to see whether the record
// was damaged.
func otherQuantity(ctx context.Context, t *trial) {
	t.curl = t.script().inTurn(t.body(), t.other(), t.body())
	key := newKey()
	first := t.post(ctx, t.body(), key)
	other := t.post(ctx, t.other(), key)
	again := t.post(ctx, t.body(), key)
	if !t.served(first) {
		return
	}
	t.fault("the first answer", first.executionFaults())
	want := 1
	if first.executed() {
		reply := other.reply(&first)
		t.judge("the second answer", mismatchPoint, t.api.Expect.Mismatch, reply, other)
		if reply == execute && slices.Contains(t.api.Expect.Mismatch, execute) {
			want = 2
		}
		t.fault("the third answer", again.replayFaults(first))
	}
	t.count(ctx, want)
}

// mismatchLeavesRecord sends others at once, so that some of them may still look at the record when another one has
// refused. What they get is the fault of other scenarios.
func mismatchLeavesRecord(ctx context.Context, t *trial) {
	const others = 5
	t.curl = t.script().aroundOthers(t.body(), t.other(), others)
	key := newKey()
	first := t.post(ctx, t.body(), key)
	if !t.served(first) {
		return
	}
	refused := t.atOnce(ctx, t.repeated(t.other(), key, others))
	again := t.post(ctx, t.body(), key)
	t.fault("the first answer", first.executionFaults())
	if first.executed() {
		t.fault("the last answer", again.replayFaults(first))
	}
	if !slices.ContainsFunc(refused, answer.refused) {
		t.blind(errors.New("the other requests were not refused, so nothing can be said of what a refusal leaves"))
		return
	}
	t.count(ctx, 1)
}

// failureThenSameKey sends a request that must fail, and then a correct one under its key. An attempt that failed must
// have left neither an effect nor the key.
func failureThenSameKey(ctx context.Context, t *trial) {
	invalid := fill(t.api.Request.Invalid, t.item, 1)
	t.curl = t.script().inTurn(invalid, t.body())
	key := newKey()
	failed := t.post(ctx, invalid, key)
	corrected := t.post(ctx, t.body(), key)
	if !t.served(failed, corrected) {
		return
	}
	if failed.err != nil || failed.status < 400 {
		t.fault("the first answer", []string{fmt.Sprintf("%s, not a failure", failed)})
		t.count(ctx, 1)
		return
	}
	reply := corrected.reply(&failed)
	if corrected.marked && corrected.success() {
		t.fault("the second answer", corrected.executionFaults())
	} else {
		t.judge("the second answer", correctedPoint, t.api.Expect.Corrected, reply, corrected)
	}
	want := 0
	if reply == execute || corrected.success() {
		want = 1
	}
	t.count(ctx, want)
}

// getHarmless reads the list with a key, before and after the key is used.
func getHarmless(ctx context.Context, t *trial) {
	key := newKey()
	path := fill(t.api.Effects.Get, url.QueryEscape(t.item), 1)
	t.curl = t.script().getAround(path, t.body())
	if without := t.get(ctx, t.address(path)); without.status != http.StatusOK && without.status != http.StatusNotFound {
		t.blind(fmt.Errorf("GET is answered %s without a key, too", without))
		return
	}
	read := message{method: http.MethodGet, address: t.address(path), header: http.Header{}}.as(t.runner, 0).
		with(t.api.Key.Header, t.keyField(key))
	before := t.graded(ctx, read)
	made := t.post(ctx, t.body(), key)
	after := t.graded(ctx, read)
	if !t.served(made) {
		return
	}
	if before.status == http.StatusNotFound { // what is looked for by its item may be not there yet
		before.status = http.StatusOK
	}
	for i, a := range []answer{before, after} {
		which := []string{"the first GET", "the second GET"}[i]
		switch {
		case a.err != nil:
			t.fault(which, []string{"no answer"})
		case a.status != http.StatusOK:
			t.fault(which, []string{fmt.Sprintf("%d, not 200%s", a.status, a.detail())})
		case a.marked:
			t.fault(which, []string{"it is a replay"})
		}
	}
	t.fault("the request after the first GET", made.executionFaults())
	if len(t.faults) == 0 && t.unseen == nil && bytes.Equal(before.body, after.body) {
		if t.onePage(after) {
			t.fault("the second GET", []string{"it shows what was there before"})
		} else {
			t.blind(errors.New("the list has pages, and what is new is not on the first, so it cannot be seen whether a GET is a replay"))
		}
	}
	t.count(ctx, 1)
}

// onePage reports whether what is new must be in the answer to the first GET of the list.
func (t *trial) onePage(a answer) bool {
	e := &t.api.Effects
	if e.NewestFirst {
		return true
	}
	p, err := e.parse(a)
	if err != nil || p.number {
		return true
	}
	last := ""
	if len(p.elements) > 0 && e.ID != "" {
		last = word(p.elements[len(p.elements)-1], e.ID)
	}
	next, err := t.following(t.url, p, last, 1)
	return err == nil && next == ""
}

// quotedAndBare sends a request in the API's own form, and again in the other.
func quotedAndBare(ctx context.Context, t *trial) {
	t.curl = t.script().bothForms(t.body())
	key := newKey()
	own, other := t.keyField(key), quoted(key)
	if own == other {
		other = key
	}
	first := t.graded(ctx, t.message(t.body()).with(t.api.Key.Header, own))
	second := t.graded(ctx, t.message(t.body()).with(t.api.Key.Header, other))
	if !t.served(first) {
		return
	}
	t.fault("the first answer", first.executionFaults())
	want := 1
	switch reply := second.reply(&first); {
	case !first.executed():
	case second.isMismatch(), !second.success() && t.api.Key.Form == "bare":
		t.differ(fmt.Sprintf("it takes the %s form only: %d%s", t.api.Key.Form, second.status, second.detail()))
	case reply == execute && t.api.Key.Form == "bare":
		want = 2
		t.differ("executed: the field is bare, and quotes are part of the key")
	case reply == execute:
		want = 2 // it is a fault already
		t.fault("the second answer", []string{"executed: the two forms are two keys, so a client that changes its library's form does everything twice"})
	default:
		t.fault("the second answer", second.replayFaults(first))
	}
	t.count(ctx, want)
}

// twoFieldLines sends two keys. An API whose field is no Structured Field may read them as it likes, if it is said so.
func twoFieldLines(ctx context.Context, t *trial) {
	t.curl = t.script().twoLines(t.body())
	control := t.send(ctx, t.message(t.body(), newKey()))
	if !t.served(control) {
		return
	}
	before, seen := 0, false
	if t.api.Effects.Get != "" {
		before, seen = t.made(ctx)
	}
	a := t.post(ctx, t.body(), newKey(), newKey())
	executed := a.success() && t.api.Key.Form == "bare"
	switch {
	case executed:
		t.differ("executed: the field is bare, and no specification says what two lines of it are; a client that sends them does not learn which key counts")
	case !a.refused():
		t.fault("the answer", []string{fmt.Sprintf("%s, not 4xx: nobody knows which key counts%s", a, a.detail())})
	}
	if t.api.Effects.Get == "" {
		t.countNames(ctx)
		return
	}
	if !seen {
		return
	}
	if after, ok := t.made(ctx); ok {
		t.created = after - before
		switch {
		case before == 0:
			t.created = -1
			t.blind(errors.New("the list does not show what was made with a key, so it proves nothing"))
		case t.created > 0 && !a.success():
			t.fault("the list", []string{"it was executed"})
		}
	}
}
