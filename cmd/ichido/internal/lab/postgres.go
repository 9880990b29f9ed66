package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgres is a schema of its own in somebody's database.
type postgres struct {
	at      place
	control *pgxpool.Pool // not traced
	version string
}

func newPostgres(ctx context.Context, url string) (*postgres, error) {
	p := &postgres{at: place{Postgres: url, Schema: "ichido_lab_" + strings.ToLower(rand.Text()[:10])}}
	config, err := p.at.config()
	if err != nil {
		return nil, err
	}
	if p.control, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	err = p.control.QueryRow(ctx, "SELECT split_part(current_setting('server_version'), ' ', 1)").Scan(&p.version)
	if err == nil {
		// Not given up in the middle: nobody would know whether the schema is there.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = p.exec(bounded, "CREATE SCHEMA "+p.at.Schema)
	}
	if err != nil {
		p.control.Close()
		if pgCode(err) == "42501" {
			err = fmt.Errorf("%w; the lab needs GRANT CREATE ON DATABASE %s TO %s, or the URL of another role", err,
				pgx.Identifier{config.ConnConfig.Database}.Sanitize(), pgx.Identifier{config.ConnConfig.User}.Sanitize())
		}
		return nil, fmt.Errorf("making a schema on PostgreSQL: %w", err)
	}
	return p, nil
}

// config is that of a pool whose connections see the schema and nothing else.
func (at place) config() (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(at.Postgres)
	if err != nil { // its message has the password blotted out
		return nil, err
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["search_path"] = at.Schema
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	return config, nil
}

// victim is the application name of the server that is going to be killed.
func (at place) victim() string { return at.Schema + "_victim" }

func (p *postgres) place() place { return p.at }
func (p *postgres) name() string { return "PostgreSQL " + p.version }

func (p *postgres) schema(w *way) []string {
	return w.tables(pgIdentity)
}

func (p *postgres) exec(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if _, err := p.control.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

func (p *postgres) row(ctx context.Context, sql string, dest ...any) error {
	return p.control.QueryRow(ctx, sql).Scan(dest...)
}

func (p *postgres) migrate(ctx context.Context) (sql []string, err error) {
	applied, err := pgstore.New(p.control).Migrate(ctx)
	for _, m := range applied {
		sql = append(sql, m.SQL)
	}
	return sql, err
}

func (p *postgres) emptied(w *way) []string {
	return w.emptied("TRUNCATE orders RESTART IDENTITY")
}

// forgotten looks for the sessions of the killed server: each ends when the database reads the end of its connection.
func (p *postgres) forgotten(ctx context.Context) error {
	for {
		var left int
		err := p.control.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", p.at.victim()).Scan(&left)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL has not ended %d sessions of a process that was killed: %w", left, ctx.Err())
		}
	}
}

func (p *postgres) drop(ctx context.Context) error {
	defer p.control.Close()
	return p.exec(ctx, "DROP SCHEMA "+p.at.Schema+" CASCADE")
}

// pgPool is a server's.
type pgPool struct{ pool *pgxpool.Pool }

func openPostgres(ctx context.Context, at place, victim bool) (pool, error) {
	config, err := at.config()
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Tracer = &pgTracer{}
	if victim {
		config.ConnConfig.RuntimeParams["application_name"] = at.victim()
	}
	p, err := pgxpool.NewWithConfig(ctx, config)
	return pgPool{p}, err
}

func (p pgPool) close()                  { p.pool.Close() }
func (p pgPool) store() ichido.Store     { return pgstore.New(p.pool) }
func (p pgPool) isUnique(err error) bool { return pgCode(err) == "23505" }

func (p pgPool) attempt(ctx context.Context) querier { return pgQuerier{pgstore.Tx(ctx)} }

func (p pgPool) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	return pgQuerier{p.pool}.exec(ctx, sql, args...)
}

func (p pgPool) row(ctx context.Context, sql string, args []any, dest ...any) error {
	return pgQuerier{p.pool}.row(ctx, sql, args, dest...)
}

func (p pgPool) transact(ctx context.Context, work func(querier) error) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error { return work(pgQuerier{tx}) })
}

type pgQuerier struct {
	on interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}
}

func (q pgQuerier) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := q.on.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

func (q pgQuerier) row(ctx context.Context, sql string, args []any, dest ...any) error {
	return q.on.QueryRow(ctx, sql, args...).Scan(dest...)
}

func pgCode(err error) string {
	if e := new(pgconn.PgError); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// pgTracer notes statements. One whose context is of no request, as a rollback's may be, is of the connection's last.
type pgTracer struct{ last sync.Map } // *pgx.Conn to *Exchange

var (
	_ pgx.QueryTracer = (*pgTracer)(nil)
	_ pgx.BatchTracer = (*pgTracer)(nil)
)

func (t *pgTracer) note(ctx context.Context, conn *pgx.Conn, sql string, args []any) func(string) {
	e := exchangeOf(ctx)
	if e != nil {
		t.last.Store(conn, e)
	} else if last, ok := t.last.Load(conn); ok {
		e = last.(*Exchange)
	}
	return e.begun(written(sql, args, `'\x%s'`))
}

type doneKey struct{}

func (t *pgTracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, doneKey{}, t.note(ctx, conn, data.SQL, data.Args))
}

func (t *pgTracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	ctx.Value(doneKey{}).(func(string))(pgResult(data.CommandTag, data.Err))
}

func (t *pgTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (t *pgTracer) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	t.note(ctx, conn, data.SQL, data.Args)(pgResult(data.CommandTag, data.Err))
}

func (t *pgTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func pgResult(tag pgconn.CommandTag, err error) string {
	if err != nil {
		return pgError(err)
	}
	return tag.String()
}

func pgError(err error) string {
	if e := new(pgconn.PgError); errors.As(err, &e) {
		return fmt.Sprintf("%s:  %s (%s)", e.Severity, e.Message, e.Code)
	}
	return "ERROR:  " + err.Error()
}

// A pgSession sends what it is given as it is, as psql does.
type pgSession struct{ conn *pgx.Conn }

func (p *postgres) session(ctx context.Context) (session, error) {
	config, err := p.at.config()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, err
	}
	return pgSession{conn}, nil
}

func (s pgSession) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
}

func (s pgSession) run(ctx context.Context, sql string) (printed []string) {
	results, err := s.conn.PgConn().Exec(ctx, sql).ReadAll()
	for _, r := range results {
		if r.Err != nil {
			continue
		}
		if len(r.FieldDescriptions) == 0 {
			printed = append(printed, r.CommandTag.String())
			continue
		}
		var grid [][]string
		var head []string
		for _, f := range r.FieldDescriptions {
			head = append(head, f.Name)
		}
		for _, row := range r.Rows {
			var cells []string
			for _, value := range row {
				cells = append(cells, string(value))
			}
			grid = append(grid, cells)
		}
		printed = append(printed, shell(head, grid)...)
	}
	if err != nil {
		printed = append(printed, pgError(err))
	}
	return printed
}
