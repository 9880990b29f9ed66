package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/client"
)

// A server answers by a function that is told the number of the request, from 1, and keeps what it read.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	keys   []string
	bodies []string
	conns  map[string]bool
}

func newServer(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := &server{conns: map[string]bool{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.keys = append(s.keys, strings.Join(r.Header.Values("Idempotency-Key"), " | "))
		s.bodies = append(s.bodies, string(body))
		s.conns[r.RemoteAddr] = true
		n := len(s.keys)
		s.mu.Unlock()
		answer(n, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) sendings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// statuses answers with them, the last one for ever.
func statuses(codes ...int) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(codes[min(n, len(codes))-1])
		fmt.Fprintf(w, "answer %d", n)
	}
}

// quick is a Config that waits next to nothing.
func quick(targets client.Targets) *client.Config {
	return &client.Config{Targets: targets, BaseDelay: time.Microsecond, Budget: client.Budget{Unlimited: true}}
}

var local = client.Targets{"127.0.0.1": client.Ichido}

func request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, url, reader)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func do(t *testing.T, rt http.RoundTripper, r *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := (&http.Client{Transport: rt}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestRetriesUnderOneKeyWithTheWholeBody(t *testing.T) {
	for _, status := range []int{408, 425, 429, 500, 502, 503, 504} {
		s := newServer(t, statuses(status, status, 201))
		r := request(t, "POST", s.URL, `{"item":"desk"}`)
		header := r.Header.Clone()
		res, body := do(t, newTransport(t, quick(local)), r)
		if res.StatusCode != 201 || body != "answer 3" {
			t.Errorf("%d: answered %s %q, want the third answer, 201", status, res.Status, body)
		}
		if len(s.keys) != 3 || s.keys[0] != s.keys[1] || s.keys[0] != s.keys[2] || len(s.keys[0]) != 38 {
			t.Errorf("%d: the keys are %q, want one UUID, quoted, three times", status, s.keys)
		}
		if want := slices.Repeat([]string{`{"item":"desk"}`}, 3); !slices.Equal(s.bodies, want) {
			t.Errorf("%d: the bodies are %q", status, s.bodies)
		}
		if len(s.conns) != 1 {
			t.Errorf("%d: %d connections were used, want one: failed answers are drained", status, len(s.conns))
		}
		if len(r.Header) != len(header) {
			t.Errorf("%d: the caller's request has the fields %v now", status, r.Header)
		}
		result, ok := client.ResultOf(res)
		if !ok || result.Outcome != client.Done || result.Err != nil || result.Attempts != 3 || result.Sendings != 3 ||
			`"`+result.Operation.Key+`"` != s.keys[0] || res.Request.Header.Get("Idempotency-Key") != s.keys[0] {
			t.Errorf("%d: the result is %+v", status, result)
		}
	}
}

func TestWhatIsNotRetried(t *testing.T) {
	for _, status := range []int{200, 204, 303, 400, 401, 403, 404, 409, 413, 415, 422, 501, 505, 507} {
		s := newServer(t, statuses(status))
		rt := newTransport(t, quick(local))
		res, err := rt.RoundTrip(request(t, "POST", s.URL, "x"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if s.sendings() != 1 || res.StatusCode != status {
			t.Errorf("%d was sent %d times and answered %d", status, s.sendings(), res.StatusCode)
		}
	}
}

func TestTheLastFailingAnswerIsReturnedUnread(t *testing.T) {
	s := newServer(t, statuses(503))
	res, body := do(t, newTransport(t, quick(local)), request(t, "POST", s.URL, "x"))
	if res.StatusCode != 503 || body != "answer 4" {
		t.Errorf("answered %s %q, want the fourth answer, 503", res.Status, body)
	}
	result, _ := client.ResultOf(res)
	var unknown *client.UnknownError
	if !errors.As(result.Err, &unknown) || unknown.Attempts != 4 || unknown.Stopped != client.StopAttempts || !unknown.Retryable || unknown.Operation.Key == "" {
		t.Errorf("the result is %+v, want an UnknownError", result)
	}
	if text := result.Err.Error(); strings.Contains(text, result.Operation.Key) || !strings.Contains(text, "503") {
		t.Errorf("the error is %q; it must not have the key", text)
	}
}

func TestOtherMethodsAndHosts(t *testing.T) {
	for _, c := range []struct {
		method   string
		declared bool
		want     int
	}{
		{"GET", false, 4}, {"HEAD", false, 4}, {"OPTIONS", false, 4}, {"PUT", false, 4}, {"DELETE", false, 4}, {"GET", true, 4},
		{"POST", false, 1}, {"PATCH", false, 1}, {"CUSTOM", false, 1}, {"CUSTOM", true, 1},
		{"POST", true, 4}, {"PATCH", true, 4},
	} {
		s := newServer(t, statuses(500))
		targets := client.Targets{"other.example.com": client.Ichido}
		if c.declared {
			targets = local
		}
		res, _ := do(t, newTransport(t, quick(targets)), request(t, c.method, s.URL, ""))
		if got := s.sendings(); got != c.want || res.StatusCode != 500 {
			t.Errorf("%s, declared %v: sent %d times, want %d", c.method, c.declared, got, c.want)
		}
		if keyed := s.keys[0] != ""; keyed != (c.want == 4 && c.declared && c.method != "GET") {
			t.Errorf("%s, declared %v: the key is %q", c.method, c.declared, s.keys[0])
		}
	}
}

func TestKeysOfTheCaller(t *testing.T) {
	const uuid = "11111111-2222-4333-8444-555555555555"
	line := client.Targets{"127.0.0.1": client.LINE}
	for name, c := range map[string]struct {
		targets client.Targets
		op      string
		field   []string
		want    string // what is sent, or a part of the error
	}{
		"operation, quoted":                   {local, uuid, nil, `"` + uuid + `"`},
		"operation, escaped":                  {local, `a"b\c`, nil, `"a\"b\\c"`},
		"operation, bare":                     {client.Targets{"127.0.0.1": client.Stripe}, uuid, nil, uuid},
		"operation, undeclared":               {nil, uuid, nil, `"` + uuid + `"`},
		"field, quoted":                       {local, "", []string{`"k-1"`}, `"k-1"`},
		"field, bare to a target with quotes": {local, "", []string{"k-1"}, "k-1"},
		"field and the same operation":        {local, "k-1", []string{`"k-1"`}, `"k-1"`},
		"field, undeclared":                   {nil, "", []string{"k-1"}, "k-1"},
		"field and another operation":         {local, "k-2", []string{`"k-1"`}, "another key"},
		"two fields":                          {local, "", []string{`"k-1"`, `"k-2"`}, "2 lines"},
		"broken quotes":                       {local, "", []string{`"k-1`}, "closing quote"},
		"broken escape":                       {local, "", []string{`"k\1"`}, "backslash"},
		"behind the quotes":                   {local, "", []string{`"k"1"`}, "closing quote"},
		"empty field":                         {local, "", []string{""}, "empty"},
		"empty key":                           {local, "", []string{`""`}, "empty"},
		"field without a value":               {local, "", []string{}, ""},
		"too long":                            {local, strings.Repeat("x", 256), nil, "256 characters"},
		"not printable":                       {local, "a\nb", nil, "printable"},
		"not printable, undeclared":           {nil, "a\nb", nil, "printable"},
		"space at the end":                    {client.Targets{"127.0.0.1": client.Stripe}, "a ", nil, "space"},
		"no key in the operation":             {local, "-", nil, "empty"},
		"no UUID":                             {line, "order-1", nil, "hexadecimal UUID"},
		"quoted to a target without":          {client.Targets{"127.0.0.1": client.Mangopay}, "", []string{`"` + uuid + `"`}, "36"},
		"too short":                           {client.Targets{"127.0.0.1": client.Mangopay}, "short", nil, "at least 16"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, statuses(201))
			r := request(t, "POST", s.URL, "x")
			if c.op == "-" {
				r = r.WithContext(client.WithOperation(r.Context(), client.Operation{}))
			} else if c.op != "" {
				r = r.WithContext(client.WithOperation(r.Context(), client.OperationFromKey(c.op)))
			}
			if c.field != nil {
				r.Header["Idempotency-Key"] = c.field
			}
			res, err := newTransport(t, quick(c.targets)).RoundTrip(r)
			if err == nil {
				res.Body.Close()
				if s.keys[0] != c.want {
					t.Errorf("sent %q, want %q", s.keys[0], c.want)
				}
				return
			}
			var not *client.NotDoneError
			if !errors.As(err, &not) || !strings.Contains(err.Error(), c.want) || c.want == "" || s.sendings() != 0 || not.Retryable {
				t.Errorf("%v (sent %d times), want a NotDoneError with %q, and nothing sent", err, s.sendings(), c.want)
			}
		})
	}
}

func TestEveryRequestHasAKeyOfItsOwn(t *testing.T) {
	s := newServer(t, statuses(201))
	rt := newTransport(t, quick(local))
	r := request(t, "POST", s.URL, "")
	do(t, rt, r)
	do(t, rt, r)
	if !regexp.MustCompile(`^"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"$`).MatchString(s.keys[0]) {
		t.Errorf("the key %s is no UUID of version 4", s.keys[0])
	}
	if s.keys[0] == s.keys[1] {
		t.Errorf("two requests have the key %s", s.keys[0])
	}
	if amazon := client.AmazonPay.NewOperation().Key; len(amazon) != 32 {
		t.Errorf("the key for Amazon Pay is %q", amazon)
	}
}

// A Reader hides what http.NewRequest could rewind.
type hidden struct {
	io.Reader
	closed atomic.Int32
}

func (h *hidden) Close() error { h.closed.Add(1); return nil }

func TestBodiesWithoutGetBody(t *testing.T) {
	for _, c := range []struct {
		length int
		limit  int64
		want   int
		stop   client.Stop
	}{{10, 10, 4, client.StopAttempts}, {11, 10, 1, client.StopBody}, {1, -1, 1, client.StopBody}, {0, 10, 4, client.StopAttempts}} {
		s := newServer(t, statuses(503))
		config := quick(local)
		config.MaxBufferedBody = c.limit
		body := &hidden{Reader: bytes.NewReader(make([]byte, c.length))}
		r := request(t, "POST", s.URL, "")
		r.Body = body
		res, _ := do(t, newTransport(t, config), r)
		result, _ := client.ResultOf(res)
		if s.sendings() != c.want || result.Stopped != c.stop {
			t.Errorf("%d bytes, limit %d: sent %d times, want %d; %s", c.length, c.limit, s.sendings(), c.want, result.Stopped)
		}
		for _, got := range s.bodies {
			if len(got) != c.length {
				t.Errorf("%d bytes, limit %d: %d bytes came", c.length, c.limit, len(got))
			}
		}
		if body.closed.Load() == 0 {
			t.Errorf("%d bytes, limit %d: the body was not closed", c.length, c.limit)
		}
	}
}

func TestABodyThatCannotBeReadIsNotSent(t *testing.T) {
	s := newServer(t, statuses(201))
	broken := errors.New("disk on fire")
	body := &hidden{Reader: io.MultiReader(strings.NewReader("half"), failing{broken})}
	r := request(t, "POST", s.URL, "")
	r.Body = body
	_, err := newTransport(t, quick(local)).RoundTrip(r)
	var not *client.NotDoneError
	if !errors.As(err, &not) || !errors.Is(err, broken) || s.sendings() != 0 || body.closed.Load() == 0 {
		t.Errorf("%v, sent %d times", err, s.sendings())
	}
	r.Body, r.ContentLength = &hidden{Reader: strings.NewReader("four")}, 5
	if _, err := newTransport(t, quick(local)).RoundTrip(r); err == nil || !strings.Contains(err.Error(), "ContentLength is 5") {
		t.Errorf("a body that is too short: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestContentLengthIsKept(t *testing.T) {
	var lengths []int64
	s := newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
		lengths = append(lengths, r.ContentLength)
		statuses(503, 201)(n, w, r)
	})
	do(t, newTransport(t, quick(local)), request(t, "POST", s.URL, "12345"))
	r := request(t, "POST", s.URL, "")
	r.Body, r.ContentLength = &hidden{Reader: strings.NewReader("123")}, 3
	do(t, newTransport(t, quick(local)), r)
	if want := []int64{5, 5, 3}; !slices.Equal(lengths, want) {
		t.Errorf("the lengths are %d, want %d", lengths, want)
	}
}

func TestRedirectsKeepTheKey(t *testing.T) {
	for _, given := range []bool{false, true} {
		s := newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/moved":
				statuses(503, 503, 503, 201)(n, w, r)
			case n == 1:
				w.WriteHeader(503)
			default:
				http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect)
			}
		})
		r := request(t, "POST", s.URL, "x")
		if given {
			r.Header.Set("Idempotency-Key", `"k"`)
		}
		res, _ := do(t, newTransport(t, quick(local)), r)
		if res.StatusCode != 201 || len(s.keys) != 4 || len(slices.Compact(slices.Clone(s.keys))) != 1 {
			t.Errorf("answered %s; the keys are %q, want one", res.Status, s.keys)
		}
	}
	// 303 is another request, which has none.
	s := newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			http.Redirect(w, r, "/done", http.StatusSeeOther)
		}
	})
	do(t, newTransport(t, quick(local)), request(t, "POST", s.URL, "x"))
	if len(s.keys) != 2 || s.keys[1] != "" {
		t.Errorf("the keys are %q", s.keys)
	}
}

