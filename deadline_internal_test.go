package ichido

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type valueKey struct{}

// A deadlineContext must look like one of context.WithTimeout from every side, whether somebody has waited for it or not.
func TestDeadlineContextIsLikeWithTimeout(t *testing.T) {
	type event func(parent context.CancelFunc, own context.CancelFunc)
	events := map[string]event{
		"nothing":            func(_, _ context.CancelFunc) {},
		"time passes":        func(_, _ context.CancelFunc) { time.Sleep(9 * time.Second) },
		"deadline":           func(_, _ context.CancelFunc) { time.Sleep(10 * time.Second) },
		"after the deadline": func(_, _ context.CancelFunc) { time.Sleep(time.Minute) },
		"parent ends":        func(parent, _ context.CancelFunc) { parent() },
		"own end":            func(_, own context.CancelFunc) { own() },
		"both end":           func(parent, own context.CancelFunc) { own(); parent() },
		"ends twice":         func(_, own context.CancelFunc) { own(); own() },
		"end after deadline": func(_, own context.CancelFunc) { time.Sleep(11 * time.Second); own() },
	}
	looks := map[string]func(ctx context.Context){
		"nobody waits":  func(context.Context) {},
		"somebody does": func(ctx context.Context) { ctx.Done() },
		"a child does":  func(ctx context.Context) { _, cancel := context.WithCancel(ctx); _ = cancel },
		"a grandchild":  func(ctx context.Context) { context.AfterFunc(context.WithValue(ctx, valueKey{}, 2), func() {}) },
	}
	for eventName, happen := range events {
		for lookName, look := range looks {
			t.Run(eventName+", "+lookName, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					observe := func(make func(context.Context) (context.Context, context.CancelFunc)) []any {
						parent, cancelParent := context.WithCancel(context.WithValue(t.Context(), valueKey{}, 1))
						defer cancelParent()
						ctx, cancel := make(parent)
						defer cancel()
						look(ctx)
						before := ctx.Err()
						began := time.Now()
						happen(cancelParent, cancel)
						synctest.Wait()
						deadline, bounded := ctx.Deadline()
						err, cause := ctx.Err(), context.Cause(ctx)
						isDone := done(ctx)
						child, cancelChild := context.WithCancel(ctx)
						defer cancelChild()
						return []any{before, err, cause, isDone, child.Err(), done(child), bounded, deadline.Sub(began), ctx.Value(valueKey{}), context.WithoutCancel(ctx).Err()}
					}
					want := observe(func(p context.Context) (context.Context, context.CancelFunc) {
						return context.WithTimeout(p, 10*time.Second)
					})
					got := observe(func(p context.Context) (context.Context, context.CancelFunc) {
						c := new(deadlines).within(p, 10*time.Second)
						return c, c.end
					})
					for i, name := range []string{"Err before", "Err", "Cause", "Done", "a child's Err", "a child's Done", "bounded", "Deadline", "Value", "Err without cancel"} {
						if name == "a child's Err" && want[i] == context.DeadlineExceeded && got[i] == context.Canceled {
							continue // see deadlineContext
						}
						if got[i] != want[i] {
							t.Errorf("%s is %v, want %v", name, got[i], want[i])
						}
					}
				})
			})
		}
	}
}

func done(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func TestDeadlineContextUnderAnEarlierDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := new(deadlines).within(parent, time.Minute)
		defer c.end()
		if d, ok := c.Deadline(); !ok || time.Until(d) != time.Second {
			t.Errorf("the deadline is %v", d)
		}
		<-c.Done()
		if !errors.Is(c.Err(), context.DeadlineExceeded) {
			t.Errorf("it ended with %v", c.Err())
		}
	})
}

func TestDeadlineContextAtOnce(t *testing.T) {
	for range 100 {
		c := new(deadlines).within(context.Background(), time.Minute)
		var wg sync.WaitGroup
		for _, use := range []func(){c.end, func() { c.Done() }, func() { _ = c.Err() }, func() { c.Value(valueKey{}) }, func() { c.Deadline() }, c.end} {
			wg.Go(use)
		}
		wg.Wait()
		<-c.Done()
		if !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("it ended with %v", c.Err())
		}
	}
}
