package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A Stop is why there was no further attempt.
type Stop string

const (
	// StopEnd: the verdict, or the error, is final.
	StopEnd Stop = "it is the end"
	// StopAttempts: Config.Attempts.
	StopAttempts Stop = "Config.Attempts were made"
	// StopBudget: Config.Budget.
	StopBudget Stop = "the retry budget of the host is spent"
	// StopTime: Config.TotalTimeout, the context's deadline or Target.Retention would be over.
	StopTime Stop = "no time is left"
	// StopHint: a Retry-After beyond Config.MaxDelay or the time that is left.
	StopHint Stop = "the server asks for a longer wait than allowed"
	// StopServer: Stripe-Should-Retry or X-Should-Retry.
	StopServer Stop = "the server says not to retry"
	// StopBody: there is no GetBody, and the body is longer than Config.MaxBufferedBody.
	StopBody Stop = "its body cannot be sent twice"
	// StopUnsafe: there is no key, or the host is not declared.
	StopUnsafe Stop = "it is not known to be safe to send it twice"
	// StopContext: the context has ended.
	StopContext Stop = "the context has ended"
	// StopRefused: there was no attempt. The error says why.
	StopRefused Stop = "it may not be sent as it is"
)

// A Failure is what [NotDoneError] and [UnknownError] have in common.
type Failure struct {
	// Operation has the key to go on with later. Its Key is empty if the request carried none.
	Operation Operation
	// Target is the name of the target; "" if the host was not declared.
	Target string
	// Attempts is how many attempts were made; Sendings how often the request may have reached the network, net/http's own
	// resends included.
	Attempts, Sendings int
	// Response is the last answer there was, with at most 64 KiB of its body; nil if there was none. It need not be closed.
	// In a [Result] whose last attempt was answered it is Result.Response, which must be.
	Response *http.Response
	// Stopped is why there was no further attempt.
	Stopped Stop
	// Retryable tells whether the same request may help later, under the same key.
	Retryable bool
	// Err is the error of the last attempt; nil if it was answered.
	Err error

	request string
}

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// Timeout tells whether the last attempt ran out of time, as net.Error has it.
func (f *Failure) Timeout() bool {
	t, ok := f.Err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

func (f *Failure) text(outcome, advice string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "client: %s: %s", outcome, f.request)
	if f.Operation.Key != "" {
		b.WriteString(", " + f.Operation.String())
	}
	if f.Attempts > 0 {
		fmt.Fprintf(&b, ", attempt %d: ", f.Attempts)
	} else {
		b.WriteString(", nothing was sent: ")
	}
	if f.Err != nil {
		b.WriteString(f.Err.Error())
	} else if f.Response != nil {
		b.WriteString("answered " + f.Response.Status)
	}
	if f.Attempts > 0 && f.Stopped != StopEnd {
		b.WriteString("; " + string(f.Stopped))
	}
	if f.Retryable && f.Operation.Key != "" {
		b.WriteString(advice)
	}
	return b.String()
}

// A NotDoneError says that the operation certainly did not take effect.
type NotDoneError struct{ Failure }

func (e *NotDoneError) Error() string {
	return e.text("not done", ". Send it again when you like, under the same key")
}

// An UnknownError says that it is not known whether the operation took effect. Do not send it under a new key: that may do
// it twice.
type UnknownError struct{ Failure }

func (e *UnknownError) Error() string {
	if !e.Retryable && e.Operation.Key != "" {
		return e.text("unknown whether it was done", "") + ". Sending it again does not tell, and a new key may do it twice: ask the server's operator"
	}
	return e.text("unknown whether it was done", ". Send the same request again later under the same key (WithOperation): that tells")
}

// A Result is how the sending of an operation ended.
type Result struct {
	Outcome   Outcome
	Operation Operation
	// Target is the name of the target; "" if the host was not declared.
	Target string
	// Verdict is what the last attempt meant; ByStatus if there was none.
	Verdict Verdict
	// Response is the answer to the last attempt; nil if it had none. Its body must be closed.
	Response *http.Response
	// Resource names what the operation made, or where its outcome can be read, if the answer says that it was done before:
	// see the target. "" if it does not.
	Resource string
	// Attempts and Sendings are as in [Failure].
	Attempts, Sendings int
	// Stopped is why there was no further attempt.
	Stopped Stop
	// Retryable tells whether the same request may help later, under the same key.
	Retryable bool
	// RetryAfter is how long the last answer asks to wait. Zero if it does not.
	RetryAfter time.Duration
	// Err is nil if Outcome is Done, a *[NotDoneError] if it is NotDone, an *[UnknownError] if it is Unknown.
	Err error
}

type timeoutError struct{}

func (timeoutError) Error() string {
	return "the attempt ran out of time (AttemptTimeout, or what is left of the total)"
}
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Temporary() bool      { return true }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// errAttemptTimeout ends an attempt that takes longer than Config.AttemptTimeout or the rest of Config.TotalTimeout.
var errAttemptTimeout error = timeoutError{}
