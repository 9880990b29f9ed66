package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A postgresServer is one started for this run, or one that was there before.
type postgresServer struct {
	url string
	own *pgtest.Server // nil if it was there before
}

// startPostgres starts a server that is as durable as one in production, unless the options name one.
func startPostgres(o *options) (*postgresServer, error) {
	if o.postgres != "" {
		return &postgresServer{url: o.postgres}, nil
	}
	own, err := pgtest.Launch(pgtest.WithDurability(), pgtest.WithSetting("shared_buffers", o.sharedBuffers),
		pgtest.WithSetting("max_wal_size", "4GB"))
	if err != nil {
		return nil, err
	}
	return &postgresServer{own.URL("postgres"), own}, nil
}

func (s *postgresServer) close() {
	if s.own != nil {
		s.own.Close()
	}
}

func (s *postgresServer) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

// A postgres is a database of its own on a server.
type postgres struct {
	server *postgresServer
	title  string
	config *pgxpool.Config
	admin  *pgxpool.Pool // for what is not measured
}

// The table of the usual way is ichido's own as transaction mode needs it, except that the answer comes later. That of
// the two writes has the primary key that such a table usually has.
const postgresTables = `
	CREATE TABLE reservations (
		id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		item_code   text        NOT NULL,
		quantity    integer     NOT NULL CHECK (quantity > 0),
		reserved_by text        NOT NULL,
		created_at  timestamptz NOT NULL DEFAULT now()
	);
	CREATE TABLE usual_keys (
		scope            text COLLATE "C" NOT NULL,
		idem_key         text COLLATE "C" NOT NULL,
		request_hash     bytea            NOT NULL,
		response_status  integer,
		response_headers bytea,
		response_body    bytea,
		created_at       timestamptz      NOT NULL,
		expires_at       timestamptz      NOT NULL,
		PRIMARY KEY (idem_key, scope)
	);
	CREATE INDEX usual_keys_expires_at ON usual_keys USING brin (expires_at) WITH (autosummarize = on);
	CREATE TABLE written_keys (
		idem_key         text        PRIMARY KEY,
		path             text        NOT NULL,
		request_hash     bytea       NOT NULL,
		state            text        NOT NULL,
		response_status  integer,
		response_headers bytea,
		response_body    bytea,
		created_at       timestamptz NOT NULL,
		completed_at     timestamptz
	)`

func newPostgres(ctx context.Context, server *postgresServer, title string) (*postgres, error) {
	name := fmt.Sprintf("ichido_bench_%d_%s", os.Getpid(), title)
	if err := server.exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(server.url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Database = name
	admin, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	p := &postgres{server, title, config, admin}
	if _, err = pgstore.New(admin).Migrate(ctx); err == nil {
		_, err = admin.Exec(ctx, postgresTables)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *postgres) name() string { return p.title }

func (p *postgres) close() {
	p.admin.Close()
	_ = p.server.exec(context.Background(), "DROP DATABASE "+p.config.ConnConfig.Database)
}

func (p *postgres) facts(ctx context.Context) (map[string]string, error) {
	facts := make(map[string]string)
	for _, setting := range []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers"} {
		var value string
		if err := p.admin.QueryRow(ctx, "SHOW "+setting).Scan(&value); err != nil {
			return nil, err
		}
		facts[setting] = value
	}
	return facts, nil
}

func (p *postgres) logged(ctx context.Context) (bytes int64, err error) {
	err = p.admin.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").Scan(&bytes)
	return bytes, err
}

func (p *postgres) open(ctx context.Context, connections int, count *counter) (*handlers, error) {
	config := p.config.Copy()
	config.MaxConns, config.MinConns = int32(connections), int32(connections)
	if count != nil {
		config.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
			return &countedConn{Conn: conn, counter: count}, nil
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	store := pgstore.New(pool)
	h := &handlers{usual: usualPostgres{pool}, writes: writesPostgres{pool}, floor: serveFloor(floorPostgres{pool}), purger: store, close: pool.Close}
	if err := h.wrap(store, func(ctx context.Context, r reservation) (int64, error) {
		return insertPostgres(ctx, pgstore.Tx(ctx), r)
	}, func(ctx context.Context, name string, r reservation) (int64, error) {
		return pgstore.TxStep(ctx, name, func(ctx context.Context, tx pgx.Tx) (int64, error) { return insertPostgres(ctx, tx, r) })
	}); err != nil {
		pool.Close()
		return nil, err
	}
	h.plain = handle(func(ctx context.Context, r reservation) (id int64, err error) {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			id, err = insertPostgres(ctx, tx, r)
			return err
		})
		return id, err
	})
	return h, nil
}

func insertPostgres(ctx context.Context, tx pgx.Tx, r reservation) (id int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO reservations (item_code, quantity, reserved_by) VALUES ($1, $2, $3) RETURNING id`,
		r.ItemCode, r.Quantity, r.ReservedBy).Scan(&id)
	return id, err
}
