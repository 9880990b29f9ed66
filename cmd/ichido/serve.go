package main

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
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

	pay         string // URL of the payment provider
	mailbox     string // path
	lease       time.Duration
	finishEvery time.Duration // 0: never
	stepSecret  string        // "": the one that the office keeps
}

func newServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve reservations and orders, each of which takes effect once",
		Long: `serve is an API that books equipment: POST /reservations, which requires an Idempotency-Key and takes effect once for
each key, GET /reservations, GET /reservations/{id} and GET /healthz. It makes its tables in an empty database.

POST /orders sells what GET /items lists, in steps: it takes the stock, has a payment provider charge the card, and
puts a mail into a file. A process may die anywhere in between: the same request with the same key goes on behind the
last step, and so does any server on the same database by itself (--finish-every). "ichido fakepay" is a provider to try.
GET /orders and GET /orders/{id} show how far orders have got.

In a browser, / is the office for people, in English and Japanese: a form that books, also without JavaScript, an order to
watch, and a bad network to try with and without keys. /docs shows the API, /problems/ its problems.

It describes itself at /openapi.json and /.well-known/idempotency, and its problems at /problems/.

With tokens, reservations and orders are made and read with "Authorization: Bearer SECRET" only, and a key belongs to the
name of the token: the secret can be replaced, and retries still get the first answer. Without tokens all clients are one.

It prints on standard output where it listens, where the data is, and commands to try; faults go to standard error.
SIGINT or SIGTERM lets running requests finish, orders for 5 s: those that need longer are handed back, and go on when
they are sent again, or at another server. A second signal ends all at once.

` + exitCodes,
		Example: `  ichido serve
  ichido serve --addr localhost:0 --db /tmp/try.db --work 5s --in-progress wait
  ICHIDO_TOKENS=shop=$(openssl rand -hex 32) ichido serve
  DATABASE_URL=postgres://app:app@127.0.0.1:5432/appdb ichido serve
  ichido fakepay --slow 5s & ichido serve --lease 5s --finish-every 1s`,
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
	addOrderFlags(cmd, &o)
	return cmd
}

// addOrderFlags adds the flags of orders.
func addOrderFlags(cmd *cobra.Command, o *serveOptions) {
	cmd.Flags().StringVar(&o.pay, "pay", "http://localhost:8081", "`URL` of the payment provider: that of ichido fakepay")
	bindVariable(cmd, "pay", "ICHIDO_PAY")
	cmd.Flags().StringVar(&o.mailbox, "mailbox", "mailbox.jsonl", "`path` of the file that gets the mails of orders")
	bindVariable(cmd, "mailbox", "ICHIDO_MAILBOX")
	addDuration(cmd, &o.lease, "lease", "ICHIDO_LEASE", 30*time.Second,
		"how long an order whose process died stays in progress before it goes on")
	addDurationOrZero(cmd, &o.finishEvery, "finish-every", "ICHIDO_FINISH_EVERY", 10*time.Second,
		"how often to look for orders that were abandoned, and go on with them; 0 for never")
	cmd.Flags().Var(secretFlag{&o.stepSecret}, "step-secret", "what the keys that the provider gets are derived from, and what is stored of orders is encrypted under; the same in all processes. "+
		"Default: one that is made once and kept in the database. Other users of the host see flags; the variable is private")
	bindVariable(cmd, "step-secret", "ICHIDO_STEP_SECRET")
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
	if o.lease < shortestLease {
		return usageError(fmt.Errorf("--lease (ICHIDO_LEASE): it is %s; it must be at least %s", short(o.lease), short(shortestLease)))
	}
	db, err := openDatabase(ctx, o.location, sqliteCreate)
	if err != nil {
		return err
	}
	defer db.shut()
	if err := db.prepare(ctx); err != nil {
		return err
	}
	if o.mailbox, err = openMailbox(o.mailbox); err != nil {
		return err
	}
	service, err := newService(ctx, db, o, pause(o.work), log)
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
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.purgeEvery > 0 {
		background.Go(func() { ichido.PurgeEvery(working, db.store, o.purgeEvery, purged(log)) })
	}
	if o.finishEvery > 0 {
		background.Go(func() { service.orders.FinishEvery(working, o.finishEvery, service.again, finished(log)) })
	}
	server := newHTTPServer(service, o.waitLimit+o.attemptTimeout()+time.Minute, log)
	return serveUntil(ctx, stop, server, listener, o.attemptTimeout(), service.handBack, log)
}

