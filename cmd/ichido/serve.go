package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/spf13/cobra"
)

type serveOptions struct {
	addr       string
	location   string // of the database
	inProgress string // reject or wait
	waitLimit  time.Duration
	retention  time.Duration
	purgeEvery time.Duration // 0: never
	lang       string
	token      []string // name=secret pairs; none: nobody is asked for a token
	work       time.Duration
}

func newServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve reservations, each of which takes effect once",
		Long: `serve is an API that books equipment: POST /reservations, which requires an Idempotency-Key and takes effect once for
each key, GET /reservations, GET /reservations/{id} and GET /healthz. It makes its tables in an empty database.

It describes itself at /openapi.json and /.well-known/idempotency, and its problems at /problems/.

With tokens, reservations are made and read with "Authorization: Bearer SECRET" only, and a key belongs to the name of
the token: the secret can be replaced, and retries still get the first answer. Without tokens all clients are one.

It prints on standard output where it listens, where the data is, and two commands to try; faults go to standard error.
SIGINT or SIGTERM lets running requests finish; a second one does not.

` + exitCodes,
		Example: `  ichido serve
  ichido serve --addr localhost:0 --db /tmp/try.db --work 5s --in-progress wait
  ICHIDO_TOKENS=shop=$(openssl rand -hex 32) ichido serve
  DATABASE_URL=postgres://app:app@127.0.0.1:5432/appdb ichido serve`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.addr, "addr", "localhost:8080", "`host:port` to listen on; port 0 takes a free one")
	bindVariable(cmd, "addr", "ICHIDO_ADDR")
	addDatabaseFlag(cmd, &o.location)
	addPolicyFlags(cmd, &o)
	addDurationOrZero(cmd, &o.purgeEvery, "purge-every", "ICHIDO_PURGE_EVERY", 10*time.Minute,
		"how often expired keys are deleted; 0 for never")
	addDurationOrZero(cmd, &o.work, "work", "ICHIDO_WORK", 0,
		"make the work of a reservation take this long, to see the rest happen")
	return cmd
}

// addPolicyFlags adds the flags that decide what clients have to know.
func addPolicyFlags(cmd *cobra.Command, o *serveOptions) {
	addChoice(cmd, &o.inProgress, "in-progress", "ICHIDO_IN_PROGRESS",
		"what a duplicate of a running request gets: 409 at once, or the first one's answer", "reject", "wait")
	addDuration(cmd, &o.waitLimit, "wait-limit", "ICHIDO_WAIT_LIMIT", 30*time.Second,
		"with --in-progress wait: the longest wait, then 409")
	addDuration(cmd, &o.retention, "retention", "ICHIDO_RETENTION", 24*time.Hour,
		"how long a key is remembered; later it is a new operation")
	addChoice(cmd, &o.lang, "lang", "ICHIDO_LANG", "language of problems for clients that ask for neither", "en", "ja")
	addTokensFlag(cmd, &o.token)
}

// attemptTimeout bounds an attempt, which also bounds how long running requests may take to finish.
func (o serveOptions) attemptTimeout() time.Duration { return o.work + 30*time.Second }

func (o serveOptions) config(log *slog.Logger) *ichido.Config {
	config := &ichido.Config{
		Methods:        []string{http.MethodPost},
		WaitLimit:      o.waitLimit,
		Retention:      o.retention,
		AttemptTimeout: o.attemptTimeout(),
		Language:       o.lang,
		ProblemBase:    problemBase,
		Logger:         log,
	}
	if o.inProgress == "wait" {
		config.InProgress = ichido.Wait
	}
	return config
}

// serve runs until a signal or ctx ends it.
func serve(ctx context.Context, o serveOptions, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := newLogger(stderr)

	if _, err := parseTokens(o.token); err != nil {
		return err
	}
	db, err := openDatabase(ctx, o.location, sqliteCreate)
	if err != nil {
		return err
	}
	defer db.shut()
	if err := db.prepare(ctx); err != nil {
		return err
	}
	handler, err := newHandler(db, o, pause(o.work), log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with --addr (ICHIDO_ADDR)", err)
	}
	if _, err := io.WriteString(stdout, banner(o, db.where, listener.Addr())); err != nil {
		return err
	}

	var background sync.WaitGroup
	defer background.Wait()
	purging, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.purgeEvery > 0 {
		background.Go(func() { ichido.PurgeEvery(purging, db.store, o.purgeEvery, purged(log)) })
	}
	return serveUntil(ctx, stop, newHTTPServer(handler, o, log), listener, o.attemptTimeout(), log)
}

// newHandler returns the whole API. work comes before the first statement of a reservation.
func newHandler(db *database, o serveOptions, work func(context.Context) error, log *slog.Logger) (http.Handler, error) {
	known, err := parseTokens(o.token)
	if err != nil {
		return nil, err
	}
	once, err := ichido.New(db.store, known.scope(), o.config(log))
	if err != nil {
		return nil, err
	}
	openAPI, err := describeAPI(once.KeyPolicy(), o.lang, known.needed())
	if err != nil {
		return nil, err
	}
	a := &api{
		refuser: refuser{o.lang}, office: db.office, store: db.store, work: work, tokens: known,
		pages:   newProblemPages(problemDocs(once.KeyPolicy())),
		openAPI: newDocument("application/json", openAPI),
	}
	return traced(a.routes(once), log, a.refuser), nil
}

// purged logs what a purge in the background did, if it did something.
func purged(log *slog.Logger) func(deleted int, err error) {
	return func(deleted int, err error) {
		switch {
		case err != nil:
			log.Error("purging expired keys failed", slog.Int("deleted", deleted), slog.Any("error", err))
		case deleted > 0:
			log.Info("purged expired keys", slog.Int("deleted", deleted))
		}
	}
}
