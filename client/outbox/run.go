package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// purgeEvery is how often a worker purges, and purgeBatch how many operations it deletes then at most.
const (
	purgeEvery = time.Minute
	purgeBatch = 500
)

// Run sends what is due until ctx ends, then waits for the sendings that are under way: for Config.Grace, then they are cut
// off, to be sent again by the next worker. It also deletes what is past Config.Keep. Any number of processes may run. It
// returns an error only if it cannot even begin; later ones go to Config.OnError.
func (o *Outbox) Run(ctx context.Context) error {
	if o.transport == nil {
		return errNoTransport
	}
	if err := o.Ping(ctx); err != nil {
		return err
	}
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var (
		busy   int
		ended  = make(chan struct{}, o.config.Concurrency)
		purged time.Time
		timer  = time.NewTimer(0)
	)
	defer timer.Stop()
	for ctx.Err() == nil {
		if busy < o.config.Concurrency {
			begun := time.Now()
			// A claim that is cut off by the end of ctx could leave operations claimed by nobody.
			entries, err := o.claim(sending, o.config.Concurrency-busy)
			if err != nil {
				o.failed(ctx, err)
			}
			for _, e := range entries {
				busy++
				go func() {
					defer func() { ended <- struct{}{} }()
					o.work(sending, e, begun)
				}()
			}
		}
		if time.Since(purged) > purgeEvery {
			purged = time.Now()
			if _, err := o.Purge(ctx, purgeBatch); err != nil && ctx.Err() == nil {
				o.failed(ctx, err)
			}
		}
		timer.Reset(o.config.Poll/2 + rand.N(o.config.Poll)) // not all processes at once
		select {
		case <-ctx.Done():
		case <-o.wake:
		case <-timer.C:
		case <-ended: // its subject may have another that is due now
			busy--
		}
	}
	timer.Reset(max(o.config.Grace, 0))
	for busy > 0 {
		select {
		case <-ended:
			busy--
		case <-timer.C:
			cut()
		}
	}
	return nil
}

// Work sends what is due now, at most Config.Concurrency operations, and returns how many they were when they are through.
// It is for programs that are started now and then; call it until it returns 0.
func (o *Outbox) Work(ctx context.Context) (int, error) {
	if o.transport == nil {
		return 0, errNoTransport
	}
	begun := time.Now()
	entries, err := o.claim(context.WithoutCancel(ctx), o.config.Concurrency)
	var all sync.WaitGroup
	for _, e := range entries {
		all.Go(func() { o.work(ctx, e, begun) })
	}
	all.Wait()
	return len(entries), err
}

// Send sends one operation until it is decided, and returns what has become of it. The first sending does not wait for the
// pause after an earlier one, but it does for another worker's lease and for the operation's subject. If ctx ends before, or
// ends before the next sending would begin, the error is its error, and the entry what is known: a worker, or another Send,
// goes on.
func (o *Outbox) Send(ctx context.Context, id int64) (*Entry, error) {
	if o.transport == nil {
		return nil, errNoTransport
	}
	for insist := true; ; insist = false {
		if ctx.Err() == nil {
			begun := time.Now()
			e, err := o.claimOne(context.WithoutCancel(ctx), id, insist) // one that is cut off could leave it claimed by nobody
			if err != nil {
				return nil, err
			}
			if e != nil {
				o.work(ctx, e, begun)
			}
		}
		e, err := o.Look(context.WithoutCancel(ctx), id)
		if err != nil || e.State.Decided() {
			return e, err
		}
		wait := max(e.DueAt.Sub(e.now), 0)
		if wait == 0 { // it waits for its subject
			wait = o.config.Poll
		}
		if e.State == Sending { // it may be recorded earlier
			wait = min(wait, o.config.Poll)
		} else if end, ok := ctx.Deadline(); ok && time.Until(end) < wait && ctx.Err() == nil {
			return e, fmt.Errorf("outbox: %s: the next sending would begin in %s: %w", e, wait.Round(time.Second), context.DeadlineExceeded)
		}
		select {
		case <-ctx.Done():
			return e, context.Cause(ctx)
		case <-time.After(wait + time.Millisecond):
		}
	}
}
