package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

func TestSQLitePathsMayContainAnything(t *testing.T) {
	for _, name := range []string{"plain.db", "with space.db", "what?mode=memory.db", "50%25.db", "a#b.db", "a&_pragma=x.db", "日本.db", "a'b\"c.db"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := serveAPI(t, open(t, filepath.Join(dir, name)), serveOptions{}, nil)
			wantCreated(t, s.reserve("k", projector), first)
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestSQLitePathOf(t *testing.T) {
	for location, want := range map[string]string{
		"ichido.db": "ichido.db", "/a/b.db": "/a/b.db", "sqlite:b.db": "b.db", "sqlite:///a/b.db": "/a/b.db", "sqlite://b.db": "b.db",
		"sqlite:": "", "": "", ":memory:": "", "sqlite::memory:": "", "file:a.db": "", "mysql://h/d": "", "sqlite3://a.db": "",
	} {
		got, err := sqlitePath("--db", location)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v, want %q", location, got, err, want)
		}
	}
}

// The promises of the answers to clients stand on these settings.
func TestSQLiteIsDurableAndWaits(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "office.db")).office.(sqliteOffice).db
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000", "foreign_keys": "1"} {
		for range 3 { // of any connection
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var got string
			if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q (%v), want %q", pragma, got, err, want)
			}
		}
	}
}

func TestLookingAtASQLiteFileDoesNotChangeIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "office.db")
	look, err := openDatabase(t.Context(), path, sqliteLook)
	if err != nil {
		t.Fatal(err)
	}
	defer look.shut()
	for _, s := range look.schemas() {
		if pending, err := s.Pending(t.Context()); err != nil || len(pending) == 0 {
			t.Errorf("%s of a file that is not there: %v, %v", s.name, pending, err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("looking made the file")
	}

	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	look, err = openDatabase(t.Context(), path, sqliteLook)
	if err != nil {
		t.Fatal(err)
	}
	defer look.shut()
	if _, err := look.office.Migrate(context.Background()); err == nil {
		t.Error("a file that is looked at could be changed")
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("looking changed the file: %v", err)
	}
}
