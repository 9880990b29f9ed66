package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// maxBody is the largest response body that is read, in bytes.
const maxBody = 1 << 20

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

// An answer is a response that was read whole, or why there is none.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	err     error
	partial bool // there is an err, but not before the body
}

// post sends a reservation under the key, or under none if that is "".
func (r *runner) post(ctx context.Context, key, body string) answer {
	return r.roundTrip(ctx, http.MethodPost, r.url, []byte(body), func(h http.Header) {
		h.Set("Content-Type", "application/json")
		if key != "" {
			h.Set("Idempotency-Key", `"`+key+`"`) // a String of RFC 9651
		}
	})
}

func (r *runner) get(ctx context.Context, address string) answer {
	return r.roundTrip(ctx, http.MethodGet, address, nil, func(http.Header) {})
}

func (r *runner) roundTrip(ctx context.Context, method, address string, body []byte, fields func(http.Header)) answer {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("User-Agent", "ichido-verify")
	req.Header.Set("Accept", "application/json, application/problem+json")
	fields(req.Header)
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{err: r.plainly(err)}
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return answer{partial: true, err: fmt.Errorf("%d, but its body broke off: %w", resp.StatusCode, r.plainly(err))}
	case len(got) > maxBody:
		return answer{partial: true, err: fmt.Errorf("%d, but its body is longer than %d bytes", resp.StatusCode, maxBody)}
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: got}
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
