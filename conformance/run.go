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
	"time"
)

// The reasons for which [Run] fails, for errors.Is.
var (
	// ErrInvalid means that the base URL or an option cannot be used.
	ErrInvalid = errors.New("invalid argument")
	// ErrUnreachable means that the server gave no HTTP answer of any kind.
	ErrUnreachable = errors.New("the server cannot be reached")
)

// Options are the settings of [Run]. The zero value of each means its default.
type Options struct {
	// Client sends the requests. It must let Concurrency requests to one host travel at once, and it is used without
	// following redirects. The default opens a connection for each request: net/http may send a request that has an
	// Idempotency-Key a second time, unseen, when a connection that it used again fails.
	Client *http.Client

	// Timeout is how long one request may take. Default: 30 s.
	Timeout time.Duration

	// Concurrency is how many requests "at once" means, from 2 to 500. Default: 10.
	Concurrency int

	// Progress is called after each scenario, in order, by the goroutine that called Run. Default: nobody is told.
	Progress func(Result)
}

const (
	defaultTimeout     = 30 * time.Second
	defaultConcurrency = 10
	maxConcurrency     = 500
)

// Run runs every scenario, one after the other, against the server at baseURL, such as "http://localhost:8080", and
// reports how each ended. A nil opts means the defaults.
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
	report := &Report{URL: r.base.Redacted(), Started: started.UTC().Truncate(time.Millisecond)}
	for _, s := range scenarios(r.concurrency) {
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
	base        *url.URL
	url         string // of the reservations
	client      *http.Client
	timeout     time.Duration
	concurrency int
	progress    func(Result)

	items string // begins the item code of everything that this run reserves
	burst *burst // what ten-at-once-one-key left for once-more-afterwards
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
		url:         base.JoinPath("reservations").String(),
		timeout:     cmp.Or(o.Timeout, defaultTimeout),
		concurrency: cmp.Or(o.Concurrency, defaultConcurrency),
		progress:    o.Progress,
		items:       "verify-" + randomHex(4) + "-",
	}
	if r.timeout < 0 {
		return nil, fmt.Errorf("conformance: %w: Timeout is %v; it must not be negative", ErrInvalid, r.timeout)
	}
	if r.concurrency < 2 || r.concurrency > maxConcurrency {
		return nil, fmt.Errorf("conformance: %w: Concurrency is %d; it must be from 2 to %d", ErrInvalid, r.concurrency,
			maxConcurrency)
	}
	client := http.Client{Transport: newTransport()}
	if o.Client != nil {
		client = *o.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r.client = &client
	return r, nil
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
		return nil, fmt.Errorf("conformance: %w: %q has a query or a fragment; give the URL that /reservations is below",
			ErrInvalid, base.Redacted())
	}
	return base, nil
}

// reach asks for the list, and fails if there is no answer. What the answer is does not matter yet.
func (r *runner) reach(ctx context.Context) error {
	answer := r.get(ctx, r.url)
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
