package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido/client"
)

// The connection is handed over, and is not bounded by an attempt.
func TestSwitchingProtocols(t *testing.T) {
	s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		io.WriteString(conn, line)
	})
	r := request(t, "GET", s.URL, "")
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	res, err := newTransport(t, quick(local)).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	rw, ok := res.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("the body is a %T, want an io.ReadWriteCloser", res.Body)
	}
	defer rw.Close()
	fmt.Fprintln(rw, "hello")
	if line, err := bufio.NewReader(rw).ReadString('\n'); line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// It lasts for longer than an attempt may. A Base need not say whose answer it is.
func TestSwitchingProtocolsIsNotBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx context.Context
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			ctx = r.Context()
			return &http.Response{StatusCode: 101, Header: http.Header{}, Body: http.NoBody}, nil
		})
		res, err := newTransport(t, &client.Config{Base: base}).RoundTrip(request(t, "GET", "http://api.example.com", ""))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Errorf("its context has ended: %v", context.Cause(ctx))
		}
		if result, ok := client.ResultOf(res); !ok || result.Outcome != client.Done {
			t.Errorf("%+v", result)
		}
	})
}

func TestTheBodyIsClosedWhateverHappens(t *testing.T) {
	for name, lines := range map[string][]string{"sent": nil, "refused": {"a", "b"}} {
		s := newServer(t, statuses(201))
		body := &hidden{Reader: strings.NewReader("x")}
		r := request(t, "POST", s.URL, "")
		r.Body = body
		if lines != nil {
			r.Header["Idempotency-Key"] = lines
		}
		if res, err := newTransport(t, quick(local)).RoundTrip(r); err == nil {
			res.Body.Close()
		}
		if body.closed.Load() == 0 {
			t.Errorf("%s: the body was not closed", name)
		}
	}
}

// An error answer that was judged and breaks off is given as far as it came.
func TestARefusalThatBreaksOff(t *testing.T) {
	s := newRaw(t, func(_ int, conn net.Conn) bool {
		io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 100\r\n\r\nhalf")
		return false
	})
	config := quick(local)
	config.Base = fresh(t)
	res, err := newTransport(t, config).RoundTrip(request(t, "POST", s.url(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); string(body) != "half" || err != io.ErrUnexpectedEOF {
		t.Errorf("%q, %v", body, err)
	}
}

// More than is judged is still there for the reader, in the last answer.
func TestLongErrorAnswers(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	s := newServer(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(503)
		io.WriteString(w, long)
	})
	res, body := do(t, newTransport(t, quick(local)), request(t, "POST", s.URL, ""))
	if res.StatusCode != 503 || body != long || s.sendings() != 4 {
		t.Errorf("%s, %d bytes, %d sendings", res.Status, len(body), s.sendings())
	}
}

func TestABodyThatCannotBeHadAgain(t *testing.T) {
	s := newServer(t, statuses(503))
	broken := errors.New("gone")
	r := request(t, "POST", s.URL, "x")
	r.GetBody = func() (io.ReadCloser, error) { return nil, broken }
	_, err := newTransport(t, quick(local)).RoundTrip(r)
	unknown := new(client.UnknownError)
	if !errors.As(err, &unknown) || !errors.Is(err, broken) || unknown.Stopped != client.StopBody || unknown.Response == nil || s.sendings() != 1 {
		t.Errorf("%v after %d sendings", err, s.sendings())
	}
}

func TestAFieldInTheWrongCaseIsNotDoubled(t *testing.T) {
	s := newServer(t, statuses(201))
	r := request(t, "POST", s.URL, "")
	r.Header["idempotency-key"] = []string{`"k"`}
	_, err := newTransport(t, quick(local)).RoundTrip(r)
	if not := new(client.NotDoneError); !errors.As(err, &not) || !strings.Contains(err.Error(), "Header.Set") || s.sendings() != 0 {
		t.Errorf("%v", err)
	}
}

// A request whose caller wants no key is none of ours; one that has an operation needs one.
func TestAFieldWithoutValueAndAnOperation(t *testing.T) {
	s := newServer(t, statuses(201))
	r := request(t, "POST", s.URL, "")
	r.Header["Idempotency-Key"] = nil
	if result := newTransport(t, quick(local)).Send(r, client.NewOperation()); result.Outcome != client.NotDone || s.sendings() != 0 {
		t.Errorf("%+v", result)
	}
}

// A key that was made for one target does not go to another that does not take it.
func TestARedirectToAnotherTarget(t *testing.T) {
	var keys []string
	to := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("X-Amz-Pay-Idempotency-Key"))
	})
	from := newServer(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to.URL, http.StatusPermanentRedirect)
	})
	host := func(s *server) string { return strings.TrimPrefix(s.URL, "http://") }
	targets := client.Targets{host(from): client.Ichido, host(to): client.AmazonPay}
	do(t, newTransport(t, quick(targets)), request(t, "POST", from.URL, "x"))
	if len(keys) != 1 || len(keys[0]) != 32 {
		t.Errorf("the keys are %q", keys)
	}
}

