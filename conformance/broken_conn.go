package conformance

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// breaking returns a client for one request whose connection can be broken: it is noted in conn, if that is not nil.
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
			conn.set(c)
			return c, err
		}
	}
	client := *r.client
	client.Transport = transport
	return &client
}

// A lastConn is the connection that was dialled last.
type lastConn struct {
	mu   sync.Mutex
	conn net.Conn
}

func (l *lastConn) set(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = c
}

// untilRead is how long a server has to read a request before its connection is reset, which would take from it what it
// has not read. It may have answered by then: the answer is lost all the same.
const untilRead = 20 * time.Millisecond

// resetWhenSent resets the connection a moment after the request was written whole. The other side gets RST, not FIN: what
// it writes then fails. The hook must not wait, since the last bytes are flushed behind it.
func (l *lastConn) resetWhenSent(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		time.AfterFunc(untilRead, l.reset)
	}})
}

func (l *lastConn) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tcp, ok := l.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	if l.conn != nil {
		_ = l.conn.Close()
	}
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
