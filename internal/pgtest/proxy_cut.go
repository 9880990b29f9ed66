package pgtest

import "time"

// pendingCut is a COMMIT on its way whose answer will not be delivered.
type pendingCut struct {
	order *cut
	// request is the number of the request that the COMMIT belongs to.
	request int
	// flushed says that the client asked for an answer before the request's end.
	flushed   bool
	committed bool
	// withheld is kept to be delivered after all, should the COMMIT not commit.
	withheld []message
}

// withhold makes the answer to the request that is being sent stay here.
func (c *proxyConn) withhold(order *cut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending != nil {
		// Two COMMITs in one pipeline: the first one's cut takes this one down with it.
		c.proxy.giveBack(order)
		return
	}
	c.pending = &pendingCut{order: order, request: c.sent + 1}
}

// answer decides what the client is to see of m: it returns the messages to deliver, or the cut that is
// due now.
func (c *proxyConn) answer(m message) ([]message, *cut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.kind == kindReady {
		c.answered++
	}
	p := c.pending
	// Requests before the COMMIT's are answered as usual.
	if p == nil || c.answered < p.request-1 || (c.answered == p.request-1 && m.kind == kindReady) {
		return []message{m}, nil
	}
	p.withheld = append(p.withheld, m)
	if m.kind == kindComplete && m.strings(1)[0] == "COMMIT" {
		p.committed = true
	}
	ended := c.answered >= p.request
	switch {
	case p.committed && (ended || p.flushed):
		return nil, p.order
	case ended, p.flushed && m.kind == kindError:
		c.pending = nil
		c.proxy.giveBack(p.order)
		return p.withheld, nil
	}
	return nil, nil
}

// giveBack re-arms the cut of a COMMIT that the server will not answer any more.
func (c *proxyConn) giveBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending != nil {
		c.proxy.giveBack(c.pending.order)
		c.pending = nil
	}
}

// awaitServer reads until the server closes, which shows that it has ended the session.
func (c *proxyConn) awaitServer() {
	c.server.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 4096)
	for {
		if _, err := c.server.Read(buf); err != nil {
			return
		}
	}
}
