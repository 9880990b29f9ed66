package ichido

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Manager decides for each request whether it runs, is answered from the record, or is refused. Use [Manager.Wrap]
// for an HTTP handler and [Do] for work that no request carries. It is safe for concurrent use.
type Manager struct {
	store   Store
	scope   ScopeFunc
	given   Config // as the user gave it
	config  Config // the same with defaults
	log     *slog.Logger
	flights *flights
	looks   chan struct{} // limits how many waiters ask the store at once
	pace    *pace

	deadlines *deadlines
	leases    *leases
	resolves  chan struct{} // limits how many requests have the Resolver asked at once
}

// InProgressPolicy says what happens to a request whose key has an attempt in progress.
type InProgressPolicy int

const (
	// Reject answers 409 at once. The client sends again later.
	Reject InProgressPolicy = iota
	// Wait answers when the first request is done, with its answer; after Config.WaitLimit with 409. A request
	// that waits holds memory but no connection to the database.
	Wait
)

// Config holds what has a sensible default. The zero value is ready to use, and so is nil in its place. Routes that
// differ get a Manager each, by [Manager.With].
type Config struct {
	// Methods are the methods to which the Manager applies; others pass through, with a key or without.
	// Default: POST and PATCH, which are not idempotent by themselves (RFC 9110, section 9.2.2).
	Methods []string

	// Optional lets requests without a key run unprotected. Default: they are refused with 400.
	Optional bool

	// Header is the field that carries the key. Default: Idempotency-Key.
	Header string

	// StrictKeys refuses keys that are not in double quotes, as the draft has them. Default: both forms are accepted,
	// and name the same key.
	StrictKeys bool

	// KeyFormat refuses keys that are not good enough. Default: every key of 1 to 255 characters is accepted.
	KeyFormat KeyFormat

	// KeyFrom takes the key from elsewhere than a field: a webhook's event id, a member of the body (KeyFromJSON). It
	// returns "" if the request has none, and an error if it has a bad one. Default: Header carries the key.
	KeyFrom func(r *http.Request, body []byte) (string, error)

	// AcrossRoutes makes a key unique for its principal over all routes: on a second route it is a mismatch.
	// Default: one key on two routes names two operations.
	AcrossRoutes bool

	// Fingerprint says how the requests under one key are compared.
	Fingerprint Fingerprint

	// InProgress is the policy for duplicates of a running request. Default: Reject.
	InProgress InProgressPolicy

	// WaitLimit is the longest that a request waits under the policy Wait. Default: 30 s.
	WaitLimit time.Duration

	// Retention is how long a completed record is kept. A key that comes back later is a new operation, so it must
	// be longer than the longest time over which a client sends again. Default: 24 h.
	Retention time.Duration

	// AttemptTimeout is the deadline of the context that the work gets. It replaces the request's own
	// cancellation: a client that hangs up does not stop work that has begun. A context derived from it ends with
	// context.Canceled then; its context.Cause tells. Default: 30 s.
	AttemptTimeout time.Duration

	// StoreTimeout bounds each call to the store, waiting for a free connection included. Default: 5 s.
	StoreTimeout time.Duration

	// MaxRequestBody is the largest request body in bytes; a longer one is refused with 413. The body is read
	// before the work begins, so that it can be compared and run again. Default: 1 MiB.
	MaxRequestBody int64

	// Keep decides which answers are committed and kept, by their status; what it declines is rolled back, sent, and
	// its key is free again. A handler overrules it for one answer with [Keep] or [Discard].
	// Default: those below 400.
	Keep func(status int) bool

	// Mode is TransactionMode by default. The fields from Lease to Contact belong to LeaseMode, and are an error without it.
	Mode Mode

	// Lease is how long an attempt may go unheard before its key is taken for abandoned, by the store's clock: how long a
	// key stays in progress after its process died. The Manager renews it while the work runs, until AttemptTimeout; work
	// that goes on beyond that has until the end of its lease. At least 100 ms. Default: 30 s.
	Lease time.Duration

	// OnLapse says what happens to the key of an attempt that ended without an answer. Default: Hold.
	OnLapse LapsePolicy

	// Route names this route or job in the store, for [Manager.Sweep] and for people. It is required with Resolver, and is
	// kept when code is renamed. Default: "".
	Route string

	// Owner names this process in the store, for people who look for who drives an operation. Default: "host:pid".
	Owner string

	// StepSecret is what the keys of steps are derived from, see [Step]: at least 16 bytes, secret, and the same in all
	// processes for as long as operations may resume. Default: none; then there are no steps.
	StepSecret []byte

	// RenamedSteps maps names of kept steps to those that the code has by now.
	RenamedSteps map[string]string

	// MaxAttempts is how many attempts an operation may have; after that its key is unknown. It bounds how often work that
	// keeps failing is run again, by Rerun and by steps. Default: 20. A negative number sets no bound.
	MaxAttempts int

	// Finish keeps the request with its claim, so that [Manager.Finish] can run what was abandoned although the client never
	// comes back: method, URL, body, the principal, and the fields Content-Type, Content-Encoding, Accept and
	// Accept-Language. It is encrypted under Stored.Secrets, and goes when the key is completed. Route is required with it, and
	// must be that of this handler alone. MaxRequestBody may be 32 MiB at most.
	Finish bool

	// RequestFields are more fields that are kept with a request. Those that carry credentials are refused.
	RequestFields []string

	// Restore is given a request that was kept before it is run again, and the principal whose it was, so that the handler
	// finds what handlers in front of Wrap had put into its context. An error leaves the operation for later; it is logged.
	// Default: the request is run as it was kept.
	Restore func(r *http.Request, principal string) (*http.Request, error)

	// Resolver finds out whether an operation took effect whose key is unknown. Default: none; people settle it.
	Resolver Resolver

	// ResolveTimeout bounds one call of Resolver. Default: 10 s.
	ResolveTimeout time.Duration

	// UnknownRetention is how long a key is kept that is unknown and is never settled. After that it is a new operation.
	// Default: 30 days.
	UnknownRetention time.Duration

	// Contact is whom to ask about a key that is unknown, in words that clients read: an address, a URL. Default: "the
	// operator of this service", in the language of the client.
	Contact string

	// Stored are rules for what is stored of an answer.
	Stored Stored

	// BeforeReplay is asked before an answer is replayed to r, for instance whether its sender may still see it. An
	// error refuses with 403; it is logged, not shown. The request has passed the same handlers in front of the
	// Manager as a first one. Default: not asked.
	BeforeReplay func(r *http.Request) error

	// ConflictStatus and MismatchStatus replace 409 and 422, for clients that know other ones.
	ConflictStatus, MismatchStatus int

	// WriteProblem replaces how problems are sent, for an API with an error format of its own. Retry-After and Link
	// are set when it is called. Default: application/problem+json (RFC 9457).
	WriteProblem func(w http.ResponseWriter, r *http.Request, p Problem)

	// Language of the titles of problem documents for clients that accept neither English nor Japanese: "en" or
	// "ja". Default: "en".
	Language string

	// ProblemBase precedes the name of a problem, such as "key-required", in the type of a problem document.
	// Default: the page docs/problems.md of this project.
	ProblemBase string

	// Logger gets what the operator should know: failures of the store, panics of handlers. Keys and bodies are
	// never logged. Default: discards.
	Logger *slog.Logger
}

