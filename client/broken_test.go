package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/client"
)

// A raw server reads requests from a connection and does with it what a test wants.
type raw struct {
	net.Listener
	requests atomic.Int32
	mu       sync.Mutex
	keys     []string
}

func (s *raw) url() string { return "http://" + s.Addr().String() }

// newRaw serves each request by handle, which is told its number, from 1; the connection ends when it returns false.
func newRaw(t *testing.T, handle func(n int, conn net.Conn) bool) *raw {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &raw{Listener: l}
	var group sync.WaitGroup
	t.Cleanup(func() { l.Close(); group.Wait() })
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					io.Copy(io.Discard, r.Body)
					s.mu.Lock()
					s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
					s.mu.Unlock()
					if !handle(int(s.requests.Add(1)), conn) {
						return
					}
				}
			})
		}
	})
	return s
}

const created = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"

// fresh is a Base with connections of its own.
func fresh(t *testing.T) *http.Transport {
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return base
}

func TestConnectionsThatBreak(t *testing.T) {
	for name, answer := range map[string]string{
		"before a byte":        "",
		"within the status":    "HTTP/1.1 2",
		"within the header":    "HTTP/1.1 201 Created\r\nContent-Le",
		"no HTTP":              "220 mail.example.com ESMTP\r\n\r\n",
		"after a 1xx":          "HTTP/1.1 103 Early Hints\r\n\r\n",
		"within a kept answer": "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nhalf",
	} {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reset %v", name, reset), func(t *testing.T) {
				s := newRaw(t, func(n int, conn net.Conn) bool {
					if n == 3 {
						io.WriteString(conn, created)
						return true
					}
					io.WriteString(conn, answer)
					if reset {
						conn.(*net.TCPConn).SetLinger(0)
					}
					return false
				})
				config := quick(local)
				config.Base = fresh(t)
				res, body := do(t, newTransport(t, config), request(t, "POST", s.url(), "x"))
				result, _ := client.ResultOf(res)
				if res.StatusCode != 201 || body != "ok" || result.Outcome != client.Done || result.Sendings != 3 {
					t.Errorf("answered %s %q, %+v", res.Status, body, result)
				}
				if s.keys[0] == "" || s.keys[0] != s.keys[2] {
					t.Errorf("the keys are %q", s.keys)
				}
			})
		}
	}
}

func TestABrokenConnectionLeavesTheOutcomeUnknown(t *testing.T) {
	s := newRaw(t, func(int, net.Conn) bool { return false })
	for _, c := range []struct {
		method  string
		targets client.Targets
		want    int32
		stop    client.Stop
	}{{"POST", local, 4, client.StopAttempts}, {"POST", nil, 1, client.StopUnsafe}, {"PUT", nil, 4, client.StopAttempts}} {
		s.requests.Store(0)
		config := quick(c.targets)
		config.Base = fresh(t)
		_, err := newTransport(t, config).RoundTrip(request(t, c.method, s.url(), "x"))
		var unknown *client.UnknownError
		if !errors.As(err, &unknown) || !errors.Is(err, io.EOF) || unknown.Stopped != c.stop || (unknown.Operation.Key != "") != (c.targets != nil) {
			t.Errorf("%s: %v", c.method, err)
		}
		if got := s.requests.Load(); got != c.want {
			t.Errorf("%s, declared %v: sent %d times, want %d", c.method, c.targets != nil, got, c.want)
		}
	}
	// GET has no outcome: the error is net/http's.
	config := quick(local)
	config.Base = fresh(t)
	if _, err := newTransport(t, config).RoundTrip(request(t, "GET", s.url(), "")); err != io.EOF {
		t.Errorf("GET: %T %v", err, err)
	}
}

