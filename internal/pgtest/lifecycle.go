package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// readyTimeout is how long a server may take to answer. Replay after a crash on a busy machine is slow.
const readyTimeout = 60 * time.Second

// What PostgreSQL logs when it cannot start yet, but may in a moment.
const (
	portTaken  = "could not bind" // Another process, or our own predecessor, has the port.
	memoryHeld = "pre-existing shared memory block"
)

func (s *Server) initdb(o options) error {
	password := filepath.Join(s.dir.path, "password")
	if err := os.WriteFile(password, []byte(role+"\n"), 0o600); err != nil {
		return err
	}
	if err := giveToServiceUser(password); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.binaries, "initdb"), "--pgdata="+s.dataDir(), "--auth=trust",
		"--username="+role, "--pwfile="+password, "--encoding=UTF8", "--locale=C", "--no-sync")
	cmd.Dir = s.dir.path
	cmd.Env = cleanEnv()
	if err := prepare(cmd); err != nil {
		return err
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := startOnLivingThread(cmd); err != nil {
		return fmt.Errorf("pgtest: initdb: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("pgtest: initdb: %w\n%s", err, tail(out.String(), 20))
	}
	return s.configure(o)
}

// configure appends to postgresql.conf, where the last of several equal names wins.
func (s *Server) configure(o options) error {
	settings := [][2]string{
		{"listen_addresses", "127.0.0.1"},
		{"max_connections", "200"},
		{"shared_buffers", "32MB"},
		{"timezone", "UTC"},
		{"log_timezone", "UTC"},
	}
	// A socket's path has at most 107 bytes. In a longer directory the server does without.
	sockets := s.dir.path
	if len(sockets) > 85 {
		sockets = ""
	}
	settings = append(settings, [2]string{"unix_socket_directories", sockets})
	if !o.durable {
		// synchronous_commit stays on: what a client was told must be out of the server's own memory,
		// or Kill would lose it.
		settings = append(settings, [2]string{"fsync", "off"}, [2]string{"full_page_writes", "off"})
	}
	var text strings.Builder
	for _, setting := range append(settings, o.settings...) {
		fmt.Fprintf(&text, "\n%s = '%s'", setting[0], strings.ReplaceAll(setting[1], "'", "''"))
	}
	text.WriteString("\n")
	conf, err := os.OpenFile(filepath.Join(s.dataDir(), "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString(text.String())
	return errors.Join(err, conf.Close())
}

// start runs the server and waits until it answers queries.
func (s *Server) start() error {
	if s.proc != nil {
		return errors.New("the server runs already")
	}
	deadline := time.Now().Add(readyTimeout)
	for firstTry := s.Log() == ""; ; time.Sleep(100 * time.Millisecond) {
		before := len(s.Log())
		proc, err := spawn(s.dir.path, s.logFile(), filepath.Join(s.binaries, "postgres"),
			"-D", s.dataDir(), "-p", strconv.Itoa(s.Port()))
		if err != nil {
			return fmt.Errorf("starting PostgreSQL: %w", err)
		}
		if err = s.waitReady(proc, deadline); err == nil {
			s.proc = proc
			return nil
		}
		proc.end(syscall.SIGQUIT, 10*time.Second)
		said := s.Log()[before:]
		// After a crash the old server's last processes may take a moment to let go. A first start has
		// no predecessor: there the caller chooses another port.
		held := strings.Contains(said, portTaken) || strings.Contains(said, memoryHeld)
		if firstTry || !held || time.Now().After(deadline) {
			return fmt.Errorf("starting PostgreSQL: %w; its log:\n%s", err, tail(said, 20))
		}
	}
}

// waitReady asks two witnesses: the server's own note that it is ready, which shows that it is this
// server and not a stranger on the port, and a connection.
func (s *Server) waitReady(proc *process, deadline time.Time) error {
	err := errors.New("no answer yet")
	for time.Now().Before(deadline) {
		if !proc.alive() {
			return errors.New("it ended at once")
		}
		if s.saysReady(proc.cmd.Process.Pid) {
			if err = ping(s.base.Host, role, "postgres"); err == nil {
				return nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("not ready after %s: %w", readyTimeout, err)
}

// saysReady reads postmaster.pid: the first line is the process, the eighth its state.
func (s *Server) saysReady(pid int) bool {
	text, err := os.ReadFile(filepath.Join(s.dataDir(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) >= 8 && lines[0] == strconv.Itoa(pid) && strings.TrimSpace(lines[7]) == "ready"
}

// stop ends the server if it runs. The caller holds s.mu.
func (s *Server) stop(mode string) error {
	signals := map[string]os.Signal{"fast": syscall.SIGINT, "immediate": syscall.SIGQUIT}
	sig, ok := signals[mode]
	if !ok {
		return fmt.Errorf("no stop mode %q: use fast or immediate", mode)
	}
	if s.proc == nil {
		return nil
	}
	proc := s.proc
	s.proc = nil
	if proc.end(sig, 30*time.Second) || proc.end(syscall.SIGQUIT, 10*time.Second) {
		return nil
	}
	killTree(proc.cmd.Process)
	<-proc.done
	return fmt.Errorf("PostgreSQL did not stop (%s) and was killed; its log:\n%s", mode, tail(s.Log(), 20))
}

// freeMemory releases what a killed server could not: the few bytes of System V shared memory that keep
// two servers off one directory, of which the kernel has a limited number. A server that starts again
// releases its predecessor's, so this is for the end.
func (s *Server) freeMemory() {
	text, err := os.ReadFile(filepath.Join(s.dataDir(), "postmaster.pid"))
	if err != nil {
		return // It ended in order.
	}
	// The seventh line is the memory's key and its id.
	if lines := strings.Split(string(text), "\n"); len(lines) >= 7 {
		if fields := strings.Fields(lines[6]); len(fields) == 2 {
			exec.Command("ipcrm", "-m", fields[1]).Run()
		}
	}
}

// Stop shuts the server down: "fast" rolls transactions back and writes a checkpoint, "immediate" drops
// everything, so that the next start recovers from the log as after a crash.
func (s *Server) Stop(mode string) {
	s.do("Stop", func() error { return s.stop(mode) })
}

// Restart is [Server.Stop] and [Server.StartAgain]. It returns when the server answers again.
func (s *Server) Restart(mode string) {
	s.do("Restart", func() error { return errors.Join(s.stop(mode), s.start()) })
}

// Kill ends the server and all its processes with SIGKILL, as the kernel does when memory runs out.
func (s *Server) Kill() {
	s.do("Kill", func() error {
		if s.proc != nil {
			killTree(s.proc.cmd.Process)
			<-s.proc.done
			s.proc = nil
		}
		return nil
	})
}

// StartAgain starts the server after [Server.Stop] or [Server.Kill], on the same port with the same
// data, and returns when it answers.
func (s *Server) StartAgain() {
	s.do("StartAgain", s.start)
}

func (s *Server) do(name string, action func() error) {
	if s.external || s.shared {
		s.report("pgtest: %s on a server that other tests use as well; take one of its own with Start", name)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := action(); err != nil {
		s.report("pgtest: %s: %v", name, err)
	}
}
