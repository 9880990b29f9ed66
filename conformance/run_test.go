package conformance_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/conformance"
)

var ids = []string{"no-key", "same-key-twice", "other-quantity", "member-order", "ten-at-once-one-key",
	"once-more-afterwards", "ten-at-once-ten-keys", "failure-then-same-key"}

// longer are the scenarios that need more than the first page of the list: they make more than it holds, or find it
// empty and so have no mark where to stop.
var longer = []string{"no-key", "ten-at-once-ten-keys"}

// TestServers grades right and wrong servers, and states which scenarios each one breaks; the others must hold, but
// for those that cannot be tested.
func TestServers(t *testing.T) {
	for _, test := range []struct {
		name        string
		flaws       flaws
		broken      []string
		notTestable []string
	}{
		{name: "right, 409", flaws: flaws{}},
		{name: "right, waiting", flaws: flaws{wait: true}},
		{name: "right, with ids that are no numbers", flaws: flaws{list: "text ids"}},

		{name: "no idempotency", flaws: flaws{noRecords: true, keyOptional: true},
			broken: []string{"no-key", "same-key-twice", "other-quantity", "member-order", "ten-at-once-one-key",
				"once-more-afterwards"}},
		{name: "no idempotency, but a key is required", flaws: flaws{noRecords: true},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "ten-at-once-one-key",
				"once-more-afterwards"}},
		{name: "no key needed", flaws: flaws{keyOptional: true}, broken: []string{"no-key"}},
		{name: "check, then act", flaws: flaws{race: true}, broken: []string{"ten-at-once-one-key"}},
		{name: "the body taken for the key", flaws: flaws{keyIsBody: true},
			broken: []string{"other-quantity", "member-order", "ten-at-once-ten-keys"}},
		{name: "no marker, 409", flaws: flaws{unmarked: true},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "once-more-afterwards"}},
		{name: "no marker, waiting", flaws: flaws{unmarked: true, wait: true},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "ten-at-once-one-key",
				"once-more-afterwards"}},
		{name: "a marker on first answers", flaws: flaws{alwaysMarked: true},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "ten-at-once-one-key",
				"ten-at-once-ten-keys", "failure-then-same-key"},
			notTestable: []string{"once-more-afterwards"}},
		{name: "replays encoded again, 409", flaws: flaws{reencodes: true},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "once-more-afterwards"}},
		{name: "replays encoded again, waiting", flaws: flaws{reencodes: true, wait: true},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "ten-at-once-one-key",
				"once-more-afterwards"}},
		{name: "replays without Location", flaws: flaws{noLocation: true},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "once-more-afterwards"}},
		{name: "replays with 200", flaws: flaws{replayStatus: 200},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "once-more-afterwards"}},
		{name: "no fingerprint", flaws: flaws{noFingerprint: true}, broken: []string{"other-quantity"}},
		{name: "a fingerprint of the bytes", flaws: flaws{rawFingerprint: true}, broken: []string{"member-order"}},
		{name: "a mismatch damages the record", flaws: flaws{mismatchDamages: true},
			broken: []string{"other-quantity"}},
		{name: "stores failures", flaws: flaws{keepsFailures: true, noFingerprint: true},
			broken: []string{"other-quantity", "failure-then-same-key"}},
		{name: "keeps the key of a failure", flaws: flaws{keepsFailures: true},
			broken: []string{"failure-then-same-key"}},
		{name: "a failure leaves its reservation", flaws: flaws{failureLeaves: true},
			broken: []string{"failure-then-same-key"}},
		{name: "in progress for ever", flaws: flaws{neverCompletes: true},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "once-more-afterwards",
				"failure-then-same-key"}},
		{name: "409 without Retry-After", flaws: flaws{noRetryAfter: true}, broken: []string{"ten-at-once-one-key"}},
		{name: "failures in plain text", flaws: flaws{plainErrors: true},
			broken: []string{"no-key", "other-quantity", "ten-at-once-one-key", "failure-then-same-key"}},
		{name: "duplicates get a reset", flaws: flaws{resets: true}, broken: []string{"ten-at-once-one-key"}},
		{name: "acknowledged, but not kept", flaws: flaws{forgets: true},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "ten-at-once-one-key",
				"ten-at-once-ten-keys", "failure-then-same-key"},
			notTestable: []string{"no-key", "once-more-afterwards"}},
		{name: "a list that never changes", flaws: flaws{list: "never changes"},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "ten-at-once-one-key",
				"ten-at-once-ten-keys", "failure-then-same-key"},
			notTestable: []string{"no-key", "once-more-afterwards"}},

		{name: "a list that fails", flaws: flaws{list: "fails"}, notTestable: ids},
		{name: "a list that resets", flaws: flaws{list: "resets from the second on"}, notTestable: ids},
		{name: "a list for people", flaws: flaws{list: "is a page for people"}, notTestable: ids},
		{name: "a list that is too long", flaws: flaws{list: "is too long"}, notTestable: ids},
		{name: "a list without an end", flaws: flaws{list: "has no end"}, notTestable: []string{"no-key"}},
		{name: "a list that repeats a page", flaws: flaws{list: "repeats a page"}, notTestable: longer},
		{name: "a list on another server", flaws: flaws{list: "is elsewhere"}, notTestable: longer},
		{name: "a list without ids", flaws: flaws{list: "has no ids"}, notTestable: ids},
		{name: "a list without reservations", flaws: flaws{list: "has no reservations"}, notTestable: ids},
		{name: "no such API", flaws: flaws{status: 404}, notTestable: ids},
		{name: "no access", flaws: flaws{status: 401}, notTestable: ids},

		{name: "no idempotency, and a list that fails", flaws: flaws{noRecords: true, list: "fails"},
			broken: []string{"same-key-twice", "other-quantity", "member-order", "ten-at-once-one-key",
				"once-more-afterwards"},
			notTestable: []string{"no-key", "ten-at-once-ten-keys", "failure-then-same-key"}},
		{name: "fails always", flaws: flaws{status: 500},
			broken: []string{"no-key", "same-key-twice", "other-quantity", "member-order", "ten-at-once-one-key",
				"ten-at-once-ten-keys", "failure-then-same-key"},
			notTestable: []string{"once-more-afterwards"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			report := grade(t, &server{flaws: test.flaws}, nil)
			equal(t, "broken", withVerdict(report, conformance.Broken), test.broken)
			equal(t, "not testable", withVerdict(report, conformance.NotTestable), test.notTestable)
			if held := len(test.broken)+len(test.notTestable) == 0; report.Held() != held {
				t.Errorf("Held() = %v, want %v", report.Held(), held)
			}
			if report.Broken() != len(test.broken) {
				t.Errorf("Broken() = %d, want %d", report.Broken(), len(test.broken))
			}
			if t.Failed() {
				var table strings.Builder
				_ = report.WriteTable(&table, false)
				t.Log(table.String())
			}
		})
	}
}

