package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"time"
)

// A call is one request of a caller, with all of its attempts. It is the context of these, so that the request of an
// answer leads back to it: see callOf.
type call struct {
	context.Context
	t *Transport
	r *http.Request // the caller's, which is never changed

	target     *Target // nil if the host is not declared, or the request carries no key
	op         Operation
	made       bool      // the key is not in the caller's request and has to be put there
	field      string    // the field that carries the key
	value      [1]string // its value
	idempotent bool      // it may be repeated because of its method
	safe       bool      // of these, it has no effect
	body       body
	bucket     *bucket
	deadline   time.Time // zero for none

	trace httptrace.ClientTrace
	asked atomic.Int32 // how often net/http began to get a connection
	got   atomic.Int32 // how often it had one

	attempt  attempt
	answer   answerBody
	attempts int
	sendings int
	open     bool           // an earlier sending may have taken effect
	last     *http.Response // the last answer that is not returned, with the beginning of its body

	// How it ended.
	response *http.Response
	err      error
	verdict  Verdict
	resource string
	stopped  Stop
	refused  bool // no attempt was made, and the outcome is refusal
	refusal  Outcome
}

// An attempt is what bounds one.
type attempt struct {
	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer // cancels when time is over; nil for none
	ended  atomic.Bool
}

func (a *attempt) end() {
	a.ended.Store(true)
	if a.timer != nil {
		a.timer.Stop()
	}
	a.cancel()
}

// reason returns err, or that the attempt ran out of time if err came of that. It is to be called before end.
func (c *call) reason(err error) error {
	a := &c.attempt
	if !a.ended.Load() && a.ctx.Err() != nil && c.Err() == nil && errors.Is(err, context.Canceled) {
		return errAttemptTimeout
	}
	return err
}

type callKey struct{}

// Value implements context.Context.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func (c *call) method() string {
	if c.r.Method == "" {
		return http.MethodGet
	}
	return c.r.Method
}

// run makes the attempts.
func (c *call) run() error {
	if c.r.URL == nil || c.r.Header == nil {
		return c.refuse(NotDone, errors.New("the request has no URL or no Header; http.NewRequest makes both"))
	}
	start := time.Now()
	if err := c.plan(start); err != nil {
		return err
	}
	c.bucket = c.t.buckets.get(strings.ToLower(c.r.URL.Host), start)
	c.bucket.put(&c.t.config.Budget, start)
	c.trace = httptrace.ClientTrace{GetConn: c.onGetConn, GotConn: c.onGotConn}
	traced := httptrace.WithClientTrace(c, &c.trace)
	for begun := start; ; begun = time.Now() {
		if err := c.Err(); err != nil {
			return c.interrupted()
		}
		sendings := c.send(traced, begun)
		wait := c.decide()
		if c.t.config.Observe != nil {
			c.observe(sendings, time.Since(begun), wait)
		}
		if c.stopped != "" {
			return c.finish()
		}
		c.keep()
		if c.verdict.open() {
			c.open = true
		}
		if !c.sleep(wait) {
			return c.interrupted()
		}
	}
}

func (c *call) onGetConn(string)                     { c.asked.Add(1) }
func (c *call) onGotConn(info httptrace.GotConnInfo) { c.got.Add(1) }

// refuse ends a call of which nothing was sent.
func (c *call) refuse(o Outcome, err error) error {
	if c.body.first != nil {
		c.body.first.Close()
	} else if c.r.Body != nil {
		c.r.Body.Close()
	}
	c.refused, c.refusal, c.err = true, o, err
	if c.stopped == "" {
		c.stopped = StopRefused
	}
	return c.failure(err)
}

// plan finds out what the request is, and prepares its key and its body.
func (c *call) plan(now time.Time) error {
	switch c.method() {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		c.idempotent, c.safe = true, true
	case http.MethodPut, http.MethodDelete:
		c.idempotent = true
	}
	if from := redirected(c.r); from != nil {
		c.open = from.open
	}
	if err := c.planKey(now); err != nil {
		return err
	}
	if c.t.config.TotalTimeout > 0 {
		c.deadline = now.Add(c.t.config.TotalTimeout)
	}
	if c.target != nil && c.target.Retention > 0 {
		first := c.op.Started
		if first.IsZero() {
			first = now
		}
		end := first.Add(c.target.Retention)
		if !now.Before(end) {
			return c.refuse(Unknown, fmt.Errorf("the operation was begun %s ago, and %s remembers a key for %s only; it might be done twice: find out what became of it",
				now.Sub(first).Round(time.Second), c.target.name(), c.target.Retention))
		}
		if c.deadline.IsZero() || end.Before(c.deadline) {
			c.deadline = end
		}
	}
	if err := c.body.prepare(c); err != nil {
		return c.refuse(NotDone, err)
	}
	return nil
}

