package conformance

import (
	"context"
	"errors"
	"net/http"
)

// noKey sends a request without a key. That nothing came of it can only be believed if the list shows something that
// must be there, so a request with a key is sent for comparison.
func noKey(ctx context.Context, t *trial) {
	t.curl = t.script().once(t.body(1), "")
	seen := t.item + "-seen"
	control := t.post(ctx, newKey(), reservation(seen, 1))
	if !t.served(control) {
		return
	}
	t.fault("the answer", t.send(ctx, "", t.body(1)).problemFaults(http.StatusBadRequest))

	made, ok := t.made(ctx)
	if !ok {
		return
	}
	t.created = made[t.item]
	switch {
	case t.created > 0:
		t.fault("the list", []string{"it was executed"})
	case made[seen] == 0:
		t.created = -1
		t.blind(errors.New("the list does not show a reservation that was made with a key, so it proves nothing"))
	}
}

// sameKeyTwice sends a request, and sends it again.
func sameKeyTwice(ctx context.Context, t *trial) {
	t.inTurn(ctx, t.body(1), t.body(1))
}

// memberOrder sends a request, and sends it again as another JSON library would write it.
func memberOrder(ctx context.Context, t *trial) {
	other := `{ "reserved_by" : "ichido verify",  "quantity": 1 , "item_code":"` + t.item + `" }`
	t.inTurn(ctx, t.body(1), other)
}

// inTurn sends two requests under one key, of which the second should replay the first.
func (t *trial) inTurn(ctx context.Context, body, again string) {
	t.curl = t.script().inTurn(body, again)
	key := newKey()
	first := t.send(ctx, key, body)
	second := t.send(ctx, key, again)
	if !t.served(first) {
		return
	}
	t.fault("the first answer", first.executionFaults())
	if first.executed() {
		t.fault("the second answer", second.replayFaults(first))
	}
	t.count(ctx, 1)
}

// otherQuantity sends a request, then another one under its key, and then the first again, to see whether the record
// was damaged.
func otherQuantity(ctx context.Context, t *trial) {
	t.curl = t.script().inTurn(t.body(1), t.body(2), t.body(1))
	key := newKey()
	first := t.send(ctx, key, t.body(1))
	other := t.send(ctx, key, t.body(2))
	again := t.send(ctx, key, t.body(1))
	if !t.served(first) {
		return
	}
	t.fault("the first answer", first.executionFaults())
	if first.executed() {
		t.fault("the second answer", other.problemFaults(http.StatusUnprocessableEntity))
		t.fault("the third answer", again.replayFaults(first))
	}
	t.count(ctx, 1)
}

// failureThenSameKey sends a request that breaks a rule of the table, and then a correct one under its key. An attempt
// that failed must have left neither a reservation nor the key.
func failureThenSameKey(ctx context.Context, t *trial) {
	t.curl = t.script().inTurn(t.body(0), t.body(1))
	key := newKey()
	failed := t.send(ctx, key, t.body(0))
	corrected := t.send(ctx, key, t.body(1))
	if !t.served(corrected) {
		return
	}
	t.fault("the first answer", failed.problemFaults(0))
	t.fault("the second answer", corrected.executionFaults())
	t.count(ctx, 1)
}
