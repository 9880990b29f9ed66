// Package conformance grades how a server treats idempotency keys.
//
// It sends requests to a running server, of any make and in any language, and counts by what the server itself shows what
// they really did. It speaks HTTP only and shares no code with the server that it grades. The command "ichido verify URL"
// prints what it finds; docs/verify.md explains descriptions and lists the scenarios.
//
//	report, err := conformance.Run(ctx, "http://localhost:8080", nil)
//	if err != nil {
//		log.Fatal(err) // nothing was graded: a bad URL or description, or a server that cannot be reached
//	}
//	report.WriteTable(os.Stdout, false)
//	if !report.Held() {
//		os.Exit(1)
//	}
//
// # What the server must offer
//
// A request that makes something, and a way to see what was made. An [API] describes both; without one the server is
// taken for "ichido serve":
//
//   - POST /reservations, below the base URL, takes {"item_code":"…","quantity":1,"reserved_by":"…"}, requires an
//     Idempotency-Key, and answers 201. A quantity of 0 must fail.
//   - GET /reservations lists the newest first: {"reservations":[{"id":…,"item_code":"…",…},…],"next":"…"}, where next
//     leads to the following page and is absent on the last one.
//
// Each run makes things of its own, under names that begin with "verify-" and eight random digits, and leaves them there.
// Other traffic during a run does no harm, unless the description has no way to tell it from the run's.
//
// # Verdicts
//
// A scenario is held only if its answers were right and it was seen that they were true. It differs by choice if they
// were not what its source asks for, but what the description promises, or what well-known APIs do and harms nobody. It is
// broken if an answer was wrong, if there was none (a connection that was reset is not an answer), or if another number of
// things was made than there should have been. What could not be seen is none of these: if effects cannot be counted, if
// the description lacks what the scenario needs, if the server's work was too quick for requests to meet, or if it does
// not serve the requests at all (401, 403, 404, 405, 501), the scenario is not testable, and says why.
//
// # The report as JSON
//
// The members of [Report] and [Result] are a contract: members may be added, but none of those here will be renamed,
// and no scenario id will change its meaning.
//
//	{
//	  "url": "http://localhost:8080",
//	  "api": "ichido",
//	  "started": "2026-11-29T12:00:00Z",
//	  "duration_ms": 131,
//	  "results": [
//	    {
//	      "id": "same-key-twice",
//	      "title": "sent twice, answered twice the same",
//	      "level": "core",
//	      "promise": "P3",
//	      "source": "draft-07 section 2.6",
//	      "verdict": "held",
//	      "expected": "success, then …",
//	      "got": "201, 201 replayed; 1 created",
//	      "requests": 2,
//	      "created": 1,
//	      "duration_ms": 9,
//	      "curl": "K=$(printf …"
//	    }
//	  ]
//	}
package conformance
