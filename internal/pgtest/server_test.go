package pgtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("PGTEST_DIE") == "1" {
		dieWithServer()
	}
	Main(m)
}

func TestServerKeepsCommittedRowsThroughEverything(t *testing.T) {
	t.Parallel()
	s := Start(t)
	dsn := s.NewDatabase(t)
	connect(t, dsn).must("create table t (x int)")
	port := s.Port()
	interruptions := []struct {
		name string
		do   func()
	}{
		{"fast", func() { s.Restart("fast") }},
		{"immediate", func() { s.Restart("immediate") }},
		{"kill", func() { s.Kill(); s.StartAgain() }},
		{"stop", func() { s.Stop("fast"); s.StartAgain() }},
	}
	for i, interruption := range interruptions {
		open := connect(t, dsn)
		open.must("begin", "insert into t values (-1)")
		connect(t, dsn).must(fmt.Sprintf("insert into t values (%d)", i))
		interruption.do()
		if open.query("commit") == nil {
			t.Errorf("%s: a transaction outlived the server", interruption.name)
		}
		if got, want := connect(t, dsn).text("select count(*) from t"), strconv.Itoa(i+1); got != want {
			t.Fatalf("%s: %s rows, want %s", interruption.name, got, want)
		}
	}
	if s.Port() != port {
		t.Error("the port changed")
	}
	if !strings.Contains(s.Log(), "database system was interrupted") {
		t.Error("the log does not tell of a crash")
	}
}

// Kill must not leave a backend that goes on working.
func TestKillEndsEveryProcess(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := connect(t, s.URL("postgres"))
	pids := children(s.proc.cmd.Process.Pid)
	if len(pids) == 0 {
		t.Skip("the children of a process are not visible here")
	}
	go c.query("select pg_sleep(60)")
	s.Kill()
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d to end", pid), func() bool { return !running(pid) })
	}
}

func TestDurabilityIsAsked(t *testing.T) {
	t.Parallel()
	s := Start(t, WithDurability(), WithSetting("application_name", "it's"), WithSetting("max_connections", "11"))
	c := connect(t, s.URL("postgres"))
	for name, want := range map[string]string{"fsync": "on", "max_connections": "11", "application_name": "it's"} {
		if got := c.text("show " + name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestNewDatabaseIsEmptyAndDropped(t *testing.T) {
	s := Shared(t)
	var names sync.Map
	t.Run("group", func(t *testing.T) {
		for range 4 {
			t.Run("one", func(t *testing.T) {
				t.Parallel()
				dsn := s.NewDatabase(t)
				c := connect(t, dsn)
				c.must("create table t (x int)")
				if _, loaded := names.LoadOrStore(c.text("select current_database()"), true); loaded {
					t.Error("two tests got one database")
				}
			})
		}
	})
	c := connect(t, s.base.String())
	names.Range(func(name, _ any) bool {
		if n := c.text(fmt.Sprintf("select count(*) from pg_database where datname = '%s'", name)); n != "0" {
			t.Errorf("database %s is left", name)
		}
		return true
	})
}

// A server that was here before us takes the way through psql.
func TestExternalServerGivesDatabases(t *testing.T) {
	s, err := externalServer(Shared(t).URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	connect(t, s.NewDatabase(t)).must("create table t (x int)")
}

func TestSharedServerCannotBeStopped(t *testing.T) {
	s := Shared(t)
	for name, do := range map[string]func(){
		"Stop": func() { s.Stop("fast") }, "Kill": s.Kill, "Restart": func() { s.Restart("fast") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was let through", name)
				}
			}()
			do()
		}()
	}
	connect(t, s.base.String()).must("select 1")
}

func TestPgBouncerPoolsTransactions(t *testing.T) {
	db := Shared(t).NewDatabase(t)
	dsn := PgBouncer(t, Shared(t), db, "default_pool_size=1")
	first, second := connect(t, dsn), connect(t, dsn)
	// Two clients, one server connection: between transactions they share it.
	if a, b := first.text("select pg_backend_pid()"), second.text("select pg_backend_pid()"); a != b {
		t.Fatalf("server processes %s and %s, want one", a, b)
	}
	// And in a transaction it belongs to one of them.
	first.must("begin")
	waited := make(chan error, 1)
	go func() { waited <- second.query("select 1") }()
	select {
	case err := <-waited:
		t.Fatalf("the second client did not have to wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	first.must("commit")
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
}

func TestProxyCutsBehindPgBouncer(t *testing.T) {
	db := Shared(t).NewDatabase(t)
	direct := connect(t, db)
	direct.must("create table t (x int)")
	dsn := PgBouncer(t, Shared(t), db)
	p := NewProxy(t, dsn)
	c := connect(t, p.URL(dsn))
	c.must("begin", "insert into t values (1)")
	cut := p.CutAfterCommit()
	if c.query("commit") == nil {
		t.Fatal("not cut")
	}
	happens(t, cut)
	if n := direct.text("select count(*) from t"); n != "1" {
		t.Fatalf("%s rows, want 1", n)
	}
}

// A test binary that is killed takes its server with it, and the next one clears its directory away.
func TestServerEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child that its parent has died")
	}
	if _, err := findBinaries(); err != nil {
		giveUp(t, err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PGTEST_DIE=1")
	out, err := cmd.Output()
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the helper ended with %v, want a kill: %s", err, out)
	}
	address, dir, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
	if !ok || filepath.Dir(dir) != filepath.Clean(os.TempDir()) {
		t.Fatalf("the helper said %q", out)
	}
	defer os.RemoveAll(dir)
	eventually(t, "the server to end", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if free, err := tryLock(lock); err != nil || !free {
		t.Fatalf("the directory's lock is not free (%v)", err)
	}
}

// dieWithServer is the helper process of the test above.
func dieWithServer() {
	s, err := Launch()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.base.Host, s.dir.path)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		self.Kill()
	}
	select {}
}

// running is false for a process that has ended, even if nobody has waited for it yet.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
