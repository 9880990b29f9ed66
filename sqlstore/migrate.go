package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/migration"
)

// Pending implements [ichido.Migrator].
func (s *Store) Pending(ctx context.Context) ([]ichido.Migration, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: no connection: %w", err)
	}
	defer conn.Close()
	return s.pendingOn(ctx, conn)
}

func (s *Store) pendingOn(ctx context.Context, conn *sql.Conn) ([]ichido.Migration, error) {
	var tables, version int
	if err := conn.QueryRowContext(ctx, s.dialect.migrationTable).Scan(&tables); err != nil {
		return nil, s.dialect.unavailable("reading the schema's version", err)
	}
	if tables > 0 {
		if err := conn.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM idempotency_migrations").Scan(&version); err != nil {
			return nil, s.dialect.unavailable("reading the schema's version", err)
		}
	}
	return migration.After(s.dialect.migrations, version)
}

// Migrate implements [ichido.Migrator]. All pending migrations are one transaction.
func (s *Store) Migrate(ctx context.Context) (applied []ichido.Migration, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: no connection: %w", err)
	}
	defer conn.Close()
	// Most starts find nothing to do, and need not keep others from writing to see it.
	if pending, err := s.pendingOn(ctx, conn); err != nil || len(pending) == 0 {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, s.dialect.beginExclusive); err != nil {
		return nil, s.dialect.unavailable("migrating", err)
	}
	if applied, err = s.apply(ctx, conn); err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return nil, s.dialect.unavailable("migrating", err)
	}
	return applied, nil
}

// apply applies what is pending now that nobody else can.
func (s *Store) apply(ctx context.Context, conn *sql.Conn) ([]ichido.Migration, error) {
	pending, err := s.pendingOn(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, m := range pending {
		if m.Version == 1 {
			if _, err := conn.ExecContext(ctx, `CREATE TABLE idempotency_migrations
				(version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)`); err != nil {
				return nil, s.dialect.unavailable("migrating", err)
			}
		}
		if _, err := conn.ExecContext(ctx, m.SQL); err != nil {
			return nil, s.dialect.unavailable(fmt.Sprintf("migration %d (%s)", m.Version, m.Name), err)
		}
		if _, err := conn.ExecContext(ctx, "INSERT INTO idempotency_migrations (version, name) VALUES (?, ?)", m.Version, m.Name); err != nil {
			return nil, s.dialect.unavailable("migrating", err)
		}
	}
	return pending, nil
}
