package pgtest

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a PostgreSQL server (or a PgBouncer). It understands enough of the
// protocol to cut a connection at an exact moment, and to count what a client sends. It does not speak
// TLS: the URLs say sslmode=disable.
type Proxy struct {
	target   string
	address  string
	mu       sync.Mutex
	listener net.Listener // nil while new connections are refused
	closed   bool
	conns    map[*proxyConn]struct{}
	running  sync.WaitGroup

	// cuts are the armed ones, in the order of arming. A COMMIT takes the first.
	cuts       []*cut
	roundTrips int
	statements []string
}

// cut is an order to cut the connection of one COMMIT.
type cut struct {
	after bool
	done  chan struct{}
}

// NewProxy starts a proxy in front of target, a connection URL or "host:port". It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		target = u.Host
	}
	if _, _, err := net.SplitHostPort(target); err != nil {
		target = net.JoinHostPort(target, "5432")
	}
	p := &Proxy{target: target, conns: map[*proxyConn]struct{}{}}
	if err := p.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// listen takes any free port the first time, and the same one again later.
func (p *Proxy) listen() error {
	var err error
	for range 10 {
		address := p.address
		if address == "" {
			var port int
			if port, err = freePort(); err != nil {
				return err
			}
			address = (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String()
		}
		if p.listener, err = net.Listen("tcp", address); err == nil {
			p.address = address
			p.running.Add(1)
			go p.accept(p.listener)
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func (p *Proxy) accept(l net.Listener) {
	defer p.running.Done()
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		c := &proxyConn{proxy: p, client: client, statements: map[string]string{}, portals: map[string]string{}}
		p.mu.Lock()
		// A connection that slipped in while Refuse was closing the door is not let through.
		if p.listener != l {
			p.mu.Unlock()
			client.Close()
			return
		}
		p.conns[c] = struct{}{}
		p.running.Add(1)
		p.mu.Unlock()
		go func() {
			defer p.running.Done()
			c.serve()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		}()
	}
}

// URL turns a database's URL into one that leads through the proxy.
func (p *Proxy) URL(database string) string {
	u, err := url.Parse(database)
	if err != nil || u.Host == "" {
		u = &url.URL{Scheme: "postgres", User: url.UserPassword(role, role), Path: "/" + database}
	}
	u.Host = p.address
	query := u.Query()
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return u.String()
}

// CutBeforeCommit arms a cut: of the next COMMIT, on whatever connection, nothing reaches the server,
// while everything sent before it does. The channel is closed when both sides are cut and the server
// has closed its side, which a PostgreSQL does after it has rolled the transaction back.
func (p *Proxy) CutBeforeCommit() <-chan struct{} { return p.arm(false) }

// CutAfterCommit arms a cut: the next COMMIT, on whatever connection, reaches the server and is carried
// out, but nothing of the answer reaches the client, nor of anything sent in the same flight. The
// channel is closed when both sides are cut. A COMMIT that does not commit, because the transaction has
// failed or a deferred constraint objects, is answered as usual and leaves the cut armed.
func (p *Proxy) CutAfterCommit() <-chan struct{} { return p.arm(true) }

func (p *Proxy) arm(after bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	order := &cut{after: after, done: make(chan struct{})}
	p.cuts = append(p.cuts, order)
	return order.done
}

// takeCut is asked by a connection that has seen a COMMIT.
func (p *Proxy) takeCut() *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.cuts) == 0 {
		return nil
	}
	order := p.cuts[0]
	p.cuts = p.cuts[1:]
	return order
}

// giveBack re-arms a cut whose COMMIT came to nothing.
func (p *Proxy) giveBack(order *cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts = slices.Insert(p.cuts, 0, order)
}

// CutAll cuts every connection, whatever it is doing. New ones are let in; see [Proxy.Refuse].
func (p *Proxy) CutAll() {
	p.mu.Lock()
	conns := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	// Without the lock, which is taken after a connection's and never before.
	for _, c := range conns {
		c.cutBoth()
	}
}

// Refuse makes connecting fail as if nobody listened, or lets connections in again. Those that are open
// stay open.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
	case refuse && p.listener != nil:
		p.listener.Close()
		p.listener = nil
	case !refuse && p.listener == nil:
		if err := p.listen(); err != nil {
			panic("pgtest: the proxy cannot listen again: " + err.Error())
		}
	}
}

// RoundTrips is how often a client waited for the server since the last [Proxy.Reset], over all
// connections: the number of Sync, simple Query and Flush messages. Logging in does not count.
func (p *Proxy) RoundTrips() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roundTrips
}

// Statements are the texts of the statements that clients had executed since the last [Proxy.Reset], in
// order. A prepared statement appears each time it runs, and not when it is prepared.
func (p *Proxy) Statements() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.statements)
}

// Reset sets the counter and the list of statements back.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roundTrips, p.statements = 0, nil
}

func (p *Proxy) note(statement string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statements = append(p.statements, statement)
}

func (p *Proxy) countRoundTrip() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roundTrips++
}

// close ends the proxy and waits until none of its goroutines runs.
func (p *Proxy) close() {
	p.Refuse(true)
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.CutAll()
	p.running.Wait()
}
