package conformance

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
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

// resetWhenSent resets the connection when the request has been written whole. The other side gets RST, not FIN: what it
// writes then fails.
func (l *lastConn) resetWhenSent(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if tcp, ok := l.conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		if l.conn != nil {
			_ = l.conn.Close()
		}
	}})
}

// halves is a body of which the rest comes only when between has returned. It is sent in chunks, since its length is not
// known.
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
	return h.rest.Read(p)
}
