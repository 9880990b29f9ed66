package ichido

import (
	"context"
	"sync"
	"time"
)

// within is context.WithTimeout for contexts that few look at: it costs one allocation until somebody asks for Done.
func within(parent context.Context, limit time.Duration) *deadlineContext {
	return &deadlineContext{parent: parent, deadline: time.Now().Add(limit)}
}

// apart is within for what goes on when parent ends: it has parent's values only.
func apart(parent context.Context, limit time.Duration) *deadlineContext {
	c := within(parent, limit)
	c.apart = true
	return c
}

// A deadlineContext makes its timer when it is first waited for.
type deadlineContext struct {
	parent   context.Context
	apart    bool // the parent's end is not ours
	deadline time.Time

	mu     sync.Mutex
	timed  context.Context // nil until somebody waits
	cancel context.CancelFunc
	ended  bool

	// What the work that runs under this context belongs to.
	verdict verdict
	flights *flights
	key     string
}

// context returns the real thing.
func (c *deadlineContext) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		parent := c.parent
		if c.apart {
			parent = context.WithoutCancel(parent)
		}
		c.timed, c.cancel = context.WithDeadline(parent, c.deadline)
		if c.ended {
			c.cancel()
		}
	}
	return c.timed
}

// end is its cancel function.
func (c *deadlineContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *deadlineContext) Deadline() (time.Time, bool) {
	if d, ok := c.parent.Deadline(); ok && !c.apart && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

func (c *deadlineContext) Done() <-chan struct{} { return c.context().Done() }

func (c *deadlineContext) Err() error {
	c.mu.Lock()
	asleep := c.timed == nil && !c.ended && time.Until(c.deadline) > 0
	c.mu.Unlock()
	switch {
	case asleep && c.apart:
		return nil
	case asleep:
		return c.parent.Err()
	}
	return c.context().Err()
}

// Value asks the real thing if there is one: that is how package context recognises its own kind in a parent.
func (c *deadlineContext) Value(key any) any {
	if key == (workKey{}) && c.flights != nil {
		return c
	}
	c.mu.Lock()
	timed := c.timed
	c.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return c.parent.Value(key)
}

type workKey struct{}

// workOf returns the context of the innermost work that ctx belongs to, or nil.
func workOf(ctx context.Context) *deadlineContext {
	c, _ := ctx.Value(workKey{}).(*deadlineContext)
	return c
}