func TestServersSayWhetherToRetry(t *testing.T) {
	for _, c := range []struct {
		status int
		header string
		value  string
		want   int
	}{
		{503, "X-Should-Retry", "false", 1}, {503, "Stripe-Should-Retry", "false", 1}, {503, "X-Should-Retry", "maybe", 4},
		{400, "X-Should-Retry", "true", 4}, {422, "X-Should-Retry", "true", 1}, {501, "X-Should-Retry", "true", 1},
		{200, "X-Should-Retry", "true", 1}, {307, "X-Should-Retry", "true", 1},
	} {
		s := newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set(c.header, c.value)
			w.WriteHeader(c.status)
		})
		res, err := newTransport(t, quick(local)).RoundTrip(request(t, "POST", s.URL, ""))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if result, _ := client.ResultOf(res); c.value == "false" && (result.Stopped != client.StopServer || result.Retryable) {
			t.Errorf("%d with %s: %s: %+v", c.status, c.header, c.value, result)
		}
		if s.sendings() != c.want {
			t.Errorf("%d with %s: %s was sent %d times, want %d", c.status, c.header, c.value, s.sendings(), c.want)
		}
	}
	// It cannot make a POST to a host that is not declared safe.
	s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Should-Retry", "true")
		w.WriteHeader(503)
	})
	do(t, newTransport(t, quick(nil)), request(t, "POST", s.URL, ""))
	if s.sendings() != 1 {
		t.Errorf("sent %d times", s.sendings())
	}
}

