package ichido

import (
	"context"
	"sync"
	"time"
)

// deadlines ends the contexts of a Manager when their time is over. All share one timer, which is set to the earliest of
// them and then stays: a timer for each would wake the runtime's network poller several times a request, which costs
// more than all else that a Manager does.
type deadlines struct {
	mu      sync.Mutex
	waiting map[*deadlineContext]struct{}
	timer   *time.Timer
	due     time.Time // when the timer fires; zero if it does not
}

func (ds *deadlines) add(c *deadlineContext) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.waiting == nil {
		ds.waiting = make(map[*deadlineContext]struct{})
	}
	ds.waiting[c] = struct{}{}
	if ds.due.IsZero() || c.deadline.Before(ds.due) {
		ds.set(c.deadline)
	}
}

// remove takes a context out. The timer stays as it is: when it fires, it is set to what is earliest then.
func (ds *deadlines) remove(c *deadlineContext) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.waiting, c)
}

// set sets the timer. ds.mu is held.
func (ds *deadlines) set(due time.Time) {
	ds.due = due
	if ds.timer == nil {
		ds.timer = time.AfterFunc(time.Until(due), ds.fire)
	} else {
		ds.timer.Reset(time.Until(due))
	}
}

func (ds *deadlines) fire() {
	var over []*deadlineContext
	ds.mu.Lock()
	now, next := time.Now(), time.Time{}
	for c := range ds.waiting {
		switch {
		case !now.Before(c.deadline):
			over = append(over, c)
			delete(ds.waiting, c)
		case next.IsZero() || c.deadline.Before(next):
			next = c.deadline
		}
	}
	ds.due = time.Time{}
	if !next.IsZero() {
		ds.set(next)
	}
	ds.mu.Unlock()
	for _, c := range over {
		c.expire()
	}
}

// within is context.WithTimeout on the shared timer. It costs one allocation until somebody asks for Done.
func (ds *deadlines) within(parent context.Context, limit time.Duration) *deadlineContext {
	return &deadlineContext{all: ds, parent: parent, deadline: time.Now().Add(limit)}
}

// apart is within for what goes on when parent ends: it has parent's values only.
func (ds *deadlines) apart(parent context.Context, limit time.Duration) *deadlineContext {
	c := ds.within(parent, limit)
	c.apart = true
	return c
}

// A deadlineContext is a context that ends at a deadline. To its children the deadline is the cause of their end, and
// their error is context.Canceled: that is the price of the shared timer.
type deadlineContext struct {
	all      *deadlines
	parent   context.Context
	apart    bool // the parent's end is not ours
	deadline time.Time

	mu      sync.Mutex
	inner   context.Context // nil until somebody waits: what children hang on
	cancel  context.CancelCauseFunc
	ended   bool // by end
	expired bool // by the deadline

	// What the work that runs under this context belongs to.
	verdict verdict
	flights *flights
	scope   string
	key     string
	manager *Manager
	lease   *heldLease // nil in transaction mode
	steps   *steps     // nil until there is a step
}

// resumes reports whether a later attempt would go on where the work of c ends.
func (c *deadlineContext) resumes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steps != nil && c.steps.begun.Load()
}

// keptSteps reports whether a step of the operation is kept, or may be.
func (c *deadlineContext) keptSteps() bool {
	c.mu.Lock()
	ss := c.steps
	c.mu.Unlock()
	if ss == nil || !ss.mu.TryLock() {
		return ss != nil
	}
	defer ss.mu.Unlock()
	return len(ss.kept) > 0 || ss.unsure
}

// unfinished says why the work of c must not complete, if its steps are the reason.
func (c *deadlineContext) unfinished() error {
	c.mu.Lock()
	ss := c.steps
	c.mu.Unlock()
	if ss == nil {
		return nil
	}
	return ss.unfinished()
}

func (c *deadlineContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		parent := c.parent
		if c.apart {
			parent = context.WithoutCancel(parent)
		}
		c.inner, c.cancel = context.WithCancelCause(parent)
		switch {
		case c.ended:
			c.cancel(nil)
		case c.isOver():
			c.expired = true
			c.cancel(context.DeadlineExceeded)
		default:
			c.all.add(c)
		}
	}
	return c.inner.Done()
}

// end is its cancel function.
func (c *deadlineContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended && c.inner == nil && c.isOver() {
		c.expired = true // though nobody waited for it
	}
	c.ended = true
	if c.cancel != nil {
		c.cancel(nil)
		c.all.remove(c)
	}
}

func (c *deadlineContext) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended && c.inner.Err() == nil {
		c.expired = true
	}
	c.cancel(context.DeadlineExceeded)
}

// fail ends it early, for a cause that context.Cause returns. It is for contexts that were made by apart.
func (c *deadlineContext) fail(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if c.inner == nil {
		c.inner, c.cancel = context.WithCancelCause(context.WithoutCancel(c.parent))
	}
	c.cancel(cause)
}

func (c *deadlineContext) Deadline() (time.Time, bool) {
	if d, ok := c.parent.Deadline(); ok && !c.apart && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

func (c *deadlineContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.expired:
		return context.DeadlineExceeded
	case c.inner != nil:
		return c.inner.Err()
	case c.ended:
		return context.Canceled
	}
	if !c.apart {
		if err := c.parent.Err(); err != nil {
			return err
		}
	}
	if c.isOver() {
		return context.DeadlineExceeded
	}
	return nil
}

// isOver reports whether the deadline has passed and the parent, if it counts, has not ended.
func (c *deadlineContext) isOver() bool {
	return !time.Now().Before(c.deadline) && (c.apart || c.parent.Err() == nil)
}

// Value asks the inner context if there is one: that is how package context recognises its own kind in a parent.
func (c *deadlineContext) Value(key any) any {
	if key == (workKey{}) && c.flights != nil {
		return c
	}
	c.mu.Lock()
	inner := c.inner
	c.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return c.parent.Value(key)
}

type workKey struct{}

// workOf returns the context of the innermost work that ctx belongs to, or nil.
func workOf(ctx context.Context) *deadlineContext {
	c, _ := ctx.Value(workKey{}).(*deadlineContext)
	return c
}
