package landscape

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// unavailable skips a test for want of a tool, unless nothing may be skipped.
func unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("ICHIDO_TEST_REQUIRE") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// installNode installs a server of servers/ by npm, once per version of its package.json, and returns where.
func installNode(t *testing.T, name string) (dir string) {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			unavailable(t, "%s is not installed", tool)
		}
	}
	wanted, err := os.ReadFile(filepath.Join("servers", name, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err = filepath.Abs(filepath.Join("..", "..", ".cache", "landscape", name))
	if err != nil {
		t.Fatal(err)
	}
	stamp := filepath.Join(dir, "installed.json")
	if there, err := os.ReadFile(stamp); err != nil || string(there) != string(wanted) {
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o777),
			os.WriteFile(filepath.Join(dir, "package.json"), wanted, 0o666)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			// What a registry has today is not ours to test: this is skipped even where nothing else may be.
			t.Skipf("npm cannot install %s: %v\n%s", name, err, out)
		}
		if err := os.WriteFile(stamp, wanted, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(filepath.Join("servers", name, "server.js"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "server.js"), program, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// startNode starts a server of servers/ until the test ends.
func startNode(t *testing.T, name string) (url string) {
	cmd := exec.Command("node", "server.js")
	cmd.Dir = installNode(t, name)
	return start(t, cmd, func(line string) (string, bool) { return line, strings.HasPrefix(line, "http://") })
}

// startIchido builds the program and starts its example until the test ends.
func startIchido(t *testing.T) (url string) {
	program := filepath.Join(t.TempDir(), "ichido")
	build := exec.Command("go", "build", "-o", program, "github.com/ichido-dev/ichido/cmd/ichido")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	dir := t.TempDir()
	cmd := exec.Command(program, "serve", "--addr", "localhost:0", "--db", filepath.Join(dir, "ichido.db"), "--mailbox", filepath.Join(dir, "mailbox.jsonl"),
		"--work", work.String(), "--token", "a="+token("a")+",b="+token("b"))
	return start(t, cmd, func(line string) (string, bool) {
		_, url, ok := strings.Cut(line, " serves reservations and orders at ")
		return url, ok
	})
}

// start starts a server, which says where it serves in a line that where finds.
func start(t *testing.T, cmd *exec.Cmd, where func(line string) (url string, ok bool)) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if u, ok := where(lines.Text()); ok {
				url <- strings.TrimSpace(u)
				break
			}
		}
		_, _ = io.Copy(io.Discard, out) // it must not wait for a reader
	}()
	select {
	case u := <-url:
		return u
	case <-time.After(30 * time.Second):
		t.Fatal("the server does not say where it serves")
		return ""
	}
}
