package outbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/migration"
)

// Pending implements [ichido.Migrator]. The outbox has migrations of its own: it need not be in the database of a store.
func (o *Outbox) Pending(ctx context.Context) ([]ichido.Migration, error) {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("outbox: no connection: %w", err)
	}
	defer conn.Close()
	pending, err := o.pendingOn(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("outbox: reading the schema's version: %w", err)
	}
	return pending, nil
}

func (o *Outbox) pendingOn(ctx context.Context, conn *sql.Conn) ([]ichido.Migration, error) {
	var tables, version int
	if err := conn.QueryRowContext(ctx, o.dialect.table).Scan(&tables); err != nil {
		return nil, err
	}
	if tables > 0 {
		if err := conn.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM idempotency_outbox_migrations").Scan(&version); err != nil {
			return nil, err
		}
	}
	return migration.After(o.dialect.all, version)
}

// Migrate implements [ichido.Migrator]: it makes the table idempotency_outbox, or brings it up to date, in one transaction.
func (o *Outbox) Migrate(ctx context.Context) (applied []ichido.Migration, err error) {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("outbox: no connection: %w", err)
	}
	defer conn.Close()
	// Most starts find nothing to do, and need not keep others from writing to see it.
	if pending, err := o.pendingOn(ctx, conn); err != nil || len(pending) == 0 {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, o.dialect.begin); err != nil {
		return nil, fmt.Errorf("outbox: migrating: %w", err)
	}
	if applied, err = o.apply(ctx, conn); err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return nil, fmt.Errorf("outbox: migrating: %w", err)
	}
	return applied, nil
}

// apply applies what is pending now that nobody else can.
func (o *Outbox) apply(ctx context.Context, conn *sql.Conn) ([]ichido.Migration, error) {
	pending, err := o.pendingOn(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, m := range pending {
		if m.Version == 1 {
			if _, err := conn.ExecContext(ctx, `CREATE TABLE idempotency_outbox_migrations
				(version integer PRIMARY KEY, name text NOT NULL, applied_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)`); err != nil {
				return nil, err
			}
		}
		if _, err := conn.ExecContext(ctx, m.SQL); err != nil {
			return nil, fmt.Errorf("migration %d (%s): %w", m.Version, m.Name, err)
		}
		if _, err := conn.ExecContext(ctx, o.dialect.place("INSERT INTO idempotency_outbox_migrations (version, name) VALUES ($1, $2)"), m.Version, m.Name); err != nil {
			return nil, err
		}
	}
	return pending, nil
}
