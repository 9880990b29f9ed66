// Package client sends HTTP requests until their outcome is known, each operation under one key, so that a server that
// honours keys does it once.
//
//	c := client.New(client.Targets{"api.example.com": client.Ichido})
//	res, err := c.Post("https://api.example.com/orders", "application/json", body)
//
// c is an http.Client; its [Transport] is an http.RoundTripper and works under any library that takes one. Without
// Targets it retries what is safe without a key.
//
// # What is retried
//
// A key makes a retry safe only where the server honours it, so hosts are declared: [Targets] says which, and what each does
// with keys. A request to a declared host whose method carries a key ([Target].Methods: POST and PATCH if it has none)
// gets one, made once, above all attempts, unless the caller has set it or its context has an operation
// ([WithOperation]). It is sent again, under the same key and with the same body, after a broken connection, a time-out,
// 408, 425, 429, 500, 502, 503, 504, and 409 where the target means "in progress" by it; never after a mismatch, 422,
// 501, or a replayed failure. GET, HEAD, OPTIONS, TRACE, PUT and DELETE are repeatable as such, and retried for all
// hosts, without the 409. Everything else is sent once; again only if no connection was had, because then nothing was
// sent. A header Stripe-Should-Retry or X-Should-Retry decides before the status does, within these limits.
//
// To a host that is not declared no key is added. One that the caller asks for, by [WithOperation] or the header
// itself, is sent, and changes nothing about how.
//
// # How it ends
//
// If the last attempt was answered, that answer is returned, whatever its status and unread, and [ResultOf] tells what it
// means for the operation; an answer that says that it was done before, as LINE's 409 does, is a success there. Else the
// error is one of two, with the operation, and so the key, in it:
//
//   - [NotDoneError]: it certainly did not take effect.
//   - [UnknownError]: it may have. Send the same request again under the same key, later or after a restart, by
//     [WithOperation] or [Transport.Send].
//
// Sendings are counted by connection, as net/http/httptrace tells: one that had a connection may have been written. If
// Config.Base does not use httptrace, every sending may have been. The outcome is also unknown if an earlier attempt
// was not answered and the last one was refused by what may stand in front of the server's keys (401, 429), or as a
// mismatch; and if a refusal is in a Content-Encoding, asked for by the caller, that cannot be read here. An answer
// whose body breaks off is not retried: the error is that of its reader, and the same request again is answered in full
// by a server that replays.
//
// # net/http resends by itself
//
// If an idle connection breaks before the first byte of an answer, http.Transport sends a request again at once, without
// telling its caller, if the request has an Idempotency-Key and its body can be had again. Towards declared hosts this
// is as safe as any retry; [Attempt].Sendings and [Result].Sendings count it, and the budget pays for it. To hosts that
// are not declared, the key of an operation is sent so that net/http does not (as idempotency-key: names of fields have no
// case). A caller who sets Idempotency-Key there gets what net/http does.
//
// # Redirects, bodies, contexts
//
// Redirects are http.Client's. With 307 and 308 the request to the new place carries the key of the first. A request
// body that http.NewRequest cannot rewind (no GetBody) is kept in memory up to Config.MaxBufferedBody; a longer one is
// sent once. A body that does not come is closed when the context ends. Failing answers are read for at most a second and 64 KiB so that connections are used again. A context that
// ends stops all at once: not done if nothing was sent, else unknown.
//
// # Settings
//
//	Config field      default                 what it bounds
//	Targets           none                    which hosts honour keys, and how
//	Base              http.DefaultTransport   what sends
//	Attempts          4                       attempts, the first one included
//	BaseDelay         200 ms                  the random wait before retry n is at most BaseDelay·2ⁿ⁻¹ …
//	MaxDelay          30 s                    … and MaxDelay; a Retry-After beyond it is the end, and so is one beyond the time left
//	AttemptTimeout    30 s                    an attempt: with a key including the answer's body, else up to its header
//	TotalTimeout      2 min                   all attempts and waits; the context's deadline and Target.Retention do so too
//	Budget.Ratio      0.08                    retries for each request, per host, in the long run …
//	Budget.PerSecond  0.1                     … and for each second
//	Budget.Reserve    10                      retries that can be saved up, and are there at the start
//	Budget.Unlimited  false                   no budget
//	MaxBufferedBody   1 MiB                   request bodies without GetBody that are kept
//	Observe           none                    is told every attempt; module otelichido has one for OpenTelemetry
//
// With these, load on a host that is down is at most 1.1 of normal from five requests a second on. Negative time-outs
// are none. Leave http.Client.Timeout zero: it bounds all attempts together, and the error that http.Client makes of it has the
// errors of this package as text only.
package client
