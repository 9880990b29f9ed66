package ichido

import (
	"context"
	"sync/atomic"
)

// A verdict is what a handler says about its own answer.
type verdict struct{ said atomic.Int32 }

const (
	unsaid int32 = iota
	keep
	discard
)

// Keep makes the answer of the handler that runs under ctx be committed and kept, whatever its status: a declined card
// is an outcome that a retry should see again, not an attempt to repeat. The last call of Keep and [Discard] counts.
// It does nothing if ctx is not that of an attempt, and nothing in [Do], where an error is never kept.
func Keep(ctx context.Context) { say(ctx, keep) }

// Discard makes the work that runs under ctx leave nothing, whatever it answers: its transaction is rolled back, the
// answer is sent, and the key is free again. In lease mode, where nothing can be rolled back, it is the declaration that
// the work took no effect and may be run again: call it where that is certain, on the way to the answer that says so.
func Discard(ctx context.Context) { say(ctx, discard) }

func say(ctx context.Context, what int32) {
	if w := workOf(ctx); w != nil {
		w.verdict.said.Store(what)
	}
}

// keeps decides about an answer.
func (v *verdict) keeps(byDefault bool) bool {
	switch v.said.Load() {
	case keep:
		return true
	case discard:
		return false
	}
	return byDefault
}
