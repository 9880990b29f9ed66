package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/jackc/pgx/v5"
)

// TestMain lets the test binary be the program as well, when it is called by its name: see installProgram.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "ichido":
		main()
	case "request":
		requestMain()
	default:
		os.Setenv("GORACE", raceOptions)
		pgtest.Main(m)
	}
}

// raceOptions are for the programs that tests start: the race detector lets each wait a second when it ends.
const raceOptions = "atexit_sleep_ms=0"

// patience bounds every wait of a test for something that must happen.
const patience = 60 * time.Second

// onBoth runs a test on an empty database of each kind.
func onBoth(t *testing.T, test func(t *testing.T, location string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "office.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, pgtest.Shared(t).NewDatabase(t)) })
}

// open opens a database with its schema, until the test ends.
func open(t *testing.T, location string) *database {
	t.Helper()
	db, err := openDatabase(t.Context(), location, sqliteCreate)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.shut)
	if err := db.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// execSQL does what an operator does with psql or sqlite3: it runs a statement on a connection of its own.
func execSQL(location, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if isPostgres(location) {
		conn, err := pgx.Connect(ctx, location)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, statement)
		return err
	}
	db, err := sql.Open(sqliteDriver, sqliteDSN(location, sqliteExisting))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// expireKeys puts all keys past their retention, as an operator would.
func expireKeys(t *testing.T, location string) {
	t.Helper()
	past := "datetime('now', '-1 minute')"
	if isPostgres(location) {
		past = "now() - interval '1 minute'"
	}
	if err := execSQL(location, "UPDATE idempotency_keys SET expires_at = "+past); err != nil {
		t.Fatal(err)
	}
}
