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
	providerVariable = "CRASHTEST_PROVIDER" // the URL of the payment provider
)

// lease is that of the server: short, because tests wait for it, and long enough for a slow machine.
const lease = 3 * time.Second

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

// serve serves POST /charges until it is killed, and prints where.
func serve(location string) error {
	ctx := context.Background()
	store, err := openStore(ctx, location)
	if err != nil {
		return err
	}
	p := reporter(os.Getenv(controlVariable))
	config := &ichido.Config{Mode: ichido.LeaseMode, Lease: lease, Route: "charge", StoreTimeout: 10 * time.Second,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if os.Getenv(policyVariable) == "rerun" {
		config.OnLapse = ichido.Rerun
	}
	once, err := ichido.New(reportingStore{store, p}, ichido.Shared, config)
	if err != nil {
		return err
	}
	// Maintenance of a killed process is done by whoever comes next, over its own routes.
	asking, err := once.With(func(c *ichido.Config) {
		if c.OnLapse == ichido.Hold {
			c.Resolver = resolve
		}
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /charges", once.Wrap(charge(p)))
	mux.HandleFunc("POST /sweep", func(w http.ResponseWriter, r *http.Request) {
		asked, settled, err := asking.Sweep(r.Context())
		fmt.Fprint(w, asked, settled, err)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	return http.Serve(listener, mux)
}

type leaseStore interface {
	ichido.Settler
	ichido.Inspector
	ichido.Migrator
	ichido.Purger
}

func openStore(ctx context.Context, location string) (leaseStore, error) {
	if strings.HasPrefix(location, "postgres://") {
		pool, err := pgxpool.New(ctx, location)
		if err != nil {
			return nil, err
		}
		return pgstore.New(pool), nil
	}
	query := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"}}
	db, err := sql.Open("sqlite", "file:"+location+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	return sqlstore.New(db, sqlstore.SQLite), nil
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
