package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/ichido-dev/ichido/cmd/ichido/internal/lab"
	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/jackc/pgx/v5"
)

var update = flag.Bool("update", false, "write testdata/lab and docs/choosing.md anew")

// TestLab compares what the lab counts with testdata/lab, and with docs/choosing.md, which is of PostgreSQL. Times and
// versions are left out.
func TestLab(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		var stdout, stderr bytes.Buffer
		page := filepath.Join(t.TempDir(), "lab.html")
		if code := run(t.Context(), []string{"lab", "--db", location, "--json", "--html", page}, &stdout, &stderr); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr.String())
		}
		var report lab.Report
		if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(report.Database, " ")
		sameFile(t, filepath.Join("testdata", "lab", strings.ToLower(kind)+".txt"), counts(report))
		checkPage(t, page)
		if !isPostgres(location) {
			if _, err := os.Stat(location); !os.IsNotExist(err) {
				t.Errorf("the file is still there: %v", err)
			}
			return
		}
		noSchema(t, location)
		for lang, path := range map[string]string{"en": "../../docs/choosing.md", "ja": "../../docs/ja/choosing.md"} {
			var md bytes.Buffer
			if err := report.WriteMarkdown(&md, lang); err != nil {
				t.Fatal(err)
			}
			sameFile(t, path, md.String())
		}
	})
}

// counts writes what is counted of a report.
func counts(report lab.Report) string {
	var b strings.Builder
	for _, r := range report.Results {
		fmt.Fprintf(&b, "%s, %s:", r.Scenario, r.Way)
		if !r.Applies {
			b.WriteString(" does not apply\n")
			continue
		}
		fmt.Fprintf(&b, " rows %d of %d, lost %d, statements %d, %s, %s:", r.Rows, r.RightRows, r.Lost, r.Statements, r.Verdict, r.Sees)
		for _, a := range r.Answers {
			fmt.Fprintf(&b, " %d", a.Status)
			if a.Replayed {
				b.WriteString(" replayed")
			}
			if a.Withheld {
				b.WriteString(" withheld")
			}
		}
		b.WriteString("\n")
	}
	for _, s := range report.Surprises {
		fmt.Fprintf(&b, "\n%s\n", s.ID)
		for _, l := range s.Lines {
			fmt.Fprintf(&b, "%s=> %s\n", l.Session, l.SQL)
			for _, p := range l.Printed {
				fmt.Fprintf(&b, "   %s\n", p)
			}
		}
	}
	return b.String()
}

// changing is what differs from run to run.
var changing = regexp.MustCompile(`\d+\.\d ms|(PostgreSQL|SQLite) \d+\.[\d.]+`)

// sameFile compares a text with a file, or writes it there.
func sameFile(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines := strings.Split(changing.ReplaceAllString(got, "…"), "\n")
	wantLines := strings.Split(changing.ReplaceAllString(string(file), "…"), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Errorf("%s, line %d (-update writes it anew):\n got %s\nwant %s", path, i+1, g, w)
		}
	}
}

// checkPage looks at a page: it has all charts, needs nothing from elsewhere, and has no script.
func checkPage(t *testing.T, path string) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(file)
	if n := strings.Count(page, "<svg "); n != 18 {
		t.Errorf("the page has %d charts", n)
	}
	for _, foreign := range []string{"http:", "https:", "src=", "href=", "url(", "<script", "@import"} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page has %s", foreign)
		}
	}
	for _, needed := range []string{`name="viewport"`, "prefers-color-scheme:dark", "SAVEPOINT attempt", "Idempotency-Key: &#34;taro-order-1&#34;"} {
		if !strings.Contains(page, needed) {
			t.Errorf("the page has no %s", needed)
		}
	}
}

// noSchema checks that a database has no schema of a lab.
func noSchema(t *testing.T, location string) {
	t.Helper()
	if n := labSchemas(t, location); n > 0 {
		t.Errorf("%d schemas are left", n)
	}
}

func labSchemas(t *testing.T, location string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'ichido%'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLabSaysWhatIsMissing before it makes anything.
func TestLabSaysWhatIsMissing(t *testing.T) {
	location := pgtest.Shared(t).NewDatabase(t)
	conn, err := pgx.Connect(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const role = "lab_without_create"
	if _, err := conn.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := conn.Exec(context.Background(), "DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	}()
	at, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.User(role)
	dir := t.TempDir()
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--db", at.String()}, "GRANT CREATE ON DATABASE \"" + strings.TrimPrefix(at.Path, "/") + "\" TO \"" + role + "\""},
		{[]string{"--db", filepath.Join(dir, "lab.db"), "--html", filepath.Join(dir, "no", "lab.html")}, "--html: "},
		{[]string{"--db", filepath.Join(dir, "no", "lab.db"), "--html", filepath.Join(dir, "lab.html")}, "making the SQLite file"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"lab"}, c.flags...), &stdout, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("%v: exit code %d, %s, want %s", c.flags, code, stderr.String(), c.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
	noSchema(t, location)
}

// TestLabIsInterrupted stops the program by a signal when its schema, or its file, is there.
func TestLabIsInterrupted(t *testing.T) {
	program := filepath.Join(installProgram(t), "ichido")
	location := pgtest.Shared(t).NewDatabase(t)
	temporary := t.TempDir()
	files := func() int {
		entries, err := os.ReadDir(temporary)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for name, c := range map[string]struct {
		flags   []string
		present func() int
	}{
		"postgres": {[]string{"--db", location}, func() int { return labSchemas(t, location) }},
		"sqlite":   {nil, files},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr logs
			cmd := exec.Command(program, append([]string{"lab"}, c.flags...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			until(t, "something of the lab's", func() bool { return c.present() > 0 })
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "what the lab made is removed") {
				t.Errorf("it ended with %v: %s", err, stderr.String())
			}
			if n := c.present(); n > 0 {
				t.Errorf("%d of the lab's are left", n)
			}
			if stdout.String() != "" {
				t.Errorf("it printed %s", stdout.String())
			}
		})
	}
}
