package main

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"net"
)

// A countedConn is a connection to PostgreSQL that counts what a client sends over it. It sits inside of TLS.
type countedConn struct {
	net.Conn
	counter *counter
	asked   bool   // something was sent since the last answer
	started bool   // the startup packet, which has no type, has been sent
	rest    []byte // the begin of a message whose end has not been sent
}

// Read ends a round trip: whatever is sent next is another one.
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.asked = false
	}
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	if !c.asked {
		c.asked = true
		c.counter.roundTrips.Add(1)
	}
	c.count(b)
	return c.Conn.Write(b)
}

// count counts the statements in what is sent: messages Execute and Query (PostgreSQL manual, section "Message Formats").
func (c *countedConn) count(b []byte) {
	if !c.started {
		c.started = true
		return
	}
	c.rest = append(c.rest, b...)
	for len(c.rest) >= 5 {
		size := 1 + int(binary.BigEndian.Uint32(c.rest[1:]))
		if len(c.rest) < size {
			return
		}
		if c.rest[0] == 'E' || c.rest[0] == 'Q' {
			c.counter.statements.Add(1)
		}
		c.rest = c.rest[size:]
	}
}

// A countedConnector opens connections to SQLite that count statements, BEGIN and COMMIT included.
type countedConnector struct {
	driver driver.Driver
	dsn    string
	count  *counter
}

func (c countedConnector) Driver() driver.Driver { return c.driver }

func (c countedConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &countedSQLite{conn.(sqliteConn), c.count}, nil
}

// sqliteConn is what both drivers' connections can do and database/sql makes use of here.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type countedSQLite struct {
	sqliteConn
	count *counter
}

func (c *countedSQLite) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.count.statements.Add(1)
	return c.sqliteConn.ExecContext(ctx, query, args)
}

func (c *countedSQLite) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.count.statements.Add(1)
	return c.sqliteConn.QueryContext(ctx, query, args)
}

func (c *countedSQLite) Prepare(query string) (driver.Stmt, error) {
	stmt, err := c.sqliteConn.Prepare(query)
	if err != nil {
		return nil, err
	}
	return countedStmt{stmt.(sqliteStmt), c.count}, nil
}

func (c *countedSQLite) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.count.statements.Add(1)
	tx, err := c.sqliteConn.BeginTx(ctx, opts)
	return countedTx{tx, c.count}, err
}

type countedTx struct {
	driver.Tx
	count *counter
}

func (t countedTx) Commit() error {
	t.count.statements.Add(1)
	return t.Tx.Commit()
}

func (t countedTx) Rollback() error {
	t.count.statements.Add(1)
	return t.Tx.Rollback()
}

type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type countedStmt struct {
	sqliteStmt
	count *counter
}

func (s countedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.count.statements.Add(1)
	return s.sqliteStmt.ExecContext(ctx, args)
}

func (s countedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.count.statements.Add(1)
	return s.sqliteStmt.QueryContext(ctx, args)
}
