package ichido

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// A Manager decides for each request whether it runs, is answered from the record, or is refused. Use [Manager.Wrap]
// for an HTTP handler and [Do] for work that no request carries. It is safe for concurrent use.
type Manager struct {
	store   Store
	scope   ScopeFunc
	config  Config // defaulted
	log     *slog.Logger
	flights *flights
	looks   chan struct{} // limits how many waiters ask the store at once
}

// Policy says what happens to a request whose key has an attempt in progress.
type Policy int

const (
	// Reject answers 409 at once. The client sends again later.
	Reject Policy = iota
	// Wait answers when the first request is done, with its answer; after Config.WaitLimit with 409. A request
	// that waits holds memory but no connection to the database.
	Wait
)

// Config holds what has a sensible default. The zero value is ready to use, and so is nil in its place.
type Config struct {
	// Optional lets requests without a key run unprotected. Default: they are refused with 400.
	Optional bool

	// InProgress is the policy for duplicates of a running request. Default: Reject.
	InProgress Policy

	// WaitLimit is the longest that a request waits under the policy Wait. Default: 30 s.
	WaitLimit time.Duration

	// Retention is how long a completed record is kept. A key that comes back later is a new operation, so it must
	// be longer than the longest time over which a client sends again. Default: 24 h.
	Retention time.Duration

	// AttemptTimeout is the deadline of the context that the work gets. It replaces the request's own
	// cancellation: a client that hangs up does not stop work that has begun. Default: 30 s.
	AttemptTimeout time.Duration

	// StoreTimeout bounds each call to the store, waiting for a free connection included. Default: 5 s.
	StoreTimeout time.Duration

	// MaxRequestBody is the largest request body in bytes; a longer one is refused with 413. The body is read
	// before the work begins, so that it can be compared and run again. Default: 1 MiB.
	MaxRequestBody int64

	// MaxResponseBody is the largest response body in bytes. A handler that writes more gets an error from Write,
	// nothing is committed, and the client gets 500. Default: 1 MiB.
	MaxResponseBody int

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
	if err := c.fill(); err != nil {
		return nil, fmt.Errorf("ichido: New: %w", err)
	}
	return &Manager{
		store:   store,
		scope:   scope,
		config:  c,
		log:     c.Logger,
		flights: new(flights),
		looks:   make(chan struct{}, looksAtOnce),
	}, nil
}

// fill puts defaults where fields are zero and refuses what makes no sense.
func (c *Config) fill() error {
	for _, d := range []struct {
		name  string
		field *time.Duration
		value time.Duration
	}{
		{"WaitLimit", &c.WaitLimit, 30 * time.Second},
		{"Retention", &c.Retention, 24 * time.Hour},
		{"AttemptTimeout", &c.AttemptTimeout, 30 * time.Second},
		{"StoreTimeout", &c.StoreTimeout, 5 * time.Second},
	} {
		if *d.field < 0 {
			return fmt.Errorf("the field Config.%s is %s; it must be positive, or zero for the default %s", d.name, *d.field, d.value)
		}
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.InProgress != Reject && c.InProgress != Wait {
		return fmt.Errorf("the field Config.InProgress is %d; it must be Reject or Wait", c.InProgress)
	}
	if c.MaxRequestBody < 0 || c.MaxResponseBody < 0 {
		return errors.New("the fields Config.MaxRequestBody and Config.MaxResponseBody must be positive, or zero for the default 1 MiB")
	}
	if c.MaxRequestBody == 0 {
		c.MaxRequestBody = 1 << 20
	}
	if c.MaxResponseBody == 0 {
		c.MaxResponseBody = 1 << 20
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
