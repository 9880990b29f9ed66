package pgstore

import (
	"context"

	"github.com/ichido-dev/ichido"
	"github.com/jackc/pgx/v5"
)

// WithoutLocks makes every claim get its lock, as if advisory locks did nothing.
func WithoutLocks(s *Store) {
	s.sql = claimsBy(`$1::int8 IS NOT NULL AND $2::int4 IS NOT NULL AND $3::int4 IS NOT NULL`)
}

// KeepInTx is what TxStep does with a step.
func (s *Store) KeepInTx(ctx context.Context, step *ichido.StepRun, run func(pgx.Tx) (ichido.KeptStep, error)) error {
	return s.keepInTx(ctx, step, run)
}
