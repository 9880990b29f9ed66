package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/migration"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = migration.Read(migrationFiles, "migrations")

// migrationLock is the advisory lock that lets one process migrate at a time.
const migrationLock = int64(keySpace)<<32 | 1

// Pending implements [ichido.Migrator].
func (s *Store) Pending(ctx context.Context) ([]ichido.Migration, error) {
	pending, err := pendingOn(ctx, s.pool)
	if err != nil {
		return nil, classify("reading the schema's version", err)
	}
	return pending, nil
}

type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func pendingOn(ctx context.Context, db queryer) ([]ichido.Migration, error) {
	var exists bool
	if err := db.QueryRow(ctx, "SELECT to_regclass('idempotency_migrations') IS NOT NULL").Scan(&exists); err != nil {
		return nil, err
	}
	version := 0
	if exists {
		if err := db.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM idempotency_migrations").Scan(&version); err != nil {
			return nil, err
		}
	}
	return migration.After(migrations, version)
}

// Migrate implements [ichido.Migrator]. All pending migrations are one transaction.
func (s *Store) Migrate(ctx context.Context) ([]ichido.Migration, error) {
	for tries := 1; ; tries++ {
		applied, err := s.migrateOnce(ctx)
		if err == nil {
			return applied, nil
		}
		// Where advisory locks do nothing, another process may have made the same objects in between.
		pgErr := new(pgconn.PgError)
		if tries < 3 && errors.As(err, &pgErr) && (pgErr.Code == "42P07" || pgErr.Code == "23505") {
			continue
		}
		return nil, classify("migrating", err)
	}
}

func (s *Store) migrateOnce(ctx context.Context) (applied []ichido.Migration, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::int8)", migrationLock); err != nil {
			return err
		}
		applied, err = pendingOn(ctx, tx)
		if err != nil || len(applied) == 0 {
			return err
		}
		if applied[0].Version == 1 {
			if _, err := tx.Exec(ctx, `CREATE TABLE idempotency_migrations (
				version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`); err != nil {
				return err
			}
		}
		for _, m := range applied {
			if _, err := tx.Exec(ctx, m.SQL); err != nil {
				return fmt.Errorf("migration %d (%s): %w", m.Version, m.Name, err)
			}
			if _, err := tx.Exec(ctx, "INSERT INTO idempotency_migrations (version, name) VALUES ($1, $2)", m.Version, m.Name); err != nil {
				return err
			}
		}
		return nil
	})
	return applied, err
}
