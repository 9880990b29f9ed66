package ichido

import (
	"strconv"
	"sync/atomic"
	"time"
)

// A pace is how long attempts take, as a moving average: what a client is told to wait for one in progress.
type pace struct{ average atomic.Int64 }

func (p *pace) note(d time.Duration) {
	old := p.average.Load()
	p.average.CompareAndSwap(old, old+(int64(d)-old)/8) // who loses a race notes nothing
}

// retryAfter returns the seconds of a Retry-After field (RFC 9110, section 10.2.3): 1 to 60.
func (p *pace) retryAfter() string {
	s := (time.Duration(p.average.Load()) + time.Second - 1) / time.Second
	return strconv.Itoa(int(min(max(s, 1), 60)))
}
