package lab

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestAllStatementsAreNoted compares what the tracer noted with what went over the wire.
func TestAllStatementsAreNoted(t *testing.T) {
	ctx, server := t.Context(), pgtest.Shared(t)
	url := server.NewDatabase(t)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := newPostgres(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, db.drop(context.Background())) })
	proxy := pgtest.NewProxy(t, url)
	behind := place{Postgres: proxy.URL(config.Database), Schema: db.at.Schema}
	l := &lab{db: db}
	for _, w := range ways {
		if _, err := l.prepare(ctx, w); err != nil {
			t.Fatal(err)
		}
		p, err := behind.open(ctx, false)
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		for _, s := range scenarios {
			if s.once || w.inapplicable[s.id] {
				continue
			}
			proxy.Reset()
			r, err := l.run(ctx, w, s, p)
			if err != nil {
				t.Fatal(err)
			}
			var noted []string
			for _, e := range r.Log {
				for _, statement := range e.sent() {
					noted = append(noted, verb(statement.SQL))
				}
			}
			var sent []string
			for _, sql := range proxy.Statements() {
				sent = append(sent, verb(sql))
			}
			slices.Sort(noted)
			slices.Sort(sent)
			if !slices.Equal(noted, sent) {
				t.Errorf("%s, %s: noted %d statements:\n%s\nsent %d:\n%s", w.id, s.id, len(noted), strings.Join(noted, " "), len(sent), strings.Join(sent, " "))
			}
		}
	}
}

// verb is the first word of a statement.
func verb(sql string) string {
	return strings.ToUpper(strings.Fields(sql)[0])
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// TestAtOnceOverlaps holds the last of the requests back until all others are in their transactions: none of them may have
// been committed by then.
func TestAtOnceOverlaps(t *testing.T) {
	var committed atomic.Int32
	var working sync.WaitGroup
	working.Add(atOnce - 1)
	p := fakePool{committed: &committed}
	took := atomic.Int32{}
	w := &way{id: "fake", order: func(context.Context, pool, querier, order) (int, error) {
		if took.Add(1) < atOnce {
			working.Done()
		}
		return http.StatusCreated, nil
	}}
	s, err := serve(t.Context(), w, p)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	sent := atomic.Int32{}
	trial := &trial{way: w, server: s, client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if sent.Add(1) == atOnce {
			working.Wait()
			if n := committed.Load(); n > 0 {
				t.Errorf("%d were committed before the last one came", n)
			}
		}
		return http.DefaultTransport.RoundTrip(r)
	})}}
	check(t, trial.sendAtOnce(t.Context(), request{who: "taro", method: http.MethodPost, path: "/orders", body: "{}"}, atOnce))
	if n := committed.Load(); n != atOnce {
		t.Errorf("%d were committed, want %d", n, atOnce)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A fakePool has no database, and counts its commits.
type fakePool struct {
	pool
	committed *atomic.Int32
}

func (p fakePool) transact(_ context.Context, work func(querier) error) error {
	defer p.committed.Add(1)
	return work(nil)
}

// TestLabLeavesNothing stops a lab at several moments.
func TestLabLeavesNothing(t *testing.T) {
	url := pgtest.Shared(t).NewDatabase(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	dir := t.TempDir()
	path := filepath.Join(dir, "lab.db")
	for _, o := range []Options{{Postgres: url}, {SQLitePath: path, SQLiteDSN: "file:" + path + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)"}} {
		for _, last := range []string{"nothing twice", "unique at-once", "key edit"} {
			ctx, cancel := context.WithCancel(t.Context())
			o.Runs = 1
			o.Only = []string{"nothing", "unique", "key", "twice", "at-once", "edit"}
			o.Progress = func(way, scenario string) {
				if way+" "+scenario == last {
					cancel()
				}
			}
			_, err := Run(ctx, o)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("stopped at %s: error %v", last, err)
			}
			cancel()
		}
	}
	var schemas []string
	err = conn.QueryRow(t.Context(), "SELECT coalesce(array_agg(nspname::text), '{}') FROM pg_namespace WHERE nspname LIKE 'ichido%'").Scan(&schemas)
	if err != nil || len(schemas) > 0 {
		t.Errorf("schemas left: %v (%v)", schemas, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files left: %v (%v)", left, err)
	}
}

// TestLabLeavesNoHalfMadeSchema stops labs when the statement that makes their schema is on its way.
func TestLabLeavesNoHalfMadeSchema(t *testing.T) {
	direct := pgtest.Shared(t).NewDatabase(t)
	config, err := pgx.ParseConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	proxy := pgtest.NewProxy(t, direct)
	for range 10 {
		proxy.Reset()
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			for ctx.Err() == nil {
				if slices.ContainsFunc(proxy.Statements(), func(sql string) bool { return strings.HasPrefix(sql, "CREATE SCHEMA") }) {
					cancel()
				}
				runtime.Gosched()
			}
		})
		if _, err := Run(ctx, Options{Postgres: proxy.URL(config.Database), Runs: 1, Only: []string{"nothing", "twice"}}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		cancel()
		watching.Wait()
	}
	var left int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'ichido%'").Scan(&left); err != nil || left > 0 {
		t.Errorf("%d schemas are left (%v)", left, err)
	}
}

