package ichido

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
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

// OperationOf returns the scope and the key of the operation that the work under ctx belongs to, as the store and a
// [Resolver] have them: without quotes, and whatever carried the key. It reports false if ctx is not that of an attempt.
// Input is nil. Work in lease mode names its operation so to other systems; [Step] derives keys for them.
func OperationOf(ctx context.Context) (Operation, bool) {
	w := workOf(ctx)
	if w == nil {
		return Operation{}, false
	}
	return Operation{Scope: w.scope, Key: w.key}, true
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
// A work that calls [Discard] leaves nothing though it returns nil; its value is returned and not kept.
//
// In lease mode an error of work, or a panic, does not mean that nothing happened: what Config.OnLapse says happens, unless
// work called Discard.
//
// Other errors: ErrInProgress (under the policy Reject at once, under Wait after Config.WaitLimit), ErrMismatch,
// ErrUnavailable, ErrCommitUnknown, ErrSerialization, ErrNotCommitted, ErrUnreadable, in lease mode ErrUnknown, and ctx's
// own. After each of them Do may be called again with the same key, except after ErrMismatch, ErrUnreadable and ErrUnknown.
// A panic of work goes on; in transaction mode it leaves nothing.
func Do[T any](ctx context.Context, m *Manager, op Operation, work func(ctx context.Context) (T, error)) (Result[T], error) {
	var result Result[T]
	if op.Scope == "" || op.Key == "" || len(op.Key) > maxKeyLength || !isText(op.Scope) || !isText(op.Key) {
		return result, fmt.Errorf("ichido: Do: an operation needs a scope and a key of 1 to %d bytes, both UTF-8 without NUL", maxKeyLength)
	}
	w := doWork[T]{m: m, op: op, work: work}
	claim := Claim{Scope: op.Scope, Key: op.Key, Fingerprint: w.fingerprint(m.config.Fingerprint.first()), Retention: m.config.Retention}
	w.claim = &claim
	record, err := m.execute(ctx, claim, &w)
	switch {
	case err != nil:
		return result, err
	case record == nil && w.err != nil:
		return result, w.err
	case record != nil:
		a, err := m.config.Stored.unpack(&claim, record.Response)
		if err != nil {
			return result, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		result.Replayed = true
		w.body = a.body
	}
	if err := json.Unmarshal(w.body, &result.Value); err != nil {
		return result, fmt.Errorf("ichido: Do: the stored result does not fit %T: %w", result.Value, err)
	}
	return result, nil
}

// isText reports whether every database can hold s as text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// doWork is the job of a Do.
type doWork[T any] struct {
	m     *Manager
	op    Operation
	work  func(ctx context.Context) (T, error)
	claim *Claim

	body []byte // the JSON of the last run's value
	err  error  // the last run's
}

func (w *doWork[T]) run(ctx context.Context) outcome {
	var value T
	w.body = nil
	if value, w.err = w.work(ctx); w.err == nil {
		w.body, w.err = json.Marshal(value)
	}
	if err := workOf(ctx).unfinished(); err != nil {
		w.err = err
	}
	stored := &w.m.config.Stored
	if w.err == nil && len(w.body) > stored.MaxBody {
		w.err = fmt.Errorf("ichido: Do: the result has %d bytes of JSON; Config.Stored.MaxBody is %d", len(w.body), stored.MaxBody)
	}
	if w.err == nil && workOf(ctx).verdict.said.Load() == discard {
		return outcome{}
	}
	var response Response
	if w.err == nil {
		whole := *stored
		whole.LocationOnly = false // a result has no Location
		response, w.err = whole.pack(w.claim, 200, doFields, w.body)
	}
	return outcome{keep: w.err == nil, response: response, err: w.err}
}

func (w *doWork[T]) same(stored []byte) (bool, error) {
	secret, err := w.m.config.Fingerprint.secretOf(stored)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return bytes.Equal(w.fingerprint(secret), stored), nil
}

func (w *doWork[T]) fingerprint(secret *Secret) []byte {
	d := newDigest(secret)
	defer d.free(secret)
	d.addText("do")
	d.add(w.op.Input)
	return d.sum(secret)
}

var doFields = []field{{"Content-Type", []string{"application/json"}}}

// The failures of an execution. Each wraps its cause.
var (
	// ErrUnavailable says that the store could not answer, and that nothing was done.
	ErrUnavailable = errors.New("ichido: the store cannot answer; nothing was done")

	// ErrNotCommitted says that the work ran but that the database refused to commit it; nothing was left.
	ErrNotCommitted = errors.New("ichido: the database refused to commit; nothing was left")

	// ErrUnreadable says that the key is completed, but that its record cannot be read: it was written with a secret
	// that this process does not have, by a later release, or was changed. Nothing was run.
	ErrUnreadable = errors.New("ichido: the record cannot be read; nothing was done")
)
