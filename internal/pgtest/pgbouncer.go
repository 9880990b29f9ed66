package pgtest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// PgBouncer puts a real PgBouncer in transaction pooling mode in front of one database, given by name
// or URL, and returns the URL to connect to. A URL may lead through a [Proxy]. Its pool has four server connections, so that tests with
// more clients do share them. extra are lines of its configuration, "default_pool_size=1" say, which
// win over the ones set here.
func PgBouncer(t testing.TB, s *Server, database string, extra ...string) string {
	t.Helper()
	program, err := findPgBouncer()
	if err != nil {
		giveUp(t, err)
	}
	dir, err := newWorkdir()
	if err != nil {
		t.Fatal(err)
	}
	b := &bouncer{program: program, dir: dir, database: databaseName(database), server: s.base.Hostname(), port: strconv.Itoa(s.Port())}
	if u, err := url.Parse(database); err == nil && u.Host != "" {
		b.server, b.port = u.Hostname(), u.Port()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the PgBouncer log:\n%s", tail(b.log(), 40))
		}
		b.close()
	})
	for range 5 {
		// As with the server, somebody else can take the port between finding it and listening on it.
		if err = b.start(s, extra); err == nil || !strings.Contains(b.log(), "in use") {
			break
		}
	}
	if err != nil {
		t.Fatalf("pgtest: starting PgBouncer: %v; its log:\n%s", err, tail(b.log(), 20))
	}
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(role, role),
		Host:     b.address,
		Path:     "/" + b.database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

type bouncer struct {
	server   string
	port     string // of the server
	program  string
	database string
	address  string
	dir      *workdir
	proc     *process
}

func (b *bouncer) log() string {
	text, _ := os.ReadFile(filepath.Join(b.dir.path, "pgbouncer.log"))
	return string(text)
}

// start tries one port.
func (b *bouncer) start(s *Server, extra []string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	b.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	config := filepath.Join(b.dir.path, "pgbouncer.ini")
	if err := os.WriteFile(config, []byte(b.config(s, port, extra)), 0o600); err != nil {
		return err
	}
	if err := giveToServiceUser(config); err != nil {
		return err
	}
	b.proc, err = spawn(b.dir.path, filepath.Join(b.dir.path, "pgbouncer.log"), b.program, config)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(readyTimeout)
	for time.Now().Before(deadline) && b.proc.alive() {
		if err = ping(b.address, role, b.database); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.proc.end(syscall.SIGKILL, 10*time.Second)
	return errors.Join(errors.New("it does not answer"), err)
}

func (b *bouncer) config(s *Server, port int, extra []string) string {
	password, _ := s.base.User.Password()
	lines := []string{
		"[databases]",
		// auth_type=any lets every client in, and logs all of them in to the server as this user.
		fmt.Sprintf("%s = host=%s port=%s dbname=%s user=%s password=%s",
			b.database, b.server, b.port, quoteValue(b.database),
			quoteValue(s.base.User.Username()), quoteValue(password)),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		"listen_port = " + strconv.Itoa(port),
		"unix_socket_dir =",
		"auth_type = any",
		"pool_mode = transaction",
		"default_pool_size = 4",
		"max_client_conn = 500",
		// What people's own configurations have. A client that sends more at login is refused, as theirs is.
		"ignore_startup_parameters = extra_float_digits",
	}
	return strings.Join(append(lines, extra...), "\n") + "\n"
}

func quoteValue(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

func (b *bouncer) close() {
	if b.proc != nil && b.proc.alive() && !b.proc.end(syscall.SIGTERM, 5*time.Second) {
		b.proc.end(syscall.SIGKILL, 10*time.Second)
	}
	b.dir.remove()
}
