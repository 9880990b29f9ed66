package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/migration"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresOffice is the office on PostgreSQL.
type postgresOffice struct{ pool *pgxpool.Pool }

var _ office = postgresOffice{}

func (o postgresOffice) insert(ctx context.Context, r reservation) (id int64, err error) {
	err = pgstore.Tx(ctx).QueryRow(ctx,
		`INSERT INTO reservations (item_code, quantity, reserved_by) VALUES ($1, $2, $3) RETURNING id`,
		r.itemCode, r.quantity, r.reservedBy).Scan(&id)
	return id, postgresError("inserting a reservation", err)
}

func (o postgresOffice) get(ctx context.Context, id int64) (e entry, err error) {
	err = o.pool.QueryRow(ctx,
		`SELECT id, item_code, quantity, reserved_by, created_at FROM reservations WHERE id = $1`, id).
		Scan(&e.ID, &e.ItemCode, &e.Quantity, &e.ReservedBy, &e.CreatedAt)
	e.CreatedAt = e.CreatedAt.UTC()
	return e, postgresError("reading a reservation", err)
}

func (o postgresOffice) list(ctx context.Context, by string, before int64, limit int) ([]entry, error) {
	query, args := listQuery("$", by, before, limit)
	rows, err := o.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, postgresError("listing reservations", err)
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e entry, err error) {
		err = row.Scan(&e.ID, &e.ItemCode, &e.Quantity, &e.ReservedBy, &e.CreatedAt)
		e.CreatedAt = e.CreatedAt.UTC()
		return e, err
	})
	return entries, postgresError("listing reservations", err)
}

// postgresError gives an error of the database its meaning. The server's own message is kept for the log.
func postgresError(doing string, err error) error {
	pgErr := new(pgconn.PgError)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return errNoEntry
	case !errors.As(err, &pgErr): // it did not answer: connection lost, time over
		return fmt.Errorf("%s: %w: %w", doing, errUnreachable, err)
	case pgErr.Code == "23514" && pgErr.ConstraintName == quantityCheck:
		return errQuantity
	case isOutOfService(pgErr.Code):
		return fmt.Errorf("%s: %w: %w", doing, errUnreachable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isOutOfService reports whether an SQLSTATE is about the server rather than about the statement: 08 connection, 53
// insufficient resources, 57 operator intervention (shutting down, starting, cancelled).
func isOutOfService(sqlState string) bool {
	return strings.HasPrefix(sqlState, "08") || strings.HasPrefix(sqlState, "53") || strings.HasPrefix(sqlState, "57")
}

var postgresMigrations = migration.Read(officeFiles, "office/postgres")

// postgresMigrationLock is the advisory lock under which one process at a time migrates an office.
const postgresMigrationLock = 0x6f666669_00000001

func (o postgresOffice) Pending(ctx context.Context) ([]ichido.Migration, error) {
	var exists bool
	var pending []ichido.Migration
	err := o.pool.QueryRow(ctx, "SELECT to_regclass('office_migrations') IS NOT NULL").Scan(&exists)
	if err == nil && !exists {
		return postgresMigrations, nil
	}
	if err == nil {
		pending, err = o.pendingOn(ctx, o.pool)
	}
	return pending, postgresError("reading the version of the office's schema", err)
}

// pendingOn is Pending where the table of migrations exists.
func (o postgresOffice) pendingOn(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) ([]ichido.Migration, error) {
	version := 0
	if err := db.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM office_migrations").Scan(&version); err != nil {
		return nil, err
	}
	return migration.After(postgresMigrations, version)
}

func (o postgresOffice) Migrate(ctx context.Context) (applied []ichido.Migration, err error) {
	// Most starts find nothing to do. They need no lock to see it, and no right to create tables.
	if pending, err := o.Pending(ctx); err != nil || len(pending) == 0 {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		applied, err = o.apply(ctx, tx)
		return err
	})
	return applied, postgresError("migrating the office", err)
}

// apply applies what is pending now that nobody else can. It does not ask whether the table of migrations exists: a
// session that asked before may be answered from its cache, although another one has made it since.
func (o postgresOffice) apply(ctx context.Context, tx pgx.Tx) ([]ichido.Migration, error) {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::int8)", int64(postgresMigrationLock)); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS office_migrations (
		version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`); err != nil {
		return nil, err
	}
	pending, err := o.pendingOn(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, m := range pending {
		if _, err := tx.Exec(ctx, m.SQL); err != nil {
			return nil, fmt.Errorf("migration %d (%s): %w", m.Version, m.Name, err)
		}
		if _, err := tx.Exec(ctx, "INSERT INTO office_migrations (version, name) VALUES ($1, $2)", m.Version, m.Name); err != nil {
			return nil, err
		}
	}
	return pending, nil
}
