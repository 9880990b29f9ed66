package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ichido-dev/ichido/pgstore"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

func isPostgres(location string) bool {
	return strings.HasPrefix(location, "postgres://") || strings.HasPrefix(location, "postgresql://")
}

func openPostgres(ctx context.Context, location string) (*database, error) {
	config, err := pgxpool.ParseConfig(location)
	if err != nil { // its message has the password blotted out
		return nil, usageError(fmt.Errorf("--db: %w", err))
	}
	if !strings.Contains(location, "pool_max_conns=") {
		config.MaxConns = poolSize
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	where := "PostgreSQL, " + postgresURL(config.ConnConfig.Config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", where, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("cannot reach %s: %s; start it, or correct --db (DATABASE_URL)", where, reason(err))
	}
	return &database{
		store:  pgstore.New(pool),
		office: postgresOffice{pool},
		where:  where,
		close:  func() error { pool.Close(); return nil },
	}, nil
}

// postgresURL returns an URL of the database without password, for people. It is built from what was understood of the
// one that was given, which may have had a password in more than one place.
func postgresURL(c pgconn.Config) string {
	u := url.URL{Scheme: "postgres", User: url.User(c.User), Path: "/" + c.Database}
	if strings.HasPrefix(c.Host, "/") { // the directory of a Unix socket
		u.RawQuery = url.Values{"host": {c.Host}}.Encode()
	} else {
		u.Host = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	}
	return u.String()
}

// reason returns what went wrong while connecting, once: pgx tries several ways and reports each, on lines of their own.
func reason(err error) string {
	if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) {
		return pgErr.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	text := err.Error()
	if opErr := new(net.OpError); errors.As(err, &opErr) {
		text = opErr.Error()
	}
	first, _, _ := strings.Cut(text, "\n")
	return first
}
