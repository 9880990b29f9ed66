package main

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"

	"github.com/ichido-dev/ichido/sqlstore"

	_ "github.com/ncruces/go-sqlite3/driver"
	_ "modernc.org/sqlite"
)

// A sqliteDriver is a driver of database/sql for SQLite.
type sqliteDriver struct {
	title      string
	registered string
	parameters url.Values // beyond those that all share
}

var (
	modernc = sqliteDriver{"modernc", "sqlite", nil}
	ncruces = sqliteDriver{"ncruces", "sqlite3", url.Values{"_txlock": {"deferred"}}} // its default is immediate
)

// A sqlite is a file of its own, with the settings of `ichido serve`: WAL, and FULL, since in WAL mode less than that
// forgets what was answered when the power fails.
type sqlite struct {
	driver sqliteDriver
	dir    string
	admin  *sql.DB // for what is not measured
}

const sqliteTables = `
	CREATE TABLE reservations (
		id          INTEGER PRIMARY KEY AUTOINCREMENT,
		item_code   TEXT    NOT NULL,
		quantity    INTEGER NOT NULL CHECK (quantity > 0),
		reserved_by TEXT    NOT NULL,
		created_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
	) STRICT;
	CREATE TABLE usual_keys (
		scope            TEXT NOT NULL,
		idem_key         TEXT NOT NULL,
		request_hash     BLOB NOT NULL,
		response_status  INTEGER,
		response_headers BLOB,
		response_body    BLOB,
		created_at       TEXT NOT NULL,
		expires_at       TEXT NOT NULL,
		PRIMARY KEY (idem_key, scope)
	);
	CREATE INDEX usual_keys_expires_at ON usual_keys (expires_at);
	CREATE TABLE written_keys (
		idem_key         TEXT PRIMARY KEY,
		path             TEXT NOT NULL,
		request_hash     BLOB NOT NULL,
		state            TEXT NOT NULL,
		response_status  INTEGER,
		response_headers BLOB,
		response_body    BLOB,
		created_at       TEXT NOT NULL,
		completed_at     TEXT
	)`

func newSQLite(ctx context.Context, driver sqliteDriver) (*sqlite, error) {
	dir, err := os.MkdirTemp("", "ichido-bench-")
	if err != nil {
		return nil, err
	}
	s := &sqlite{driver: driver, dir: dir}
	if s.admin, err = s.connect(1, nil); err == nil {
		if _, err = sqlstore.New(s.admin, sqlstore.SQLite).Migrate(ctx); err == nil {
			_, err = s.admin.ExecContext(ctx, sqliteTables)
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *sqlite) file() string { return filepath.Join(s.dir, "bench.db") }

// connect opens a pool. One that counts leaves the log as long as it grows: see logged.
func (s *sqlite) connect(connections int, count *counter) (*sql.DB, error) {
	pragmas := []string{"busy_timeout(10000)", "foreign_keys(on)", "journal_mode(WAL)", "synchronous(FULL)"}
	if count != nil {
		pragmas = append(pragmas, "wal_autocheckpoint(0)")
	}
	query := url.Values{"_pragma": pragmas}
	for name, values := range s.driver.parameters {
		query[name] = values
	}
	db, err := sql.Open(s.driver.registered, "file:"+s.file()+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	if count != nil {
		counted := sql.OpenDB(countedConnector{db.Driver(), "file:" + s.file() + "?" + query.Encode(), count})
		_ = db.Close() // nothing was opened
		db = counted
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

func (s *sqlite) name() string { return "sqlite" }

func (s *sqlite) close() {
	if s.admin != nil {
		_ = s.admin.Close()
	}
	_ = os.RemoveAll(s.dir)
}

func (s *sqlite) facts(ctx context.Context) (map[string]string, error) {
	facts := map[string]string{"driver": s.driver.title, "synchronous": "FULL"}
	for name, query := range map[string]string{
		"version": "SELECT sqlite_version()", "journal_mode": "PRAGMA journal_mode", "page_size": "PRAGMA page_size",
	} {
		var value string
		if err := s.admin.QueryRowContext(ctx, query).Scan(&value); err != nil {
			return nil, err
		}
		facts[name] = value
	}
	return facts, nil
}

// logged is the size of the log. It only grows as long as nothing is checkpointed.
func (s *sqlite) logged(context.Context) (int64, error) {
	info, err := os.Stat(s.file() + "-wal")
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (s *sqlite) open(_ context.Context, connections int, count *counter) (*handlers, error) {
	db, err := s.connect(connections, count)
	if err != nil {
		return nil, err
	}
	store := sqlstore.New(db, sqlstore.SQLite)
	h := &handlers{usual: usualSQLite{db}, writes: writesSQLite{db}, floor: serveFloor(floorSQLite{db}), purger: store, close: func() { _ = db.Close() }}
	if err := h.wrap(store, func(ctx context.Context, r reservation) (int64, error) {
		return insertSQLite(ctx, sqlstore.Tx(ctx), r)
	}, func(ctx context.Context, name string, r reservation) (int64, error) {
		return sqlstore.TxStep(ctx, name, func(ctx context.Context, tx *sql.Tx) (int64, error) { return insertSQLite(ctx, tx, r) })
	}); err != nil {
		_ = db.Close()
		return nil, err
	}
	h.plain = handle(func(ctx context.Context, r reservation) (int64, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		defer tx.Rollback() // does nothing after a commit
		id, err := insertSQLite(ctx, tx, r)
		if err != nil {
			return 0, err
		}
		return id, tx.Commit()
	})
	return h, nil
}

// An execer is a transaction: a *sql.Tx, or a *sql.Conn in which one was begun by hand.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func insertSQLite(ctx context.Context, tx execer, r reservation) (int64, error) {
	result, err := tx.ExecContext(ctx, `INSERT INTO reservations (item_code, quantity, reserved_by) VALUES (?, ?, ?)`,
		r.ItemCode, r.Quantity, r.ReservedBy)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}
