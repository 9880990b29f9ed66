package main

import (
	"context"
	"testing"
	"time"
)

// A gate is work that a test holds up: each run says that it began, and ends when it is let through. A nil gate is
// open.
type gate struct {
	began chan struct{}
	let   chan error // nil lets a run go on
}

func newGate() *gate { return &gate{began: make(chan struct{}), let: make(chan error)} }

func (g *gate) pass(ctx context.Context) error {
	if g == nil {
		return nil
	}
	select {
	case g.began <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-g.let:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitBegin waits until a run has begun.
func (g *gate) awaitBegin(t *testing.T) {
	t.Helper()
	receive(t, g.began, "the work to begin")
}

// open lets one run through.
func (g *gate) open(t *testing.T) {
	t.Helper()
	select {
	case g.let <- nil:
	case <-time.After(patience):
		t.Fatal("nobody is at the gate")
	}
}

// later runs a function in the background and returns where its result will be.
func later[T any](f func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- f() }()
	return result
}

// receive waits for what must come.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %s in vain for %s", patience, what)
		panic("not reached")
	}
}
