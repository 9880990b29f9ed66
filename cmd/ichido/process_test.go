package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// installProgram puts the program into a new directory, as a link to this test binary: so it runs with the race
// detector if the tests do.
func installProgram(t testing.TB) (dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, name := range []string{"ichido", "request"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A process is a running ichido serve or ichido fakepay.
type process struct {
	url    string
	stdout logs
	stderr logs
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended, with err
	err    error
}

// startServe runs a command that serves, and waits until it says where.
func startServe(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = &p.stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	url := make(chan string, 1) // of the first line
	go func() {
		defer close(p.done)
		defer close(url)
		lines := bufio.NewReader(io.TeeReader(out, &p.stdout))
		for {
			line, err := lines.ReadString('\n')
			if _, at, ok := strings.Cut(line, " at http://"); ok && len(url) == 0 {
				url <- "http://" + strings.TrimSpace(at)
			}
			if err != nil {
				break
			}
		}
		p.err = cmd.Wait()
	}()
	select {
	case u, ok := <-url:
		if !ok {
			return nil, fmt.Errorf("%s ended at once:\n%s%s", cmd, p.stdout.String(), p.stderr.String())
		}
		p.url = u
		return p, nil
	case <-time.After(patience):
		p.kill()
		return nil, fmt.Errorf("%s does not say where it serves", cmd)
	}
}

// serveProcess starts ichido serve, with a free port and the flags, until the test ends.
func serveProcess(t *testing.T, program string, flags ...string) *process {
	t.Helper()
	return programProcess(t, program, "serve", append([]string{"--mailbox", filepath.Join(t.TempDir(), "mails")}, flags...)...)
}

// fakepayProcess is serveProcess for ichido fakepay, with a database of its own.
func fakepayProcess(t *testing.T, program string, flags ...string) *process {
	t.Helper()
	return programProcess(t, program, "fakepay", append([]string{"--db", filepath.Join(t.TempDir(), "fakepay.db")}, flags...)...)
}

func programProcess(t *testing.T, program, command string, flags ...string) *process {
	t.Helper()
	p, err := startServe(exec.Command(program, append([]string{command, "--addr", "localhost:0"}, flags...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("standard error of ichido %s:\n%s", command, p.stderr.String())
		}
	})
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// end sends a signal and waits until the process has ended by it.
func (p *process) end(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
		p.kill()
		return errors.New("it did not end")
	}
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	untilWithin(t, patience, what, holds)
}

func untilWithin(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain for %s", limit, what)
		}
	}
}
