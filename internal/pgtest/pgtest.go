// Package pgtest gives tests a real PostgreSQL, a real PgBouncer, and a proxy that cuts connections at
// the moments that matter: right before a COMMIT reaches the server, and right after the server has
// committed but before anybody was told.
//
// Most tests want a database of their own on the server that all tests of the process share:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		url := pgtest.Shared(t).NewDatabase(t)
//		...
//	}
//
// A test that stops or kills the server takes one for itself with [Start].
//
// The package uses the standard library only, because it lives in the root module. The servers come
// from the machine: ICHIDO_PG_BIN names the directory of initdb and postgres, else the newest version
// under /usr/lib/postgresql is taken, else PATH decides. Without them a test is skipped, or fails where
// ICHIDO_TEST_REQUIRE=1 says that nothing may be skipped. ICHIDO_TEST_POSTGRES, a URL of a role that
// may create databases, makes [Shared] use a server that runs already.
package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// role is the superuser of every server started here, and its password: nothing to keep secret, since
// the server listens on the loopback address only and trusts everybody.
const role = "app"

// Server is a PostgreSQL server, usually a child of the test process.
type Server struct {
	// base carries the address and the role. The path is the database for administration.
	base url.URL
	// external is set for a server that was here before us, which we must not stop.
	external bool
	// shared is set for the server of [Shared]: stopping it would fail everybody else's tests.
	shared bool
	// report takes failures of methods that return none. It is t.Errorf, which unlike Fatal may be
	// called from any goroutine, since the chaos of a test often runs in one of its own.
	report func(format string, args ...any)

	binaries string
	dir      *workdir
	mu       sync.Mutex
	proc     *process // nil while the server is down
}

type options struct {
	durable  bool
	settings [][2]string
}

// Option changes how [Start] and [Launch] set the server up.
type Option func(*options)

// WithDurability turns fsync on. Without it, the server survives [Server.Kill], because the operating
// system still holds what was written, and tests are several times faster.
func WithDurability() Option { return func(o *options) { o.durable = true } }

// WithSetting puts "name = 'value'" into postgresql.conf.
func WithSetting(name, value string) Option {
	return func(o *options) { o.settings = append(o.settings, [2]string{name, value}) }
}

// Start gives the test a server of its own, which is stopped and deleted when the test ends.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := Launch(opts...)
	if err != nil {
		giveUp(t, err)
	}
	s.report = t.Errorf
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the PostgreSQL log:\n%s", tail(s.Log(), 40))
		}
		s.Close()
	})
	return s
}

// Launch starts a server outside of a test, for a benchmark's main function say. The caller calls
// [Server.Close]; methods that have no error to return panic on failure.
func Launch(opts ...Option) (*Server, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	binaries, err := findBinaries()
	if err != nil {
		return nil, err
	}
	dir, err := newWorkdir()
	if err != nil {
		return nil, err
	}
	s := &Server{
		binaries: binaries,
		dir:      dir,
		report:   func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) },
	}
	if err := s.create(o); err != nil {
		dir.remove()
		return nil, err
	}
	return s, nil
}

// create makes the cluster and starts it. Between choosing a free port and listening on it somebody
// else can take it, so the first start tries several.
func (s *Server) create(o options) error {
	if err := s.initdb(o); err != nil {
		return err
	}
	var err error
	for range 5 {
		var port int
		if port, err = freePort(); err != nil {
			return err
		}
		s.base = url.URL{
			Scheme:   "postgres",
			User:     url.UserPassword(role, role),
			Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
			Path:     "/postgres",
			RawQuery: "sslmode=disable",
		}
		if err = s.start(); err == nil || !strings.Contains(s.Log(), portTaken) {
			return err
		}
	}
	return err
}

// URL is the connection URL of a database on this server.
func (s *Server) URL(database string) string {
	u := s.base
	u.Path = "/" + database
	return u.String()
}

// Port is the TCP port that the server listens on. It stays the same across restarts.
func (s *Server) Port() int {
	port, err := strconv.Atoi(s.base.Port())
	if err != nil {
		return 5432
	}
	return port
}

// Log is everything the server has logged so far, over all its starts.
func (s *Server) Log() string {
	if s.dir == nil {
		return ""
	}
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s *Server) logFile() string { return filepath.Join(s.dir.path, "postgres.log") }
func (s *Server) dataDir() string { return filepath.Join(s.dir.path, "data") }

// Close stops the server and deletes its files. A second call does nothing.
func (s *Server) Close() {
	if s.external {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Immediate, because nothing of it is kept.
	if err := s.stop("immediate"); err != nil {
		s.report("pgtest: %v", err)
	}
	s.freeMemory()
	s.dir.remove()
}

// tail returns the last n lines of text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
