package ichido

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A keptRequest is a request as it is kept, so that its operation can be finished without its client.
type keptRequest struct {
	Method    string            `json:"method"`
	URL       string            `json:"url"`
	Host      string            `json:"host,omitempty"`
	Pattern   string            `json:"pattern,omitempty"`
	Values    map[string]string `json:"values,omitempty"` // of the pattern's wildcards
	Header    http.Header       `json:"header,omitempty"`
	Body      []byte            `json:"body,omitempty"`
	Principal string            `json:"principal"`
}

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
	case c.Finish && !finishes:
		return fmt.Errorf("the field Config.Finish is set, and %T does not keep requests; use a store that implements ichido.Finisher", store)
	}
	return nil
}

// keepRequest returns the form in which a request is kept.
func (m *Manager) keepRequest(claim *Claim, r *http.Request, body []byte, principal string) ([]byte, error) {
	k := keptRequest{Method: r.Method, URL: r.URL.RequestURI(), Host: r.Host, Pattern: r.Pattern, Body: body, Principal: principal}
	for _, name := range slices.Concat(keptFields, m.config.RequestFields, []string{m.config.Header}) {
		if values := r.Header[name]; len(values) > 0 {
			if k.Header == nil {
				k.Header = make(http.Header)
			}
			k.Header[name] = values
		}
	}
	for _, name := range wildcards(r.Pattern) {
		if k.Values == nil {
			k.Values = make(map[string]string)
		}
		k.Values[name] = r.PathValue(name)
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
	u, err := url.ParseRequestURI(k.URL)
	if err != nil {
		return nil, nil, err
	}
	r := (&http.Request{
		Method: k.Method, URL: u, Host: k.Host, RequestURI: k.URL, Pattern: k.Pattern, Header: k.Header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(k.Body)), Body: newBufferedBody(k.Body),
	}).WithContext(ctx)
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	for name, value := range k.Values {
		r.SetPathValue(name, value)
	}
	if m.config.Restore != nil {
		if r, err = m.config.Restore(r, k.Principal); err != nil {
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
	key := keys[0]
	r, body, err := m.restore(ctx, key)
	if err != nil {
		m.log.ErrorContext(ctx, "ichido: an abandoned operation cannot be finished: its request cannot be restored", slog.Any("error", err))
		return true, false, nil
	}
	c := call{m: m, w: nobody{make(http.Header)}, r: r, body: body, next: next, claim: Claim{Scope: key.Scope, Key: key.Key,
		Fingerprint: key.Fingerprint, Retention: m.config.Retention}}
	c.claim.request = key.Request
	record, err := m.execute(r.Context(), c.claim, &c)
	switch {
	case err == nil:
		return true, record != nil || c.kept, nil
	case errors.Is(err, ErrInProgress) || errors.Is(err, ErrMismatch) || errors.Is(err, ErrUnknown):
		return true, false, nil // its client came back, or it has had its attempts
	}
	return true, false, err
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
