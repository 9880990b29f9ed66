package ichido

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// An Operation names work that no HTTP request carries: a queue message, a job.
type Operation struct {
	// Scope is what Key is unique within, such as the name of the queue and its tenant. Required.
	Scope string
	// Key is the operation's key, such as the message's id: 1 to 255 bytes. Required.
	Key string
	// Input is what the work is made from; the same key with another input is ErrMismatch. It is compared by its
	// bytes. nil means that the key says all.
	Input []byte
}

// A Result is the value of an operation.
type Result[T any] struct {
	Value    T
	Replayed bool // the value is that of an earlier attempt; the work did not run
}

// Do makes work that no HTTP request carries take effect once, on the same store and under the same promises as
// [Manager.Wrap]. work runs under the attempt's context (with the transaction in transaction mode); if it returns nil,
// its value is stored as JSON and committed together with what it wrote, else nothing is left and Do returns its
// error. work may be called more than once, when the database aborted its transaction to keep order.
//
// The value that Do returns went through JSON on the first call as on every later one, so that all see the same.
//
// Other errors: ErrInProgress (under the policy Reject at once, under Wait after Config.WaitLimit), ErrMismatch,
// ErrUnavailable, ErrCommitUnknown, ErrSerialization, ErrNotCommitted, and ctx's own. After each of them Do may be
// called again with the same key, except after ErrMismatch. A panic of work leaves nothing and goes on.
func Do[T any](ctx context.Context, m *Manager, op Operation, work func(ctx context.Context) (T, error)) (Result[T], error) {
	var result Result[T]
	if op.Scope == "" || op.Key == "" || len(op.Key) > maxKeyLength {
		return result, fmt.Errorf("ichido: Do: an operation needs a scope and a key of 1 to %d bytes", maxKeyLength)
	}
	claim := Claim{Scope: op.Scope, Key: op.Key, Fingerprint: op.fingerprint(), Retention: m.config.Retention}

	var body []byte
	var failed error
	record, err := m.execute(ctx, claim, func(ctx context.Context) outcome {
		body, failed = nil, nil
		value, err := work(ctx)
		if err == nil {
			body, err = json.Marshal(value)
		}
		if err == nil && len(body) > m.config.MaxResponseBody {
			err = fmt.Errorf("ichido: Do: the result has %d bytes of JSON; Config.MaxResponseBody is %d", len(body), m.config.MaxResponseBody)
		}
		if err != nil {
			failed = err
			return outcome{err: err}
		}
		return outcome{keep: true, response: Response{Status: 200, Header: doHeader, Body: body}}
	})
	switch {
	case err != nil:
		return result, err
	case failed != nil:
		return result, failed
	case record != nil:
		result.Replayed = true
		body = record.Response.Body
	}
	if err := json.Unmarshal(body, &result.Value); err != nil {
		return result, fmt.Errorf("ichido: Do: the stored result does not fit %T: %w", result.Value, err)
	}
	return result, nil
}

var doHeader = []byte("Content-Type: application/json\n")

func (op Operation) fingerprint() []byte {
	d := newDigest()
	defer d.free()
	d.add("do")
	d.addRaw(op.Input)
	return d.sum()
}

// The failures of an execution. Each wraps its cause.
var (
	// ErrUnavailable says that the store could not answer, and that nothing was done.
	ErrUnavailable = errors.New("ichido: the store cannot answer; nothing was done")

	// ErrNotCommitted says that the work ran but that the database refused to commit it; nothing was left.
	ErrNotCommitted = errors.New("ichido: the database refused to commit; nothing was left")
)
