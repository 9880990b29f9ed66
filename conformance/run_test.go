package conformance_test

import (
	"net/http/httptest"
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

var (
	core       = idsOf(conformance.Core)
	usual      = idsOf(conformance.Core, conformance.Published)
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
	}{
		{name: "right, 409", flaws: flaws{}},
		{name: "right, waiting", flaws: flaws{wait: true}, differs: []string{"in-progress", "retry-after"}},
		{name: "right, with ids that are no numbers", flaws: flaws{list: "text ids"}},
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
				"retry-after"}},
		{name: "no key needed", flaws: flaws{keyOptional: true}, broken: []string{"no-key"}},
		{name: "check, then act", flaws: flaws{race: true},
			broken:      []string{"ten-at-once-one-key", "in-progress", "mismatch-in-flight", "fifty-at-once"},
			notTestable: []string{"retry-after"}},
		{name: "the body taken for the key", flaws: flaws{keyIsBody: true},
			broken: []string{"other-quantity", "member-order", "ten-at-once-ten-keys", "mismatch-in-flight",
				"key-case", "key-255", "injection-keys", "other-principal"},
			notTestable: []string{"mismatch-leaves-record"}},
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
			broken: []string{"same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"once-more-afterwards", "quoted-and-bare", "slow-body", "injection-keys", "binary-answer",
				"header-fidelity", "crash-acknowledged"}},
		{name: "replays without other fields", flaws: flaws{noHeaders: true}, broken: []string{"header-fidelity"}},
		{name: "replays with 200", flaws: flaws{replayStatus: 200},
			broken: []string{"same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"once-more-afterwards", "quoted-and-bare", "reset-after-send", "slow-body", "injection-keys",
				"binary-answer", "gzip-answer", "crash-acknowledged"}},
		{name: "no fingerprint", flaws: flaws{noFingerprint: true},
			broken:      []string{"other-quantity"},
			differs:     []string{"mismatch-in-flight"},
			notTestable: []string{"mismatch-leaves-record"}},
		{name: "a fingerprint of the bytes", flaws: flaws{rawFingerprint: true}, differs: []string{"member-order"}},
		{name: "a mismatch damages the record", flaws: flaws{mismatchDamages: true},
			broken: []string{"other-quantity", "mismatch-leaves-record"}},
		{name: "stores failures, no fingerprint", flaws: flaws{keepsFailures: true, noFingerprint: true},
			broken:      []string{"other-quantity", "failure-then-same-key"},
			differs:     []string{"mismatch-in-flight"},
			notTestable: []string{"mismatch-leaves-record"}},
		{name: "keeps the key of a failure", flaws: flaws{keepsFailures: true}, differs: []string{"failure-then-same-key"}},
		{name: "stores 500s", flaws: flaws{keepsServerErrors: true}, broken: []string{"server-error-then-retry"}},
		{name: "a failure leaves its reservation", flaws: flaws{failureLeaves: true},
			broken: []string{"failure-then-same-key"}},
		{name: "in progress for ever", flaws: flaws{neverCompletes: true},
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
		{name: "replays before it asks who", flaws: flaws{replayFirst: true}, broken: []string{"replay-needs-credentials"}},
		{name: "replays cookies", flaws: flaws{keepsCookies: true}, broken: []string{"credentials-not-replayed"}},
		{name: "loses the encoding", flaws: flaws{losesEncoding: true}, broken: []string{"gzip-answer"}},
		{name: "bodies stored as text", flaws: flaws{textBodies: true}, broken: []string{"binary-answer"}},
		{name: "forgets what a client that hung up did", flaws: flaws{hangsUpToo: true},
			broken: []string{"reset-after-send"}},
		{name: "claims before the body", flaws: flaws{claimsEarly: true}, broken: []string{"hang-up-mid-request"}},
		{name: "sticks after a crash", flaws: flaws{crashed: "sticks"}, broken: []string{"crash-no-limbo"}},
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
		{name: "no access", flaws: flaws{status: 401}, notTestable: but("policy-document")},
		{name: "no idempotency, and a list that fails", flaws: flaws{noRecords: true, list: "fails"},
			broken: []string{"same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"ten-at-once-one-key", "once-more-afterwards", "in-progress", "mismatch-in-flight", "quoted-and-bare",
				"slow-body", "fifty-at-once", "injection-keys"},
			notTestable: but("same-key-twice", "other-quantity", "mismatch-leaves-record", "member-order",
				"ten-at-once-one-key", "once-more-afterwards", "in-progress", "mismatch-in-flight", "quoted-and-bare",
				"slow-body", "fifty-at-once", "injection-keys", "problem-documents", "documentation-link",
				"policy-document")},
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
			report := grade(t, s, &conformance.Options{API: full(), Levels: conformance.Levels, Timeout: 2 * time.Second, Recovery: time.Second})
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

var _ = core
var _ = usual