func TestAnEmptyMethodIsGET(t *testing.T) {
	s := newServer(t, statuses(503))
	r := request(t, "GET", s.URL, "")
	r.Method = ""
	do(t, newTransport(t, quick(local)), r)
	if s.sendings() != 4 || s.keys[0] != "" {
		t.Errorf("sent %d times, with the keys %q", s.sendings(), s.keys)
	}
}

// The key in the body of an API whose requests must not be changed, and bodies that are no place for one.
func TestKeysOfTheCallerInTheBody(t *testing.T) {
	const token = "11111111-2222-4333-8444-555555555555"
	for name, c := range map[string]struct {
		query, kind, body string
		want              int
	}{
		"form":     {"", "application/x-www-form-urlencoded", "ClientToken=" + token, 4},
		"JSON":     {"", "application/x-amz-json-1.1", `{"ClientRequestToken":"` + token + `"}`, 4},
		"query":    {"?ClientToken=" + token, "", "", 4},
		"none":     {"", "application/json", `{"a":1}`, 1},
		"no JSON":  {"", "", "x", 1},
		"no body":  {"", "", "", 1},
		"no token": {"", "application/json", `{"clientToken":7}`, 1},
	} {
		s := newServer(t, statuses(503))
		r := request(t, "POST", s.URL+"/"+c.query, c.body)
		r.Header.Set("Content-Type", c.kind)
		res, _ := do(t, newTransport(t, quick(client.Targets{"127.0.0.1": client.AWS})), r)
		result, _ := client.ResultOf(res)
		if s.sendings() != c.want || (result.Operation.Key == token) != (c.want == 4) || slices.ContainsFunc(s.bodies, func(b string) bool { return b != c.body }) {
			t.Errorf("%s: %d sendings of %q, %+v", name, s.sendings(), s.bodies, result)
		}
	}
	// A body that has to carry the key must fit.
	config := quick(client.Targets{"127.0.0.1": client.Square})
	config.MaxBufferedBody = 5
	if _, err := newTransport(t, config).RoundTrip(request(t, "POST", "http://127.0.0.1:1", `{"a":100}`)); err == nil || !strings.Contains(err.Error(), "MaxBufferedBody") {
		t.Errorf("%v", err)
	}
}

func TestManyHosts(t *testing.T) {
	base := &answers{give: []func(*http.Request) (*http.Response, error){status(503)}}
	rt := newTransport(t, &client.Config{Base: base, BaseDelay: 1, Budget: client.Budget{Reserve: 3, PerSecond: -1, Ratio: 0.001}})
	send := func(host string) int {
		before := len(base.at)
		res, err := rt.RoundTrip(request(t, "GET", "http://"+host, ""))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return len(base.at) - before
	}
	if first, second := send("spent.example.com"), send("spent.example.com"); first != 4 || second != 1 {
		t.Fatalf("%d and %d sendings, want 4 and 1", first, second)
	}
	base.give[0] = status(200)
	for i := range 3000 {
		send(fmt.Sprintf("h%d.example.com", i))
	}
	if n := client.Buckets(rt); n > 1100 {
		t.Errorf("%d hosts are remembered", n)
	}
	base.give[0] = status(503)
	if got := send("spent.example.com"); got != 1 {
		t.Errorf("%d sendings to a host whose budget was spent, want 1", got)
	}
}

func TestNewRefusesAHostTwice(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	client.New(local, local)
}

func TestResultsOfOthers(t *testing.T) {
	if _, ok := client.ResultOf(nil); ok {
		t.Error("nil has a result")
	}
	if _, ok := client.ResultOf(&http.Response{}); ok {
		t.Error("an answer without a request has a result")
	}
	s := newServer(t, statuses(200))
	res, _ := do(t, fresh(t), request(t, "GET", s.URL, ""))
	if _, ok := client.ResultOf(res); ok {
		t.Error("the answer of another RoundTripper has a result")
	}
}
