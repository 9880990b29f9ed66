package outboxtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/client"
	"github.com/ichido-dev/ichido/client/outbox"
	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/ichido-dev/ichido/memstore"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// TestMain lets the test binary be a worker as well: see TestKilled.
func TestMain(m *testing.M) {
	if os.Getenv("OUTBOX_WORKER") != "" {
		worker()
		return
	}
	pgtest.Main(m)
}

// patience bounds every wait of a test for something that must happen.
const patience = 60 * time.Second

// A world is a database with an outbox's table, and a server that honours keys.
type world struct {
	testing.TB
	location string
	dialect  *outbox.Dialect
	db       *sql.DB

	server *httptest.Server
	mu     sync.Mutex
	keys   []string          // of all sendings, in order
	bodies []string          // of all effects, in order
	auth   []string          // of all sendings
	answer func(n int) fault // of the n-th sending, from 1; nil is no fault
	begun  int               // how often work began
	within chan struct{}     // if not nil, work waits for it
}

// A fault is what a sending meets.
type fault struct {
	status int           // answers it, and does nothing
	after  string        // with this Retry-After
	lost   bool          // cuts the connection when the work is done
	hold   chan struct{} // waits before the work
}

// on runs a test on a database of each kind.
func on(t *testing.T, test func(w *world)) {
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			w := &world{TB: t, dialect: outbox.SQLite, location: filepath.Join(t.TempDir(), "outbox.db")}
			if kind == "postgres" {
				w.dialect, w.location = outbox.Postgres, pgtest.Shared(t).NewDatabase(t)
			}
			w.db = w.open()
			w.serve()
			if _, err := w.box(nil).Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			test(w)
		})
	}
}

func openDB(dialect *outbox.Dialect, location string) (*sql.DB, error) {
	if dialect == outbox.Postgres {
		return sql.Open("pgx", location)
	}
	query := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"}}
	return sql.Open("sqlite", "file:"+location+"?"+query.Encode())
}

// open opens the database as another process would.
func (w *world) open() *sql.DB {
	db, err := openDB(w.dialect, w.location)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { db.Close() })
	return db
}

func (w *world) serve() {
	once, err := ichido.New(memstore.New(nil), ichido.Shared, nil)
	if err != nil {
		w.Fatal(err)
	}
	h := once.Wrap(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.begun++
		within := w.within
		w.mu.Unlock()
		if within != nil {
			<-within
		}
		w.mu.Lock()
		w.bodies = append(w.bodies, string(body))
		n := len(w.bodies)
		w.mu.Unlock()
		rw.WriteHeader(http.StatusCreated)
		fmt.Fprintf(rw, "number %d", n)
	}))
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.keys = append(w.keys, r.Header.Get("Idempotency-Key"))
		w.auth = append(w.auth, r.Header.Get("Authorization"))
		n, answer := len(w.keys), w.answer
		w.mu.Unlock()
		var f fault
		if answer != nil {
			f = answer(n)
		}
		if f.hold != nil {
			<-f.hold
		}
		switch {
		case f.status != 0:
			if f.after != "" {
				rw.Header().Set("Retry-After", f.after)
			}
			http.Error(rw, "a fault", f.status)
		case f.lost:
			h.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			h.ServeHTTP(rw, r)
		}
	}))
	w.server.Config.ErrorLog = nil
	w.Cleanup(w.server.Close)
}

func newTransport(base http.RoundTripper) *client.Transport {
	t, err := client.NewTransport(&client.Config{Targets: client.Targets{"127.0.0.1": client.Ichido}, Attempts: 1, Base: base})
	if err != nil {
		panic(err)
	}
	return t
}

// box returns an outbox as another process would have it.
func (w *world) box(config *outbox.Config) *outbox.Outbox {
	return w.boxOn(http.DefaultTransport, config)
}

func (w *world) boxOn(base http.RoundTripper, config *outbox.Config) *outbox.Outbox {
	o, err := outbox.New(w.db, w.dialect, newTransport(base), config)
	if err != nil {
		w.Fatal(err)
	}
	return o
}

func (w *world) request(body string) *http.Request {
	r, err := http.NewRequest(http.MethodPost, w.server.URL+"/orders", strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/plain")
	return r
}

// put puts an operation whose name is its body.
func (w *world) put(o *outbox.Outbox, name, subject string) *outbox.Entry {
	w.Helper()
	e, err := o.Put(context.Background(), nil, outbox.Operation{Name: name, Subject: subject, Request: w.request(name)})
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// work lets a worker send what is due, and wants it to be so many operations.
func (w *world) work(o *outbox.Outbox, want int) {
	w.Helper()
	if n, err := o.Work(context.Background()); err != nil || n != want {
		w.Fatalf("worked on %d operations, error %v; want %d", n, err, want)
	}
}

// want looks at an operation, which must be in the state.
func (w *world) want(name string, state outbox.State) *outbox.Entry {
	w.Helper()
	e, err := w.box(nil).LookName(context.Background(), name)
	if err != nil {
		w.Fatal(err)
	}
	if e.State != state {
		w.Fatalf("%s is %s (%s), want %s", e, e.State, e.Err, state)
	}
	return e
}

// elapse lets time pass for all operations.
func (w *world) elapse(d time.Duration) {
	w.Helper()
	amount := fmt.Sprintf("%d", d.Milliseconds())
	if w.dialect == outbox.Postgres {
		amount = fmt.Sprintf("interval '%d milliseconds'", d.Milliseconds())
	}
	var set []string
	for _, column := range []string{"created_at", "expires_at", "first_sent_at", "due_at", "decided_at", "purge_at"} {
		set = append(set, column+" = "+column+" - "+amount)
	}
	if _, err := w.db.Exec("UPDATE idempotency_outbox SET " + strings.Join(set, ", ")); err != nil {
		w.Fatal(err)
	}
}

// effects wants these effects at the server, in this order, after so many sendings.
func (w *world) effects(sendings int, want ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.Join(w.bodies, " ") != strings.Join(want, " ") || len(w.keys) != sendings {
		w.Fatalf("effects %q after %d sendings, want %q after %d", w.bodies, len(w.keys), want, sendings)
	}
}

func (w *world) faults(answer func(n int) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// first is a fault of the first sending.
func first(f fault) func(int) fault {
	return func(n int) fault {
		if n == 1 {
			return f
		}
		return fault{}
	}
}

func always(f fault) func(int) fault { return func(int) fault { return f } }

// roundTripper is a client.Config.Base.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *world) wantError(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("error %v, want %v", err, want)
	}
}
