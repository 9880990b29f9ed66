package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A testServer is the whole API in this process, on a database.
type testServer struct {
	t    *testing.T
	url  string
	logs *logs
	doc  *testDoc // nil for a server in another process

	service *service
	mailbox string // path
}

// serveAPI serves a database until the test ends. work may be nil.
func serveAPI(t *testing.T, db *database, o serveOptions, work *gate) *testServer {
	t.Helper()
	s := &testServer{t: t, logs: new(logs)}
	o.waitLimit = or(o.waitLimit, patience)
	o.retention = or(o.retention, time.Hour)
	if o.lang == "" {
		o.lang = "en"
	}
	if o.pay == "" {
		o.pay = "http://localhost:1" // nobody is there
	}
	if o.mailbox == "" {
		o.mailbox = filepath.Join(t.TempDir(), "mailbox.jsonl")
	}
	service, err := newService(t.Context(), db, o, work.pass, newLogger(s.logs))
	if err != nil {
		t.Fatal(err)
	}
	s.service, s.mailbox = service, o.mailbox
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	s.url = server.URL
	s.doc = fetchDoc(s)
	return s
}

func or(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// An answer is a response that was read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request with header fields, "Name: value" each.
func (s *testServer) do(method, path, body string, fields ...string) answer {
	a, err := s.try(method, path, body, fields...)
	if err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
	}
	if s.doc != nil {
		s.doc.wantDescribed(s.t, method, path, a)
	}
	return a
}

func (s *testServer) try(method, path, body string, fields ...string) (answer, error) {
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	// A connection for each request: what one test leaves on a connection is no other's business.
	client := http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text)}, err
}

// reserve sends a reservation under a key.
func (s *testServer) reserve(key, body string, fields ...string) answer {
	return s.do("POST", "/reservations", body, append(fields, "Content-Type: application/json", "Idempotency-Key: "+key)...)
}

// count returns how many reservations there are, by the list.
func (s *testServer) count() int {
	s.t.Helper()
	var p page
	a := s.do("GET", "/reservations?limit=200", "")
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != 200 {
		s.t.Fatalf("the list: %d %s: %v", a.status, a.body, err)
	}
	return len(p.Reservations)
}

func (s *testServer) wantCount(want int) {
	s.t.Helper()
	if n := s.count(); n != want {
		s.t.Errorf("%d reservations, want %d", n, want)
	}
}

// wantProblem checks that an answer is a problem of a kind.
func wantProblem(t *testing.T, a answer, status int, code string) {
	t.Helper()
	var p struct {
		Type, Title, Detail, Code string
		Status                    int
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%d %q: %v", a.status, a.body, err)
	}
	if a.status != status || p.Status != status || p.Code != code || p.Type != "/problems/"+code || p.Title == "" {
		t.Errorf("got %d %s, want %d %s", a.status, a.body, status, code)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q of a problem", got)
	}
	if got := a.header.Values("Link"); !slices.Contains(got, "<"+p.Type+`>; rel="describedby"; type="text/html"`) {
		t.Errorf("Link %q of a problem", got)
	}
}

// wantCreated checks that an answer is the first one, and returns it.
func wantCreated(t *testing.T, a answer, body string) answer {
	t.Helper()
	if a.status != 201 || a.body != body+"\n" || a.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %d %q (%v), want 201 %q", a.status, a.body, a.header, body)
	}
	return a
}

// wantReplay checks that an answer repeats the first one, to the byte.
func wantReplay(t *testing.T, a, first answer) {
	t.Helper()
	if a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("no replay: %d %q %v", a.status, a.body, a.header)
	}
	if a.status != first.status || a.body != first.body {
		t.Errorf("replayed %d %q, first %d %q", a.status, a.body, first.status, first.body)
	}
	for _, name := range []string{"Location", "Content-Type", "Content-Length"} {
		if a.header.Get(name) != first.header.Get(name) {
			t.Errorf("replayed %s: %q, first %q", name, a.header.Get(name), first.header.Get(name))
		}
	}
}

// logs collects what the server logs.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