func TestReplayedFailuresAreFinal(t *testing.T) {
	for status, want := range map[int]client.Outcome{500: client.Unknown, 503: client.Unknown, 429: client.NotDone, 402: client.NotDone} {
		s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Idempotent-Replayed", "true")
			w.Header().Set("X-Should-Retry", "true")
			w.WriteHeader(status)
		})
		res, _ := do(t, newTransport(t, quick(local)), request(t, "POST", s.URL, ""))
		result, _ := client.ResultOf(res)
		if s.sendings() != 1 || result.Outcome != want || result.Retryable {
			t.Errorf("%d was sent %d times; %+v", status, s.sendings(), result)
		}
	}
}

// An answer from in front of what recognises keys says nothing of a sending that was lost before.
func TestARefusalAfterALostAnswerIsUnknown(t *testing.T) {
	for _, c := range []struct {
		codes []int
		want  client.Outcome
	}{
		{[]int{401}, client.NotDone}, {[]int{500, 401}, client.Unknown}, {[]int{429, 401}, client.NotDone},
		{[]int{429, 429, 429, 429}, client.NotDone}, {[]int{502, 429, 429, 429}, client.Unknown},
	} {
		s := newServer(t, statuses(c.codes...))
		res, _ := do(t, newTransport(t, quick(local)), request(t, "POST", s.URL, ""))
		result, _ := client.ResultOf(res)
		if result.Outcome != c.want {
			t.Errorf("%d: %s, want %s", c.codes, result.Outcome, c.want)
		}
		if c.want == client.Unknown && !result.Retryable {
			t.Errorf("%d: not retryable", c.codes)
		}
	}
}

