package ichido

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// A keptRequest is a request as it is kept, so that its operation can be finished without its client.
type keptRequest struct {
	Method     string           `json:"method"`
	Path       raw              `json:"path"` // as handlers in front of Wrap left it, such as http.StripPrefix
	RawPath    raw              `json:"raw_path,omitempty"`
	Query      raw              `json:"query,omitempty"`
	ForceQuery bool             `json:"force_query,omitempty"`
	URI        raw              `json:"uri"`
	Host       raw              `json:"host,omitempty"`
	Pattern    raw              `json:"pattern,omitempty"`
	Values     map[string]raw   `json:"values,omitempty"` // of the pattern's wildcards
	Header     map[string][]raw `json:"header,omitempty"`
	Body       []byte           `json:"body,omitempty"`
	Principal  raw              `json:"principal"`
}

// A raw is a string that comes back to the byte. JSON has no others than those of UTF-8, and HTTP has.
type raw string

func (r raw) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(r)) }

func (r *raw) UnmarshalJSON(text []byte) error {
	var bytes []byte
	err := json.Unmarshal(text, &bytes)
	*r = raw(bytes)
	return err
}

// maxKeptBody is the largest body in bytes that is kept: its request is stored as one text, of maxBuffered at most.
const maxKeptBody = 32 << 20

// keptFields are those that say what a request is; the others belong to its sending.
var keptFields = []string{"Content-Type", "Content-Encoding", "Accept", "Accept-Language"}

// credentialFields are never kept.
var credentialFields = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Auth-Token"}

// fillFinish checks what belongs to Finish.
func (c *Config) fillFinish(store Store) error {
	c.RequestFields = canonicalNames(c.RequestFields)
	for _, name := range c.RequestFields {
		if slices.Contains(credentialFields, name) {
			return fmt.Errorf("the field Config.RequestFields names %s, which carries credentials; restore the principal by Config.Restore", name)
		}
	}
	_, finishes := store.(Finisher)
	switch {
	case !c.Finish && (c.RequestFields != nil || c.Restore != nil):
		return errors.New("the fields Config.RequestFields and Config.Restore belong to Config.Finish; set it, or leave them out")
	case c.Finish && c.Route == "":
		return errors.New("the field Config.Finish is set, and Config.Route is empty; name the route, so that Finish finds its operations")
	case c.Finish && c.MaxRequestBody > maxKeptBody:
		return fmt.Errorf("the field Config.MaxRequestBody is %d; with Config.Finish, which keeps the body, at most %d are possible", c.MaxRequestBody, maxKeptBody)
	case c.Finish && !finishes:
		return fmt.Errorf("the field Config.Finish is set, and %T does not keep requests; use a store that implements ichido.Finisher", store)
	}
	return nil
}

// keepRequest returns the form in which a request is kept.
func (m *Manager) keepRequest(claim *Claim, r *http.Request, body []byte, principal string) ([]byte, error) {
	k := keptRequest{
		Method: r.Method, Path: raw(r.URL.Path), RawPath: raw(r.URL.RawPath), Query: raw(r.URL.RawQuery), ForceQuery: r.URL.ForceQuery,
		URI: raw(r.RequestURI), Host: raw(r.Host), Pattern: raw(r.Pattern), Body: body, Principal: raw(principal),
		Values: make(map[string]raw), Header: make(map[string][]raw),
	}
	for _, name := range slices.Concat(keptFields, m.config.RequestFields, []string{m.config.Header}) {
		if values := r.Header[name]; len(values) > 0 {
			k.Header[name] = nil // it may be there twice
			for _, value := range values {
				k.Header[name] = append(k.Header[name], raw(value))
			}
		}
	}
	for _, name := range wildcards(r.Pattern) {
		k.Values[name] = raw(r.PathValue(name))
	}
	text, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	return m.config.Stored.sealText(requestClaim(claim), text)
}

// requestClaim binds an encrypted request to its operation.
func requestClaim(claim *Claim) *Claim {
	return &Claim{Scope: claim.Scope, Key: claim.Key + "\x00request"}
}

// wildcards returns the names of a pattern's wildcards (net/http.ServeMux).
func wildcards(pattern string) (names []string) {
	for _, part := range strings.Split(pattern, "{")[min(1, strings.Count(pattern, "{")):] {
		name, _, ok := strings.Cut(part, "}")
		if name = strings.TrimSuffix(name, "..."); ok && name != "" && name != "$" {
			names = append(names, name)
		}
	}
	return names
}

