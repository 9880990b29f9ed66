package conformance_test

import (
	"context"
	"errors"
	"io"
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

// idsOf returns the ids of the scenarios of some levels.
func idsOf(levels ...conformance.Level) []string {
	var ids []string
	for _, s := range conformance.Scenarios() {
		if slices.Contains(levels, s.Level) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// ids are the scenarios that there were first.
var ids = []string{"no-key", "same-key-twice", "other-quantity", "member-order", "ten-at-once-one-key",
	"once-more-afterwards", "ten-at-once-ten-keys", "failure-then-same-key"}

var (
	everything = idsOf(conformance.Levels...)
)

// but returns all scenarios but some.
func but(ids ...string) []string {
	return slices.DeleteFunc(slices.Clone(everything), func(id string) bool { return slices.Contains(ids, id) })
}

// TestServers grades right and wrong servers, and states which scenarios each one breaks, and in which it differs; the
// others must hold, but for those that cannot be tested.
func TestServers(t *testing.T) {
	for _, test := range []struct {
		name        string
		flaws       flaws
		broken      []string
		differs     []string
		notTestable []string
		sticky      bool // some requests are refused as long as they are sent again
	}{
		{name: "right, 409", flaws: flaws{}},
		{name: "right, waiting", flaws: flaws{wait: true}, differs: []string{"in-progress", "retry-after"}},
		{name: "right, with ids that are no numbers", flaws: flaws{list: "text ids"}},
		{name: "right, waiting, but too quick to see it", flaws: flaws{wait: true, quick: true},
			notTestable: []string{"in-progress", "retry-after"}},
		{name: "right, with pages that overlap", flaws: flaws{list: "overlaps"}},
		{name: "right, but keys must be quoted", flaws: flaws{quotedOnly: true}, differs: []string{"quoted-and-bare"}},
		{name: "right, but compresses what it stores", flaws: flaws{compressInside: true}, differs: []string{"gzip-answer"}},
		{name: "right, but cannot compare while one runs", flaws: flaws{lateFingerprint: true},
			differs: []string{"mismatch-in-flight"}},

		{name: "no idempotency", flaws: flaws{noRecords: true, keyOptional: true},
			broken: []string{"no-key", "same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"ten-at-once-one-key", "once-more-afterwards", "in-progress", "mismatch-in-flight", "quoted-and-bare",
				"reset-after-send", "slow-body", "fifty-at-once", "injection-keys", "crash-once", "crash-acknowledged"},
			notTestable: []string{"binary-answer", "gzip-answer", "header-fidelity", "credentials-not-replayed",
				"problem-documents", "documentation-link", "retry-after"}},
		{name: "no idempotency, but a key is required", flaws: flaws{noRecords: true},
			broken: []string{"same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"ten-at-once-one-key", "once-more-afterwards", "in-progress", "mismatch-in-flight", "quoted-and-bare",
				"reset-after-send", "slow-body", "fifty-at-once", "injection-keys", "crash-once", "crash-acknowledged"},
			notTestable: []string{"binary-answer", "gzip-answer", "header-fidelity", "credentials-not-replayed",
				"problem-documents", "documentation-link", "retry-after"}},
		{name: "no key needed", flaws: flaws{keyOptional: true}, broken: []string{"no-key"},
			notTestable: []string{"problem-documents", "documentation-link"}},
		{name: "check, then act", flaws: flaws{race: true},
			broken:      []string{"ten-at-once-one-key", "in-progress", "mismatch-in-flight", "fifty-at-once"},
			notTestable: []string{"retry-after"}},
		{name: "the body taken for the key", flaws: flaws{keyIsBody: true},
			broken: []string{"other-quantity", "member-order", "ten-at-once-ten-keys", "mismatch-in-flight",
				"key-case", "key-255", "injection-keys", "other-principal"},
			notTestable: []string{"mismatch-leaves-record", "problem-documents", "documentation-link"}},
		{name: "no marker, 409", flaws: flaws{unmarked: true},
			broken: []string{"same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"once-more-afterwards", "quoted-and-bare", "slow-body", "injection-keys", "binary-answer",
				"crash-acknowledged"}},
		{name: "a marker on first answers", flaws: flaws{alwaysMarked: true},
			broken: but("no-key", "once-more-afterwards", "in-progress", "two-field-lines", "hang-up-mid-request",
				"reset-after-send", "key-256", "oversize-body", "problem-documents", "documentation-link", "retry-after",
				"policy-document", "crash-once", "crash-acknowledged", "crash-no-limbo"),
			notTestable: []string{"once-more-afterwards"}},
		{name: "replays encoded again", flaws: flaws{reencodes: true},
			broken: []string{"same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"once-more-afterwards", "quoted-and-bare", "slow-body", "injection-keys", "gzip-answer", "header-fidelity",
				"crash-acknowledged"}},
		{name: "replays without Location", flaws: flaws{noLocation: true},
			broken: []string{"same-key-twice", "binary-answer", "header-fidelity"}},
		{name: "replays without other fields", flaws: flaws{noHeaders: true}, broken: []string{"header-fidelity"}},
		{name: "replays with 200", flaws: flaws{replayStatus: 200},
			broken: []string{"same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"once-more-afterwards", "quoted-and-bare", "reset-after-send", "slow-body", "injection-keys",
				"binary-answer", "gzip-answer", "crash-acknowledged"}},
		{name: "no fingerprint", flaws: flaws{noFingerprint: true},
			broken:      []string{"other-quantity"},
			differs:     []string{"mismatch-in-flight"},
			notTestable: []string{"mismatch-leaves-record", "problem-documents", "documentation-link"}},
		{name: "a fingerprint of the bytes", flaws: flaws{rawFingerprint: true}, differs: []string{"member-order"}},
		{name: "a mismatch damages the record", flaws: flaws{mismatchDamages: true},
			broken: []string{"other-quantity", "mismatch-leaves-record"}},
		{name: "stores failures, no fingerprint", flaws: flaws{keepsFailures: true, noFingerprint: true},
			broken:      []string{"other-quantity", "failure-then-same-key"},
			differs:     []string{"mismatch-in-flight"},
			notTestable: []string{"mismatch-leaves-record", "problem-documents", "documentation-link"}},
		{name: "keeps the key of a failure", flaws: flaws{keepsFailures: true}, differs: []string{"failure-then-same-key"}},
		{name: "stores 500s", flaws: flaws{keepsServerErrors: true}, broken: []string{"server-error-then-retry"}},
		{name: "a failure leaves its reservation", flaws: flaws{failureLeaves: true},
			broken: []string{"failure-then-same-key"}},
		{name: "in progress for ever", flaws: flaws{neverCompletes: true}, sticky: true,
			broken: []string{"same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"once-more-afterwards", "quoted-and-bare", "reset-after-send", "slow-body", "injection-keys",
				"server-error-then-retry", "crash-acknowledged"},
			differs:     []string{"failure-then-same-key"},
			notTestable: []string{"binary-answer", "gzip-answer", "header-fidelity", "credentials-not-replayed"}},
		{name: "409 without Retry-After", flaws: flaws{noRetryAfter: true}, broken: []string{"retry-after"}},
		{name: "409 with an odd Retry-After", flaws: flaws{oddRetryAfter: true}, broken: []string{"retry-after"}},
		{name: "failures in plain text", flaws: flaws{plainErrors: true},
			broken: []string{"problem-documents", "documentation-link"}},
		{name: "failures without links", flaws: flaws{noLinks: true}, broken: []string{"documentation-link"}},
		{name: "failures with dead links", flaws: flaws{deadLinks: true}, broken: []string{"documentation-link"}},
		{name: "a policy without retention", flaws: flaws{noPolicy: true}, broken: []string{"policy-document"}},
		{name: "duplicates get a reset", flaws: flaws{resets: true},
			broken:      []string{"ten-at-once-one-key", "in-progress", "fifty-at-once"},
			notTestable: []string{"retry-after"}},
		{name: "acknowledged, but not kept", flaws: flaws{forgets: true},
			broken: but("no-key", "once-more-afterwards", "two-field-lines", "key-256", "oversize-body",
				"problem-documents", "documentation-link", "retry-after", "policy-document", "crash-no-limbo"),
			notTestable: []string{"no-key", "once-more-afterwards", "two-field-lines"}},
		{name: "replays GET", flaws: flaws{getReplays: true}, broken: []string{"get-harmless"}},
		{name: "quoted and bare are two keys", flaws: flaws{formsDiffer: true},
			broken:  []string{"quoted-and-bare"},
			differs: []string{"key-255"}},
		{name: "takes the first of two keys", flaws: flaws{firstLine: true}, broken: []string{"two-field-lines"}},
		{name: "folds the case of keys", flaws: flaws{foldsCase: true}, broken: []string{"key-case"}},
		{name: "truncates keys to 64", flaws: flaws{cutsKeys: 64}, broken: []string{"key-255", "key-256"}},
		{name: "truncates keys to 255", flaws: flaws{cutsKeys: 255}, broken: []string{"key-256"}},
		{name: "global keys", flaws: flaws{globalKeys: true}, broken: []string{"other-principal"}},
		{name: "global keys, no marker", flaws: flaws{globalKeys: true, unmarked: true},
			broken: []string{"same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"once-more-afterwards", "quoted-and-bare", "slow-body", "injection-keys", "binary-answer",
				"other-principal", "crash-acknowledged"}},
		{name: "replays before it asks who", flaws: flaws{replayFirst: true}, broken: []string{"replay-needs-credentials"}},
		{name: "replays cookies", flaws: flaws{keepsCookies: true}, broken: []string{"credentials-not-replayed"}},
		{name: "loses the encoding", flaws: flaws{losesEncoding: true}, broken: []string{"gzip-answer"}},
		{name: "bodies stored as text", flaws: flaws{textBodies: true}, broken: []string{"binary-answer"}},
		{name: "forgets what a client that hung up did", flaws: flaws{hangsUpToo: true},
			broken: []string{"reset-after-send"}},
		{name: "claims before the body", flaws: flaws{claimsEarly: true}, sticky: true, broken: []string{"hang-up-mid-request"}},
		{name: "sticks after a crash", flaws: flaws{crashed: "sticks"}, sticky: true, broken: []string{"crash-no-limbo"}},
		{name: "forgets effects in a crash", flaws: flaws{crashed: "forgets effects"},
			broken: []string{"crash-once", "crash-acknowledged"}},
		{name: "forgets records in a crash", flaws: flaws{crashed: "forgets records"},
			broken: []string{"crash-once", "crash-acknowledged"}},
		{name: "a crash after the effect", flaws: flaws{crashed: "after the effect"}, broken: []string{"crash-once"}},

		{name: "a list that never changes", flaws: flaws{list: "never changes"},
			broken: but("no-key", "once-more-afterwards", "two-field-lines", "key-256", "oversize-body",
				"problem-documents", "documentation-link", "retry-after", "policy-document", "crash-no-limbo"),
			notTestable: []string{"no-key", "once-more-afterwards", "two-field-lines"}},
		{name: "a list that fails", flaws: flaws{list: "fails"},
			notTestable: but("problem-documents", "documentation-link", "retry-after", "policy-document")},
		{name: "a list that resets", flaws: flaws{list: "resets from the second on"},
			notTestable: but("problem-documents", "documentation-link", "retry-after", "policy-document")},
		{name: "a list for people", flaws: flaws{list: "is a page for people"},
			notTestable: but("problem-documents", "documentation-link", "retry-after", "policy-document")},
		{name: "a list that is too long", flaws: flaws{list: "is too long"},
			notTestable: but("problem-documents", "documentation-link", "retry-after", "policy-document")},
		{name: "a list without an end", flaws: flaws{list: "has no end"}, notTestable: []string{"no-key"}},
		{name: "a list that repeats a page", flaws: flaws{list: "repeats a page"},
			notTestable: but("problem-documents", "documentation-link", "retry-after", "policy-document")},
		{name: "a list on another server", flaws: flaws{list: "is elsewhere"},
			notTestable: but("problem-documents", "documentation-link", "retry-after", "policy-document")},
		{name: "a list without ids", flaws: flaws{list: "has no ids"},
			notTestable: but("problem-documents", "documentation-link", "retry-after", "policy-document")},
		{name: "a list without reservations", flaws: flaws{list: "has no reservations"},
			notTestable: but("problem-documents", "documentation-link", "retry-after", "policy-document")},
		{name: "no such API", flaws: flaws{status: 404}, notTestable: but("policy-document")},
		{name: "moved elsewhere", flaws: flaws{status: 301}, notTestable: but("policy-document")},
		{name: "no access", flaws: flaws{status: 401}, notTestable: but("policy-document")},
		{name: "no idempotency, and a list that fails", flaws: flaws{noRecords: true, list: "fails"},
			broken: []string{"same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"ten-at-once-one-key", "once-more-afterwards", "in-progress", "mismatch-in-flight", "quoted-and-bare",
				"slow-body", "fifty-at-once", "injection-keys"},
			notTestable: but("same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"ten-at-once-one-key", "once-more-afterwards", "in-progress", "mismatch-in-flight", "quoted-and-bare",
				"slow-body", "fifty-at-once", "injection-keys", "policy-document")},
		{name: "fails always", flaws: flaws{status: 500},
			broken: but("once-more-afterwards", "two-field-lines", "key-255", "key-256", "injection-keys",
				"oversize-body", "problem-documents", "documentation-link", "retry-after", "policy-document", "crash-once",
				"crash-acknowledged", "crash-no-limbo"),
			notTestable: []string{"once-more-afterwards", "two-field-lines", "key-255", "key-256", "injection-keys",
				"oversize-body", "problem-documents", "documentation-link", "retry-after", "crash-once",
				"crash-acknowledged", "crash-no-limbo"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := &server{flaws: test.flaws, auth: true}
			o := &conformance.Options{API: full(), Levels: conformance.Levels}
			if test.sticky {
				o.Timeout, o.Recovery = 2*time.Second, time.Second
			}
			report := grade(t, s, o)
			equal(t, "scenarios", idsIn(report), everything)
			equal(t, "broken", withVerdict(report, conformance.Broken), test.broken)
			equal(t, "differs", withVerdict(report, conformance.Differs), test.differs)
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
			Scenarios: ids, Progress: func(r conformance.Result) { told = append(told, r) }})
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
			`^201, 201; 2 created — the second answer: not marked Idempotent-Replayed, ` +
				"other body: `{\"id\":2,.*`…, not `{\"id\":1,.*`…, " +
				`Location \["/reservations/2"\], not \["/reservations/1"\]; 2 created, not 1$`},
		{flaws{noRecords: true}, "ten-at-once-one-key",
			`^10 × 201; 10 created — the answers: 10 say that the request was executed, not 1; 10 created, not 1$`},
		{flaws{noRetryAfter: true}, "retry-after", `^1 × 201, 9 × 409; not counted — a conflict: no Retry-After$`},
		{flaws{resets: true}, "ten-at-once-one-key",
			`^1 × 201, 9 × no answer \(.*reset.*\); 1 created — some answers: 9 × no answer$`},
		{flaws{plainErrors: true}, "problem-documents",
			`^400, 201, 422; not counted — the answer to a mismatch: Content-Type "text/plain; charset=utf-8", not application/problem\+json; `},
		{flaws{keyOptional: true}, "no-key", `^201; 1 created — the answer: execute, not 400; the list: it was executed$`},
		{flaws{list: "fails"}, "same-key-twice", `^the list cannot be read: GET is answered 500 \("the list is out of order"\)$`},
		{flaws{status: 404}, "same-key-twice", `^POST is answered 404 .*: the server has another API`},
		{flaws{list: "never changes"}, "no-key", `^the list does not show what was made with a key`},
	} {
		report := grade(t, &server{flaws: test.flaws}, &conformance.Options{Scenarios: []string{test.id}})
		r := report.Results[0]
		if !regexp.MustCompile(test.got).MatchString(r.Got) {
			t.Errorf("%s got\n%s\nwant a match of\n%s", test.id, r.Got, test.got)
		}
	}
}

// TestLevels: what runs by default, by level and by id.
func TestLevels(t *testing.T) {
	for _, test := range []struct {
		o    conformance.Options
		want []string
	}{
		{conformance.Options{}, idsOf(conformance.Core, conformance.Published)},
		{conformance.Options{Levels: []conformance.Level{conformance.Robust}}, idsOf(conformance.Robust)},
		{conformance.Options{Levels: []conformance.Level{conformance.Published}, Scenarios: []string{"key-case"}},
			append([]string{"key-case"}, idsOf(conformance.Published)...)},
		// It needs what another scenario leaves, and makes it itself.
		{conformance.Options{Scenarios: []string{"once-more-afterwards"}}, []string{"once-more-afterwards"}},
	} {
		report := grade(t, &server{}, &test.o)
		equal(t, "scenarios", idsIn(report), test.want)
		if report.Broken() > 0 {
			t.Errorf("%v are broken", withVerdict(report, conformance.Broken))
		}
	}
}

// TestScenarios: every one has what people read, in both languages, and a source; the ids are all different.
func TestScenarios(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range conformance.Scenarios() {
		if seen[s.ID] || !slices.Contains(conformance.Levels, s.Level) || s.Source == "" || s.Title.EN == "" || s.Expected.EN == "" ||
			s.Title.JA == s.Title.EN || s.Expected.JA == s.Expected.EN || s.Title.JA == "" || s.Expected.JA == "" {
			t.Errorf("%+v", s)
		}
		seen[s.ID] = true
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
	if s.pages > 100 {
		t.Errorf("%d pages were read", s.pages)
	}
}

func TestConcurrencyOption(t *testing.T) {
	report := grade(t, &server{flaws: flaws{noRecords: true}}, &conformance.Options{Concurrency: 3,
		Client: &http.Client{}, Scenarios: []string{"ten-at-once-one-key"}})
	r := report.Results[0]
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
	for _, o := range []conformance.Options{{Timeout: -1}, {Recovery: -1}, {Concurrency: 1}, {Concurrency: -1}, {Concurrency: 501},
		{Levels: []conformance.Level{"x"}}, {Scenarios: []string{"x"}}} {
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

// TestQuickAnswerIsLost: the answer of a server that is quicker than the reset does not reach the client either, or the
// scenario would hold although nothing was lost.
func TestQuickAnswerIsLost(t *testing.T) {
	s := httptest.NewTLSServer((&server{}).handler())
	defer s.Close()
	for _, url := range []string{s.URL, plainly(t)} {
		report, err := conformance.Run(t.Context(), url, &conformance.Options{Client: s.Client(), Scenarios: []string{"reset-after-send"}})
		if err != nil {
			t.Fatal(err)
		}
		if r := report.Results[0]; r.Verdict != conformance.Held || !strings.HasPrefix(r.Got, "no answer (") ||
			!strings.HasSuffix(r.Got, "201 replayed; 1 created") {
			t.Errorf("%s: %s", r.Verdict, r.Got)
		}
	}
}

func plainly(t *testing.T) string {
	s := httptest.NewServer((&server{}).handler())
	t.Cleanup(s.Close)
	return s.URL
}

// TestLies: a server that says success and does nothing, or says nothing at all, does not hold.
func TestLies(t *testing.T) {
	inner := (&server{}).handler()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.Header.Get("Idempotency-Key") == "":
			w.WriteHeader(http.StatusCreated)
		case r.ContentLength > 1<<20:
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	defer s.Close()
	api, _ := conformance.Preset("ichido")
	api.Key.Optional = true
	o := conformance.Options{API: &api, Scenarios: []string{"no-key", "oversize-body"}, Timeout: 3 * time.Second}
	report, err := conformance.Run(t.Context(), s.URL, &o)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"the list: 0 created, not 1", "the answer: there is none"} {
		if r := report.Results[i]; r.Verdict != conformance.Broken || !strings.Contains(r.Got, want) {
			t.Errorf("%s: %s: %s", r.ID, r.Verdict, r.Got)
		}
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

// grade runs scenarios against s, which can be killed if the server may crash.
func grade(t *testing.T, s *server, o *conformance.Options) *conformance.Report {
	t.Helper()
	listening := httptest.NewServer(s.handler())
	defer listening.Close()
	if o != nil && slices.Contains(o.Levels, conformance.Crash) {
		s.crash, s.dying = make(chan struct{}), make(chan struct{}, 1)
		o.Crash = s.kill
	}
	report, err := conformance.Run(t.Context(), listening.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func idsIn(report *conformance.Report) []string {
	var got []string
	for _, r := range report.Results {
		got = append(got, r.ID)
	}
	return got
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
