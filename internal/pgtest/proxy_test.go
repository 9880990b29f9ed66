package pgtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCutBeforeCommitLeavesNothing(t *testing.T) {
	for _, style := range commitStyles {
		t.Run(style.name, func(t *testing.T) {
			direct, p := tableBehindProxy(t)
			c := connect(t, p.URL(databaseURL(t, direct)))
			cut := p.CutBeforeCommit()
			if err := drive(c, style.prepare, style.flights); err == nil {
				t.Fatal("the client was told that the transaction committed")
			}
			happens(t, cut)
			// No waiting: the channel says that the server has ended the session.
			if n := direct.text("select count(*) from t"); n != "0" {
				t.Fatalf("%s rows, want 0", n)
			}
			if n := direct.text(otherSessions); n != "0" {
				t.Fatalf("%s sessions are left, want 0", n)
			}
		})
	}
}

func TestCutAfterCommitLeavesTheCommit(t *testing.T) {
	for _, style := range commitStyles {
		t.Run(style.name, func(t *testing.T) {
			direct, p := tableBehindProxy(t)
			c := connect(t, p.URL(databaseURL(t, direct)))
			cut := p.CutAfterCommit()
			if err := drive(c, style.prepare, style.flights); err == nil {
				t.Fatal("the client was told that the transaction committed")
			}
			happens(t, cut)
			if n := direct.text("select count(*) from t"); n != "1" {
				t.Fatalf("%s rows, want 1", n)
			}
		})
	}
}

// The answers to what was sent before the COMMIT's own request still arrive.
func TestCutAfterCommitDeliversEarlierAnswers(t *testing.T) {
	direct, p := tableBehindProxy(t)
	c := connect(t, p.URL(databaseURL(t, direct)))
	c.must("begin")
	p.CutAfterCommit()
	c.send(slices.Concat(run("insert into t values (1)"), []message{syncUp}, run("commit"), []message{syncUp})...)
	tags, err := c.receive(2)
	if err == nil || !slices.Equal(tags, []string{"INSERT 0 1"}) {
		t.Fatalf("tags %q, error %v; want the insert's tag and a cut", tags, err)
	}
}

func TestPreparingCommitIsNotCommitting(t *testing.T) {
	direct, p := tableBehindProxy(t)
	c := connect(t, p.URL(databaseURL(t, direct)))
	before := p.CutBeforeCommit()
	c.must("begin")
	c.send(parse("c", "commit"), syncUp)
	if _, err := c.receive(1); err != nil {
		t.Fatal(err)
	}
	notYet(t, before)
	c.send(bind("", "c"), executePortal(""), syncUp)
	if _, err := c.receive(1); err == nil {
		t.Fatal("executing it was not cut")
	}
	happens(t, before)
}

// A COMMIT that cannot commit is answered, and the cut waits for one that can.
func TestCutAfterCommitWaitsForOneThatCommits(t *testing.T) {
	direct, p := tableBehindProxy(t)
	dsn := p.URL(databaseURL(t, direct))
	c := connect(t, dsn)
	cut := p.CutAfterCommit()

	// The server turns the commit of a failed transaction into a rollback.
	c.must("begin")
	if c.query("select 1/0") == nil {
		t.Fatal("no error")
	}
	c.must("commit")
	notYet(t, cut)

	// In a pipeline, it skips the commit after an error.
	c.must("begin")
	c.send(slices.Concat(run("select 1/0"), run("commit"), []message{syncUp})...)
	if _, err := c.receive(1); err == nil || !strings.Contains(err.Error(), "22012") {
		t.Fatalf("error %v, want division by zero", err)
	}
	c.must("rollback")
	notYet(t, cut)

	c.must("begin", "insert into t values (1)")
	if c.query("commit") == nil {
		t.Fatal("not cut")
	}
	happens(t, cut)
}

func TestCutsAreTakenOnceAndInOrder(t *testing.T) {
	direct, p := tableBehindProxy(t)
	dsn := p.URL(databaseURL(t, direct))
	before, after := p.CutBeforeCommit(), p.CutAfterCommit()
	for i := range 3 {
		c := connect(t, dsn)
		c.must("begin", "insert into t values (1)")
		if err := c.query("commit"); (err == nil) != (i == 2) {
			t.Fatalf("commit %d: %v", i, err)
		}
	}
	happens(t, before)
	happens(t, after)
	if n := direct.text("select count(*) from t"); n != "2" {
		t.Fatalf("%s rows, want 2", n)
	}
}

func TestCutAllAndRefuse(t *testing.T) {
	direct, p := tableBehindProxy(t)
	dsn := p.URL(databaseURL(t, direct))
	c := connect(t, dsn)
	busy := make(chan error, 1)
	go func() { busy <- c.query("select pg_sleep(30)") }()

	p.Refuse(true)
	if _, err := tryConnect(t, dsn); err == nil {
		t.Fatal("connected while refusing")
	}
	select {
	case err := <-busy:
		t.Fatalf("refusing new connections ended an open one: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	p.CutAll()
	if err := <-busy; err == nil {
		t.Fatal("the query was not cut")
	}
	p.Refuse(false)
	connect(t, dsn).must("select 1")
}

func TestProxyCountsRoundTrips(t *testing.T) {
	direct, p := tableBehindProxy(t)
	c := connect(t, p.URL(databaseURL(t, direct)))
	if n := p.RoundTrips(); n != 0 {
		t.Fatalf("logging in counted %d round trips", n)
	}
	c.must("begin")
	c.send(slices.Concat(run("insert into t values (1)"), run("select 1"), run("commit"), []message{syncUp})...)
	if _, err := c.receive(1); err != nil {
		t.Fatal(err)
	}
	if n := p.RoundTrips(); n != 2 {
		t.Errorf("%d round trips, want 2", n)
	}
	want := []string{"begin", "insert into t values (1)", "select 1", "commit"}
	if got := p.Statements(); !slices.Equal(got, want) {
		t.Errorf("statements %q, want %q", got, want)
	}
	p.Reset()
	if p.RoundTrips() != 0 || len(p.Statements()) != 0 {
		t.Error("Reset left something")
	}
}

// A client that we did not write: it asks for encryption first, and sends large messages.
func TestProxyServesPsql(t *testing.T) {
	s := Shared(t)
	db := s.NewDatabase(t)
	p := NewProxy(t, db)
	psql, err := exec.LookPath("psql")
	if err != nil {
		giveUp(t, &missingError{"psql"})
	}
	dsn := strings.Replace(p.URL(db), "sslmode=disable", "sslmode=prefer", 1)
	sql := "select length('" + strings.Repeat("x", 100_000) + "')"
	out, err := exec.Command(psql, "-X", "-A", "-t", "-d", dsn, "-c", sql).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "100000" {
		t.Fatalf("psql: %v, %s", err, out)
	}
}

// otherSessions counts the clients of the database besides the one that asks.
const otherSessions = "select count(*) from pg_stat_activity where datname = current_database()" +
	" and backend_type = 'client backend' and pid <> pg_backend_pid()"

// tableBehindProxy makes a database with the table t, a client connected to it directly, and a proxy.
func tableBehindProxy(t *testing.T) (*client, *Proxy) {
	t.Helper()
	db := Shared(t).NewDatabase(t)
	direct := connect(t, db)
	direct.must("create table t (x int)")
	return direct, NewProxy(t, db)
}

// databaseURL is the URL of the database that the client is connected to.
func databaseURL(t *testing.T, c *client) string {
	t.Helper()
	return Shared(t).URL(c.text("select current_database()"))
}