// send makes one attempt, and returns how often the request may have reached the network.
func (c *call) send(traced context.Context, now time.Time) int {
	c.attempts++
	asked, got := c.asked.Load(), c.got.Load()
	req, err := c.request(traced, now)
	if err != nil {
		c.response, c.err, c.verdict, c.stopped = nil, fmt.Errorf("its body cannot be had again: %w", err), TryAgain, StopBody
		return 0
	}
	res, err := c.t.config.Base.RoundTrip(req)
	if res == nil && err == nil {
		err = fmt.Errorf("Config.Base, a %T, returned neither an answer nor an error", c.t.config.Base)
	}
	sendings := int(c.got.Load() - got)
	if sendings == 0 && (err == nil || c.asked.Load() == asked && malformed(req) == nil) {
		sendings = 1 // a Base that knows no httptrace
	}
	c.sendings += sendings
	resent := sendings > 1 // what was sent before was not answered
	if resent {
		c.open = true
		c.bucket.owe(&c.t.config.Budget, sendings-1)
	}
	c.resource = ""
	if err != nil {
		c.response, c.err = nil, c.reason(err)
		c.attempt.end()
		switch {
		case sendings > 0:
			c.verdict = Uncertain
		case malformed(req) != nil:
			c.verdict = Refused
		default:
			c.verdict = TryAgain
		}
		return sendings
	}
	if callOf(res.Request) != c {
		res.Request = req
	}
	c.response, c.err = res, nil
	return sendings
}

// request returns the request of an attempt, and bounds the attempt.
func (c *call) request(traced context.Context, now time.Time) (*http.Request, error) {
	stream, err := c.body.next()
	if err != nil {
		return nil, err
	}
	a := &c.attempt
	a.ctx, a.cancel = context.WithCancel(traced)
	a.timer = nil
	a.ended.Store(false)
	limit := c.t.config.AttemptTimeout
	if !c.deadline.IsZero() {
		if left := c.deadline.Sub(now); limit <= 0 || left < limit {
			limit = max(left, 1)
		}
	}
	if limit > 0 {
		a.timer = time.AfterFunc(limit, a.cancel)
	}
	req := c.r.WithContext(a.ctx)
	req.Header = make(http.Header, len(c.r.Header)+2)
	for name, lines := range c.r.Header {
		req.Header[name] = lines[:len(lines):len(lines)]
	}
	if c.made && c.field != "" {
		req.Header[c.field] = c.value[:1:1]
	}
	if c.target != nil && c.target.FirstSent != "" && len(req.Header[c.target.FirstSent]) == 0 {
		req.Header[c.target.FirstSent] = []string{c.op.Started.UTC().Format(http.TimeFormat)}
	}
	if stream != nil {
		req.Body = stream
		req.GetBody = c.body.again
		req.ContentLength = c.body.length
	}
	return req, nil
}

// decide gives the verdict on the attempt, and returns what to wait for before the next one, or sets stopped.
func (c *call) decide() (wait time.Duration) {
	if c.stopped != "" {
		return 0
	}
	if c.response != nil {
		c.judge()
		switch told, retry := shouldRetry(c.response.Header); {
		case !told:
		case !retry && c.verdict.again():
			c.stopped = StopServer
			return 0
		case retry && c.verdict == Refused && c.response.StatusCode >= 400 &&
			c.response.StatusCode != http.StatusUnprocessableEntity && c.response.StatusCode != http.StatusNotImplemented:
			c.verdict = Uncertain
		}
	}
	switch {
	case !c.verdict.again() || c.err != nil && permanent(c.err):
		c.stopped = StopEnd
	case c.Err() != nil:
		c.stopped = StopContext
	case c.target == nil && !c.idempotent && (c.response != nil || c.verdict != TryAgain):
		c.stopped = StopUnsafe
	case !c.body.repeatable():
		c.stopped = StopBody
	case c.attempts >= c.t.config.Attempts:
		c.stopped = StopAttempts
	default:
		return c.wait()
	}
	return 0
}

// judge gives the verdict on an answer.
func (c *call) judge() {
	res := c.response
	if c.target != nil && res.StatusCode >= 400 {
		var j Judgement
		readable := true
		if c.target.Judge != nil {
			var text []byte
			text, readable = decoded(res.Header, peek(res))
			j = c.target.Judge(Answer{Status: res.StatusCode, Header: res.Header, Body: text, Key: c.op.Key})
		}
		switch replayed := c.target.replayed(res.Header); {
		case replayed && j.Verdict != Succeeded: // a failure that is stored does not get better
			j = Judgement{Verdict: Failed}
			if res.StatusCode >= 500 {
				j.Verdict = Unresolved
			}
		case j.Verdict == ByStatus && !readable && byStatus(res.StatusCode) == Refused:
			j.Verdict = Unresolved // it may say that the operation is in progress, or done
		}
		if j.Verdict != ByStatus {
			c.verdict, c.resource = j.Verdict, j.Resource
			return
		}
	}
	c.verdict = byStatus(res.StatusCode)
}