func TestAnAnswerThatBreaksOffIsTheReadersError(t *testing.T) {
	s := newRaw(t, func(_ int, conn net.Conn) bool {
		io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nhalf")
		return false
	})
	config := quick(local)
	config.Base = fresh(t)
	res, err := newTransport(t, config).RoundTrip(request(t, "POST", s.url(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	result, _ := client.ResultOf(res)
	if string(body) != "half" || err != io.ErrUnexpectedEOF || result.Outcome != client.Done || s.requests.Load() != 1 {
		t.Errorf("%q, %v, %+v", body, err, result)
	}
}

// refused is an address where nobody listens.
func refused(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return "http://" + l.Addr().String()
}

// Nothing was written: another try is safe wherever, and the operation is certainly not done.
func TestRefusedConnections(t *testing.T) {
	url := refused(t)
	for _, targets := range []client.Targets{local, nil} {
		for _, method := range []string{"POST", "PATCH", "PUT"} {
			attempts := 0
			config := quick(targets)
			config.Observe = func(_ context.Context, a client.Attempt) {
				attempts++
				if a.Sendings != 0 || a.Verdict != client.TryAgain || a.Err == nil {
					t.Errorf("%+v", a)
				}
			}
			_, err := newTransport(t, config).RoundTrip(request(t, method, url, "x"))
			var not *client.NotDoneError
			if !errors.As(err, &not) || not.Attempts != 4 || attempts != 4 || not.Sendings != 0 || !not.Retryable {
				t.Errorf("%s, declared %v: %v after %d attempts, want a NotDoneError after 4", method, targets != nil, err, attempts)
			}
			if op := new(net.OpError); !errors.As(err, &op) {
				t.Errorf("%v does not unwrap to the cause", err)
			}
		}
	}
}

// What was sent before the server went away may have been done.
func TestARefusedConnectionAfterALostAnswerIsUnknown(t *testing.T) {
	var s *raw
	s = newRaw(t, func(_ int, conn net.Conn) bool {
		s.Listener.Close() // before the answer, which brings the next attempt
		io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlast")
		return false
	})
	config := quick(local)
	config.Base = fresh(t)
	_, err := newTransport(t, config).RoundTrip(request(t, "POST", s.url(), "x"))
	var unknown *client.UnknownError
	if !errors.As(err, &unknown) || unknown.Sendings != 1 || unknown.Attempts != 4 {
		t.Fatalf("%v, want an UnknownError", err)
	}
	if unknown.Response == nil || unknown.Response.StatusCode != 502 {
		t.Fatalf("the last answer is %v, want the 502", unknown.Response)
	}
	if body, _ := io.ReadAll(unknown.Response.Body); string(body) != "last" {
		t.Errorf("its body is %q", body)
	}
}

// net/http sends a request again by itself if an idle connection breaks and the request has an Idempotency-Key.
func TestSilentResends(t *testing.T) {
	for name, c := range map[string]struct {
		targets  client.Targets
		set      bool // the caller sets the field
		want     int32
		sendings int
	}{
		"declared":                              {local, false, 3, 2},
		"undeclared, with an operation":         {nil, false, 2, 1},
		"undeclared, the caller sets the field": {nil, true, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRaw(t, func(n int, conn net.Conn) bool {
				if n == 2 {
					return false // it was read, and is not answered
				}
				io.WriteString(conn, created)
				return true
			})
			config := quick(c.targets)
			config.Base = fresh(t)
			var seen client.Attempt
			config.Observe = func(_ context.Context, a client.Attempt) { seen = a }
			rt := newTransport(t, config)
			do(t, rt, request(t, "POST", s.url(), "x"))
			r := request(t, "POST", s.url(), "x")
			if c.set {
				r.Header.Set("Idempotency-Key", `"k"`)
			} else {
				r = r.WithContext(client.WithOperation(r.Context(), client.OperationFromKey("k")))
			}
			res, err := rt.RoundTrip(r)
			if got := s.requests.Load(); got != c.want || seen.Number != 1 || seen.Sendings != c.sendings {
				t.Errorf("the server read %d requests, want %d; the attempt is %+v", got, c.want, seen)
			}
			if c.want == 2 {
				if unknown := new(client.UnknownError); !errors.As(err, &unknown) || unknown.Operation.Key != "k" {
					t.Errorf("%v, want an UnknownError", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if s.keys[1] != `"k"` || s.keys[2] != `"k"` {
				t.Errorf("the keys are %q", s.keys)
			}
		})
	}
}

// What net/http sends by itself is a retry: the budget pays for it, and what it sent first may have been done.
func TestSilentResendsAreAccountedFor(t *testing.T) {
	s := newRaw(t, func(n int, conn net.Conn) bool {
		switch n {
		case 1:
			io.WriteString(conn, created)
		case 2:
			return false
		case 3:
			io.WriteString(conn, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
		default:
			io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
		}
		return true
	})
	config := quick(local)
	config.Base, config.Budget = fresh(t), client.Budget{Reserve: 1.5, PerSecond: -1, Ratio: 0.001}
	rt := newTransport(t, config)
	do(t, rt, request(t, "POST", s.url(), "x"))
	res, _ := do(t, rt, request(t, "POST", s.url(), "x"))
	if result, _ := client.ResultOf(res); result.Outcome != client.Unknown || !result.Retryable || result.Sendings != 2 {
		t.Errorf("a refusal after a sending that was lost: %+v", result)
	}
	res, _ = do(t, rt, request(t, "POST", s.url(), "x"))
	if result, _ := client.ResultOf(res); result.Stopped != client.StopBudget || result.Sendings != 1 {
		t.Errorf("%+v, want the budget spent", result)
	}
}

// A Base that does not tell when it writes may have written.
func TestABaseWithoutTraces(t *testing.T) {
	broken := errors.New("broken")
	config := quick(local)
	config.Base = roundTrip(func(*http.Request) (*http.Response, error) { return nil, broken })
	_, err := newTransport(t, config).RoundTrip(request(t, "POST", "https://127.0.0.1", "x"))
	var unknown *client.UnknownError
	if !errors.As(err, &unknown) || unknown.Sendings != 4 || !errors.Is(err, broken) {
		t.Errorf("%v, want an UnknownError", err)
	}
	config.Base = roundTrip(func(*http.Request) (*http.Response, error) { return nil, nil })
	if _, err := newTransport(t, config).RoundTrip(request(t, "POST", "https://127.0.0.1", "x")); err == nil || !strings.Contains(err.Error(), "neither") {
		t.Errorf("%v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRequestsThatNetHTTPRefuses(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"scheme": func(r *http.Request) { r.URL.Scheme = "ftp" },
		"host":   func(r *http.Request) { r.URL.Host = "" },
		"method": func(r *http.Request) { r.Method = "PO ST" },
		"name":   func(r *http.Request) { r.Header["a b"] = []string{"x"} },
		"value":  func(r *http.Request) { r.Header["A"] = []string{"x\ny"} },
		"no map": func(r *http.Request) { r.Header = nil },
		"no URL": func(r *http.Request) { r.URL = nil },
	} {
		r := request(t, "POST", "http://127.0.0.1:1", "x")
		change(r)
		attempts := 0
		config := quick(client.Targets{"*": client.Ichido})
		config.Observe = func(context.Context, client.Attempt) { attempts++ }
		_, err := newTransport(t, config).RoundTrip(r)
		if not := new(client.NotDoneError); !errors.As(err, &not) || not.Retryable || attempts > 1 {
			t.Errorf("%s: %v after %d attempts", name, err, attempts)
		}
	}
}

func TestContextsThatEnd(t *testing.T) {
	why := errors.New("the user left")
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(why)
		s := newServer(t, statuses(201))
		body := &hidden{Reader: strings.NewReader("x")}
		r := request(t, "POST", s.URL, "").WithContext(ctx)
		r.Body = body
		_, err := newTransport(t, quick(local)).RoundTrip(r)
		if not := new(client.NotDoneError); !errors.As(err, &not) || !errors.Is(err, why) || !not.Retryable || body.closed.Load() == 0 || s.sendings() != 0 {
			t.Errorf("%v", err)
		}
		if _, err := newTransport(t, quick(local)).RoundTrip(request(t, "GET", s.URL, "").WithContext(ctx)); err != why {
			t.Errorf("GET: %v", err)
		}
	})
	t.Run("during the dial", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		config := quick(local)
		config.Base = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		_, err := newTransport(t, config).RoundTrip(request(t, "POST", "http://127.0.0.1:1", "x").WithContext(ctx))
		if not := new(client.NotDoneError); !errors.As(err, &not) || !errors.Is(err, context.Canceled) || not.Stopped != client.StopContext || not.Attempts != 1 {
			t.Errorf("%v", err)
		}
	})
	t.Run("after the write", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := newRaw(t, func(_ int, conn net.Conn) bool {
			cancel()
			io.Copy(io.Discard, conn) // until the client hangs up
			return false
		})
		config := quick(local)
		config.Observe = func(_ context.Context, a client.Attempt) {
			if a.Stopped != client.StopContext {
				t.Errorf("the attempt is %+v", a)
			}
		}
		_, err := newTransport(t, config).RoundTrip(request(t, "POST", s.url(), "x").WithContext(ctx))
		if unknown := new(client.UnknownError); !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) || unknown.Stopped != client.StopContext || !unknown.Retryable {
			t.Errorf("%v", err)
		}
	})
	t.Run("while waiting", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := newServer(t, statuses(503))
		config := &client.Config{Targets: local, BaseDelay: time.Hour, MaxDelay: time.Hour, TotalTimeout: -1}
		config.Observe = func(context.Context, client.Attempt) { cancel() }
		_, err := newTransport(t, config).RoundTrip(request(t, "POST", s.URL, "x").WithContext(ctx))
		if unknown := new(client.UnknownError); !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) || unknown.Response == nil || unknown.Response.StatusCode != 503 {
			t.Errorf("%v", err)
		}
	})
}