func TestSend(t *testing.T) {
	s := newServer(t, statuses(503, 201))
	rt := newTransport(t, quick(local))
	op := client.NewOperation()
	op.Name = "order 7"
	result := rt.Send(request(t, "POST", s.URL, "x"), op)
	if result.Outcome != client.Done || result.Err != nil || result.Response == nil || s.keys[1] != `"`+op.Key+`"` || result.Operation != op {
		t.Errorf("%+v", result)
	}
	result.Response.Body.Close()

	for name, c := range map[string]struct {
		rt     *client.Transport
		method string
		want   string
	}{
		"undeclared": {newTransport(t, quick(nil)), "POST", "is not declared"},
		"GET":        {rt, "GET", "takes no key with GET"},
		"no body":    {newTransport(t, quick(client.Targets{"127.0.0.1": client.Square})), "POST", "JSON body"},
		"signed":     {newTransport(t, quick(client.Targets{"127.0.0.1": client.AWS})), "POST", "before it is signed"},
	} {
		before := s.sendings()
		result := c.rt.Send(request(t, c.method, s.URL, ""), op)
		var not *client.NotDoneError
		if !errors.As(result.Err, &not) || result.Outcome != client.NotDone || not.Operation != op || s.sendings() != before ||
			!strings.Contains(result.Err.Error(), c.want) || !strings.Contains(result.Err.Error(), "order 7") {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

// An operation that is older than the server's memory may run twice.
func TestOperationsThatTheServerMayHaveForgottenAreNotSent(t *testing.T) {
	s := newServer(t, statuses(201))
	op := client.NewOperation()
	op.Started = time.Now().Add(-25 * time.Hour)
	result := newTransport(t, quick(local)).Send(request(t, "POST", s.URL, "x"), op)
	var unknown *client.UnknownError
	if !errors.As(result.Err, &unknown) || result.Outcome != client.Unknown || result.Retryable || s.sendings() != 0 || !strings.Contains(result.Err.Error(), "24h") {
		t.Errorf("%+v", result)
	}
}

func TestObserve(t *testing.T) {
	s := newServer(t, statuses(503, 201))
	config := quick(local)
	var seen []client.Attempt
	config.Observe = func(_ context.Context, a client.Attempt) { seen = append(seen, a) }
	do(t, newTransport(t, config), request(t, "POST", s.URL+"/secret", ""))
	if len(seen) != 2 {
		t.Fatalf("%d attempts were seen", len(seen))
	}
	a, b := seen[0], seen[1]
	if a.Number != 1 || a.Status != 503 || a.Verdict != client.Uncertain || a.Stopped != "" || a.Target != "ichido" || a.Method != "POST" || a.Sendings != 1 || a.Elapsed <= 0 {
		t.Errorf("the first is %+v", a)
	}
	if b.Number != 2 || b.Status != 201 || b.Verdict != client.Succeeded || b.Stopped != client.StopEnd || b.Wait != 0 || b.Operation != a.Operation {
		t.Errorf("the second is %+v", b)
	}
	if text := fmt.Sprint(a.Operation); strings.Contains(text, a.Operation.Key) {
		t.Errorf("the operation prints as %q, with its key", text)
	}
}

func TestManyRequestsAtOnce(t *testing.T) {
	s := newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n%3 == 0 {
			w.WriteHeader(503)
		}
	})
	config := quick(local)
	config.Attempts = 20
	config.Observe = func(context.Context, client.Attempt) {}
	rt := newTransport(t, config)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			for range 10 {
				res, err := (&http.Client{Transport: rt, Timeout: time.Minute}).Post(s.URL, "text/plain", strings.NewReader("x"))
				if err != nil || res.StatusCode != 200 {
					t.Errorf("%v %v", res, err)
					continue
				}
				if result, ok := client.ResultOf(res); !ok || result.Outcome != client.Done {
					t.Errorf("%+v", result)
				}
				res.Body.Close()
			}
		})
	}
	group.Wait()
}