// TestLabTellsWhatIsLeft puts a directory where the lab's file is to be removed, and stops it.
func TestLabTellsWhatIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lab.db")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := Options{SQLitePath: path, SQLiteDSN: "file:" + path, Runs: 1, Only: []string{"nothing", "twice"}}
	o.Progress = func(string, string) {
		check(t, errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "full"), 0o755)))
		cancel()
	}
	if _, err := Run(ctx, o); !errors.Is(err, ErrLeft) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestPartsOfAReport shows that a report of a few ways, on SQLite, says nothing of what it does not have.
func TestPartsOfAReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lab.db")
	report, err := Run(t.Context(), Options{SQLitePath: path, SQLiteDSN: "file:" + path, Runs: 1, Only: []string{"nothing", "twice"}})
	if err != nil {
		t.Fatal(err)
	}
	for lang, not := range map[string][]string{"en": {"here on PostgreSQL", "Surprises", "connections", "five", "UPSERT |"}, "ja": {"ここでは PostgreSQL", "意外なこと", "接続です"}} {
		var b strings.Builder
		check(t, report.WriteMarkdown(&b, lang))
		for _, words := range not {
			if strings.Contains(b.String(), words) {
				t.Errorf("it says %q:\n%s", words, b.String())
			}
		}
	}
}

func TestWritten(t *testing.T) {
	for _, c := range []struct {
		sql   string
		args  []any
		bytes string
		want  string
	}{
		{"SELECT\n\t\t1", nil, "", "SELECT 1"},
		{"SELECT $1, $2, $1", []any{"o'clock", 7}, "", "SELECT 'o''clock', 7, 'o''clock'"},
		{"SELECT ?, ?", []any{int64(-1), nil}, "", "SELECT '-1', NULL"},
		{"SELECT ?2, ?1", []any{"a", "b"}, "", "SELECT 'b', 'a'"},
		{"SELECT $1, $2", []any{[]byte{0xbe, 0xef}, []byte(nil)}, `'\x%s'`, `SELECT '\xbeef', NULL`},
		{"SELECT $10", []any{1, 2, 3, 4, 5, 6, 7, 8, 9, "ten"}, "", "SELECT 'ten'"},
		{"SELECT $2", []any{"one"}, "", "SELECT $2"},
	} {
		if got := written(c.sql, c.args, c.bytes); got != c.want {
			t.Errorf("%s with %v is written as %s, want %s", c.sql, c.args, got, c.want)
		}
	}
}

// TestSees has what does not happen to the ways as they are, too.
func TestSees(t *testing.T) {
	ok, again := Answer{Status: 201, Body: "1"}, Answer{Status: 201, Body: "2"}
	no, none := Answer{Status: 409}, Answer{}
	repeat, two, edit := &scenario{again: true}, &scenario{}, &scenario{}
	for _, c := range []struct {
		s                 *scenario
		rows, right, lost int
		answers           []Answer
		want, verdict     string
	}{
		{repeat, 1, 1, 0, []Answer{ok, ok}, "same", "right"},
		{repeat, 1, 1, 0, []Answer{{Status: 201, Body: "1", Withheld: true}, {Status: 201, Body: "1", Replayed: true}}, "same", "right"},
		{repeat, 1, 1, 0, []Answer{ok, again}, "other", "told"},
		{repeat, 1, 1, 0, []Answer{ok, {Status: 200, Body: "1"}}, "other", "told"},
		{repeat, 1, 1, 0, []Answer{ok, no}, "error", "told"},
		{repeat, 1, 1, 0, []Answer{none, ok}, "answered", "right"},
		{repeat, 1, 1, 0, []Answer{none, no}, "error", "told"},
		{repeat, 2, 1, 0, []Answer{ok, again}, "double", "wrong"},
		{repeat, 2, 1, 0, []Answer{ok, no}, "double", "wrong"},
		{repeat, 0, 1, 0, []Answer{none, none}, "swallowed", "wrong"},
		{two, 2, 2, 0, []Answer{ok, again}, "each", "right"},
		{two, 1, 2, 0, []Answer{ok, no}, "refused", "wrong"},
		{two, 1, 2, 0, []Answer{ok, ok}, "swallowed", "wrong"},
		{edit, 0, 0, 1, []Answer{ok, ok}, "overwritten", "wrong"},
		{edit, 0, 0, 0, []Answer{ok, no}, "stale", "right"},
	} {
		got := sees(c.s, Result{Rows: c.rows, RightRows: c.right, Lost: c.lost, Answers: c.answers})
		if got != c.want || verdictOf(got) != c.verdict {
			t.Errorf("%d rows of %d, %d lost, %v: %s, %s; want %s, %s", c.rows, c.right, c.lost, c.answers, got, verdictOf(got), c.want, c.verdict)
		}
	}
}

