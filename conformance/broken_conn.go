package conformance

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// breaking returns a client for one request whose connection can be broken: conn keeps it, if that is not nil.
func (r *runner) breaking(conn *lastConn) *http.Client {
	transport, ok := r.client.Transport.(*http.Transport)
	if !ok || transport == nil {
		transport = newTransport()
	}
	transport = transport.Clone()
	transport.DisableKeepAlives = true
	if conn != nil {
		dial := transport.DialContext
		if dial == nil {
			dial = new(net.Dialer).DialContext
		}
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return conn.keep(c), nil
		}
	}
	client := *r.client
	client.Transport = transport
	return &client
}

// A lastConn is the connection that was dialled last. What comes on it once the request was written is not read: a server
// that is quick has answered before the reset, and the scenario is of an answer that is lost.
type lastConn struct {
	net.Conn
	sent  atomic.Bool
	reset chan struct{} // closed when the connection was reset
}

func (l *lastConn) keep(c net.Conn) net.Conn {
	l.Conn = c
	return l
}

// Read ends with an error once the request was written, but not before the reset: the client would close the connection.
func (l *lastConn) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if !l.sent.Load() {
		return n, err
	}
	<-l.reset
	return 0, errReset
}

// errReset is why the answer does not come.
var errReset = errors.New("the connection was reset before an answer was read")

// untilRead is how long a server has to read a request before its connection is reset, which would take from it what it
// has not read.
const untilRead = 20 * time.Millisecond

// resetWhenSent resets the connection a moment after the request was written whole. The other side gets RST, not FIN: what
// it writes then fails. The hook must not wait, since the last bytes are flushed behind it.
func (l *lastConn) resetWhenSent(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		if !l.sent.Swap(true) {
			time.AfterFunc(untilRead, l.breakOff)
		}
	}})
}

func (l *lastConn) breakOff() {
	defer close(l.reset)
	if l.Conn == nil { // a client of another make dialled
		return
	}
	if tcp, ok := l.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = l.Close()
}

// errHungUp is why the rest of a body does not come.
var errHungUp = errors.New("hung up in the middle of the body")

// halves is a body of which the rest comes only when between has returned, or never if it is nil. It is sent in chunks,
// since its length is not known.
type halves struct {
	first, rest io.Reader
	between     func()
	once        sync.Once
}

func (h *halves) Read(p []byte) (int, error) {
	if n, err := h.first.Read(p); n > 0 || err != io.EOF {
		return n, err
	}
	h.once.Do(h.between)
	if h.rest == nil {
		return 0, errHungUp
	}
	return h.rest.Read(p)
}