// TestResults looks at every member of the results of a right server.
func TestResults(t *testing.T) {
	for _, wait := range []bool{false, true} {
		var told []conformance.Result
		report := grade(t, &server{flaws: flaws{wait: wait}}, &conformance.Options{
			Progress: func(r conformance.Result) { told = append(told, r) }})
		if !slices.Equal(told, report.Results) {
			t.Errorf("Progress was told %v, want the results", told)
		}
		burst := "1 × 201, 9 × 409; 1 created"
		if wait {
			burst = "1 × 201, 9 × 201 replayed; 1 created"
		}
		for i, want := range []struct {
			requests, created int
			got               string
		}{
			{1, 0, "400; 0 created"},
			{2, 1, "201, 201 replayed; 1 created"},
			{3, 1, "201, 422, 201 replayed; 1 created"},
			{2, 1, "201, 201 replayed; 1 created"},
			{10, 1, burst},
			{1, 0, "201 replayed; 0 created"},
			{10, 10, "10 × 201; 10 created"},
			{2, 1, "400, 201; 1 created"},
		} {
			r := report.Results[i]
			if r.ID != ids[i] || r.Requests != want.requests || r.Created != want.created || r.Got != want.got {
				t.Errorf("result %d = %+v, want %s with %+v", i, r, ids[i], want)
			}
			if r.Title == "" || !regexp.MustCompile(`^P[1-8]$`).MatchString(r.Promise) || r.Source == "" ||
				r.Expected == "" || !strings.Contains(r.Curl, "curl") {
				t.Errorf("result %d lacks a member: %+v", i, r)
			}
		}
	}
}

// TestBrokenSaysWhy checks what a person reads of a broken scenario.
func TestBrokenSaysWhy(t *testing.T) {
	for _, test := range []struct {
		flaws flaws
		id    string
		got   string // a regular expression
	}{
		{flaws{noRecords: true}, "same-key-twice",
			`^201, 201; 2 created — the second answer: not marked Idempotent-Replayed: true, ` +
				"other body: `{\"id\":3,.*`…, not `{\"id\":2,.*`…, " +
				`Location \["/reservations/3"\], not \["/reservations/2"\]; 2 created, not 1$`},
		{flaws{noRecords: true}, "ten-at-once-one-key",
			`^10 × 201; 10 created — the answers: 10 say that the request was executed, not 1; 10 created, not 1$`},
		{flaws{noRetryAfter: true}, "ten-at-once-one-key",
			`^1 × 201, 9 × 409; 1 created — some answers: 9 × Retry-After "" is neither seconds nor a date$`},
		{flaws{resets: true}, "ten-at-once-one-key",
			`^1 × 201, 9 × no answer \(.*reset.*\); 1 created — some answers: 9 × no answer$`},
		{flaws{plainErrors: true}, "no-key",
			`^400; 0 created — the answer: Content-Type "text/plain; charset=utf-8", not application/problem\+json$`},
		{flaws{keyOptional: true}, "no-key", `^201; 1 created — the answer: 201, not 400; the list: it was executed$`},
		{flaws{list: "fails"}, "same-key-twice", `^the list cannot be read: GET is answered 500 \("the list is out of order"\)$`},
		{flaws{status: 404}, "same-key-twice", `^POST is answered 404 .*: the server has another API`},
		{flaws{list: "never changes"}, "no-key", `^the list does not show a reservation that was made with a key`},
	} {
		report := grade(t, &server{flaws: test.flaws}, nil)
		r := report.Results[slices.Index(ids, test.id)]
		if !regexp.MustCompile(test.got).MatchString(r.Got) {
			t.Errorf("%s got\n%s\nwant a match of\n%s", test.id, r.Got, test.got)
		}
	}
}

