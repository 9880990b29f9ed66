package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/sqlstore"
	"github.com/spf13/cobra"
)

type fakepayOptions struct {
	addr     string
	location string
	lang     string
	misbehaviour
}

func newFakepayCommand() *cobra.Command {
	var o fakepayOptions
	cmd := &cobra.Command{
		Use:   "fakepay",
		Short: "Play a payment provider that can be slow, lose answers and fail",
		Long: `fakepay is a payment provider to try orders with. It moves no money. POST /charges {"amount","card","reference"}, which
requires an Idempotency-Key, makes a charge, once for each key; GET /charges lists them, the newest first, and GET
/charges/{id} shows one. GET /healthz tells whether it works. A card that is named "declined" is declined.

It misbehaves as it is told, at the start by flags, and while it runs by PUT /switches with some of the members that
GET /switches shows: {"slow":"0s","lose_answers":0,"fail_after":0,"decline":0,"down":0}. All but slow are shares of the
requests, from 0 to 1. What lose_answers and fail_after do happens behind the charge: it is there, and the same request
with the same key gets the answer.

` + exitCodes,
		Example: `  ichido fakepay
  ichido fakepay --slow 10s
  ichido fakepay --lose-answers 0.1 --fail-after 0.1
  curl -X PUT localhost:8081/switches -d '{"down":1}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fakepay(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.addr, "addr", "localhost:8081", "`host:port` to listen on; port 0 takes a free one")
	bindVariable(cmd, "addr", "ICHIDO_FAKEPAY_ADDR")
	cmd.Flags().StringVar(&o.location, "db", "fakepay.db", "`path` of its SQLite file")
	bindVariable(cmd, "db", "ICHIDO_FAKEPAY_DB")
	addChoice(cmd, &o.lang, "lang", "ICHIDO_LANG", "language of problems for clients that ask for neither", "en", "ja")
	addSwitchFlags(cmd, &o.misbehaviour)
	return cmd
}

// fakepay runs until a signal or ctx ends it.
func fakepay(ctx context.Context, o fakepayOptions, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := newLogger(stderr)
	path, err := sqlitePath("--db", o.location)
	if err != nil {
		return err
	}
	reaching, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	db, where, err := openSQLiteFile(reaching, path, sqliteCreate)
	if err != nil {
		return err
	}
	defer db.Close()
	handler, err := newFakepay(reaching, db, o.lang, &switches{now: o.misbehaviour}, log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with --addr (ICHIDO_FAKEPAY_ADDR)", err)
	}
	base := baseURL(o.addr, listener.Addr())
	if _, err := fmt.Fprintf(stdout, `ichido fakepay takes payments at %[1]s
  data         SQLite, %[2]s

Make it lose the answers of a tenth of the charges:
  curl -X PUT %[1]s/switches -d '{"lose_answers":0.1}'
See what is charged:
  curl %[1]s/charges
`, base, where); err != nil {
		return err
	}
	return serveUntil(ctx, stop, newHTTPServer(handler, longestSlow+2*fakepayTimeout, log), listener, longestSlow+fakepayTimeout, nil, log)
}

// fakepayTimeout is how long a charge may take, beside its being slow.
const fakepayTimeout = 30 * time.Second

// A fakeProvider is the provider over HTTP.
type fakeProvider struct {
	refuser
	db       *sql.DB
	store    ichido.Pinger
	switches *switches
}

// fakepaySchema is that of charges, next to the keys of the library.
const fakepaySchema = `CREATE TABLE IF NOT EXISTS charges (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	amount     INTEGER NOT NULL,
	card       TEXT    NOT NULL,
	reference  TEXT    NOT NULL,
	created_at TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT`

func newFakepay(ctx context.Context, db *sql.DB, lang string, s *switches, log *slog.Logger) (http.Handler, error) {
	store := sqlstore.New(db, sqlstore.SQLite)
	if _, err := store.Migrate(ctx); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, fakepaySchema); err != nil {
		return nil, err
	}
	once, err := ichido.New(store, ichido.Shared, &ichido.Config{
		Methods:        []string{http.MethodPost},
		InProgress:     ichido.Wait, // the second request of a client that has lost the first gets its answer
		AttemptTimeout: longestSlow + fakepayTimeout,
		Language:       lang,
		ProblemBase:    problemBase,
		Logger:         log,
	})
	if err != nil {
		return nil, err
	}
	f := &fakeProvider{refuser{language: lang, pages: newProblemPages(problemDocs(once.KeyPolicy(), fakepayKinds), false)}, db, store, s}
	return traced(f.routes(once), log, f.refuser), nil
}

func (f *fakeProvider) routes(once *ichido.Manager) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /charges", f.misbehaving(once.Wrap(http.HandlerFunc(f.charge))))
	mux.HandleFunc("GET /charges", f.list)
	mux.HandleFunc("GET /charges/{id}", f.get)
	mux.HandleFunc("GET /switches", f.showSwitches)
	mux.HandleFunc("PUT /switches", f.setSwitches)
	mux.HandleFunc("GET /healthz", f.health(f.store))
	mux.HandleFunc("GET /problems/{$}", f.problem)
	mux.HandleFunc("GET /problems/{name}", f.problem)
	mux.Handle("/charges", f.only(http.MethodGet, http.MethodHead, http.MethodPost))
	mux.Handle("/switches", f.only(http.MethodGet, http.MethodHead, http.MethodPut))
	for _, path := range []string{"/charges/{id}", "/healthz", "/problems/{$}", "/problems/{name}"} {
		mux.Handle(path, f.only(http.MethodGet, http.MethodHead))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		f.refuse(w, r, noResource, text("The provider has /charges, /charges/{id}, /switches and /healthz.", "この決済サービスには /charges、/charges/{id}、/switches、/healthz があります。"))
	})
	return mux
}
