package ichido

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// A Stepper is a [Leaser] that keeps the results of steps, for operations that resume where they died.
//
// Once BeginSteps was called for a record, its operation resumes: when the lease has run out, Begin gives the next claim
// with the same fingerprint an Attempt, whatever record and claim say about Rerun, and Ask does not return the key.
type Stepper interface {
	Leaser

	// BeginSteps marks the record of an attempt as one whose operation resumes, and returns the steps that earlier attempts
	// kept in this life of the record, in order, in one statement. It returns ErrLost if the record does not carry the
	// attempt's token or its lease has run out. Doing it again does no harm.
	BeginSteps(ctx context.Context, lease Held) ([]KeptStep, error)

	// KeepStep keeps a step as the number-th, counted from 1, in one statement. It returns ErrLost, and keeps nothing, under
	// the same condition as BeginSteps, or if number is not the next. Doing it again does no harm: if the attempt has kept
	// the step already, it returns nil.
	KeepStep(ctx context.Context, lease Held, number int, step KeptStep) error
}

// A KeptStep is a step that an attempt has finished. To a store Result is opaque.
type KeptStep struct {
	Name   string
	Result []byte
}

// Step runs a named part of an operation once, and keeps its result: a later attempt of the operation gets the result
// without running the part again, and so resumes after the last part that was finished. It is for work in lease mode, under
// [Manager.Wrap] and [Do]; ctx is that of the attempt.
//
// do gets a key that is derived from scope, key and name under Config.StepSecret, and is the same in every attempt. Hand it
// to the other system as its idempotency key: if the process dies after the effect and before its result is kept, do runs
// again, and that key is what makes the effect one. Where the other side knows no keys, look there for what an earlier
// attempt may have done.
//
// The result is kept as JSON, and is what JSON makes of it on the first call too. It is bounded by Config.Stored.MaxBody and
// encrypted under Config.Stored.Secrets.
//
// An error of do is returned and nothing is kept: a later attempt runs the part again. An error made by [Final] is kept as
// well, with the value, and every attempt gets both.
//
// Steps run one after the other, not within each other, under names that are unique in the operation, and every attempt
// runs the same ones in the same order up to where it gets. Where a kept step has another name, Step returns an error that
// is ErrStepsChanged, and the attempt fails, whatever its handler makes of it; the kept results stay.
//
// Once a step is kept, or may be, an answer that is not kept does not free the key, a 4xx included, unless the work calls
// [Discard]: the next attempt resumes. Undo by a step of its own what shall not last, and keep the answer ([Keep]).
//
// Other errors: ErrLost when the attempt has lost its lease: what do did is not kept, and the work should stop; ErrNoSteps
// outside of lease mode; those of the store, after which a later attempt goes on.
func Step[T any](ctx context.Context, name string, do func(ctx context.Context, key string) (T, error)) (T, error) {
	return RunStep(ctx, name, func(ctx context.Context, s *StepRun) (value T, err error) {
		if value, err = do(ctx, s.Key); err != nil && !IsFinal(err) {
			return value, err
		}
		kept, sealErr := s.Seal(value, err)
		if sealErr != nil {
			return value, sealErr
		}
		if e := s.keep(ctx, kept); e != nil {
			s.steps.unsure = true
			return value, e
		}
		return value, err
	})
}

// The errors of steps.
var (
	// ErrNoSteps says that ctx belongs to no attempt that has steps. Its text says why.
	ErrNoSteps = errors.New("ichido: there are no steps here")

	// ErrStepsChanged says that the steps of the code are not those that an earlier attempt kept.
	ErrStepsChanged = errors.New("ichido: the steps are not those that an earlier attempt kept")
)

// A FinalError is a definite failure of a step, which later attempts get as well.
type FinalError struct {
	Step   string
	Reason string // the text of the error that was given to Final
}

func (e *FinalError) Error() string { return "step " + e.Step + ": " + e.Reason }

// Final marks an error that a step returns as definite: a declined card. The step is finished with it, and is not run
// again. The answer of the handler is kept then, whatever its status, as by [Keep]: it is the outcome of the operation. What
// Step returns is a *FinalError with err's text.
func Final(err error) error { return final{err} }