// restore returns the request of an abandoned operation.
func (m *Manager) restore(ctx context.Context, key AbandonedKey) (*http.Request, []byte, error) {
	text, err := m.config.Stored.openText(requestClaim(&Claim{Scope: key.Scope, Key: key.Key}), key.Request)
	if err != nil {
		return nil, nil, err
	}
	var k keptRequest
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, nil, err
	}
	r := (&http.Request{
		Method: k.Method, Host: string(k.Host), RequestURI: string(k.URI), Pattern: string(k.Pattern), Header: make(http.Header),
		URL:   &url.URL{Path: string(k.Path), RawPath: string(k.RawPath), RawQuery: string(k.Query), ForceQuery: k.ForceQuery},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(k.Body)), Body: newBufferedBody(k.Body),
	}).WithContext(ctx)
	for name, values := range k.Header {
		for _, value := range values {
			r.Header[name] = append(r.Header[name], string(value))
		}
	}
	for name, value := range k.Values {
		r.SetPathValue(name, string(value))
	}
	if m.config.Restore != nil {
		if r, err = m.config.Restore(r, string(k.Principal)); err == nil && r == nil {
			err = errors.New("it returned no request")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("Config.Restore: %w", err)
		}
	}
	return r, k.Body, nil
}

const (
	finishAtOnce = 4    // operations that one Finish runs at the same time
	maxFinish    = 1000 // operations of one Finish: what is left is for the next
)

// Finish runs the operations of Config.Route that were abandoned and are due, so that they end although their clients never
// come back: those with steps resume, those of Rerun run again. next is the handler that Wrap was given. It returns how
// many there were, and how many of them are completed now, also when it returns an error. Several processes may do so at
// once: each operation is run by one of them. One that fails is due again after 10 s, doubling to an hour, up to
// Config.MaxAttempts. It is an error if Config.Finish is not set.
func (m *Manager) Finish(ctx context.Context, next http.Handler) (found, finished int, err error) {
	if !m.config.Finish || next == nil {
		return 0, 0, errors.New("ichido: Finish: the field Config.Finish is not set, or the handler is nil")
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range finishAtOnce {
		wg.Go(func() {
			for {
				mu.Lock()
				over := found >= maxFinish || err != nil
				mu.Unlock()
				if over {
					return
				}
				was, completed, e := m.finishOne(ctx, next)
				mu.Lock()
				if e != nil && err == nil {
					err = e
				}
				if was {
					found++
				}
				if completed {
					finished++
				}
				mu.Unlock()
				if !was {
					return
				}
			}
		})
	}
	wg.Wait()
	return found, finished, err
}

// FinishEvery calls [Manager.Finish] at once and then every interval, which must be positive, until ctx ends. It tells
// done, if that is not nil, how each went.
func (m *Manager) FinishEvery(ctx context.Context, interval time.Duration, next http.Handler, done func(found, finished int, err error)) {
	every(ctx, interval, func() {
		found, finished, err := m.Finish(ctx, next)
		if done != nil && ctx.Err() == nil {
			done(found, finished, err)
		}
	})
}

// finishOne runs one operation, and reports whether there was one, and whether it is completed.
func (m *Manager) finishOne(ctx context.Context, next http.Handler) (found, completed bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, false, err
	}
	keys, err := m.abandoned(ctx)
	if err != nil || len(keys) == 0 {
		return false, false, err
	}
	completed, err = m.runAgain(ctx, keys[0], next)
	return true, completed, err
}

// runAgain runs an operation that is reserved. Why it is not completed is logged, unless the handler said so by its answer.
func (m *Manager) runAgain(ctx context.Context, key AbandonedKey, next http.Handler) (completed bool, err error) {
	var fault error
	defer func() {
		if p := recover(); p != nil { // of what belongs to the service, which no net/http is around to stop
			fault = panicked{p, debug.Stack()}
		}
		if fault != nil {
			m.log.ErrorContext(ctx, "ichido: an abandoned operation could not be finished", slog.Any("error", fault), about(key.Route, key.Scope, key.Key))
		}
	}()
	r, body, err := m.restore(ctx, key)
	if err != nil {
		fault = fmt.Errorf("its request cannot be restored: %w", err)
		return false, nil
	}
	c := call{m: m, w: nobody{make(http.Header)}, r: r, body: body, next: next, claim: Claim{Scope: key.Scope, Key: key.Key,
		Fingerprint: key.Fingerprint, Retention: m.config.Retention, follows: true}}
	record, err := m.execute(r.Context(), c.claim, &c)
	switch {
	case err == nil && (record != nil || c.kept):
		return true, nil
	case err == nil && c.failed != nil && !c.abort:
		fault = c.failed
	case err == nil && c.failed == nil:
		fault = c.rec.err
	case errors.Is(err, ErrInProgress) || errors.Is(err, ErrMismatch) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrNoRecord):
		return false, nil // its client came back, it has had its attempts, or it was settled
	}
	return false, err
}

func (m *Manager) abandoned(ctx context.Context) ([]AbandonedKey, error) {
	bounded := m.deadlines.apart(ctx, m.config.StoreTimeout)
	defer bounded.end()
	keys, err := m.store.(Finisher).Abandoned(bounded, Question{Route: m.config.Route, Limit: 1, Patience: 2 * m.config.StoreTimeout})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return keys, nil
}

// nobody is the http.ResponseWriter of an operation whose client has gone.
type nobody struct{ header http.Header }

func (n nobody) Header() http.Header         { return n.header }
func (n nobody) Write(p []byte) (int, error) { return len(p), nil }
func (n nobody) WriteHeader(int)             {}
