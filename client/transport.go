package client

import (
	"io"
	"net/http"
	"time"
)

// A Transport is an http.RoundTripper that sends a request until its outcome is known, always under the same key. It is
// safe for concurrent use, and is to be shared: it holds the retry budgets.
type Transport struct {
	config    Config
	directory directory
	buckets   buckets
}

// RoundTrip implements http.RoundTripper. If the last attempt was answered it returns that answer, whatever its status, and
// [ResultOf] tells what it means; else the error is a *[NotDoneError] or an *[UnknownError], and for GET, HEAD, OPTIONS
// and TRACE that of the last attempt.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c := &call{Context: r.Context(), t: t, r: r}
	if err := c.run(); err != nil {
		return nil, err
	}
	return c.response, nil
}

// Send sends a request once as the operation, in as many attempts as it takes, and tells how it ended. It is for callers
// that keep operations to go on with them later: unlike [http.Client.Do] it follows no redirects and knows no cookies. The
// host must be declared.
func (t *Transport) Send(r *http.Request, op Operation) Result {
	ctx := WithOperation(r.Context(), op)
	c := &call{Context: ctx, t: t, r: r.WithContext(ctx)}
	_, err := t.check(r, op)
	if err != nil {
		c.op = op
		err = c.refuse(NotDone, err)
	} else {
		err = c.run()
	}
	res := c.result()
	if res.Err == nil {
		res.Err = err
	}
	return res
}

// ResultOf tells what the answer of a [Transport] means for its operation. False if it is the answer of another
// RoundTripper.
func ResultOf(res *http.Response) (Result, bool) {
	if res == nil {
		return Result{}, false
	}
	c := callOf(res.Request)
	if c == nil {
		return Result{}, false
	}
	return c.result(), true
}

// CloseIdleConnections closes those of Config.Base.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.config.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// result is how the call ended.
func (c *call) result() Result {
	r := Result{
		Outcome: c.outcome(), Operation: c.op, Verdict: c.verdict, Response: c.response, Resource: c.resource,
		Attempts: c.attempts, Sendings: c.sendings, Stopped: c.stopped, Retryable: c.retryable(),
	}
	if c.target != nil {
		r.Target = c.target.Name
	}
	if c.response != nil {
		r.RetryAfter, _ = retryAfter(c.response.Header, time.Now())
	}
	if r.Outcome != Done {
		r.Err = c.failure(nil)
	}
	return r
}

func (c *call) outcome() Outcome {
	if c.refused {
		return c.refusal
	}
	return c.verdict.outcome(c.open)
}

// retryable tells whether the same request may help later.
func (c *call) retryable() bool {
	switch {
	case c.refused:
		return c.stopped == StopContext
	case c.stopped == StopServer:
		return false
	case c.verdict == Refused: // what was sent before is what is to be found out, once the reason is gone
		return c.open && c.op.Key != ""
	case !c.verdict.again():
		return false
	}
	return c.outcome() == NotDone || c.op.Key != "" && c.target != nil || c.idempotent
}

// failure returns the typed error for how the call ended.
func (c *call) failure(err error) error {
	if err == nil {
		err = c.err
	}
	f := Failure{
		Operation: c.op, Attempts: c.attempts, Sendings: c.sendings, Response: c.response,
		Stopped: c.stopped, Retryable: c.retryable(), Err: err, request: c.method(),
	}
	if c.r.URL != nil {
		f.request += " " + c.r.URL.Host
	}
	if c.target != nil {
		f.Target = c.target.Name
	}
	if f.Response == nil {
		f.Response = c.last
	}
	if c.outcome() == NotDone {
		return &NotDoneError{f}
	}
	return &UnknownError{f}
}

// answerBody is the body of the answer that is returned. It ends the attempt.
type answerBody struct {
	io.ReadCloser
	call *call
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = b.call.reason(err)
		b.call.attempt.end()
	}
	return n, err
}

func (b *answerBody) Close() error {
	err := b.ReadCloser.Close()
	b.call.attempt.end()
	return err
}