const defaultProblemBase = "https://github.com/ichido-dev/ichido/blob/main/docs/problems.md#"

// New returns a Manager that keeps its records in store. scope says to whom a key belongs, so that nobody reads
// another's answer by guessing a key: a function that returns the request's principal, or [Shared] where all
// clients are one. config may be nil. The error names the field that is wrong.
func New(store Store, scope ScopeFunc, config *Config) (*Manager, error) {
	if store == nil {
		return nil, errors.New("ichido: New: store is nil; make one with memstore, sqlstore or pgstore")
	}
	if scope == nil {
		return nil, errors.New("ichido: New: scope is nil; give a function that returns the request's principal, or ichido.Shared if all clients are one")
	}
	var c Config
	if config != nil {
		c = *config
	}
	given := c
	if err := c.fill(store); err != nil {
		return nil, fmt.Errorf("ichido: New: %w", err)
	}
	leaser, _ := store.(Leaser)
	return &Manager{
		store:   store,
		scope:   scope,
		given:   given,
		config:  c,
		log:     c.Logger,
		flights: new(flights),
		looks:   make(chan struct{}, looksAtOnce),
		pace:    new(pace),

		deadlines: new(deadlines),
		resolves:  make(chan struct{}, resolvesAtOnce),
		leases:    &leases{store: leaser, timeout: c.StoreTimeout, log: c.Logger},
	}, nil
}

