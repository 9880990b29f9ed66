package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxBody is the largest response body that is read, in bytes.
const maxBody = 4 << 20

// newTransport returns a transport that sends each request over a connection of its own. So nothing is sent a second
// time unseen, requests that are sent at once do not queue, and a load balancer may hand them to several processes,
// as it would those of several clients.
func newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // HTTP/2 would put them all on one connection
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		Protocols:           protocols,
		DisableKeepAlives:   true,
		DisableCompression:  true, // bodies are compared as they are sent
		TLSHandshakeTimeout: 10 * time.Second,

		MaxResponseHeaderBytes: 1 << 20,
	}
}

// newKey returns a random UUID (RFC 9562, version 4).
func newKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// A message is a request to be sent.
type message struct {
	method  string
	address string
	header  http.Header
	body    io.Reader
	client  *http.Client // nil is the runner's
}

// message returns a request of the first principal with a body, and with each key in a field line of its own.
func (r *runner) message(body string, keys ...string) message {
	m := message{method: r.api.Request.Method, address: r.url, header: http.Header{}, body: strings.NewReader(body)}
	for name, value := range r.api.Request.Headers {
		m.header.Set(name, value)
	}
	for _, key := range keys {
		m.header.Add(r.api.Key.Header, r.keyField(key))
	}
	return m.as(r, 0)
}

// as sets the fields of a principal, 0 or 1.
func (m message) as(r *runner, principal int) message {
	m.header = m.header.Clone()
	for _, p := range r.api.Principals {
		for name := range p.Headers {
			m.header.Del(name)
		}
	}
	if principal < len(r.api.Principals) {
		for name, value := range r.api.Principals[principal].Headers {
			m.header.Set(name, value)
		}
	}
	return m
}

// with sets a field.
func (m message) with(name, value string) message {
	m.header = m.header.Clone()
	m.header.Set(name, value)
	return m
}

// keyField returns a key as the field has it.
func (r *runner) keyField(key string) string {
	if r.api.Key.Form == "bare" {
		return key
	}
	return quoted(key)
}

// quoted returns a String of RFC 9651.
func quoted(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// An answer is a response that was read whole, or why there is none.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	err     error
	partial bool // there is an err, but not before the body

	api    *API      // by which it is read
	sent   time.Time // when its request had been written
	begun  time.Time // when its first byte came
	marked bool      // the marker is there
}

func (r *runner) get(ctx context.Context, address string) answer {
	return r.getAs(ctx, address, 0)
}

func (r *runner) getAs(ctx context.Context, address string, principal int) answer {
	return r.send(ctx, message{method: http.MethodGet, address: address, header: http.Header{}}.as(r, principal))
}

// send sends a message and reads the answer.
func (r *runner) send(ctx context.Context, m message) answer {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var sent, begun atomic.Pointer[time.Time] // a request that failed may still be being written
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { now := time.Now(); sent.Store(&now) },
		GotFirstResponseByte: func() { now := time.Now(); begun.Store(&now) },
	})
	req, err := m.request(ctx)
	if err != nil {
		return answer{api: &r.api, err: err}
	}
	client := r.client
	if m.client != nil {
		client = m.client
	}
	resp, err := client.Do(req)
	a := answer{api: &r.api}
	if at := sent.Load(); at != nil {
		a.sent = *at
	}
	if at := begun.Load(); at != nil {
		a.begun = *at
	}
	if err != nil {
		a.err = r.plainly(err)
		return a
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		a.partial, a.err = true, fmt.Errorf("%d, but its body broke off: %w", resp.StatusCode, r.plainly(err))
		return a
	case len(body) > maxBody:
		a.partial, a.err = true, fmt.Errorf("%d, but its body is longer than %d bytes", resp.StatusCode, maxBody)
		return a
	}
	a.status, a.header, a.body = resp.StatusCode, resp.Header, body
	a.marked = a.isMarked()
	return a
}

func (m message) request(ctx context.Context) (*http.Request, error) {
	body := m.body
	if body == nil {
		body = bytes.NewReader(nil)
	}
	req, err := http.NewRequestWithContext(ctx, m.method, m.address, body)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // nothing is sent a second time unseen
	req.Header.Set("User-Agent", "ichido-verify")
	req.Header.Set("Accept", "application/json, application/problem+json")
	maps.Copy(req.Header, m.header)
	return req, nil
}

// plainly returns err without what the reader knows, the method and the URL, and without the ports, so that equal
// errors read equal.
func (r *runner) plainly(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("nothing came within %v: %w", r.timeout, context.DeadlineExceeded)
	}
	if outer := new(net.OpError); errors.As(err, &outer) {
		return outer.Err
	}
	if outer := new(url.Error); errors.As(err, &outer) {
		return outer.Err
	}
	return err
}

// sendAll sends messages at the same time: every one waits, with its connection open, until all have theirs.
func (r *runner) sendAll(ctx context.Context, messages []message) []answer {
	answers := make([]answer, len(messages))
	gate := newGate(len(messages))
	var sent sync.WaitGroup
	for i, m := range messages {
		sent.Go(func() {
			var once sync.Once
			trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
				once.Do(func() { gate.wait(ctx, min(patience, r.timeout/4)) })
			}}
			answers[i] = r.send(httptrace.WithClientTrace(ctx, trace), m)
			once.Do(gate.arrive) // it got no connection: the others must not wait for it
		})
	}
	sent.Wait()
	return answers
}

// repeated returns n times the same request.
func (r *runner) repeated(body, key string, n int) []message {
	messages := make([]message, n)
	for i := range messages {
		messages[i] = r.message(body, key)
	}
	return messages
}

// inOrder returns the answers in the order in which they came.
func inOrder(answers []answer) []answer {
	answers = slices.Clone(answers)
	slices.SortStableFunc(answers, func(a, b answer) int { return a.begun.Compare(b.begun) })
	return answers
}
