package pgstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/ichido-dev/ichido/storetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// newDatabase makes a database with the schema and the business table of the tests, and returns its URL.
func newDatabase(t *testing.T) string {
	t.Helper()
	url := pgtest.Shared(t).NewDatabase(t)
	prepare(t, url)
	return url
}

func prepare(t *testing.T, url string) {
	t.Helper()
	pool := open(t, url)
	if _, err := pgstore.New(pool).Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, `CREATE TABLE counter (n integer NOT NULL)`)
	mustExec(t, pool, `INSERT INTO counter VALUES (0)`)
	mustExec(t, pool, `CREATE TABLE things (id bigserial PRIMARY KEY, name text NOT NULL CHECK (name <> 'refused'))`)
	pool.Close()
}

const poolSize = 4

// open returns a pool; change edits its configuration.
func open(t *testing.T, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = poolSize
	for _, c := range change {
		c(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func mustExec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func count(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	n := 0
	if err := pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func insertThing(ctx context.Context, name string) error {
	_, err := pgstore.Tx(ctx).Exec(ctx, "INSERT INTO things (name) VALUES ($1)", name)
	return err
}

// add reads and then writes. At READ COMMITTED it must lock what it reads; above, the database aborts one of two.
func add(ctx context.Context) error {
	tx := pgstore.Tx(ctx)
	var level string
	if err := tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&level); err != nil {
		return err
	}
	query := "SELECT n FROM counter"
	if level == "read committed" {
		query += " FOR UPDATE"
	}
	var n int
	if err := tx.QueryRow(ctx, query).Scan(&n); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "UPDATE counter SET n = $1::int", n+1)
	return err
}

// suiteDatabase is a storetest.Database whose stores connect to url.
func suiteDatabase(t *testing.T, url string, change func(*pgxpool.Config), options ...pgstore.Option) storetest.Database {
	if change == nil {
		change = func(*pgxpool.Config) {}
	}
	pool := open(t, url, change)
	return storetest.Database{
		Open: func(t *testing.T) ichido.Store { return pgstore.New(open(t, url, change), options...) },
		Work: insertThing,
		Rows: func(t *testing.T, name string) int {
			return count(t, pool, "SELECT count(*) FROM things WHERE name = $1", name)
		},
		Add: add,
		Total: func(t *testing.T) int {
			return count(t, pool, "SELECT n FROM counter")
		},
		Connections: poolSize,
	}
}

func TestStore(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Database {
				return suiteDatabase(t, newDatabase(t), nil, pgstore.WithIsolation(level))
			})
		})
	}
}

// Correctness is the unique constraint's; it must survive every lock being a no-op.
func TestStoreWithoutLocks(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Database {
		return suiteDatabase(t, newDatabase(t), nil, pgstore.WithoutLocks)
	})
}

// All ways in which pgx talks to the server, among them those that work behind PgBouncer.
func TestStoreInEveryExecMode(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Database {
				return suiteDatabase(t, newDatabase(t), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			})
		})
	}
}
