package pgtest

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Main runs a package's tests and then stops the shared server and deletes its files. It is all that a
// TestMain needs. Without it the server still ends with the process, but its directory stays behind
// until a later run of any test clears it away.
func Main(m *testing.M) {
	code := m.Run()
	if s := sharedServer.Swap(nil); s != nil {
		s.report = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
		s.Close()
	}
	os.Exit(code)
}

var (
	launchShared = sync.OnceValues(startShared)
	sharedServer atomic.Pointer[Server]
)

// Shared returns the server that all tests of the process use, started when first asked for. Take a
// [Server.NewDatabase] on it. It cannot be stopped or killed.
func Shared(t testing.TB) *Server {
	t.Helper()
	s, err := launchShared()
	if err != nil {
		giveUp(t, err)
	}
	return s
}

func startShared() (*Server, error) {
	if text := os.Getenv("ICHIDO_TEST_POSTGRES"); text != "" {
		return externalServer(text)
	}
	s, err := Launch()
	if err != nil {
		return nil, err
	}
	s.shared = true
	sharedServer.Store(s)
	return s, nil
}

func externalServer(text string) (*Server, error) {
	base, err := url.Parse(text)
	if err != nil || base.Host == "" || (base.Scheme != "postgres" && base.Scheme != "postgresql") {
		return nil, fmt.Errorf("pgtest: ICHIDO_TEST_POSTGRES must be a URL like postgres://user:password@host:5432/postgres?sslmode=disable")
	}
	return &Server{
		base:     *base,
		external: true,
		report:   func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) },
	}, nil
}

// Other processes may use the same external server: a random part keeps the names apart.
var (
	processTag = fmt.Sprintf("%08x", rand.Uint32())
	databases  atomic.Int64
)

// NewDatabase creates an empty database for the test, drops it when the test ends, and returns its URL.
func (s *Server) NewDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("ichido_test_%s_%d", processTag, databases.Add(1))
	if err := s.run("CREATE DATABASE " + name); err != nil {
		giveUp(t, fmt.Errorf("pgtest: creating a database: %w", err))
	}
	t.Cleanup(func() {
		if !s.up() {
			return // The test stopped it, and its files are about to go.
		}
		// FORCE, because a test's pool may still be closing its connections.
		if err := s.run("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: dropping a database: %v", err)
		}
	})
	return s.URL(name)
}

// up reports whether the server is expected to answer.
func (s *Server) up() bool {
	if s.external {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && s.proc.alive()
}

// run executes one statement in the database for administration. A server of ours is asked directly,
// which takes a fraction of the time; an external one may want a password or TLS, which psql knows.
func (s *Server) run(sql string) error {
	if !s.external {
		return execute(s.base.Host, role, databaseName(s.base.String()), sql)
	}
	psql, err := exec.LookPath("psql")
	if err != nil {
		return &missingError{"psql"}
	}
	cmd := exec.Command(psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", s.base.String(), "-c", sql)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// databaseName accepts what the functions here return, a URL, as well as a bare name.
func databaseName(database string) string {
	if u, err := url.Parse(database); err == nil && u.Host != "" {
		return strings.TrimPrefix(u.Path, "/")
	}
	return database
}
