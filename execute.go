package ichido

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// How often and when things are tried again.
const (
	maxRuns      = 10                     // runs of one request whose transaction the database keeps aborting
	firstRerun   = 2 * time.Millisecond   // longest pause before the second run; doubles
	longestRerun = 100 * time.Millisecond // where that pause stops growing
	firstLook    = 10 * time.Millisecond  // before a waiting leader asks the store again; grows by half
	longestLook  = 500 * time.Millisecond // where that pause stops growing
	looksAtOnce  = 4                      // waiting leaders that ask the store at the same time, over all keys
)

// A job is the operation of one request.
type job interface {
	// run runs the operation once. It is called again, with another context, when the database aborted the
	// transaction of an earlier call.
	run(ctx context.Context) outcome

	// same reports whether a record with another fingerprint than the claim's is of this request all the same,
	// because its fingerprint is of another form. An error means that it cannot tell.
	same(fingerprint []byte) (bool, error)
}

// An outcome is what work asks for: that its response be kept, or that nothing be left.
type outcome struct {
	keep     bool
	response Response // if keep
	err      error    // if not keep: why the work failed; nil if it refused on purpose
	resumes  bool     // another attempt would go on where it ended
}

// execute makes the operation of claim take effect once. It returns the record to replay, or nil if the job ran
// and its attempt ended as the last outcome asked. An error is one of ErrInProgress, ErrMismatch, ErrUnavailable,
// ErrSerialization, ErrCommitUnknown, ErrUnknown, ErrNotCommitted, ErrNoRecord, or ctx's own; then nothing was left, except that
// ErrCommitUnknown and ErrUnknown do not know.
func (m *Manager) execute(ctx context.Context, claim Claim, j job) (*Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id := flightID{claim.Scope, claim.Key}
	p := patience{ctx: ctx, limit: m.config.WaitLimit}
	defer p.end()
	for {
		f, leads := m.flights.join(id, claim.Fingerprint)
		var record *Record
		var err error
		if leads {
			record, err = m.lead(ctx, f, claim, j, &p)
		} else {
			record, err = m.follow(f, claim, &p)
		}
		switch {
		case errors.Is(err, errLeadYourself):
			continue
		case err != nil:
			return nil, err
		case record == nil:
			return nil, nil
		}
		switch same, err := matches(claim, record, j); {
		case err != nil:
			return nil, err
		case !same:
			return nil, ErrMismatch
		case record.State == Unknown:
			return nil, ErrUnknown
		}
		return record, nil
	}
}

// matches reports whether a record is of the request of a claim.
func matches(claim Claim, record *Record, j job) (bool, error) {
	if bytes.Equal(record.Fingerprint, claim.Fingerprint) {
		return true, nil
	}
	return j.same(record.Fingerprint)
}

// errLeadYourself tells a follower that its flight ended without anything to share.
var errLeadYourself = errors.New("nothing known of the key")

// lead talks to the store for all requests on the flight, and lands it whichever way it ends, a panic of the work
// included.
func (m *Manager) lead(ctx context.Context, f *flight, claim Claim, j job, p *patience) (*Record, error) {
	news := landing{err: errLeadYourself}
	defer func() { m.flights.land(f, news) }()

	var began time.Time
	asked, resumes := false, false
	for runs := 1; ; runs++ {
		attempt, record, err := m.claim(ctx, f, claim, p)
		if record != nil && record.State == Unknown && !asked {
			asked = bytes.Equal(record.Fingerprint, claim.Fingerprint)
			if m.unblock(ctx, &claim, record, j) {
				continue
			}
		}
		if record != nil {
			news = landing{record: record}
			return record, nil
		}
		if !began.IsZero() && m.config.Mode == LeaseMode { // our own attempt, whose lease was lost, may have had an effect
			switch {
			case err == nil && m.config.OnLapse == Hold && !resumes: // somebody settled the key as not done
				_ = m.abandon(ctx, attempt, nil)
				return nil, ErrUnknown
			case err == nil && time.Since(began) >= m.config.AttemptTimeout: // enough for one request
				_ = m.abandon(ctx, attempt, nil) // not the first, so the next request may run
				return nil, ErrUnknown
			case err != nil && !errors.Is(err, ErrInProgress) && !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrSerialization):
				err = fmt.Errorf("%w: %w", ErrCommitUnknown, err)
			}
		}
		if err == nil {
			m.flights.move(f, running)
			before := began
			if began.IsZero() {
				began = time.Now()
			}
			var out outcome
			out, err = m.try(ctx, attempt, &claim, j)
			if errors.Is(err, errNotBegun) {
				began = before
			}
			resumes = out.resumes
			if err == nil {
				if out.keep {
					f.made = Record{Fingerprint: claim.Fingerprint, Response: out.response}
					news = landing{record: &f.made}
				}
				return nil, nil
			}
			err = ended(err)
		}
		mayRerun := runs < maxRuns && (began.IsZero() || time.Since(began) < m.config.AttemptTimeout)
		switch {
		case errors.Is(err, ErrLost) && (mayRerun || m.config.Mode == LeaseMode && runs < maxRuns):
			m.flights.move(f, asking) // the key is the winner's, or unknown: its record is there to be read
		case mayRerun && errors.Is(err, ErrSerialization):
			time.Sleep(rand.N(min(firstRerun<<(runs-1), longestRerun)))
		default:
			if errors.Is(err, ErrLost) { // again and again, to others that left no record
				err = fmt.Errorf("%w: %w", ErrSerialization, err)
			}
			if m.isNews(err) {
				news = landing{err: err}
			}
			return nil, err
		}
		claim.Reruns++
		ctx = context.WithoutCancel(ctx) // what has begun goes on without its client
	}
}