// With returns a Manager for other routes, on the same store and with the same scope, whose Config is that of m as change
// leaves it. change gets the Config as it was given, without defaults. The heartbeats of lease mode are common to all
// Managers that were made from one, and have the StoreTimeout and the Logger of the first.
func (m *Manager) With(change func(*Config)) (*Manager, error) {
	given := m.given
	change(&given)
	c := given
	if err := c.fill(m.store); err != nil {
		return nil, fmt.Errorf("ichido: With: %w", err)
	}
	other := *m
	other.given = given
	other.config, other.log, other.pace, other.resolves = c, c.Logger, new(pace), make(chan struct{}, resolvesAtOnce)
	return &other, nil
}

// A durationField is a field of Config with its default.
type durationField struct {
	name  string
	field *time.Duration
	value time.Duration
}

func fillDurations(fields ...durationField) error {
	for _, d := range fields {
		if *d.field < 0 {
			return fmt.Errorf("the field Config.%s is %s; it must be positive, or zero for the default %s", d.name, *d.field, d.value)
		}
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return nil
}

// fillLease is fill for what belongs to lease mode, and refuses a mode that the store does not have.
func (c *Config) fillLease(store Store) error {
	switch c.Mode {
	case TransactionMode:
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"Lease", c.Lease != 0}, {"OnLapse", c.OnLapse != Hold}, {"Route", c.Route != ""}, {"Owner", c.Owner != ""}, {"MaxAttempts", c.MaxAttempts != 0},
			{"Resolver", c.Resolver != nil}, {"ResolveTimeout", c.ResolveTimeout != 0}, {"UnknownRetention", c.UnknownRetention != 0},
			{"Contact", c.Contact != ""}, {"StepSecret", c.StepSecret != nil}, {"RenamedSteps", c.RenamedSteps != nil},
			{"Finish", c.Finish}, {"RequestFields", c.RequestFields != nil}, {"Restore", c.Restore != nil},
		} {
			if f.set {
				return fmt.Errorf("the field Config.%s belongs to lease mode; set Config.Mode to LeaseMode, or leave it out", f.name)
			}
		}
		return nil
	case LeaseMode:
	default:
		return fmt.Errorf("the field Config.Mode is %d; it must be TransactionMode or LeaseMode", c.Mode)
	}
	if _, ok := store.(Leaser); !ok {
		return fmt.Errorf("the field Config.Mode is LeaseMode, which %T does not offer; use a store that implements ichido.Leaser", store)
	}
	if err := fillDurations(
		durationField{"Lease", &c.Lease, 30 * time.Second},
		durationField{"ResolveTimeout", &c.ResolveTimeout, 10 * time.Second},
		durationField{"UnknownRetention", &c.UnknownRetention, 30 * 24 * time.Hour},
	); err != nil {
		return err
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 20
	}
	c.MaxAttempts = max(c.MaxAttempts, 0) // to a store zero is no bound
	if c.Owner == "" {
		c.Owner = thisProcess()
	}
	if err := c.fillFinish(store); err != nil {
		return err
	}
	_, settles := store.(Settler)
	c.StepSecret, c.RenamedSteps = slices.Clone(c.StepSecret), maps.Clone(c.RenamedSteps)
	switch {
	case c.StepSecret != nil && len(c.StepSecret) < minStepSecret:
		return fmt.Errorf("the field Config.StepSecret has %d bytes; it must have at least %d", len(c.StepSecret), minStepSecret)
	case c.Lease < minLease:
		return fmt.Errorf("the field Config.Lease is %s; it must be at least %s", c.Lease, minLease)
	case c.OnLapse != Hold && c.OnLapse != Rerun:
		return fmt.Errorf("the field Config.OnLapse is %d; it must be Hold or Rerun", c.OnLapse)
	case !isText(c.Route) || len(c.Route) > maxRoute:
		return fmt.Errorf("the field Config.Route must be UTF-8 without NUL and have at most %d bytes", maxRoute)
	case !isText(c.Owner) || len(c.Owner) > maxOwner:
		return fmt.Errorf("the field Config.Owner must be UTF-8 without NUL and have at most %d bytes", maxOwner)
	case c.Resolver == nil:
		return nil
	case c.OnLapse == Rerun:
		return errors.New("the field Config.Resolver is set, and Config.OnLapse is Rerun; a key whose work runs again is never unknown")
	case c.Route == "":
		return errors.New("the field Config.Resolver is set, and Config.Route is empty; name the route, so that a sweep finds its keys")
	case !settles:
		return fmt.Errorf("the field Config.Resolver is set, and %T cannot settle keys; use a store that implements ichido.Settler", store)
	}
	return nil
}