type final struct{ error }

func (f final) Unwrap() error { return f.error }

// IsFinal reports whether an error was made by [Final], for stores whose steps are transactions.
func IsFinal(err error) bool { return errors.As(err, new(final)) }

// A StepRun is a step that is about to run, for stores that keep its result in a transaction of their own.
type StepRun struct {
	Held   Held   // the lease under which it runs
	Number int    // counted from 1
	Name   string // of the step
	Key    string // derived, as [Step] has it

	steps *steps
}

// Seal returns the form in which the result of the step is kept. err is nil or was made by [Final].
func (s *StepRun) Seal(value any, err error) (KeptStep, error) {
	result := keptResult{}
	if err != nil {
		reason := err.Error()
		result.Final = &reason
	}
	var jsonErr error
	if result.Value, jsonErr = json.Marshal(value); jsonErr != nil {
		return KeptStep{}, fmt.Errorf("ichido: step %s: its result cannot be kept: %w", s.Name, jsonErr)
	}
	text, jsonErr := json.Marshal(result)
	stored := s.steps.stored()
	switch {
	case jsonErr != nil:
		return KeptStep{}, fmt.Errorf("ichido: step %s: its result cannot be kept: %w", s.Name, jsonErr)
	case len(text) > stored.MaxBody:
		return KeptStep{}, fmt.Errorf("ichido: step %s: its result has %d bytes of JSON; Config.Stored.MaxBody is %d", s.Name, len(text), stored.MaxBody)
	}
	sealed, sealErr := stored.sealText(s.steps.claimOf(s.Name), text)
	return KeptStep{s.Name, sealed}, sealErr
}

// A keptResult is what is kept of a step, before it is encrypted.
type keptResult struct {
	Value json.RawMessage `json:"value"`
	Final *string         `json:"final,omitempty"` // the reason of a final error
}

// keep keeps a step by a statement of its own.
func (s *StepRun) keep(ctx context.Context, kept KeptStep) error {
	m := s.steps.manager
	bounded := m.deadlines.apart(ctx, m.config.StoreTimeout)
	defer bounded.end()
	for again := pauses(bounded); ; { // its effect is there and cannot be undone
		err := s.steps.store.KeepStep(bounded, s.Held, s.Number, kept)
		if err == nil || errors.Is(err, ErrLost) || !again() {
			return err
		}
	}
}

// RunStep is [Step] for stores whose steps are transactions (pgstore.TxStep, sqlstore.TxStep): run runs the step and keeps
// what [StepRun.Seal] makes of its result, under the condition of [Stepper].KeepStep, in one transaction. If it returns
// ErrCommitUnknown, RunStep looks whether the step is kept.
func RunStep[T any](ctx context.Context, name string, run func(ctx context.Context, s *StepRun) (T, error)) (value T, err error) {
	ss, err := stepsOf(ctx)
	if err != nil {
		return value, fmt.Errorf("ichido: step %s: %w", name, err)
	}
	s, kept, err := ss.enter(ctx, name)
	if err != nil {
		return value, err
	}
	defer func() { ss.leave(err) }()
	if kept == nil {
		value, err = run(context.WithValue(ctx, inStepKey{}, ss), s)
		switch {
		case errors.Is(err, ErrCommitUnknown):
			if kept, err = ss.look(ctx, s, err); err != nil {
				ss.unsure = true // what was sent may arrive late
				return value, err
			}
		case err == nil || IsFinal(err):
			ss.kept = append(ss.kept, KeptStep{Name: name})
			// What later attempts get went through JSON.
			return reread(value, s, err)
		default:
			return value, err
		}
	}
	reason, err := ss.open(kept, &value)
	if err == nil && reason != nil {
		err = &FinalError{name, *reason}
	}
	return value, err
}

// reread returns a value as later attempts will see it.
func reread[T any](value T, s *StepRun, err error) (T, error) {
	var again T
	text, e := json.Marshal(value)
	if e == nil {
		e = json.Unmarshal(text, &again)
	}
	if e != nil {
		return again, fmt.Errorf("ichido: step %s: its result does not survive JSON: %w", s.Name, e)
	}
	if err != nil {
		err = &FinalError{s.Name, err.Error()}
	}
	return again, err
}

