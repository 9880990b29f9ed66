package ichido_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
)

// A script is a Store that says what a test tells it to. It stands for another process at the same database, which
// holds, completes or loses keys. When the test ends each of its attempts must have ended once.
type script struct {
	t    *testing.T
	next func(call int) step // the answer to the call with the number, from 0

	mu       sync.Mutex
	asked    []time.Time // when Begin was called
	claims   []ichido.Claim
	atOnce   int // calls of Begin that have not returned
	most     int // the most of these there were
	attempts []*scripted
}

// A step is one answer of Begin.
type step func(ctx context.Context, s *script, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error)

var errScriptIsOver = errors.New("the store was asked more often than the test expects")

// newScript returns a Store that answers Begin by the steps, in their order, and fails the test after the last.
func newScript(t *testing.T, steps ...step) *script {
	return newEndless(t, func(call int) step {
		if call < len(steps) {
			return steps[call]
		}
		t.Error(errScriptIsOver)
		return fails(errScriptIsOver)
	})
}

// newEndless returns a Store that answers each call of Begin by the step that next returns.
func newEndless(t *testing.T, next func(call int) step) *script {
	s := &script{t: t, next: next}
	t.Cleanup(func() {
		for i, a := range s.attempts {
			if n := a.completed + a.abandoned; n != 1 {
				t.Errorf("attempt %d ended %d times (%d completed, %d abandoned), want once", i+1, n, a.completed, a.abandoned)
			}
		}
	})
	return s
}

func (s *script) Begin(ctx context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		s.t.Error("Begin has no deadline")
	}
	s.mu.Lock()
	call := len(s.asked)
	s.asked = append(s.asked, time.Now())
	s.claims = append(s.claims, claim)
	s.atOnce++
	s.most = max(s.most, s.atOnce)
	answer := s.next(call)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.atOnce--
	}()
	return answer(ctx, s, claim)
}

func (s *script) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *script) wantCalls(want int) {
	s.t.Helper()
	if got := s.calls(); got != want {
		s.t.Errorf("the store was asked %d times, want %d", got, want)
	}
}

// wantEnds wants so many attempts, of which each ended once.
func (s *script) wantEnds(completed, abandoned int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	c, a := 0, 0
	for _, attempt := range s.attempts {
		c += attempt.completed
		a += attempt.abandoned
	}
	if c != completed || a != abandoned {
		s.t.Errorf("%d attempts were completed and %d abandoned, want %d and %d", c, a, completed, abandoned)
	}
}

// The steps.

// grants begins an attempt whose ending returns err.
func grants(err error) step {
	return func(_ context.Context, s *script, _ ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		a := &scripted{s: s, number: len(s.attempts) + 1, err: err}
		s.attempts = append(s.attempts, a)
		return a, nil, nil
	}
}

func fails(err error) step {
	return func(context.Context, *script, ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
		return nil, nil, err
	}
}

// has answers with a record of the same request.
func has(body string) step {
	return func(_ context.Context, _ *script, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
		return nil, &ichido.Record{Fingerprint: claim.Fingerprint, Response: ichido.Response{Status: 201, Body: []byte(body)}}, nil
	}
}

// hasOther answers with a record of another request.
func hasOther(body string) step {
	return func(context.Context, *script, ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
		return nil, &ichido.Record{Fingerprint: append([]byte{1}, make([]byte, 32)...), Response: ichido.Response{Status: 201, Body: []byte(body)}}, nil
	}
}

// after answers when d has passed, if the caller has so much time.
func after(d time.Duration, then step) step {
	return func(ctx context.Context, s *script, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
		select {
		case <-time.After(d):
			return then(ctx, s, claim)
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// A scripted is an attempt.
type scripted struct {
	s      *script
	number int
	err    error

	completed, abandoned int
	response             ichido.Response
	cause                error
}

type scriptedKey struct{}

// attemptOf returns the number of the attempt that ctx belongs to, from 1.
func attemptOf(ctx context.Context) int {
	n, _ := ctx.Value(scriptedKey{}).(int)
	return n
}

func (a *scripted) Context(parent context.Context) context.Context {
	return context.WithValue(parent, scriptedKey{}, a.number)
}

func (a *scripted) Complete(ctx context.Context, response ichido.Response) error {
	a.completed++
	a.response = response
	return a.end(ctx)
}

func (a *scripted) Abandon(ctx context.Context, cause error) error {
	a.abandoned++
	a.cause = cause
	return a.end(ctx)
}

func (a *scripted) end(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		a.s.t.Error("the end of an attempt has no deadline")
	}
	if err := ctx.Err(); err != nil {
		a.s.t.Errorf("the end of an attempt has no time: %v", err)
	}
	return a.err
}
