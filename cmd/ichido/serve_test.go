package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// begin sends a reservation whose work takes a while, and returns when that has begun.
func (s *testServer) begin(key string) <-chan sending {
	s.t.Helper()
	result := later(func() (r sending) {
		for {
			r.answer, r.err = s.try("POST", "/reservations", projector, "Content-Type: application/json", "Idempotency-Key: "+key)
			if r.status != 409 && r.status != 422 {
				return r
			}
			// The look below was there first.
		}
	})
	// Another request under the key is a mismatch while the first one runs. Alone it fails, and leaves the key free.
	until(s.t, "the work to begin", func() bool {
		a, err := s.try("POST", "/reservations", `{}`, "Content-Type: application/json", "Idempotency-Key: "+key)
		return err == nil && a.status == 422
	})
	return result
}

// A sending is what became of a request: an answer, or none.
type sending struct {
	answer
	err error
}

func TestTerminationLetsRunningRequestsFinish(t *testing.T) {
	program := filepath.Join(installProgram(t), "ichido")
	onBoth(t, func(t *testing.T, location string) {
		p := serveProcess(t, program, "--db", location, "--work", "2s")
		s := &testServer{t: t, url: p.url}
		running := s.begin("k")
		if err := p.end(syscall.SIGTERM); err != nil {
			t.Errorf("ended with %v", err)
		}
		one := receive(t, running, "the answer")
		if one.err != nil || one.status != 201 {
			t.Errorf("the running request got %d %s: %v", one.status, one.body, one.err)
		}
		if log := p.stderr.String(); !strings.Contains(log, "stopping") || !strings.Contains(log, "stopped") {
			t.Errorf("log: %s", log)
		}

		s.url = serveProcess(t, program, "--db", location).url
		wantReplay(t, s.reserve("k", projector), one.answer)
		s.wantCount(1)
	})
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	program := filepath.Join(installProgram(t), "ichido")
	onBoth(t, func(t *testing.T, location string) {
		p := serveProcess(t, program, "--db", location, "--work", "10m")
		s := &testServer{t: t, url: p.url}
		running := s.begin("k")
		if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		until(t, "the first signal to be heard", func() bool { return strings.Contains(p.stderr.String(), "stopping") })
		err := p.end(syscall.SIGINT)
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
			t.Errorf("ended with %v", err)
		}
		if one := receive(t, running, "the end of the request"); one.err == nil {
			t.Errorf("the request was answered: %d %s", one.status, one.body)
		}

		s.url = serveProcess(t, program, "--db", location).url
		s.wantCount(0)
		if a := s.reserve("k", projector); a.status != 201 {
			t.Errorf("the same key afterwards: %d %s", a.status, a.body)
		}
	})
}

func TestKilledServerLeavesNothing(t *testing.T) {
	program := filepath.Join(installProgram(t), "ichido")
	onBoth(t, func(t *testing.T, location string) {
		p := serveProcess(t, program, "--db", location, "--work", "10m")
		s := &testServer{t: t, url: p.url}
		s.begin("k")
		p.kill()
		s.url = serveProcess(t, program, "--db", location).url
		s.wantCount(0)
		if a := s.reserve("k", projector); a.status != 201 {
			t.Errorf("the same key afterwards: %d %s", a.status, a.body)
		}
		s.wantCount(1)
	})
}

func TestTwoServersMakeOneSchema(t *testing.T) {
	program := filepath.Join(installProgram(t), "ichido")
	onBoth(t, func(t *testing.T, location string) {
		started := make(chan *process, 4)
		for range cap(started) {
			go func() {
				p, err := startServe(exec.Command(program, "serve", "--addr", "localhost:0", "--db", location, "--mailbox", filepath.Join(t.TempDir(), "mails")))
				if err != nil {
					t.Error(err)
				}
				started <- p
			}()
		}
		for range cap(started) {
			p := receive(t, started, "a server")
			if p == nil {
				continue
			}
			t.Cleanup(p.kill)
			s := &testServer{t: t, url: p.url}
			if a := s.reserve("k", projector); a.status != 201 {
				t.Errorf("%d %s", a.status, a.body)
			}
			s.wantCount(1)
		}
	})
}
