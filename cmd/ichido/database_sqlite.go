package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/ichido-dev/ichido/sqlstore"
)

var urlScheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)

// keywordDSN recognises the other form in which PostgreSQL's clients take a database. As the path of a file, each host
// would get a database of its own.
var keywordDSN = regexp.MustCompile(`^\s*(host|hostaddr|port|dbname|user|password|service|sslmode)\s*=`)

// sqlitePath returns the path that a flag means, which is not a PostgreSQL URL.
func sqlitePath(flag, location string) (string, error) {
	path := location
	if rest, ok := strings.CutPrefix(location, "sqlite:"); ok {
		path = strings.TrimPrefix(rest, "//")
	} else if m := urlScheme.FindStringSubmatch(location); m != nil {
		// The rest may hold a password; do not repeat it.
		return "", usageError(fmt.Errorf("%s: %s:// is not supported; give postgres://user:password@host/database, or the path of a SQLite file", flag, m[1]))
	}
	switch {
	case keywordDSN.MatchString(location):
		// It holds a password; do not repeat it.
		return "", usageError(errors.New(flag + ": write a PostgreSQL database as postgres://user:password@host/database, not as keywords"))
	case path == "":
		return "", usageError(errors.New(flag + ": the path of the SQLite file is empty"))
	case path == ":memory:" || strings.HasPrefix(path, "file:"):
		return "", usageError(fmt.Errorf("%s: %s is not supported; give the plain path of a file", flag, path))
	}
	return path, nil
}

func openSQLite(ctx context.Context, path string, mode sqliteMode) (*database, error) {
	db, absolute, err := openSQLiteFile(ctx, path, mode)
	if err != nil {
		return nil, err
	}
	return &database{
		store:  sqlstore.New(db, sqlstore.SQLite),
		office: sqliteOffice{db},
		where:  "SQLite, " + absolute,
		close:  db.Close,
	}, nil
}

// openSQLiteFile opens a file and returns its absolute path too.
func openSQLiteFile(ctx context.Context, path string, mode sqliteMode) (db *sql.DB, absolute string, err error) {
	absolute, err = filepath.Abs(path)
	if err != nil {
		return nil, "", fmt.Errorf("cannot open the SQLite file %s: %w", path, err)
	}
	dsn, size := sqliteDSN(absolute, mode), poolSize
	if _, err := os.Stat(absolute); errors.Is(err, fs.ErrNotExist) {
		switch mode {
		case sqliteExisting:
			return nil, "", fmt.Errorf("there is no SQLite file %s; correct --db (DATABASE_URL), or create it with ichido migrate", absolute)
		case sqliteLook:
			// What is not there looks like an empty database, and it must not come to be by looking.
			dsn, size = sqliteNowhere, 1
		}
	}
	db, err = sql.Open(sqliteDriver, dsn)
	if err != nil {
		return nil, "", fmt.Errorf("cannot open the SQLite file %s: %w", absolute, err)
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	if err := reachSQLite(ctx, db); err != nil {
		_ = db.Close()
		return nil, "", fmt.Errorf("cannot open the SQLite file %s: %w; do its directory and the right to write there exist?", absolute, err)
	}
	return db, absolute, nil
}

// reachSQLite opens a first connection. Switching a new file to WAL does not wait for locks, so that of two processes
// that do it at once one is told that the file is busy.
func reachSQLite(ctx context.Context, db *sql.DB) error {
	for {
		err := db.PingContext(ctx)
		if sqliteCode(err)&0xff != 5 { // BUSY
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// parseSQLiteTime reads a time as our table's default writes it, or as people do by hand.
func parseSQLiteTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err == nil {
		return t.UTC(), nil
	}
	for _, layout := range []string{time.DateTime, "2006-01-02T15:04:05"} {
		if t, e := time.Parse(layout, text); e == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("created_at of a reservation: %w", err)
}
