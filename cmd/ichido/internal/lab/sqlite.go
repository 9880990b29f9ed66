package lab

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/sqlstore"
	"modernc.org/sqlite"
)

// sqliteFile is a file of its own.
type sqliteFile struct {
	at      place
	path    string
	control *sql.DB // not traced
	version string
}

func newSQLite(ctx context.Context, path, dsn string) (*sqliteFile, error) {
	s := &sqliteFile{at: place{SQLite: dsn}, path: path}
	var err error
	if s.control, err = sql.Open("sqlite", dsn); err != nil {
		return nil, err
	}
	if err := s.control.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&s.version); err != nil {
		_ = s.control.Close()
		return nil, fmt.Errorf("making the SQLite file %s: %w", path, err)
	}
	return s, nil
}

func (s *sqliteFile) place() place { return s.at }
func (s *sqliteFile) name() string { return "SQLite " + s.version }

func (s *sqliteFile) schema(w *way) []string {
	return w.tables(sqliteIdentity)
}

func (s *sqliteFile) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := s.control.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func (s *sqliteFile) row(ctx context.Context, query string, dest ...any) error {
	return s.control.QueryRowContext(ctx, query).Scan(dest...)
}

func (s *sqliteFile) migrate(ctx context.Context) (sql []string, err error) {
	applied, err := sqlstore.New(s.control, sqlstore.SQLite).Migrate(ctx)
	for _, m := range applied {
		sql = append(sql, m.SQL)
	}
	return sql, err
}

func (s *sqliteFile) emptied(w *way) []string {
	return w.emptied("DELETE FROM orders", "DELETE FROM sqlite_sequence WHERE name = 'orders'")
}

// forgotten has nothing to wait for: the system takes back the locks of a process that dies.
func (s *sqliteFile) forgotten(context.Context) error { return nil }

func (s *sqliteFile) drop(context.Context) error {
	err := s.control.Close()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if e := os.Remove(s.path + suffix); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// sqlitePool is a server's.
type sqlitePool struct{ db *sql.DB }

func openSQLite(at place) (pool, error) {
	db := sql.OpenDB(tracedConnector{new(sqlite.Driver), at.SQLite})
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return sqlitePool{db}, nil
}

func (p sqlitePool) close()              { _ = p.db.Close() }
func (p sqlitePool) store() ichido.Store { return sqlstore.New(p.db, sqlstore.SQLite) }

func (p sqlitePool) isUnique(err error) bool {
	e := new(sqlite.Error)
	return errors.As(err, &e) && e.Code() == 19|8<<8 // SQLITE_CONSTRAINT_UNIQUE
}

func (p sqlitePool) attempt(ctx context.Context) querier { return sqliteQuerier{sqlstore.Tx(ctx)} }

func (p sqlitePool) exec(ctx context.Context, query string, args ...any) (int64, error) {
	return sqliteQuerier{p.db}.exec(ctx, query, args...)
}

func (p sqlitePool) row(ctx context.Context, query string, args []any, dest ...any) error {
	return sqliteQuerier{p.db}.row(ctx, query, args, dest...)
}

// transact takes no lock by BEGIN; all the lab's transactions write first.
func (p sqlitePool) transact(ctx context.Context, work func(querier) error) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := work(sqliteQuerier{tx}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

type sqliteQuerier struct {
	on interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
}

var numbered = regexp.MustCompile(`\$(\d+)`)

func (q sqliteQuerier) exec(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := q.on.ExecContext(ctx, numbered.ReplaceAllString(query, "?$1"), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (q sqliteQuerier) row(ctx context.Context, query string, args []any, dest ...any) error {
	return q.on.QueryRowContext(ctx, numbered.ReplaceAllString(query, "?$1"), args...).Scan(dest...)
}

// A tracedConnector opens connections that note their statements, BEGIN and COMMIT included.
type tracedConnector struct {
	driver driver.Driver
	dsn    string
}

func (c tracedConnector) Driver() driver.Driver { return c.driver }

func (c tracedConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &tracedConn{fullConn: conn.(fullConn)}, nil
}

// fullConn is what database/sql makes use of here.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// A tracedConn remembers whom it works for: the ends of transactions come without a context.
type tracedConn struct {
	fullConn
	last *Exchange
}

func (c *tracedConn) note(ctx context.Context, query string, args []driver.NamedValue) func(error) {
	if e := exchangeOf(ctx); e != nil {
		c.last = e
	}
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = a.Value
	}
	done := c.last.begun(written(query, values, "x'%s'"))
	return func(err error) {
		if err != nil && !errors.Is(err, driver.ErrSkip) {
			done("Error: " + err.Error())
		}
	}
}

func (c *tracedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	done := c.note(ctx, query, args)
	result, err := c.fullConn.ExecContext(ctx, query, args)
	done(err)
	return result, err
}

func (c *tracedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	done := c.note(ctx, query, args)
	rows, err := c.fullConn.QueryContext(ctx, query, args)
	done(err)
	return rows, err
}

func (c *tracedConn) Prepare(query string) (driver.Stmt, error) {
	stmt, err := c.fullConn.Prepare(query)
	if err != nil {
		return nil, err
	}
	return tracedStmt{stmt.(fullStmt), c, query}, nil
}

func (c *tracedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	done := c.note(ctx, "BEGIN", nil)
	tx, err := c.fullConn.BeginTx(ctx, options)
	done(err)
	return tracedTx{tx, c}, err
}

type tracedTx struct {
	driver.Tx
	conn *tracedConn
}

func (t tracedTx) Commit() error {
	done := t.conn.note(context.Background(), "COMMIT", nil)
	err := t.Tx.Commit()
	done(err)
	return err
}

func (t tracedTx) Rollback() error {
	done := t.conn.note(context.Background(), "ROLLBACK", nil)
	err := t.Tx.Rollback()
	done(err)
	return err
}

type fullStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type tracedStmt struct {
	fullStmt
	conn  *tracedConn
	query string
}

func (s tracedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	done := s.conn.note(ctx, s.query, args)
	result, err := s.fullStmt.ExecContext(ctx, args)
	done(err)
	return result, err
}

func (s tracedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	done := s.conn.note(ctx, s.query, args)
	rows, err := s.fullStmt.QueryContext(ctx, args)
	done(err)
	return rows, err
}

// A sqliteSession is one connection of the control's.
type sqliteSession struct{ conn *sql.Conn }

func (s *sqliteFile) session(ctx context.Context) (session, error) {
	conn, err := s.control.Conn(ctx)
	return sqliteSession{conn}, err
}

func (s sqliteSession) close() { _ = s.conn.Close() }

func (s sqliteSession) run(ctx context.Context, query string) []string {
	rows, err := s.conn.QueryContext(ctx, query)
	if err != nil {
		return []string{"Error: " + err.Error()}
	}
	defer rows.Close()
	head, err := rows.Columns()
	var grid [][]string
	for err == nil && rows.Next() {
		cells, dest := make([]sql.NullString, len(head)), make([]any, len(head))
		for i := range cells {
			dest[i] = &cells[i]
		}
		err = rows.Scan(dest...)
		var line []string
		for _, cell := range cells {
			line = append(line, cell.String)
		}
		grid = append(grid, line)
	}
	if err == nil {
		err = rows.Err()
	}
	switch {
	case err != nil:
		return []string{"Error: " + err.Error()}
	case len(head) == 0: // sqlite3 prints nothing
		return nil
	}
	return shell(head, grid)
}