// isNews reports whether an error of the leader is one for its followers as well: what the store said, or that it
// said nothing. That the leader's own patience ended, or its client left, is not.
func (m *Manager) isNews(err error) bool {
	return errors.Is(err, ErrMismatch) ||
		errors.Is(err, ErrInProgress) && m.config.InProgress == Reject ||
		errors.Is(err, ErrUnavailable)
}

// claim begins an attempt. If one is in progress elsewhere and the policy is to wait, it asks again now and then,
// holding nothing in between.
func (m *Manager) claim(ctx context.Context, f *flight, claim Claim, p *patience) (Attempt, *Record, error) {
	attempt, record, err := m.begin(ctx, claim, m.config.Mode)
	for pause := firstLook; errors.Is(err, ErrInProgress) && m.config.InProgress == Wait; pause = min(pause*3/2, longestLook) {
		m.flights.move(f, elsewhere)
		if !p.sleep(pause/2 + rand.N(pause)) {
			return nil, nil, p.over()
		}
		attempt, record, err = m.lookAgain(claim, p, m.config.Mode)
	}
	return attempt, record, err
}

// lookAgain is begin for those who wait: few at once over all keys, so that many of them leave the store's
// connections to others, and no longer than their patience.
func (m *Manager) lookAgain(claim Claim, p *patience, mode Mode) (Attempt, *Record, error) {
	select {
	case m.looks <- struct{}{}:
		defer func() { <-m.looks }()
	case <-p.done():
		return nil, nil, p.over()
	}
	attempt, record, err := m.begin(p.bounded, claim, mode)
	if attempt == nil && record == nil && p.bounded.Err() != nil {
		err = p.over()
	}
	return attempt, record, err
}

