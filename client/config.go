package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"
)

// A Config has the settings of a [Transport]. The zero value, and nil, are the defaults.
type Config struct {
	// Targets declares the hosts that honour keys. A POST or PATCH to any other host is sent again only if nothing was sent.
	Targets Targets
	// Base sends what is to be sent. Nil means http.DefaultTransport, as it is when the Transport is made.
	Base http.RoundTripper
	// Attempts is how many there are at most, the first one included. Default: 4; 1 retries nothing.
	Attempts int
	// BaseDelay and MaxDelay give the wait before the n-th retry: a random time of up to BaseDelay·2ⁿ⁻¹ and MaxDelay (full
	// jitter). Defaults: 200 ms and 30 s. A Retry-After up to MaxDelay is waited for instead, with jitter added as far as
	// MaxDelay allows; a longer one is the end.
	BaseDelay, MaxDelay time.Duration
	// AttemptTimeout bounds an attempt; with a key to the end of the answer's body, without one to the end of its header,
	// so that downloads may take long. Default: 30 s; negative is no bound.
	AttemptTimeout time.Duration
	// TotalTimeout bounds all attempts and the waits between them, as AttemptTimeout bounds one. The context's deadline and
	// Target.Retention do so too. Default: 2 min; negative is no bound.
	TotalTimeout time.Duration
	// Budget bounds the load that retries add.
	Budget Budget
	// MaxBufferedBody is how many bytes of a request body are kept in memory if the request has no GetBody and may have to
	// be sent again. One that is longer is sent once. Default: 1 MiB; negative keeps none.
	MaxBufferedBody int64
	// Observe, if not nil, is called after every attempt, before the wait that follows it. It must be safe for concurrent
	// use.
	Observe func(context.Context, Attempt)
}

// An Attempt is what Config.Observe is told.
type Attempt struct {
	// Operation has the key, which does not belong into logs and metrics; its String does.
	Operation Operation
	// Target is the name of the target; "" if the host was not declared.
	Target       string
	Method, Host string
	// Number counts the attempts, from 1.
	Number int
	// Sendings is how often the request may have reached the network in this attempt: 0 if there was no connection, more
	// than 1 if net/http sent it again by itself, on another connection.
	Sendings int
	// Status is that of the answer; 0 if there was none, and Err says why.
	Status  int
	Err     error
	Verdict Verdict
	Elapsed time.Duration
	// Wait is what is waited for before the next attempt; if there is none, Stopped says why.
	Wait    time.Duration
	Stopped Stop
}

func (c *Config) fill() error {
	if c.TotalTimeout > 0 && c.AttemptTimeout > c.TotalTimeout {
		return fmt.Errorf("the field Config.AttemptTimeout is %s, more than TotalTimeout, %s", c.AttemptTimeout, c.TotalTimeout)
	}
	defaults := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	if c.Attempts == 0 {
		c.Attempts = 4
	}
	defaults(&c.BaseDelay, 200*time.Millisecond)
	defaults(&c.MaxDelay, max(30*time.Second, c.BaseDelay))
	defaults(&c.AttemptTimeout, 30*time.Second)
	defaults(&c.TotalTimeout, 2*time.Minute)
	c.MaxDelay = min(c.MaxDelay, math.MaxInt64-1) // one more can be counted
	if c.MaxBufferedBody == 0 {
		c.MaxBufferedBody = 1 << 20
	}
	if c.Base == nil {
		c.Base = http.DefaultTransport
	}
	c.Budget.fill()
	switch {
	case c.Attempts < 1:
		return fmt.Errorf("the field Config.Attempts is %d; it counts the first attempt, so 1 retries nothing", c.Attempts)
	case c.BaseDelay < 0 || c.MaxDelay < 0:
		return fmt.Errorf("the fields Config.BaseDelay and MaxDelay are %s and %s; neither may be negative", c.BaseDelay, c.MaxDelay)
	case c.BaseDelay > c.MaxDelay:
		return fmt.Errorf("the field Config.BaseDelay is %s, more than MaxDelay, %s", c.BaseDelay, c.MaxDelay)
	case c.Budget.Ratio < 0 || c.Budget.Reserve < 0:
		return fmt.Errorf("the field Config.Budget has the Ratio %g and the Reserve %g; neither may be negative", c.Budget.Ratio, c.Budget.Reserve)
	case c.Budget.Reserve < 1 && !c.Budget.Unlimited:
		return fmt.Errorf("the field Config.Budget.Reserve is %g; a retry takes one token, so that there would be none; Attempts: 1 says that", c.Budget.Reserve)
	}
	if _, ok := c.Base.(*Transport); ok {
		return errors.New("the field Config.Base is a Transport of this package: its attempts would be multiplied; use the one or the other")
	}
	return nil
}

// NewTransport returns a Transport. The config is copied; nil means the defaults.
func NewTransport(config *Config) (*Transport, error) {
	t := &Transport{}
	if config != nil {
		t.config = *config
	}
	if err := t.config.fill(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	var err error
	if t.directory, err = t.config.Targets.directory(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	t.config.Targets = nil // the caller's, who may change it
	t.buckets.rule, t.buckets.of = t.config.Budget, make(map[string]*bucket)
	return t, nil
}

// New returns an http.Client that retries, with the default settings and these targets. It has no Timeout, which would
// bound all attempts at once; Config has two. It panics if a target is wrong. For other settings:
//
//	t, err := client.NewTransport(&client.Config{…})
//	…
//	c := &http.Client{Transport: t}
func New(targets ...Targets) *http.Client {
	all := Targets{}
	for _, ts := range targets {
		for host, target := range ts {
			if _, twice := all[host]; twice {
				panic(fmt.Sprintf("client: New: the entry %q of Targets is there twice", host))
			}
			all[host] = target
		}
	}
	t, err := NewTransport(&Config{Targets: all})
	if err != nil {
		panic(err)
	}
	return &http.Client{Transport: t}
}