// TestLongList: of a long list only what is newer than the run is read.
func TestLongList(t *testing.T) {
	s := &server{}
	for i := range 10_000 {
		s.rows = append(s.rows, row{ID: i + 1, ItemCode: "other"})
	}
	if report := grade(t, s, nil); !report.Held() {
		t.Errorf("broken: %v", withVerdict(report, conformance.Broken))
	}
	if s.pages > 40 {
		t.Errorf("%d pages were read", s.pages)
	}
}

func TestConcurrencyOption(t *testing.T) {
	report := grade(t, &server{flaws: flaws{noRecords: true}}, &conformance.Options{Concurrency: 3, Client: &http.Client{}})
	r := report.Results[4]
	if r.Requests != 3 || r.Created != 3 || !strings.HasPrefix(r.Title, "3 at once") {
		t.Errorf("got %+v, want 3 requests", r)
	}
}

func TestInvalid(t *testing.T) {
	for _, url := range []string{"", "localhost:8080", "/x", "ftp://localhost", "http://", "http://[", "http://h/?a=b",
		"http://h/#x"} {
		if _, err := conformance.Run(t.Context(), url, nil); !errors.Is(err, conformance.ErrInvalid) {
			t.Errorf("Run(%q) = %v, want ErrInvalid", url, err)
		}
	}
	for _, o := range []conformance.Options{{Timeout: -1}, {Concurrency: 1}, {Concurrency: -1}, {Concurrency: 501}} {
		if _, err := conformance.Run(t.Context(), "http://localhost", &o); !errors.Is(err, conformance.ErrInvalid) {
			t.Errorf("Run with %+v = %v, want ErrInvalid", o, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	_, err = conformance.Run(t.Context(), "http://"+listener.Addr().String(), nil)
	if !errors.Is(err, conformance.ErrUnreachable) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Run = %v, want ErrUnreachable with the reason", err)
	}
}

// TestSilent: a server that accepts connections and says nothing is unreachable after the timeout.
func TestSilent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // its backlog accepts; nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	o := conformance.Options{Timeout: 50 * time.Millisecond}
	_, err = conformance.Run(t.Context(), "http://"+listener.Addr().String(), &o)
	if !errors.Is(err, conformance.ErrUnreachable) || !strings.Contains(err.Error(), "nothing came within 50ms") {
		t.Errorf("Run = %v, want ErrUnreachable with the timeout", err)
	}
}

func TestStopped(t *testing.T) {
	s := httptest.NewServer((&server{}).handler())
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	o := conformance.Options{Progress: func(conformance.Result) { cancel() }}
	if report, err := conformance.Run(ctx, s.URL, &o); !errors.Is(err, context.Canceled) || report != nil {
		t.Errorf("Run = %v, %v, want context.Canceled and no report", report, err)
	}
	if _, err := conformance.Run(ctx, s.URL, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
}

// TestPathAndPassword: the base URL may have a path, and a password that no report repeats.
func TestPathAndPassword(t *testing.T) {
	inner := (&server{}).handler()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, _ := r.BasicAuth(); name != "taro" || password != "secret" {
			http.Error(w, "", http.StatusUnauthorized)
			return
		}
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/v1") // the list's next is absolute, without the prefix
		inner.ServeHTTP(w, r)
	}))
	defer s.Close()
	report, err := conformance.Run(t.Context(), strings.Replace(s.URL, "//", "//taro:secret@", 1)+"/v1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Held() || strings.Contains(report.URL+report.Results[0].Curl, "secret") {
		t.Errorf("got %+v", report)
	}
}

// grade runs the scenarios against s.
func grade(t *testing.T, s *server, o *conformance.Options) *conformance.Report {
	t.Helper()
	listening := httptest.NewServer(s.handler())
	defer listening.Close()
	report, err := conformance.Run(t.Context(), listening.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range report.Results {
		got = append(got, r.ID)
	}
	equal(t, "scenarios", got, ids)
	return report
}

func withVerdict(report *conformance.Report, v conformance.Verdict) []string {
	var got []string
	for _, r := range report.Results {
		if r.Verdict == v {
			got = append(got, r.ID)
		}
	}
	return got
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