// The caller's own trace goes on working.
func TestTracesOfTheCaller(t *testing.T) {
	s := newServer(t, statuses(503, 201))
	got := 0
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { got++ }})
	do(t, newTransport(t, quick(local)), request(t, "POST", s.URL, "x").WithContext(ctx))
	if got != 2 {
		t.Errorf("GotConn was called %d times, want 2", got)
	}
}

func TestAttemptTimeout(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	s := newRaw(t, func(n int, conn net.Conn) bool {
		if n == 2 {
			io.WriteString(conn, created)
			return true
		}
		<-hold
		return false
	})
	config := quick(local)
	config.Base, config.AttemptTimeout = fresh(t), 200*time.Millisecond
	var first client.Attempt
	config.Observe = func(_ context.Context, a client.Attempt) {
		if a.Number == 1 {
			first = a
		}
	}
	res, body := do(t, newTransport(t, config), request(t, "POST", s.url(), "x"))
	if res.StatusCode != 201 || body != "ok" {
		t.Errorf("%s %q", res.Status, body)
	}
	if timeout, ok := errors.AsType[net.Error](first.Err); !ok || !timeout.Timeout() || !errors.Is(first.Err, context.DeadlineExceeded) || first.Verdict != client.Uncertain {
		t.Errorf("the first attempt is %+v, want a time-out", first)
	}
}

