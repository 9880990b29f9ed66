package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/ichido-dev/ichido/client"
)

// errLate is for a worker whose lease was over: another one has the operation.
var errLate = errors.New("the lease was over, and another worker has the operation; what this one learned is not recorded")

// claim makes operations that are due this worker's.
func (o *Outbox) claim(ctx context.Context, limit int) ([]*Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, o.config.Lease/2)
	defer cancel()
	rows, err := o.db.QueryContext(ctx, o.dialect.claim, o.config.Lease.Milliseconds(), o.config.Keep.Milliseconds(), !o.config.PassUnknown, limit)
	if err != nil {
		return nil, fmt.Errorf("outbox: claiming: %w", err)
	}
	return collect("claiming", rows)
}

// claimOne does so with one. It returns nil if that is not due; insist passes over the pause before the next sending.
func (o *Outbox) claimOne(ctx context.Context, id int64, insist bool) (*Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, o.config.Lease/2)
	defer cancel()
	e, err := scan(o.db.QueryRowContext(ctx, o.dialect.claimOne, o.config.Lease.Milliseconds(), o.config.Keep.Milliseconds(), !o.config.PassUnknown, id, insist))
	if err != nil {
		return nil, fmt.Errorf("outbox: claiming: %w", err)
	}
	return e, nil
}

// work sends an operation that was claimed not before begun, and reports it if it is decided.
func (o *Outbox) work(ctx context.Context, e *Entry, begun time.Time) {
	if !e.State.Decided() {
		sending, cancel := o.within(ctx, begun)
		r := o.send(sending, e)
		cancel()
		begun = time.Now()
		after, err := o.record(ctx, e, r)
		if err != nil {
			o.failed(ctx, fmt.Errorf("outbox: recording %s: %w", e, err))
			return
		}
		*e = *after
		if o.config.Observe != nil {
			o.config.Observe(ctx, e)
		}
	}
	if e.State.Decided() && !e.DueAt.IsZero() {
		reporting, cancel := o.within(ctx, begun)
		defer cancel()
		o.report(reporting, e)
	}
}

// within bounds what a worker does under a lease that did not begin before begun: by this process's own clock, nobody else has
// the operation until then.
func (o *Outbox) within(ctx context.Context, begun time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, begun.Add(o.config.Lease*7/8))
}

func (o *Outbox) failed(ctx context.Context, err error) {
	if o.config.OnError != nil {
		o.config.OnError(ctx, err)
	}
}

// A result is what came of a sending.
type result struct {
	state    State
	sent     bool
	wait     time.Duration
	err      string
	answer   *Answer
	resource string
}

// send sends an operation.
func (o *Outbox) send(ctx context.Context, e *Entry) result {
	r, op, err := o.request(ctx, e)
	if err != nil {
		return result{state: Waiting, sent: e.Sent, wait: o.pause(e, 0), err: err.Error()}
	}
	res := o.transport.Send(r, op)
	out := result{resource: res.Resource, err: reasonOf(res)}
	if res.Response != nil {
		out.answer = o.answer(res.Response)
	}
	out.state, out.sent = decide(e.Sent, res)
	if out.state == Waiting {
		out.wait = o.pause(e, res.RetryAfter)
	}
	return out
}

// decide says where an operation is after a sending. sent is whether it may have taken effect before.
func decide(sent bool, res client.Result) (State, bool) {
	switch {
	case res.Outcome == client.Done:
		return Done, true
	case res.Verdict == client.Failed: // whatever was sent before
		return NotDone, true
	}
	sent = sent || res.Outcome == client.Unknown
	switch {
	// What was sent before is still to be found out, once the reason is gone for which this sending was refused.
	case res.Retryable, sent && res.Verdict == client.Refused:
		return Waiting, sent
	case sent:
		return Unknown, true
	}
	return NotDone, false
}

// request makes the request of an operation, and says why it cannot be sent now.
func (o *Outbox) request(ctx context.Context, e *Entry) (*http.Request, client.Operation, error) {
	r, err := http.NewRequestWithContext(ctx, e.Method, e.URL, bytes.NewReader(e.Body))
	if err != nil {
		return nil, client.Operation{}, err
	}
	r.Header = e.Header.Clone()
	op := client.Operation{Key: e.Key, Name: e.Name}
	target, err := o.transport.Check(r, op)
	switch {
	case err != nil:
		return nil, op, err
	case target.Name != e.Target:
		return nil, op, fmt.Errorf("it was put for the target %q, and its host is declared as %q now", e.Target, target.Name)
	case target.FirstSent != "": // the same in each sending
		op.Started = e.FirstSentAt
	}
	if o.config.Authorize != nil {
		if err := o.config.Authorize(ctx, r); err != nil {
			return nil, op, fmt.Errorf("Config.Authorize: %w", err)
		}
	}
	return r, op, nil
}