// begin asks the store for the claim, for a bounded time, and tells answers from failures.
func (m *Manager) begin(ctx context.Context, claim Claim, mode Mode) (Attempt, *Record, error) {
	attempt, record, err := m.beginIn(ctx, claim, mode)
	if errors.Is(err, ErrMismatch) && len(m.config.Fingerprint.Secrets) > 1 {
		err = ErrInProgress // secrets are being rotated: the same request may have another digest in another process
	}
	switch {
	case err == nil && attempt == nil && record == nil:
		err = errors.New("ichido: Store.Begin returned nothing")
	case err == nil || errors.Is(err, ErrInProgress) || errors.Is(err, ErrMismatch) || errors.Is(err, ErrSerialization) || errors.Is(err, ErrNoRecord):
		return attempt, record, err
	case ctx.Err() != nil:
		return nil, nil, ctx.Err() // that is why the store did not answer
	case errors.Is(err, ErrUnavailable):
		return nil, nil, err
	}
	return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// beginIn begins an attempt in a mode, within the time that the store has.
func (m *Manager) beginIn(ctx context.Context, claim Claim, mode Mode) (Attempt, *Record, error) {
	if mode == TransactionMode {
		bounded := m.deadlines.within(ctx, m.config.StoreTimeout)
		defer bounded.end()
		return m.store.Begin(bounded, claim)
	}
	bounded := m.deadlines.apart(ctx, min(m.config.StoreTimeout, m.config.Lease)) // not repeated when its own lease is over
	defer bounded.end()
	claim.Lease = &Lease{
		Token: newToken(), Duration: m.config.Lease, Rerun: m.config.OnLapse == Rerun,
		UnknownRetention: m.config.UnknownRetention, Route: m.config.Route,
		Owner: m.config.Owner, MaxAttempts: m.config.MaxAttempts, Request: claim.request, Follows: claim.follows,
	}
	return m.leases.begin(bounded, claim)
}

// try runs the work under an attempt and ends the attempt, on every way out. A client that hangs up ends neither:
// the work has its own deadline, and so has its ending.
func (m *Manager) try(ctx context.Context, attempt Attempt, claim *Claim, j job) (out outcome, err error) {
	began, returned := time.Now(), false
	defer func() {
		m.pace.note(time.Since(began))
		if !returned { // the job panicked, or its goroutine exits
			_ = m.abandon(ctx, attempt, errGone)
		}
	}()
	working := m.deadlines.apart(ctx, m.config.AttemptTimeout)
	working.flights, working.scope, working.key, working.manager = m.flights, claim.Scope, claim.Key, m
	defer working.end()
	inside := attempt.Context(working)
	if h, ok := attempt.(*heldLease); ok && !h.good() {
		returned = true
		_ = m.abandon(ctx, attempt, nil)
		return out, errNotBegun
	}
	out = j.run(inside)
	out.resumes = working.resumes()
	returned = true
	if !out.keep {
		return out, m.abandon(ctx, attempt, out.err)
	}
	ending := m.deadlines.apart(ctx, m.config.StoreTimeout)
	defer ending.end()
	return out, attempt.Complete(ending, out.response)
}

// errNotBegun says that a lease was over before the work began.
var errNotBegun = fmt.Errorf("the lease was over before the work began: %w", ErrLost)

// errGone is why work failed whose goroutine panicked or exited.
var errGone = errors.New("ichido: the work did not return")

// abandon ends an attempt that leaves nothing. That the store could not be told is no error to the client, because
// a transaction that is not committed is nothing; the operator may want to know.
func (m *Manager) abandon(ctx context.Context, attempt Attempt, cause error) error {
	ending := m.deadlines.apart(ctx, m.config.StoreTimeout)
	defer ending.end()
	err := attempt.Abandon(ending, cause)
	if err == nil || errors.Is(err, ErrSerialization) || errors.Is(err, ErrLost) {
		return err
	}
	m.log.WarnContext(ctx, "ichido: an attempt was abandoned, but the store could not be told", slog.Any("error", err))
	return nil
}

// ended gives an error of Complete or Abandon its class.
func ended(err error) error {
	for _, class := range []error{ErrLost, ErrSerialization, ErrCommitUnknown, ErrUnavailable} {
		if errors.Is(err, class) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrNotCommitted, err)
}

// follow waits for what the leader of a flight learns, holding nothing but memory.
func (m *Manager) follow(f *flight, claim Claim, p *patience) (*Record, error) {
	same := bytes.Equal(f.fingerprint, claim.Fingerprint)
	for {
		now, news, changed := m.flights.look(f)
		switch {
		case now == landed && (news.err == nil || same || errors.Is(news.err, ErrUnavailable)):
			return news.record, news.err
		case now == landed:
			return nil, errLeadYourself // the store's answer was to another fingerprint than ours
		case now == running && !same:
			return nil, ErrMismatch
		case now == elsewhere && !same && !p.asked:
			p.asked = true
			if record, err := m.ask(claim, p); record != nil || err != nil {
				return record, err
			}
		}
		if now != asking && m.config.InProgress == Reject {
			return nil, ErrInProgress
		}
		select {
		case <-changed:
		case <-p.done():
			return nil, p.over()
		}
	}
}

// ask asks the store about a request that follows a flight with another fingerprint, whose attempt runs in another
// process. Some stores can tell a mismatch then. It returns nothing if the key is in progress.
func (m *Manager) ask(claim Claim, p *patience) (*Record, error) {
	attempt, record, err := m.lookAgain(claim, p, TransactionMode) // a transaction leaves nothing; a lease would be a record
	switch {
	case attempt != nil: // it has just ended; its record, or the leader's next look, says more
		_ = m.abandon(p.ctx, attempt, nil)
		return nil, nil
	case errors.Is(err, ErrInProgress) && p.bounded.Err() == nil:
		return nil, nil
	}
	return record, err
}

// patience bounds how long one request waits for another, over all its waits. Its time begins with the first.
type patience struct {
	ctx     context.Context // the request's
	limit   time.Duration
	asked   bool // the store was asked about this request while another one's attempt runs elsewhere
	bounded context.Context
	cancel  context.CancelFunc
}

func (p *patience) done() <-chan struct{} {
	if p.bounded == nil {
		p.bounded, p.cancel = context.WithTimeout(p.ctx, p.limit)
	}
	return p.bounded.Done()
}

// over is the error of a request whose patience ended: its client left, or its time is over.
func (p *patience) over() error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	return ErrInProgress
}

// sleep reports whether d passed before the patience ended.
func (p *patience) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.done():
		return false
	}
}

func (p *patience) end() {
	if p.cancel != nil {
		p.cancel()
	}
}
