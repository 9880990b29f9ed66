package pgtest

import (
	"bufio"
	"bytes"
	"net"
	"sync"
	"time"
)

// proxyConn is one client's connection. Two goroutines carry its two directions.
type proxyConn struct {
	proxy  *Proxy
	client net.Conn

	mu     sync.Mutex
	server net.Conn // nil until dialled
	dead   bool
	// sent and answered number the requests that end with a ReadyForQuery: the server sends exactly one
	// for the login, each Sync and each simple query.
	sent, answered int
	pending        *pendingCut

	// Of the client's direction only. What statement a portal was bound to, and the statements' texts.
	statements, portals map[string]string
}

func (c *proxyConn) serve() {
	defer c.cutBoth()
	in := bufio.NewReaderSize(c.client, 64<<10)
	if !c.connect(in) {
		return
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		c.fromServer()
	}()
	order := c.fromClient(in)
	<-finished
	if order != nil {
		c.awaitServer()
		close(order.done)
	}
}

// connect deals with what comes before the typed messages: encryption is declined, a request to cancel
// is passed on as it is, and a login starts the session.
func (c *proxyConn) connect(in *bufio.Reader) bool {
	for {
		code, body, err := readStartup(in)
		if err != nil {
			return false
		}
		if code == sslRequest || code == gssRequest {
			if _, err := c.client.Write([]byte{'N'}); err != nil {
				return false
			}
			continue
		}
		server, err := net.DialTimeout("tcp", c.proxy.target, 10*time.Second)
		if err != nil {
			return false
		}
		c.mu.Lock()
		c.server = server
		c.sent = 1
		dead := c.dead
		c.mu.Unlock()
		if dead { // Cut while dialling.
			server.Close()
			return false
		}
		if _, err := server.Write(appendBody(nil, body)); err != nil {
			return false
		}
		if code == cancelRequest {
			// The server closes when it has taken note, and clients wait for that.
			server.Read(make([]byte, 1))
			return false
		}
		return true
	}
}

// fromClient forwards the client's messages. They are gathered as long as more are there to read, so
// that a pipeline reaches the server in as few packets as without the proxy. It returns when the client
// has gone, or with the cut that a COMMIT has just met.
func (c *proxyConn) fromClient(in *bufio.Reader) *cut {
	// Whatever the server was sent so far is to reach it, and then that no more will come. It may still
	// be writing, and closes its side when it has read this far.
	defer closeWrite(c.server)
	out := bufio.NewWriterSize(c.server, 64<<10)
	for {
		m, err := readMessage(in)
		if err != nil {
			break
		}
		if c.commits(m) {
			if order := c.proxy.takeCut(); order != nil && !order.after {
				out.Flush()
				c.client.Close()
				return order
			} else if order != nil {
				c.withhold(order)
			}
		}
		c.count(m)
		if m.writeTo(out) != nil {
			break
		}
		if in.Buffered() == 0 && out.Flush() != nil {
			break
		}
	}
	out.Flush()
	return nil
}

// commits keeps track of statements and portals, and reports whether m makes the server commit. In the
// extended protocol that is the Execute: preparing a COMMIT commits nothing.
func (c *proxyConn) commits(m message) bool {
	var text string
	switch m.kind {
	case kindParse:
		names := m.strings(2)
		c.statements[names[0]] = names[1]
		return false
	case kindBind:
		names := m.strings(2)
		c.portals[names[0]] = c.statements[names[1]]
		return false
	case kindClose:
		if rest, ok := bytes.CutPrefix(m.body, []byte{'S'}); ok {
			delete(c.statements, message{body: rest}.strings(1)[0])
		}
		return false
	case kindExecute:
		text = c.portals[m.strings(1)[0]]
	case kindQuery:
		text = m.strings(1)[0]
	default:
		return false
	}
	c.proxy.note(text)
	return isCommit(text)
}

func (c *proxyConn) count(m message) {
	if m.kind != kindSync && m.kind != kindQuery && m.kind != kindFlush {
		return
	}
	c.proxy.countRoundTrip()
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.kind != kindFlush {
		c.sent++
	} else if c.pending != nil && c.sent < c.pending.request {
		c.pending.flushed = true
	}
}

// fromServer forwards the server's messages, except the answer to a COMMIT that is to be cut.
func (c *proxyConn) fromServer() {
	// The client learns that the server has gone, and the other direction ends.
	defer c.client.Close()
	in := bufio.NewReaderSize(c.server, 64<<10)
	out := bufio.NewWriterSize(c.client, 64<<10)
	for {
		m, err := readMessage(in)
		if err != nil {
			c.giveBack()
			out.Flush()
			return
		}
		deliver, order := c.answer(m)
		if order != nil {
			out.Flush()
			c.cutBoth()
			close(order.done)
			return
		}
		for _, m := range deliver {
			if m.writeTo(out) != nil {
				return
			}
		}
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

// cutBoth closes both sides.
func (c *proxyConn) cutBoth() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	c.client.Close()
	if c.server != nil {
		c.server.Close()
	}
}

// closeWrite tells the other side that nothing more comes, without losing what it still sends.
func closeWrite(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.CloseWrite()
	}
}