// steps are those of one attempt.
type steps struct {
	manager *Manager
	store   Stepper
	lease   *heldLease
	work    *deadlineContext

	begun atomic.Bool
	mu    sync.Mutex // held while a step runs
	kept  []KeptStep // by earlier attempts and this one; results of the latter are left out
	next  int        // index of the next step
	wrong error      // why this attempt must not complete

	unsure bool // a step may be kept that is not in kept
}

type inStepKey struct{}

// stepsOf returns the steps of the attempt that ctx belongs to.
func stepsOf(ctx context.Context) (*steps, error) {
	w := workOf(ctx)
	switch {
	case w == nil:
		return nil, fmt.Errorf("%w: the context is not that of an attempt; take it from the request that a handler under Wrap gets, or from Do", ErrNoSteps)
	case w.lease == nil:
		return nil, fmt.Errorf("%w: in transaction mode the whole work is one transaction, which leaves nothing to resume; set Config.Mode to LeaseMode", ErrNoSteps)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps != nil {
		return w.steps, nil
	}
	store, ok := w.manager.store.(Stepper)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: %T does not keep them; use a store that implements ichido.Stepper", ErrNoSteps, w.manager.store)
	case len(w.manager.config.StepSecret) == 0:
		return nil, fmt.Errorf("%w: the field Config.StepSecret is empty, from which the keys of steps are derived", ErrNoSteps)
	}
	w.steps = &steps{manager: w.manager, store: store, lease: w.lease, work: w}
	return w.steps, nil
}

func (ss *steps) held() Held {
	c := &ss.lease.claim
	return Held{c.Scope, c.Key, c.Lease.Token, c.Lease.Duration}
}

// enter begins the next step, or returns what is kept of it. After it, unless it returns an error, leave must be called.
func (ss *steps) enter(ctx context.Context, name string) (*StepRun, *KeptStep, error) {
	if ctx.Value(inStepKey{}) == ss {
		return nil, nil, fmt.Errorf("ichido: step %s: it is within another step; steps follow each other", name)
	}
	if !ss.mu.TryLock() {
		return nil, nil, fmt.Errorf("ichido: step %s: another step is running; steps follow each other", name)
	}
	s, kept, err := ss.choose(ctx, name)
	if err != nil {
		ss.leave(err)
	}
	return s, kept, err
}

// choose is enter with ss.mu held.
func (ss *steps) choose(ctx context.Context, name string) (*StepRun, *KeptStep, error) {
	if name == "" || len(name) > maxStepName || !isText(name) {
		return nil, nil, fmt.Errorf("ichido: the name of a step is 1 to %d bytes of UTF-8 without NUL; got %q", maxStepName, name)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, nil, fmt.Errorf("ichido: step %s: %w", name, err)
	}
	if !ss.begun.Load() {
		kept, err := ss.begin(ctx)
		if err == nil {
			ss.kept = kept
			ss.begun.Store(true)
			err = context.Cause(ctx) // it may have taken its time
		}
		if err != nil {
			return nil, nil, fmt.Errorf("ichido: step %s: %w", name, err)
		}
	}
	for _, k := range ss.kept[:ss.next] {
		if ss.named(k) == name {
			return nil, nil, fmt.Errorf("ichido: step %s: there was one of that name before; names are unique in an operation", name)
		}
	}
	if ss.next < len(ss.kept) {
		k := &ss.kept[ss.next]
		if ss.named(*k) != name {
			ss.wrong = fmt.Errorf("%w: step %d is %q here, and %q is kept", ErrStepsChanged, ss.next+1, name, k.Name)
			return nil, nil, ss.wrong
		}
		ss.next++
		return nil, k, nil
	}
	ss.next++
	return &StepRun{Held: ss.held(), Number: ss.next, Name: name, Key: ss.manager.stepKey(&ss.lease.claim, name), steps: ss}, nil, nil
}

