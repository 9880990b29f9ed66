package conformance

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestGateOpensForAll: nobody passes before the last has arrived, waiting or not.
func TestGateOpensForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(4)
		var passed atomic.Int32
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				g.wait(t.Context(), time.Hour)
				passed.Add(1)
			})
		}
		synctest.Wait()
		if n := passed.Load(); n != 0 {
			t.Errorf("%d passed before the last arrived", n)
		}
		started := time.Now()
		g.arrive()
		all.Wait()
		if waited := time.Since(started); waited != 0 {
			t.Errorf("the gate opened after %v", waited)
		}
	})
}

// TestGateLosesPatience: a client that opens too few connections delays a burst once, not once for each request.
func TestGateLosesPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(10)
		started := time.Now()
		for range 9 {
			g.wait(t.Context(), time.Second)
		}
		if waited := time.Since(started); waited != time.Second {
			t.Errorf("nine that came one after the other waited %v, want 1s", waited)
		}
	})
}

// TestGateHeedsContext: who must stop does not wait.
func TestGateHeedsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		started := time.Now()
		newGate(2).wait(ctx, time.Hour)
		if waited := time.Since(started); waited != time.Second {
			t.Errorf("waited %v, want 1s", waited)
		}
	})
}