// pause is how long to wait before the next sending: not less than asked, and not longer than there is time to send.
func (o *Outbox) pause(e *Entry, asked time.Duration) time.Duration {
	ceiling := o.config.MaxDelay
	if n := e.Attempts - 1; n < 62 && o.config.BaseDelay < ceiling>>n {
		ceiling = o.config.BaseDelay << n
	}
	left := max(0, e.SendUntil.Sub(e.now))
	return min(min(asked, left)+rand.N(min(ceiling, left)+1), left)
}

func (o *Outbox) answer(res *http.Response) *Answer {
	defer res.Body.Close()
	a := &Answer{Status: res.StatusCode, Header: res.Header.Clone()}
	a.Header.Del("Set-Cookie")
	limit := max(o.config.MaxAnswer, 0)
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(limit)+1))
	if a.Cut = err != nil || len(body) > limit; len(body) > limit {
		body = body[:limit]
	}
	a.Body = body
	return a
}

// reasonOf says in short why an operation is not done.
func reasonOf(res client.Result) string {
	if res.Outcome == client.Done {
		return ""
	}
	var text string
	switch notDone, unknown := new(client.NotDoneError), new(client.UnknownError); {
	case errors.As(res.Err, &notDone) && notDone.Err != nil:
		text = notDone.Err.Error()
	case errors.As(res.Err, &unknown) && unknown.Err != nil:
		text = unknown.Err.Error()
	case res.Response != nil:
		text = "answered " + res.Response.Status
		if to := res.Response.Header.Get("Location"); to != "" && res.Response.StatusCode/100 == 3 {
			text += ", which names " + to
		}
	}
	if res.Stopped == client.StopServer {
		text += "; " + string(res.Stopped)
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// record writes what came of a sending, as long as no other worker has claimed the operation. It does not end with ctx: what
// was learned is worth more than the time.
func (o *Outbox) record(ctx context.Context, e *Entry, r result) (*Entry, error) {
	ctx = context.WithoutCancel(ctx)
	var status, header, body, due, purge any
	cut := false
	if r.answer != nil {
		text, err := json.Marshal(r.answer.Header)
		if err != nil {
			return nil, err
		}
		status, header, body, cut = r.answer.Status, string(text), r.answer.Body, r.answer.Cut
	}
	switch {
	case r.state == Waiting:
		due = r.wait.Milliseconds()
	case o.config.Report != nil: // if this worker dies before it has reported
		due = o.config.Lease.Milliseconds()
	}
	if r.state == Done || r.state == NotDone {
		purge = o.config.Keep.Milliseconds()
	}
	var err error
	for tries := range 5 {
		if tries > 0 {
			time.Sleep(rand.N(o.config.Lease/64 + 1))
		}
		try, cancel := context.WithTimeout(ctx, o.config.Lease/8)
		var after *Entry
		after, err = scan(o.db.QueryRowContext(try, o.dialect.record, e.ID, e.token, string(r.state), r.sent, due, null(r.err), status, header, body, cut,
			null(r.resource), r.state.Decided(), purge))
		cancel()
		switch {
		case err == nil && after == nil:
			return nil, errLate
		case err == nil:
			return after, nil
		}
	}
	return nil, err
}

// report tells Config.Report what was decided, and sees to it that it is told again if it fails.
func (o *Outbox) report(ctx context.Context, e *Entry) {
	var due any
	if o.config.Report != nil {
		if err := o.config.Report(ctx, e); err != nil {
			o.failed(ctx, fmt.Errorf("outbox: reporting %s: %w", e, err))
			due = rand.N(o.config.MaxDelay + 1).Milliseconds()
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.config.Lease/8)
	defer cancel()
	after, err := scan(o.db.QueryRowContext(ctx, o.dialect.reported, e.ID, e.token, due))
	switch {
	case err != nil: // it will be reported again
		o.failed(ctx, fmt.Errorf("outbox: recording that %s was reported: %w", e, err))
	case after != nil:
		*e = *after
	}
}