// wait returns how long to wait before the next attempt, and takes it out of the budget; or sets stopped.
func (c *call) wait() time.Duration {
	config, now := &c.t.config, time.Now()
	ceiling := config.MaxDelay
	if n := c.attempts - 1; n < 62 && config.BaseDelay < ceiling>>n {
		ceiling = config.BaseDelay << n
	}
	wait := time.Duration(rand.Int64N(int64(ceiling) + 1))
	left := config.MaxDelay + 1 // what a wait must be less than
	if !c.deadline.IsZero() {
		left = min(left, c.deadline.Sub(now))
	}
	if end, ok := c.Deadline(); ok {
		left = min(left, end.Sub(now))
	}
	if c.response != nil {
		if hint, ok := retryAfter(c.response.Header, now); ok {
			if hint >= left {
				c.stopped = StopHint
				return 0
			}
			// Not earlier than asked, and not all clients at once.
			if wait = min(hint+wait, config.MaxDelay); wait >= left {
				wait = hint
			}
		}
	}
	switch {
	case wait >= left:
		c.stopped = StopTime
	case !c.bucket.take(&config.Budget, now):
		c.stopped = StopBudget
	default:
		return wait
	}
	return 0
}

func (c *call) sleep(wait time.Duration) bool {
	if wait <= 0 {
		return c.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.Done():
		return false
	}
}

// keep puts the answer aside that is not the last one, and frees its connection.
func (c *call) keep() {
	if c.response == nil {
		return
	}
	c.last = shelve(c.response, &c.attempt)
	c.attempt.end()
	c.response = nil
}

// interrupted ends the call because its context has ended between attempts.
func (c *call) interrupted() error {
	c.stopped = StopContext
	c.err = context.Cause(c.Context)
	err := c.failure(c.err)
	if c.attempts == 0 {
		err = c.refuse(NotDone, c.err)
	}
	if c.safe {
		return c.err
	}
	return err
}

// finish returns what the last attempt gave.
func (c *call) finish() error {
	if c.response == nil {
		if c.safe {
			return c.err
		}
		return c.failure(c.err)
	}
	if c.response.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, and has no end
		if c.attempt.timer != nil {
			c.attempt.timer.Stop()
		}
		return nil
	}
	if c.op.Key == "" && c.attempt.timer != nil {
		c.attempt.timer.Stop()
	}
	c.answer = answerBody{c.response.Body, c}
	c.response.Body = &c.answer
	return nil
}

func (c *call) observe(sendings int, elapsed, wait time.Duration) {
	a := Attempt{
		Operation: c.op, Method: c.method(), Host: c.r.URL.Host, Number: c.attempts, Sendings: sendings,
		Err: c.err, Verdict: c.verdict, Elapsed: elapsed, Wait: wait, Stopped: c.stopped,
	}
	if c.target != nil {
		a.Target = c.target.Name
	}
	if c.response != nil {
		a.Status = c.response.StatusCode
	}
	c.t.config.Observe(c.Context, a)
}

// shouldRetry returns what the server says of retrying, if it does.
func shouldRetry(h http.Header) (told, retry bool) {
	for _, name := range [...]string{"Stripe-Should-Retry", "X-Should-Retry"} {
		if lines := h[name]; len(lines) > 0 && (lines[0] == "true" || lines[0] == "false") {
			return true, lines[0] == "true"
		}
	}
	return false, false
}

// permanent tells whether an error is the same every time: the certificate of the server is not good.
func permanent(err error) bool {
	var cert *tls.CertificateVerificationError
	return errors.As(err, &cert)
}

// malformed says why net/http does not send a request at all.
func malformed(r *http.Request) error {
	switch {
	case r.URL.Scheme != "http" && r.URL.Scheme != "https":
		return fmt.Errorf("its URL has the scheme %q", r.URL.Scheme)
	case r.URL.Host == "":
		return errors.New("its URL has no host")
	case r.Method != "" && !token(r.Method):
		return fmt.Errorf("its method is %q", r.Method)
	}
	for name, lines := range r.Header {
		if !token(name) {
			return fmt.Errorf("a field has the name %q", name)
		}
		for _, line := range lines {
			for i := range len(line) {
				if line[i] < ' ' && line[i] != '\t' || line[i] == 0x7f {
					return fmt.Errorf("the field %s has a control character", textproto.CanonicalMIMEHeaderKey(name))
				}
			}
		}
	}
	return nil
}