func TestSetUpMistakes(t *testing.T) {
	nested := newTransport(t, nil)
	header := client.Target{Header: "Key"}
	for _, c := range []struct {
		config client.Config
		want   string
	}{
		{client.Config{Attempts: -1}, "Config.Attempts"},
		{client.Config{BaseDelay: -1}, "negative"},
		{client.Config{BaseDelay: 2, MaxDelay: 1}, "more than MaxDelay"},
		{client.Config{AttemptTimeout: 2, TotalTimeout: 1}, "more than TotalTimeout"},
		{client.Config{Budget: client.Budget{Ratio: -1}}, "Budget"},
		{client.Config{Budget: client.Budget{Reserve: 0.5}}, "Reserve"},
		{client.Config{Base: nested}, "multiplied"},
		{client.Config{Targets: client.Targets{"https://api.example.com": header}}, "is a URL"},
		{client.Config{Targets: client.Targets{"": header}}, "no host"},
		{client.Config{Targets: client.Targets{"api.*.com": header}}, "no host"},
		{client.Config{Targets: client.Targets{"*example.com": header}}, "no host"},
		{client.Config{Targets: client.Targets{"a.example.com?x": header}}, "no host"},
		{client.Config{Targets: client.Targets{"a.example.com": header, "A.example.com/": header}}, "twice"},
		{client.Config{Targets: client.Targets{"a": {}}}, "neither Header nor Members"},
		{client.Config{Targets: client.Targets{"a": {Header: "a b"}}}, "no name of a field"},
		{client.Config{Targets: client.Targets{"a": {Header: "a", Members: []string{"b"}}}}, "one place"},
		{client.Config{Targets: client.Targets{"a": {Header: "a", MinLength: 2, MaxLength: 1}}}, "2 to 1"},
		{client.Config{Targets: client.Targets{"a": {Header: "a", MaxLength: 20}}}, "set NewKey"},
		{client.Config{Targets: client.Targets{"a": {Header: "a", Pattern: "("}}}, "Pattern"},
		{client.Config{Targets: client.Targets{"a": {Header: "a", Retention: -1}}}, "Retention"},
	} {
		_, err := client.NewTransport(&c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want an error with %q", err, c.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("New accepts a wrong target")
		}
	}()
	client.New(client.Targets{"a": {}})
}