// TestRepeatTakesTheWorst shows that a run that went wrong is not outvoted by those that did not.
func TestRepeatTakesTheWorst(t *testing.T) {
	all := []Result{
		{Rows: 1, Sees: "same", Verdict: "right", Statements: 5, Millis: 9},
		{Rows: 2, Sees: "double", Verdict: "wrong", Statements: 6, Millis: 1},
		{Rows: 1, Sees: "same", Verdict: "right", Statements: 5, Millis: 4},
	}
	got := worst(all)
	if got.Rows != 2 || got.Sees != "double" || !got.Varied || got.Statements != 5 || got.Millis != 4 {
		t.Errorf("worst: %+v", got)
	}
	all[1] = all[0]
	all[1].Statements = 6
	if got := worst(all); got.Varied || got.Rows != 1 || got.Statements != 5 {
		t.Errorf("of runs that differ in statements only: %+v", got)
	}
}

func TestWordsAreInBothLanguages(t *testing.T) {
	all := map[string]text{}
	for name, w := range words {
		all[name] = w
	}
	for name, w := range seenWords {
		all[name] = w
	}
	for _, w := range ways {
		all[w.id], all[w.id+" idea"] = wayWords[w.id].name, wayWords[w.id].idea
		if len(w.inapplicable) > 0 {
			all[w.id+" reason"] = wayWords[w.id].reason
		}
	}
	for _, s := range scenarios {
		all[s.id], all[s.id+" story"] = scenarioWords[s.id].name, scenarioWords[s.id].story
	}
	for _, s := range scripts {
		all[s.id], all[s.id+" text"] = surpriseWords[s.id].title, surpriseWords[s.id].pg
		if w := surpriseWords[s.id].sqlite; (w.EN == "") != (w.JA == "") {
			t.Errorf("%s: SQLite's part is in one language", s.id)
		}
	}
	for name, w := range all {
		if w.EN == "" || w.JA == "" {
			t.Errorf("%s: %+v", name, w)
		}
	}
	for _, a := range advice {
		for _, e := range a.by {
			if _, err := wayOf(e.way); err != nil || scenarioWords[e.scenario].name.EN == "" {
				t.Errorf("%s: no such cell: %+v", a.question.EN, e)
			}
		}
	}
}

// TestTutorialCanBeFollowed does what the tutorial shows by hand: in a schema of its own, in a session for each request.
func TestTutorialCanBeFollowed(t *testing.T) {
	ctx := t.Context()
	url := pgtest.Shared(t).NewDatabase(t)
	report, err := Run(ctx, Options{Postgres: url, Runs: 1, Only: []string{"twice", "lost", "honest", "edit"}})
	if err != nil {
		t.Fatal(err)
	}
	schemas := make(map[string]Schema)
	for _, s := range report.Schemas {
		schemas[s.Way] = s
	}
	type sql interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	}
	typed := func(conn sql, statement string) string {
		tag, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
		return pgResult(tag, err)
	}
	session := func() *pgx.Conn {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		if got := typed(conn, "SET search_path = my_lab"); got != "SET" {
			t.Fatal(got)
		}
		return conn
	}
	followed := 0
	for _, r := range report.Results {
		if !r.Applies {
			continue
		}
		first := session()
		for _, statement := range append([]string{"DROP SCHEMA IF EXISTS my_lab CASCADE", "CREATE SCHEMA my_lab"},
			append(schemas[r.Way].Statements, schemas[r.Way].Emptied...)...) {
			if got := typed(first, statement); strings.HasPrefix(got, "ERROR") {
				t.Fatalf("%s: %s: %s", r.Way, statement, got)
			}
		}
		for _, e := range r.Log {
			conn := session()
			for _, s := range e.Statements {
				followed++
				if got := typed(conn, s.SQL); got != s.Result {
					t.Errorf("%s, %s: %s: it says\n%s\nwant\n%s", r.Scenario, r.Way, s.SQL, got, s.Result)
				}
			}
			check(t, conn.Close(ctx))
		}
		var rows int
		check(t, first.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&rows))
		if rows != r.Rows {
			t.Errorf("%s, %s: %d orders, want %d", r.Scenario, r.Way, rows, r.Rows)
		}
		check(t, first.Close(ctx))
	}
	if followed < 100 {
		t.Errorf("only %d statements", followed)
	}
}
