package outbox

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/client"
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name  string
		sent  bool // before
		res   client.Result
		state State
		after bool
	}{
		{"done", false, client.Result{Outcome: client.Done, Verdict: client.Succeeded}, Done, true},
		{"a replayed failure", true, client.Result{Outcome: client.NotDone, Verdict: client.Failed}, NotDone, true},
		{"a mismatch", false, client.Result{Outcome: client.NotDone, Verdict: client.Mismatch}, NotDone, false},
		{"a mismatch after a lost answer", true, client.Result{Outcome: client.NotDone, Verdict: client.Mismatch}, Unknown, true},
		{"refused", false, client.Result{Outcome: client.NotDone, Verdict: client.Refused}, NotDone, false},
		{"refused after a lost answer", true, client.Result{Outcome: client.NotDone, Verdict: client.Refused}, Waiting, true},
		{"too many requests", false, client.Result{Outcome: client.NotDone, Verdict: client.TryAgain, Retryable: true}, Waiting, false},
		{"too many requests after a lost answer", true, client.Result{Outcome: client.NotDone, Verdict: client.TryAgain, Retryable: true}, Waiting, true},
		{"a lost answer", false, client.Result{Outcome: client.Unknown, Verdict: client.Uncertain, Retryable: true}, Waiting, true},
		{"in progress", false, client.Result{Outcome: client.Unknown, Verdict: client.InProgress, Retryable: true}, Waiting, true},
		{"the server cannot tell", false, client.Result{Outcome: client.Unknown, Verdict: client.Unresolved}, Unknown, true},
		{"the server says not to retry", true, client.Result{Outcome: client.NotDone, Verdict: client.TryAgain}, Unknown, true},
		{"it says so, and nothing was sent before", false, client.Result{Outcome: client.NotDone, Verdict: client.TryAgain}, NotDone, false},
		{"refused before it was sent", false, client.Result{Outcome: client.NotDone, Stopped: client.StopRefused}, NotDone, false},
		{"refused before it was sent again", true, client.Result{Outcome: client.NotDone, Stopped: client.StopRefused}, Unknown, true},
	} {
		if state, sent := decide(c.sent, c.res); state != c.state || sent != c.after {
			t.Errorf("%s: %s, sent %v; want %s, %v", c.name, state, sent, c.state, c.after)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Lease: -1}, "Lease"}, {Config{Concurrency: -1}, "Concurrency"}, {Config{BaseDelay: time.Hour, MaxDelay: time.Minute}, "BaseDelay"},
		{Config{Margin: time.Second}, "Margin"}, {Config{Header: []string{"cookie"}}, "Cookie"},
	} {
		if _, err := New(nil, SQLite, nil, &c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.config, err)
		}
	}
	o, err := New(nil, SQLite, nil, &Config{Header: []string{"x-tenant"}})
	if err != nil || !o.Stores("X-Tenant") || !o.Stores("content-type") || o.Stores("Authorization") {
		t.Errorf("%+v, %v", o, err)
	}
	for _, c := range []struct{ retention, want time.Duration }{
		{24 * time.Hour, 24*time.Hour - 144*time.Minute}, {5 * time.Minute, 3 * time.Minute}, {0, 24*time.Hour - 144*time.Minute},
	} {
		if m, err := o.memory(client.Target{Retention: c.retention}); err != nil || m != c.want {
			t.Errorf("%s: %s, %v; want %s", c.retention, m, err, c.want)
		}
	}
	if _, err := o.memory(client.Target{Retention: 2 * time.Minute}); err == nil {
		t.Error("a server that forgets sooner than a sending takes is accepted")
	}
}

// A server that asks for more than can be counted is not sent to at once.
func TestPause(t *testing.T) {
	o, err := New(nil, SQLite, nil, &Config{MaxDelay: math.MaxInt64})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	e := &Entry{SendUntil: now.Add(time.Hour), now: now, Attempts: 1}
	for asked, least := range map[time.Duration]time.Duration{0: 0, time.Minute: time.Minute, 24 * time.Hour: time.Hour, math.MaxInt64: time.Hour} {
		if wait := o.pause(e, asked); wait < least || wait > time.Hour {
			t.Errorf("asked for %s: waits for %s", asked, wait)
		}
	}
	e.Attempts = 1000
	if wait := o.pause(e, 0); wait < 0 || wait > time.Hour {
		t.Errorf("waits for %s", wait)
	}
}
