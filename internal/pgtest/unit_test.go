package pgtest

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestIsCommit(t *testing.T) {
	for sql, want := range map[string]bool{
		"commit":                           true,
		"  COMMIT ;":                       true,
		"Commit Work":                      true,
		"end transaction":                  true,
		"commit and chain":                 true,
		"/* app=x */ commit -- done":       true,
		"-- first\ncommit":                 true,
		"insert into t values (1); commit": true,
		"commit; begin":                    true,
		"commit prepared 'x'":              false,
		"rollback":                         false,
		"select 'commit'":                  false,
		"insert into commits values (1)":   false,
		"-- commit":                        false,
		"/* commit":                        false,
		"":                                 false,
	} {
		if got := isCommit(sql); got != want {
			t.Errorf("isCommit(%q) = %v", sql, got)
		}
	}
}

func TestNewestComparesNumbers(t *testing.T) {
	root := t.TempDir()
	var dirs []string
	for _, version := range []string{"9.6", "15", "17", "99", "beta"} {
		dir := filepath.Join(root, version, "bin")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
		if version == "99" {
			continue // A directory that a removed package left behind.
		}
		for _, name := range []string{"initdb", "postgres"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := newest(dirs); got != filepath.Join(root, "17", "bin") {
		t.Errorf("newest is %s", got)
	}
}

func TestMissingProgramSkipsOrFails(t *testing.T) {
	for require, want := range map[string]string{"": "skip", "1": "fatal"} {
		t.Setenv("ICHIDO_TEST_REQUIRE", require)
		fake := &outcome{TB: t}
		giveUp(fake, &missingError{"PostgreSQL"})
		if fake.got != want || !strings.Contains(fake.said, "make test") {
			t.Errorf("required %q: %s (%s), want %s", require, fake.got, fake.said, want)
		}
	}
	t.Setenv("ICHIDO_PG_BIN", t.TempDir())
	if _, err := findBinaries(); err == nil || !strings.Contains(err.Error(), "ICHIDO_PG_BIN") {
		t.Errorf("a wrong ICHIDO_PG_BIN gives %v", err)
	}
}

// outcome records how a test would have ended.
type outcome struct {
	testing.TB
	got, said string
}

func (o *outcome) Helper() {}

func (o *outcome) Skip(args ...any) {
	if o.got == "" {
		o.got, o.said = "skip", args[0].(error).Error()
	}
}

func (o *outcome) Fatal(args ...any) {
	if o.got == "" {
		o.got, o.said = "fatal", args[0].(error).Error()
	}
}

func TestExternalServer(t *testing.T) {
	s, err := externalServer("postgres://me:pw@db.test:5433/admin?sslmode=require")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.URL("x"), "postgres://me:pw@db.test:5433/x?sslmode=require"; got != want {
		t.Errorf("URL %s, want %s", got, want)
	}
	if s.Port() != 5433 {
		t.Errorf("port %d", s.Port())
	}
	for _, bad := range []string{"host=localhost", "localhost:5432", "mysql://h/x"} {
		if _, err := externalServer(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestProxyURL(t *testing.T) {
	p := &Proxy{address: "127.0.0.1:20001"}
	for in, want := range map[string]string{
		"postgres://u:p@h:1/db?sslmode=require&x=1": "postgres://u:p@127.0.0.1:20001/db?sslmode=disable&x=1",
		"db": "postgres://app:app@127.0.0.1:20001/db?sslmode=disable",
	} {
		if got := p.URL(in); got != want {
			t.Errorf("URL(%q) = %s, want %s", in, got, want)
		}
	}
}

// What arrives at the proxy may be anything, an HTTP request say.
func TestReadingRefusesOtherProtocols(t *testing.T) {
	if _, _, err := readStartup(strings.NewReader("GET / HTTP/1.1\r\n\r\n")); err == nil {
		t.Error("an HTTP request was taken for a login")
	}
	if _, err := readMessage(bytes.NewReader([]byte{'Q', 0, 0, 0, 3})); err == nil {
		t.Error("a length below its own size was taken")
	}
}

func TestSweepDeletesOnlyWhatIsAbandoned(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing is swept elsewhere than on Linux")
	}
	t.Setenv("TMPDIR", t.TempDir())
	old := time.Now().Add(-time.Hour)
	make := func(age time.Time) *workdir {
		w, err := newWorkdir()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(w.lock.Name(), age, age); err != nil {
			t.Fatal(err)
		}
		return w
	}
	inUse, abandoned, young := make(old), make(old), make(time.Now())
	abandoned.lock.Close()
	young.lock.Close()
	sweep()
	for _, w := range []*workdir{inUse, abandoned, young} {
		_, err := os.Stat(w.path)
		if gone := os.IsNotExist(err); gone != (w == abandoned) {
			t.Errorf("%s: gone is %v", filepath.Base(w.path), gone)
		}
	}
	inUse.remove()
	young.remove()
}
