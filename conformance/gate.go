package conformance

import (
	"context"
	"sync"
	"time"
)

// patience is how long requests that have their connection wait for those that have none yet. It matters only where
// a client does not open enough connections at once: then the others must go, so that theirs come free.
const patience = 5 * time.Second

// A gate opens when all have arrived.
type gate struct {
	mu      sync.Mutex
	missing int
	once    sync.Once
	opened  chan struct{}
}

func newGate(n int) *gate {
	return &gate{missing: n, opened: make(chan struct{})}
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// arrive counts one as arrived, without waiting.
func (g *gate) arrive() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.missing--
	if g.missing <= 0 {
		g.open()
	}
}

// wait counts one as arrived and waits for the others. Whoever loses patience opens the gate for all.
func (g *gate) wait(ctx context.Context, patience time.Duration) {
	g.arrive()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-g.opened:
	case <-ctx.Done():
	case <-timer.C:
		g.open()
	}
}
