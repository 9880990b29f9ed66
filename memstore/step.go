package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/ichido-dev/ichido"
)

// BeginSteps implements [ichido.Stepper].
func (s *Store) BeginSteps(ctx context.Context, h ichido.Held) ([]ichido.KeptStep, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.held(ichido.EntryID{Scope: h.Scope, Key: h.Key}, h.Token, time.Now())
	if e == nil {
		return nil, ichido.ErrLost
	}
	e.lease.resumes = true
	return slices.Clone(e.lease.steps), nil
}

// KeepStep implements [ichido.Stepper].
func (s *Store) KeepStep(ctx context.Context, h ichido.Held, number int, step ichido.KeptStep) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.held(ichido.EntryID{Scope: h.Scope, Key: h.Key}, h.Token, time.Now())
	switch {
	case e == nil || number > len(e.lease.steps)+1:
		return ichido.ErrLost
	case number <= len(e.lease.steps) && e.lease.steps[number-1].Name == step.Name:
		return nil
	case number <= len(e.lease.steps):
		return ichido.ErrLost
	}
	e.lease.steps = append(e.lease.steps, step)
	return nil
}