func TestHostsAreFound(t *testing.T) {
	named := func(name string) client.Target { return client.Target{Name: name, Header: "Idempotency-Key"} }
	var got string
	rt := newTransport(t, &client.Config{
		Base: &stub{http.Response{StatusCode: 200, Body: http.NoBody}},
		Targets: client.Targets{
			"api.example.com": named("host"), "api.example.com:8443": named("port"), "*.example.com": named("under"),
			"api.example.com/v2": named("path"), "api.example.com/v2/old": named("longer"), "[::1]": named("six"), "Big.Example.Org": named("case"),
		},
		Observe: func(_ context.Context, a client.Attempt) { got = a.Target },
	})
	for url, want := range map[string]string{
		"https://api.example.com/": "host", "https://api.example.com": "host", "https://API.example.com:443/x": "host",
		"https://api.example.com:8443/v2": "port", "https://x.y.example.com/": "under", "https://example.com/": "",
		"https://api.example.com/v2": "path", "https://api.example.com/v2/x": "path", "https://api.example.com/v20": "host",
		"https://api.example.com/v2/old/x": "longer", "http://[::1]:8080/": "six", "http://big.example.org/": "case", "http://other.org": "",
	} {
		got = "?"
		res, err := rt.RoundTrip(request(t, "POST", url, ""))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got != want {
			t.Errorf("%s is %q, want %q", url, got, want)
		}
	}
}

func TestTheKeyInTheBody(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1}`:                     `{"idempotency_key":"K","a":1}`,
		` { } `:                       ` {"idempotency_key":"K" } `,
		`{"idempotency_key":"mine"}`:  `{"idempotency_key":"mine"}`,
		`{"a":{"idempotency_key":1}}`: `{"idempotency_key":"K","a":{"idempotency_key":1}}`,
		`[1]`:                         "",
		`not JSON`:                    "",
	} {
		s := newServer(t, statuses(503, 200))
		r := request(t, "POST", s.URL, body)
		res, err := newTransport(t, quick(client.Targets{"127.0.0.1": client.Square})).RoundTrip(r)
		if want == "" {
			if err == nil || s.sendings() != 0 {
				t.Errorf("%s was sent", body)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		res.Body.Close()
		result, _ := client.ResultOf(res)
		want = strings.Replace(want, `"K"`, `"`+result.Operation.Key+`"`, 1)
		if len(s.bodies) != 2 || s.bodies[0] != want || s.bodies[1] != want {
			t.Errorf("%s was sent as %q, want %s twice", body, s.bodies, want)
		}
	}
	// A long stream to a signed API is passed on.
	s := newServer(t, statuses(503))
	config := quick(client.Targets{"127.0.0.1": client.AWS})
	config.MaxBufferedBody = 100
	r := request(t, "PUT", s.URL, "")
	r.Body = &hidden{Reader: bytes.NewReader(make([]byte, 1000))}
	do(t, newTransport(t, config), r)
	if len(s.bodies) != 1 || len(s.bodies[0]) != 1000 {
		t.Errorf("%d sendings", len(s.bodies))
	}
}
