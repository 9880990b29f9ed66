package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func publishedScenarios() []scenario {
	return []scenario{{
		id: "problem-documents", source: "RFC 9457 section 3",
		title: Text{"refusals are problem documents", "拒否の応答は問題文書（problem document）"},
		expected: Text{"application/problem+json, which says which problem it is, for a missing key and a mismatch",
			"キーがない場合と不一致の場合に、問題の種類を示す application/problem+json"},
		uncounted: true, run: problemDocuments,
	}, {
		id: "documentation-link", source: "draft-07 section 2.7",
		title: Text{"refusals link to documentation", "拒否の応答は説明へのリンクを持つ"},
		expected: Text{"a link for a missing key and for a mismatch; what is on the same server is there",
			"キーがない場合と不一致の場合にリンクがある。同じサーバー上のものは実在する"},
		uncounted: true, run: documentationLink,
	}, {
		id: "retry-after", source: "RFC 9110 section 10.2.3",
		title: Text{"a conflict says when to retry", "競合の応答は再試行の時期を示す"},
		expected: Text{"Retry-After, in seconds or a date, for a duplicate of a running request",
			"実行中のリクエストの重複に、秒数か日時の Retry-After"},
		uncounted: true, run: retryAfter,
	}, {
		id: "policy-document", source: "draft-07 section 2.5.2",
		title: Text{"the rules for keys are published", "キーの規則が公開されている"},
		expected: Text{"200 for the policy document, which says how long keys are kept",
			"キーの保持期間を述べた規則の文書に 200"},
		needs: func(r *runner) string {
			if r.api.Policy == "" {
				return "the description has no policy"
			}
			return ""
		},
		uncounted: true, run: policyDocument,
	}}
}

// refusals returns the answers to a missing key and to a mismatch, by what they are answers to, as far as they are
// refusals.
func (t *trial) refusals(ctx context.Context) map[string]answer {
	t.curl = t.script().once(t.body(), "") + "; echo; " + t.script().inTurn(t.body(), t.other())
	key := newKey()
	missing := t.post(ctx, t.body())
	first := t.post(ctx, t.body(), key)
	other := t.post(ctx, t.other(), key)
	if !t.served(first) {
		return nil
	}
	refused := map[string]answer{}
	if missing.refused() {
		refused["a missing key"] = missing
	}
	if other.refused() {
		refused["a mismatch"] = other
	}
	switch {
	case len(refused) == 0:
		t.blind(errors.New("the server refuses neither a missing key nor a mismatch"))
	case !missing.refused() && !slices.Contains(t.api.Expect.NoKey, execute):
		t.blind(fmt.Errorf("a missing key is answered %s, which is no refusal", missing))
	case !other.refused() && !slices.Contains(t.api.Expect.Mismatch, execute) && !slices.Contains(t.api.Expect.Mismatch, replay):
		t.blind(fmt.Errorf("a mismatch is answered %s, which is no refusal", other))
	}
	return refused
}

// lacks notes that something published is missing: a fault only if it is promised.
func (t *trial) lacks(promised bool, which, what string) {
	if promised {
		t.fault(which, []string{what})
		return
	}
	t.differ(which + ": " + what)
}

func problemDocuments(ctx context.Context, t *trial) {
	for which, a := range t.refusals(ctx) {
		which = "the answer to " + which
		if !a.problem() {
			t.lacks(t.api.Expect.Problems, which, fmt.Sprintf("Content-Type %q, not application/problem+json",
				a.header.Get("Content-Type")))
			continue
		}
		t.fault(which, a.problemFaults())
	}
	slices.Sort(t.faults)
	slices.Sort(t.notes)
}

func documentationLink(ctx context.Context, t *trial) {
	for which, a := range t.refusals(ctx) {
		which = "the answer to " + which
		link := a.documentation()
		if link == "" {
			t.lacks(t.api.Expect.Documentation, which, "no link to documentation")
			continue
		}
		address, err := follow(t.url, link)
		if err != nil {
			continue // on another server, which is not ours to call
		}
		if page := t.get(ctx, address); page.err != nil || page.status >= 400 {
			t.fault(which, []string{fmt.Sprintf("it links to %s, where there is %s", link, page)})
		}
	}
	slices.Sort(t.faults)
	slices.Sort(t.notes)
}

var helpLink = regexp.MustCompile(`<([^>]*)>[^,]*;\s*rel="?(describedby|help|service-doc|type)"?`)

// documentation returns the link of a refusal to what explains it, or "".
func (a answer) documentation() string {
	if link := helpLink.FindStringSubmatch(strings.Join(a.header.Values("Link"), ", ")); link != nil {
		return link[1]
	}
	for _, pointer := range []string{"/type", "/doc_url", "/error/doc_url", "/documentation_url", "/help", "/error/type"} {
		link := word(a.body, pointer)
		u, err := url.Parse(link)
		if err == nil && (u.Scheme == "https" || u.Scheme == "http" || u.Scheme == "" && strings.HasPrefix(link, "/")) {
			return link
		}
	}
	return ""
}

func retryAfter(ctx context.Context, t *trial) {
	t.curl = strings.ReplaceAll(t.script().atOnce(t.slow(), t.concurrency), "-o /dev/null -w '%{http_code}\\n'", "-o /dev/null -D -")
	m, ok := t.meet(ctx)
	switch {
	case !ok:
		t.blind(errNoMeeting)
	case m.executed > 1:
		t.blind(errors.New("duplicates are executed, and not refused"))
	case m.waited:
		t.differ("duplicates wait, and are not refused")
	case !slices.ContainsFunc(m.refused, answer.refused):
		t.blind(errors.New("duplicates have no answer that could say when to retry"))
	}
	for _, a := range m.refused {
		if !a.refused() {
			continue
		}
		hint := a.header.Get("Retry-After")
		_, number := strconv.ParseUint(hint, 10, 32)
		_, date := http.ParseTime(hint)
		switch {
		case hint == "":
			t.lacks(t.api.Expect.RetryAfter, "a conflict", "no Retry-After")
		case number != nil && date != nil:
			t.fault("a conflict", []string{fmt.Sprintf("Retry-After %q is neither seconds nor a date", hint)})
		}
		if len(t.faults) > 0 {
			break
		}
	}
}

var expiry = regexp.MustCompile(`(?i)retention|expir|\bttl\b|lifetime`)

func policyDocument(ctx context.Context, t *trial) {
	t.curl = t.script().get(t.api.Policy)
	a := t.get(ctx, t.address(t.api.Policy))
	switch {
	case a.err != nil:
		t.fault("the document", []string{"no answer"})
	case a.status != http.StatusOK:
		t.fault("the document", []string{fmt.Sprintf("%d, not 200", a.status)})
	case !expiry.Match(a.body):
		t.fault("the document", []string{"it does not say how long keys are kept"})
	}
	t.answers = append(t.answers, a)
}
