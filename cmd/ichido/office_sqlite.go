package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/migration"
	"github.com/ichido-dev/ichido/sqlstore"
)

// sqliteOffice is the office on SQLite.
type sqliteOffice struct{ db *sql.DB }

var _ office = sqliteOffice{}

// insert writes as the first statement of its transaction: that takes the lock at once, on a view of the database that
// nobody can change before the commit. A transaction that reads first may have to be run again.
func (o sqliteOffice) insert(ctx context.Context, r reservation) (int64, error) {
	result, err := sqlstore.Tx(ctx).ExecContext(ctx,
		`INSERT INTO reservations (item_code, quantity, reserved_by) VALUES (?, ?, ?)`,
		r.itemCode, r.quantity, r.reservedBy)
	if err != nil {
		return 0, sqliteError("inserting a reservation", err)
	}
	return result.LastInsertId()
}

func (o sqliteOffice) get(ctx context.Context, id int64) (e entry, err error) {
	err = scanEntry(o.db.QueryRowContext(ctx,
		`SELECT id, item_code, quantity, reserved_by, created_at FROM reservations WHERE id = ?`, id), &e)
	return e, sqliteError("reading a reservation", err)
}

func (o sqliteOffice) list(ctx context.Context, by string, before int64, limit int) (entries []entry, err error) {
	query, args := listQuery("?", by, before, limit)
	rows, err := o.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, sqliteError("listing reservations", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e entry
		if err := scanEntry(rows, &e); err != nil {
			return nil, sqliteError("listing reservations", err)
		}
		entries = append(entries, e)
	}
	return entries, sqliteError("listing reservations", rows.Err())
}

// scanEntry reads a row. SQLite has no type for times: ours are text.
func scanEntry(row interface{ Scan(...any) error }, e *entry) error {
	var created string
	err := row.Scan(&e.ID, &e.ItemCode, &e.Quantity, &e.ReservedBy, &created)
	if err != nil {
		return err
	}
	e.CreatedAt, err = parseSQLiteTime(created)
	return err
}

// sqliteError gives an error of the database its meaning.
func sqliteError(doing string, err error) error {
	code := sqliteCode(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return errNoEntry
	case code == sqliteConstraintCheck && strings.Contains(err.Error(), quantityCheck):
		return errQuantity
	case sqliteOutOfService[code&0xff],
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, sql.ErrConnDone):
		return fmt.Errorf("%s: %w: %w", doing, errUnreachable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Result codes of SQLite (https://sqlite.org/rescode.html). The low byte of an extended one is its primary code.
const sqliteConstraintCheck = 19 | 1<<8

// sqliteOutOfService are the primary codes that are about the file rather than about the statement.
var sqliteOutOfService = map[int]bool{
	5:  true, // BUSY
	8:  true, // READONLY
	10: true, // IOERR
	13: true, // FULL
	14: true, // CANTOPEN
}

var sqliteMigrations = migration.Read(officeFiles, "office/sqlite")

func (o sqliteOffice) Pending(ctx context.Context) ([]ichido.Migration, error) {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return nil, sqliteError("reading the version of the office's schema", err)
	}
	defer conn.Close()
	pending, err := o.pendingOn(ctx, conn)
	return pending, sqliteError("reading the version of the office's schema", err)
}

func (o sqliteOffice) pendingOn(ctx context.Context, conn *sql.Conn) ([]ichido.Migration, error) {
	var tables, version int
	err := conn.QueryRowContext(ctx,
		"SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'office_migrations'").Scan(&tables)
	if err == nil && tables > 0 {
		err = conn.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM office_migrations").Scan(&version)
	}
	if err != nil {
		return nil, err
	}
	return migration.After(sqliteMigrations, version)
}

// Migrate applies what is pending in one transaction that begins with the write lock, so that of two processes the
// second finds nothing left to do.
func (o sqliteOffice) Migrate(ctx context.Context) (applied []ichido.Migration, err error) {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return nil, sqliteError("migrating the office", err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, sqliteError("migrating the office", err)
	}
	if applied, err = o.apply(ctx, conn); err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return nil, sqliteError("migrating the office", err)
	}
	return applied, nil
}

func (o sqliteOffice) apply(ctx context.Context, conn *sql.Conn) ([]ichido.Migration, error) {
	pending, err := o.pendingOn(ctx, conn)
	if err != nil || len(pending) == 0 {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS office_migrations (
		version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)`); err != nil {
		return nil, err
	}
	for _, m := range pending {
		if _, err := conn.ExecContext(ctx, m.SQL); err != nil {
			return nil, fmt.Errorf("migration %d (%s): %w", m.Version, m.Name, err)
		}
		if _, err := conn.ExecContext(ctx, "INSERT INTO office_migrations (version, name) VALUES (?, ?)", m.Version, m.Name); err != nil {
			return nil, err
		}
	}
	return pending, nil
}