// begin tells the store that the operation resumes, and returns what is kept. It tries again: work that fails because of it
// would leave its key unknown, though nothing was done.
func (ss *steps) begin(ctx context.Context) ([]KeptStep, error) {
	bounded := ss.manager.deadlines.apart(ctx, ss.manager.config.StoreTimeout)
	defer bounded.end()
	for again := pauses(bounded); ; {
		kept, err := ss.store.BeginSteps(bounded, ss.held())
		if err == nil || errors.Is(err, ErrLost) || !again() {
			return kept, err
		}
	}
}

const maxStepName = 255

// named is the name that a kept step has by now.
func (ss *steps) named(k KeptStep) string {
	if name, ok := ss.manager.config.RenamedSteps[k.Name]; ok {
		return name
	}
	return k.Name
}

// leave ends a step.
func (ss *steps) leave(err error) {
	if final := new(FinalError); errors.As(err, &final) {
		ss.work.verdict.said.Store(keep)
	} else if err != nil && ss.next > len(ss.kept) {
		ss.next = len(ss.kept) // it may be tried again within this attempt
	}
	ss.mu.Unlock()
}

// look finds out whether a step of unknown commit is kept.
func (ss *steps) look(ctx context.Context, s *StepRun, unknown error) (*KeptStep, error) {
	kept, err := ss.begin(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", err, unknown)
	case len(kept) >= s.Number && kept[s.Number-1].Name == s.Name:
		ss.kept = kept
		return &kept[s.Number-1], nil
	}
	return nil, unknown // it was not committed: the next try begins anew
}

func (ss *steps) stored() *Stored { return &ss.manager.config.Stored }

// sealText returns the form in which text that is no answer is stored: like an answer's body, in one piece with its marks.
func (s *Stored) sealText(claim *Claim, text []byte) ([]byte, error) {
	whole := *s
	whole.LocationOnly, whole.MaxBody = false, maxBuffered
	r, err := whole.pack(claim, 200, nil, text)
	if err != nil {
		return nil, err
	}
	sealed := binary.AppendUvarint(nil, uint64(len(r.Header)))
	return append(append(sealed, r.Header...), r.Body...), nil
}

// openText returns the text that sealText was given.
func (s *Stored) openText(claim *Claim, sealed []byte) ([]byte, error) {
	length, n := binary.Uvarint(sealed)
	if n <= 0 || length > uint64(len(sealed)-n) {
		return nil, errors.New("ichido: it is cut off")
	}
	rest := sealed[n:]
	a, err := s.unpack(claim, Response{Status: 200, Header: rest[:length], Body: rest[length:]})
	return a.body, err
}

// claimOf binds an encrypted result to its operation and step.
func (ss *steps) claimOf(name string) *Claim {
	c := &ss.lease.claim
	return &Claim{Scope: c.Scope, Key: c.Key + "\x00step\x00" + name}
}

// open decodes a kept step into value, and returns the reason if its error was final.
func (ss *steps) open(k *KeptStep, value any) (reason *string, err error) {
	text, err := ss.stored().openText(ss.claimOf(k.Name), k.Result)
	var result keptResult
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		return nil, fmt.Errorf("ichido: step %s: what is kept of it cannot be read: %w", k.Name, err)
	}
	if err := json.Unmarshal(result.Value, value); err != nil {
		ss.wrong = fmt.Errorf("%w: the kept result of step %s does not fit %T: %w", ErrStepsChanged, k.Name, value, err)
		return nil, ss.wrong
	}
	return result.Final, nil
}

// stepKey derives the key of a step: a UUID of version 8 (RFC 9562, section 5.8).
func (m *Manager) stepKey(claim *Claim, name string) string {
	mac := hmac.New(sha256.New, m.config.StepSecret)
	for _, part := range []string{claim.Scope, claim.Key, name} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	u := mac.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// unfinished says why an attempt must not complete, if its steps are the reason.
func (ss *steps) unfinished() error {
	if !ss.mu.TryLock() {
		return errors.New("ichido: the work returned while a step of it was running")
	}
	defer ss.mu.Unlock()
	if ss.wrong == nil && ss.next < len(ss.kept) {
		return fmt.Errorf("%w: the work ended after step %d, and %q is kept as the next", ErrStepsChanged, ss.next, ss.kept[ss.next].Name)
	}
	return ss.wrong
}