const (
	maxRoute      = 255
	maxOwner      = 255
	minStepSecret = 16
)

// thisProcess names this process among those of a store. A host without a name leaves its part empty.
func thisProcess() string {
	host, _ := os.Hostname()
	return strings.ToValidUTF8(host, "?") + ":" + strconv.Itoa(os.Getpid())
}

// fill puts defaults where fields are zero and refuses what makes no sense.
func (c *Config) fill(store Store) error {
	if err := c.fillLease(store); err != nil {
		return err
	}
	if err := fillDurations(
		durationField{"WaitLimit", &c.WaitLimit, 30 * time.Second},
		durationField{"Retention", &c.Retention, 24 * time.Hour},
		durationField{"AttemptTimeout", &c.AttemptTimeout, 30 * time.Second},
		durationField{"StoreTimeout", &c.StoreTimeout, 5 * time.Second},
	); err != nil {
		return err
	}
	if c.InProgress != Reject && c.InProgress != Wait {
		return fmt.Errorf("the field Config.InProgress is %d; it must be Reject or Wait", c.InProgress)
	}
	if c.MaxRequestBody < 0 {
		return errors.New("the field Config.MaxRequestBody must be positive, or zero for the default 1 MiB")
	}
	if c.MaxRequestBody == 0 {
		c.MaxRequestBody = 1 << 20
	}
	if c.Methods = slices.Clone(c.Methods); c.Methods == nil {
		c.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if c.Header == "" {
		c.Header = KeyHeader
	}
	c.Header = http.CanonicalHeaderKey(c.Header)
	if c.Keep == nil {
		c.Keep = func(status int) bool { return status < 400 }
	}
	for _, s := range []struct {
		name  string
		field *int
		value int
	}{{"ConflictStatus", &c.ConflictStatus, http.StatusConflict}, {"MismatchStatus", &c.MismatchStatus, http.StatusUnprocessableEntity}} {
		if *s.field == 0 {
			*s.field = s.value
		}
		if *s.field < 400 || *s.field > 499 {
			return fmt.Errorf("the field Config.%s is %d; it must be a 4xx status", s.name, *s.field)
		}
	}
	for _, err := range []error{c.KeyFormat.fill(), c.Fingerprint.fill(), c.Stored.fill()} {
		if err != nil {
			return err
		}
	}
	switch c.Language {
	case "":
		c.Language = "en"
	case "en", "ja":
	default:
		return fmt.Errorf("the field Config.Language is %q; it must be \"en\" or \"ja\"", c.Language)
	}
	if c.ProblemBase == "" {
		c.ProblemBase = defaultProblemBase
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// A ScopeFunc returns the principal of a request: who it is that asks, by a name that stays the same when
// credentials are rotated. Authentication is not its part; it runs behind it. An error or an empty principal
// refuses the request with 403.
type ScopeFunc func(r *http.Request) (principal string, err error)

// Shared is the [ScopeFunc] of a service all of whose clients trust each other: anyone who knows a key can read its
// answer.
func Shared(*http.Request) (string, error) { return "*", nil }
