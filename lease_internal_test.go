package ichido

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// slowToEnd is an attempt whose Abandon takes until released is closed.
type slowToEnd struct{ released chan struct{} }

func (slowToEnd) Context(parent context.Context) context.Context { return parent }
func (slowToEnd) Complete(context.Context, Response) error       { return nil }
func (a slowToEnd) Abandon(context.Context, error) error         { <-a.released; return nil }

// Shutdown hands back the lease of an attempt whose work has not begun: it must not begin while that is on its way.
func TestWorkDoesNotBeginWhileItsLeaseIsHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := &leases{timeout: time.Minute, log: slog.New(slog.DiscardHandler)}
		attempt := slowToEnd{make(chan struct{})}
		h := ls.hold(attempt, Claim{Lease: &Lease{Token: 1, Duration: time.Hour}}, time.Now())
		if !h.good() {
			t.Fatal("a lease that was just claimed is not good")
		}
		done := make(chan int)
		go func() { done <- ls.handBack(t.Context()) }()
		synctest.Wait()
		if h.good() {
			t.Error("work may begin under a lease that is being handed back")
		}
		close(attempt.released)
		if n := <-done; n != 1 {
			t.Errorf("%d leases were handed back", n)
		}
	})
}
