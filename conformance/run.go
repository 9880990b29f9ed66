package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// The reasons for which [Run] fails, for errors.Is.
var (
	// ErrInvalid means that the base URL, the description or an option cannot be used.
	ErrInvalid = errors.New("invalid argument")
	// ErrUnreachable means that the server gave no HTTP answer of any kind.
	ErrUnreachable = errors.New("the server cannot be reached")
)

// Options are the settings of [Run]. The zero value of each means its default.
type Options struct {
	// API describes the server. Default: the preset "ichido".
	API *API

	// Levels are those whose scenarios run. Default: [Core] and [Published], or none if there are Scenarios.
	Levels []Level

	// Scenarios are the ids of further scenarios that run.
	Scenarios []string

	// Client sends the requests. It must let Concurrency requests to one host travel at once, and it is used without
	// following redirects. The default opens a connection for each request: net/http may send a request that has an
	// Idempotency-Key a second time, unseen, when a connection that it used again fails. Scenarios that break
	// connections use a copy of its Transport if that is an *http.Transport, and the default if it is not.
	Client *http.Client

	// Timeout is how long one request may take. Default: 30 s.
	Timeout time.Duration

	// Concurrency is how many requests "at once" means, from 2 to 500. Default: 10.
	Concurrency int

	// Crash kills the server, the hard way, and starts it again; scenarios of the level [Crash] call it while requests run.
	// Default: they are not testable.
	Crash func(context.Context) error

	// Recovery is how long after a crash a key may be refused as in progress. Default: 60 s.
	Recovery time.Duration

	// Getenv returns the environment variables that header values of the description name. Default: os.Getenv.
	Getenv func(string) string

	// Progress is called after each scenario, in order, by the goroutine that called Run. Default: nobody is told.
	Progress func(Result)
}

const (
	defaultTimeout     = 30 * time.Second
	defaultConcurrency = 10
	maxConcurrency     = 500
	defaultRecovery    = 60 * time.Second
)

// Run runs scenarios, one after the other, against the server at baseURL, such as "http://localhost:8080", and reports
// how each ended. A nil opts means the defaults.
//
// It fails only if it could not grade: ErrInvalid, ErrUnreachable, or ctx's error if that ended first. A server that is
// reached and answers wrongly, or stops answering, is in the report.
func Run(ctx context.Context, baseURL string, opts *Options) (*Report, error) {
	r, err := newRunner(baseURL, opts)
	if err != nil {
		return nil, err
	}
	if err := r.reach(ctx); err != nil {
		return nil, err
	}

	started := time.Now()
	report := &Report{URL: r.base.Redacted(), API: r.api.Name, Started: started.UTC().Truncate(time.Millisecond)}
	for _, s := range r.selected {
		result := r.grade(ctx, s)
		if err := ctx.Err(); err != nil { // the answers that are missing are not the server's fault
			return nil, fmt.Errorf("conformance: stopped: %w", context.Cause(ctx))
		}
		report.Results = append(report.Results, result)
		if r.progress != nil {
			r.progress(result)
		}
	}
	report.DurationMS = time.Since(started).Milliseconds()
	return report, nil
}

// A runner is one run against one server.
type runner struct {
	api         API
	base        *url.URL
	url         string // of api.Request
	client      *http.Client
	timeout     time.Duration
	concurrency int
	selected    []scenario
	crash       func(context.Context) error
	recovery    time.Duration
	progress    func(Result)
	secrets     []secret

	work    *time.Duration // that executing a request takes longer than replaying it; nil if it was not measured
	items   string         // begins the item of everything that this run makes
	burst   *burst         // what ten-at-once-one-key left for once-more-afterwards
	crashed *crashed       // what the scenarios of the level crash share
}

func newRunner(baseURL string, opts *Options) (*runner, error) {
	base, err := parseBase(baseURL)
	if err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	r := &runner{
		base:        base,
		timeout:     cmp.Or(o.Timeout, defaultTimeout),
		concurrency: cmp.Or(o.Concurrency, defaultConcurrency),
		crash:       o.Crash,
		recovery:    cmp.Or(o.Recovery, defaultRecovery),
		progress:    o.Progress,
		items:       "verify-" + randomHex(4) + "-",
	}
	if r.timeout < 0 || r.recovery < 0 {
		return nil, fmt.Errorf("conformance: %w: Timeout is %v, Recovery %v; they must not be negative", ErrInvalid, r.timeout, r.recovery)
	}
	if r.concurrency < 2 || r.concurrency > maxConcurrency {
		return nil, fmt.Errorf("conformance: %w: Concurrency is %d; it must be from 2 to %d", ErrInvalid, r.concurrency,
			maxConcurrency)
	}
	api := ichidoAPI()
	if o.API != nil {
		api = *o.API
	}
	if err := api.check(); err != nil {
		return nil, fmt.Errorf("conformance: %w: the description: %w", ErrInvalid, err)
	}
	r.api = api.withDefaults()
	r.url = r.address(r.api.Request.Path)
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if err := r.expand(o.Getenv); err != nil {
		return nil, fmt.Errorf("conformance: %w: the description: %w", ErrInvalid, err)
	}
	if r.selected, err = selection(r.concurrency, o.Levels, o.Scenarios); err != nil {
		return nil, fmt.Errorf("conformance: %w: %w", ErrInvalid, err)
	}
	client := http.Client{Transport: newTransport()}
	if o.Client != nil {
		client = *o.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r.client = &client
	return r, nil
}

// selection returns the scenarios of some levels and ids, in their order.
func selection(n int, levels []Level, ids []string) ([]scenario, error) {
	all := scenarios(n)
	for _, level := range levels {
		if !slices.Contains(Levels, level) {
			return nil, fmt.Errorf("there is no level %q", level)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(all, func(s scenario) bool { return s.id == id }) {
			return nil, fmt.Errorf("there is no scenario %q", id)
		}
	}
	if len(levels)+len(ids) == 0 {
		levels = []Level{Core, Published}
	}
	return slices.DeleteFunc(all, func(s scenario) bool {
		return !slices.Contains(levels, s.level) && !slices.Contains(ids, s.id)
	}), nil
}

func parseBase(baseURL string) (*url.URL, error) {
	base, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("conformance: %w: %w", ErrInvalid, err)
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, fmt.Errorf("conformance: %w: %q is not a URL of a server; write it like http://localhost:8080",
			ErrInvalid, baseURL)
	case base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("conformance: %w: %q has a query or a fragment; give the URL that the API is below",
			ErrInvalid, base.Redacted())
	}
	return base, nil
}

// address returns the URL of a path of the API, which may have a query.
func (r *runner) address(path string) string {
	path, query, _ := strings.Cut(path, "?")
	u := r.base.JoinPath(path)
	u.RawQuery = query
	return u.String()
}

// reach asks for something, and fails if there is no answer. What the answer is does not matter yet.
func (r *runner) reach(ctx context.Context) error {
	answer := r.get(ctx, r.address(cmp.Or(fill(r.api.Effects.Get, r.items+"none", 1), r.api.Request.Path)))
	if answer.err == nil || answer.partial {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("conformance: stopped: %w", context.Cause(ctx))
	}
	return fmt.Errorf("conformance: %w at %s: %w", ErrUnreachable, r.base.Redacted(), answer.err)
}

// randomHex returns n random bytes as hexadecimal digits.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the program instead
	return hex.EncodeToString(b)
}