// A service is the whole API with what it does without being asked.
type service struct {
	http.Handler
	orders *ichido.Manager
	again  http.Handler // of an order, for orders.Finish
	log    *slog.Logger
}

// newService makes the API. work comes before the first statement of a reservation.
func newService(ctx context.Context, db *database, o serveOptions, work func(context.Context) error, log *slog.Logger) (*service, error) {
	known, err := parseTokens(o.token)
	if err != nil {
		return nil, err
	}
	pay, err := newProvider(o.pay)
	if err != nil {
		return nil, err
	}
	secret, err := o.secretOfSteps(ctx, db.office)
	if err != nil {
		return nil, err
	}
	once, err := ichido.New(db.store, known.scope(), o.config(log))
	if err != nil {
		return nil, err
	}
	orders, err := once.With(func(c *ichido.Config) {
		o.ordersConfig(c)
		c.StepSecret = secret
		c.Stored.Secrets = []ichido.Secret{{ID: "orders", Key: orderKey(secret)}}
	})
	if err != nil {
		return nil, err
	}
	openAPI, err := describeAPI(once.KeyPolicy(), orders.KeyPolicy(), o.lang, known.needed())
	if err != nil {
		return nil, err
	}
	docs := problemDocs(orders.KeyPolicy(), kinds)
	description, err := parseOpenDoc(openAPI, docs)
	if err != nil {
		return nil, err
	}
	problems := refuser{language: o.lang, pages: newProblemPages(docs, true)}
	a := &api{
		refuser: problems, people: problems.toPeople(),
		office: db.office, store: db.store, work: work, tokens: known, provider: pay, mailbox: &mailbox{path: o.mailbox},
		openAPI: newDocument("application/json", openAPI), description: description,
	}
	forms, err := once.With(a.bookConfig)
	if err != nil {
		return nil, err
	}
	return &service{traced(a.routes(once, orders, forms), log, a.refuser), orders, tracedAgain(http.HandlerFunc(a.placeOrder), log), log}, nil
}

// secretOfSteps returns the secret from which the keys of steps are derived.
func (o serveOptions) secretOfSteps(ctx context.Context, office office) ([]byte, error) {
	switch {
	case o.stepSecret == "":
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return office.stepSecret(ctx)
	case len(o.stepSecret) < minSecret:
		return nil, usageError(fmt.Errorf("--step-secret (ICHIDO_STEP_SECRET): it has %d characters; at least %d are needed, as from: openssl rand -hex 32", len(o.stepSecret), minSecret))
	}
	return []byte(o.stepSecret), nil
}

// orderKey derives what the kept requests of orders are encrypted with, which hold a card, and their results and answers.
func orderKey(secret []byte) []byte {
	key, err := hkdf.Key(sha256.New, secret, nil, "ichido serve: what is stored of orders", 32)
	if err != nil { // fails for longer keys only
		panic(err)
	}
	return key
}

// shortestLease is the shortest that the library takes.
const shortestLease = 100 * time.Millisecond

// orderGrace is how long orders may go on when the server is being stopped.
const orderGrace = 5 * time.Second

// handBack lets running orders finish, and hands back those that do not in time.
func (s *service) handBack() {
	ctx, cancel := context.WithTimeout(context.Background(), orderGrace)
	defer cancel()
	if err := s.orders.Shutdown(ctx); err != nil {
		s.log.Info("orders were handed back; they go on when they are sent again, or at another server", slog.Any("cause", err))
	}
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
