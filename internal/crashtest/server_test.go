package crashtest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/ichido-dev/ichido/sqlstore"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"
)

// The points of an attempt at which something can happen to its process or its database. before and after are those of
// the commit.
var points = []string{
	"claim before", "claim after",
	"effect before", "effect after",
	"renew before", "renew after",
	"complete before", "complete after",
}

// The server is this test binary, started with these variables.
const (
	serverVariable   = "CRASHTEST_DATABASE" // what to serve on; it makes the binary a server
	policyVariable   = "CRASHTEST_POLICY"   // hold or rerun
	controlVariable  = "CRASHTEST_CONTROL"  // the URL of the test, which is told about the points
	providerVariable = "CRASHTEST_PROVIDER" // the URL of the payment provider, or of the shop
	leaseVariable    = "CRASHTEST_LEASE"    // a duration
)

const (
	// shortLease is that of servers to which something happens: short, because tests wait for it, and long enough for a slow
	// machine.
	shortLease = 3 * time.Second

	// restartLease outlasts a restart of the database on a busy machine.
	restartLease = 3 * shortLease

	// longLease is that of servers to which nothing happens: a machine that is busy does not make them lose it.
	longLease = time.Minute
)

func TestMain(m *testing.M) {
	if location := os.Getenv(serverVariable); location != "" {
		if err := serve(location); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // they wait for leases, and need no core for it
	os.Exit(m.Run())
}

// serve serves POST /charges and POST /orders until it is killed, and prints where.
func serve(location string) error {
	ctx := context.Background()
	e, err := openEngine(ctx, location)
	if err != nil {
		return err
	}
	p := reporter(os.Getenv(controlVariable))
	lease, err := time.ParseDuration(os.Getenv(leaseVariable))
	if err != nil {
		return err
	}
	config := &ichido.Config{Mode: ichido.LeaseMode, Lease: lease, Route: "charge", StoreTimeout: 10 * time.Second,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if os.Getenv(policyVariable) == "rerun" {
		config.OnLapse = ichido.Rerun
	}
	charges, err := ichido.New(reportingStore{e.leaseStore, p}, ichido.Shared, config)
	if err != nil {
		return err
	}
	orders, err := charges.With(func(c *ichido.Config) {
		c.Route, c.StepSecret, c.Finish = "order", []byte("sixteen bytes or more"), true
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /charges", charges.Wrap(charge(p)))
	mux.Handle("POST /orders", orders.Wrap(order(e, p)))
	mux.HandleFunc("POST /finish", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, said(orders.Finish(r.Context(), order(e, p))))
	})
	// Maintenance of a killed process is done by whoever comes next, over its own routes.
	asking, err := charges.With(func(c *ichido.Config) {
		if c.OnLapse == ichido.Hold {
			c.Resolver = resolve
		}
	})
	if err != nil {
		return err
	}
	mux.HandleFunc("POST /sweep", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, said(asking.Sweep(r.Context())))
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	return http.Serve(listener, mux)
}

// said is what Sweep and Finish return, as text.
func said(a, b int, err error) string { return fmt.Sprint(a, " ", b, " ", err) }

// A leaseStore is a store with all that is crashed here.
type leaseStore interface {
	ichido.Settler
	ichido.Finisher
	ichido.Inspector
	ichido.Migrator
	ichido.Purger
}

// An engine is a database with its store.
type engine struct {
	leaseStore
	reserve func(ctx context.Context, order string, p reporter) (int64, error) // a TxStep
	close   func()
}

func openEngine(ctx context.Context, location string) (engine, error) {
	if onPostgres(location) {
		pool, err := pgxpool.New(ctx, location)
		if err != nil {
			return engine{}, err
		}
		return engine{pgstore.New(pool), reservePostgres, pool.Close}, nil
	}
	db, err := sql.Open("sqlite", sqliteSource(location))
	if err != nil {
		return engine{}, err
	}
	return engine{sqlstore.New(db, sqlstore.SQLite), reserveSQLite, func() { _ = db.Close() }}, nil
}

func onPostgres(location string) bool { return strings.HasPrefix(location, "postgres://") }

func sqliteSource(location string) string {
	query := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"}}
	return "file:" + location + "?" + query.Encode()
}

// charge is the handler: one call of the provider, which is not idempotent. Long enough for a heartbeat, so that the
// points of renewal are met.
func charge(p reporter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := p.waitForRenewal(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		p.report("effect before")
		id, err := call("POST", os.Getenv(providerVariable)+"/charges?key="+r.Header.Get("Idempotency-Key"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		p.report("effect after")
		w.Header().Set("Location", "/charges/"+id)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %s", id)
	})
}

// resolve asks the provider whether it has charged under the key.
func resolve(_ context.Context, key ichido.UnknownKey) (ichido.Resolution, error) {
	id, err := call("GET", os.Getenv(providerVariable)+"/charges?key="+url.QueryEscape(`"`+key.Key+`"`))
	switch {
	case err != nil:
		return ichido.Resolution{}, err
	case id == "":
		return ichido.NotDone().Because("the provider does not know the key"), nil
	}
	return ichido.Done(201, http.Header{"Location": {"/charges/" + id}}, []byte("charge "+id)).Because("found at the provider"), nil
}

func call(method, target string) (string, error) {
	req, err := http.NewRequest(method, target, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = errors.New(res.Status)
	}
	return string(bytes.TrimSpace(body)), err
}

// A reporter is the URL of the test. It is told of every point, and answers when the process may go on. It is empty in a
// process to which nothing happens.
type reporter string

func (p reporter) report(point string) {
	if p != "" {
		_, _ = call("POST", string(p)+"/point?at="+url.QueryEscape(point))
	}
}

// waitForRenewal waits until the lease was renewed once, if the test wants the handler to.
func (p reporter) waitForRenewal(ctx context.Context) error {
	if p == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, "POST", string(p)+"/renewal", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// A reportingStore reports the points before and after each commit.
type reportingStore struct {
	leaseStore
	p reporter
}

func (s reportingStore) Begin(ctx context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	s.p.report("claim before")
	attempt, record, err := s.leaseStore.Begin(ctx, claim)
	if attempt == nil {
		return nil, record, err
	}
	s.p.report("claim after")
	return reportingAttempt{attempt, s.p}, nil, nil
}

func (s reportingStore) Renew(ctx context.Context, leases []ichido.Held) ([]bool, error) {
	s.p.report("renew before")
	held, err := s.leaseStore.Renew(ctx, leases)
	s.p.report("renew after")
	return held, err
}

func (s reportingStore) BeginSteps(ctx context.Context, lease ichido.Held) ([]ichido.KeptStep, error) {
	s.p.report("begin before")
	steps, err := s.leaseStore.BeginSteps(ctx, lease)
	s.p.report("begin after")
	return steps, err
}

// KeepStep is not called for a TxStep, which reports its points itself.
func (s reportingStore) KeepStep(ctx context.Context, lease ichido.Held, number int, step ichido.KeptStep) error {
	s.p.report(step.Name + " after")
	err := s.leaseStore.KeepStep(ctx, lease, number, step)
	s.p.report(step.Name + " kept")
	return err
}

type reportingAttempt struct {
	ichido.Attempt
	p reporter
}

func (a reportingAttempt) Complete(ctx context.Context, response ichido.Response) error {
	a.p.report("complete before")
	err := a.Attempt.Complete(ctx, response)
	a.p.report("complete after")
	return err
}
