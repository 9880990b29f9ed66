package conformance

import (
	"context"
	"fmt"
)

// A scenario is one thing to do to a server, and what should come of it.
type scenario struct {
	id, title, promise, source, expected string

	run func(context.Context, *trial)
}

// scenarios returns all scenarios in the order in which they run; "at once" means n requests.
func scenarios(n int) []scenario {
	return []scenario{{
		id:       "no-key",
		title:    "a request without a key is refused",
		promise:  "P1",
		source:   "draft-07 section 2.7",
		expected: "400 with a problem document; none created",
		run:      noKey,
	}, {
		id:      "same-key-twice",
		title:   "sent twice, answered twice the same",
		promise: "P3",
		source:  "draft-07 section 2.6",
		expected: "201, then the same status, body to the byte and Location, marked " + marker +
			" the second time only; 1 created",
		run: sameKeyTwice,
	}, {
		id:      "other-quantity",
		title:   "another request under a used key is refused",
		promise: "P4",
		source:  "draft-07 section 2.7",
		expected: "201, then 422 with a problem document for the other quantity, then a replay of the 201 for the " +
			"first; 1 created",
		run: otherQuantity,
	}, {
		id:       "member-order",
		title:    "members in another order are the same request",
		promise:  "P4",
		source:   "RFC 8259 section 1",
		expected: "201, then a replay of it; 1 created",
		run:      memberOrder,
	}, {
		id:      "ten-at-once-one-key",
		title:   fmt.Sprintf("%d at once with one key take effect once", n),
		promise: "P1",
		source:  "draft-07 section 2.6",
		expected: "one 201; for every other a replay of it, or 409 with a problem document and Retry-After; " +
			"1 created",
		run: atOnceOneKey,
	}, {
		id:       "once-more-afterwards",
		title:    "the same once more afterwards is answered the same",
		promise:  "P3",
		source:   "draft-07 section 2.6",
		expected: "a replay of the 201; none created",
		run:      onceMoreAfterwards,
	}, {
		id:       "ten-at-once-ten-keys",
		title:    fmt.Sprintf("%d at once with %d keys are %d operations", n, n, n),
		promise:  "P1",
		source:   "draft-07 section 2.2",
		expected: fmt.Sprintf("201 for each, none marked as replayed; %d created", n),
		run:      atOnceOwnKeys,
	}, {
		id:      "failure-then-same-key",
		title:   "a failure leaves nothing, and the key is free",
		promise: "P5",
		source:  "practice",
		expected: "4xx or 5xx with a problem document for quantity 0, then 201, not marked as replayed, for " +
			"quantity 1 under the same key; 1 created",
		run: failureThenSameKey,
	}}
}
