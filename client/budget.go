package client

import (
	"sync"
	"time"
)

// A Budget bounds how much load retries may add, for each host by itself. It is a bucket of tokens: every request puts
// Ratio tokens in, and time puts PerSecond in; every retry takes one out, also one that net/http makes by itself. While
// the bucket is empty nothing is retried, and the caller gets the answer or the error there is.
type Budget struct {
	// Ratio is how many retries each request allows in the long run. Zero means 0.08.
	Ratio float64
	// Reserve is what the bucket holds at the start, and at most. Zero means 10.
	Reserve float64
	// PerSecond lets a client that sends little retry too. Zero means 0.1; negative means that only requests fill the bucket.
	PerSecond float64
	// Unlimited retries whatever the load.
	Unlimited bool
}

func (b *Budget) fill() {
	if b.Ratio == 0 {
		b.Ratio = 0.08 // with PerSecond below 1.1 in all at five requests a second and more
	}
	if b.Reserve == 0 {
		b.Reserve = 10
	}
	switch {
	case b.PerSecond == 0:
		b.PerSecond = 0.1
	case b.PerSecond < 0:
		b.PerSecond = 0
	}
}

// A bucket is the budget of a host.
type bucket struct {
	mu     sync.Mutex
	tokens float64
	at     time.Time // when time last put tokens in
}

// put adds what a request and the time since the last call put in.
func (b *bucket) put(rule *Budget, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flow(rule, now)
	b.tokens = min(rule.Reserve, b.tokens+rule.Ratio)
}

// take takes a token out, if there is one.
func (b *bucket) take(rule *Budget, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flow(rule, now)
	if b.tokens < 1 {
		return rule.Unlimited
	}
	b.tokens--
	return true
}

// owe takes tokens out for n retries that have been made already. The debt is bounded.
func (b *bucket) owe(rule *Budget, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = max(-rule.Reserve, b.tokens-float64(n))
}

func (b *bucket) flow(rule *Budget, now time.Time) {
	if past := now.Sub(b.at); past > 0 {
		b.tokens = min(rule.Reserve, b.tokens+past.Seconds()*rule.PerSecond)
		b.at = now
	}
}

// full tells whether the bucket is as if it were new.
func (b *bucket) full(rule *Budget, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flow(rule, now)
	return b.tokens >= rule.Reserve
}

// maxBuckets is how many hosts there may be before the buckets of those that are quiet are dropped.
const maxBuckets = 1024

// buckets holds the bucket of each host.
type buckets struct {
	rule Budget
	mu   sync.RWMutex
	of   map[string]*bucket
	full int // how many there may be before those that are quiet are dropped
}

func (s *buckets) get(host string, now time.Time) *bucket {
	s.mu.RLock()
	b := s.of[host]
	s.mu.RUnlock()
	if b != nil {
		return b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b = s.of[host]; b != nil {
		return b
	}
	if len(s.of) >= max(s.full, maxBuckets) {
		for h, old := range s.of {
			if old.full(&s.rule, now) {
				delete(s.of, h)
			}
		}
		s.full = 2 * len(s.of) // not for every new host, if few are quiet
	}
	b = &bucket{tokens: s.rule.Reserve, at: now}
	s.of[host] = b
	return b
}