// The time-out of a keyed attempt ends its body too; a download may take long.
func TestAttemptTimeoutAndBodies(t *testing.T) {
	for _, method := range []string{"POST", "GET"} {
		more := make(chan struct{})
		s := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "one ")
			w.(http.Flusher).Flush()
			select {
			case <-more:
				io.WriteString(w, "two")
			case <-r.Context().Done():
			}
		})
		config := quick(local)
		config.AttemptTimeout = 300 * time.Millisecond
		res, err := newTransport(t, config).RoundTrip(request(t, method, s.URL, ""))
		if err != nil {
			t.Fatal(err)
		}
		if method == "GET" {
			time.AfterFunc(600*time.Millisecond, func() { close(more) })
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		timeout, ok := errors.AsType[net.Error](err)
		if method == "GET" && (string(body) != "one two" || err != nil) || method == "POST" && (!ok || !timeout.Timeout()) {
			t.Errorf("%s: %q, %v", method, body, err)
		}
	}
}

// http.Client.Timeout bounds all attempts at once. The error that http.Client makes then has ours as text only.
func TestTheTimeoutOfTheClient(t *testing.T) {
	s := newRaw(t, func(_ int, conn net.Conn) bool {
		io.Copy(io.Discard, conn)
		return false
	})
	c := &http.Client{Transport: newTransport(t, quick(local)), Timeout: 300 * time.Millisecond}
	_, err := c.Post(s.url(), "text/plain", strings.NewReader("x"))
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() || !strings.Contains(err.Error(), "unknown whether it was done") {
		t.Errorf("%T %v", err, err)
	}
}
