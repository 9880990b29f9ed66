package conformance

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

func robustScenarios() []scenario {
	once := Text{"success, or a replay of what the first request did; 1 created", "成功、または最初のリクエストの結果の再生。1 件作られる"}
	return []scenario{{
		id: "hang-up-mid-request", promise: "P1", source: "practice",
		title:    Text{"the client hangs up in the middle of the body, and retries", "ボディの途中で切断し、再送する"},
		expected: once, run: hangUpMidRequest,
	}, {
		id: "reset-after-send", promise: "P1", source: "practice",
		title:    Text{"the connection is reset after the request was sent, and the client retries", "送信後に接続がリセットされ、再送する"},
		expected: once, run: resetAfterSend,
	}, {
		id: "slow-body", promise: "P1", source: "practice",
		title: Text{"the request is sent again while its first body still comes slowly", "最初のボディがゆっくり届いている間に再送する"},
		expected: Text{"one success, and for the other a replay or a conflict; afterwards a replay; 1 created",
			"成功は 1 件、もう一方は再生か競合。その後は再生。1 件作られる"},
		run: slowBody,
	}, {
		id: "fifty-at-once", promise: "P1", source: "draft-07 section 2.6",
		title: Text{"50 at once with one key take effect once", "1 つのキーで同時に 50 件送っても 1 回だけ効果がある"},
		expected: Text{"one success; for every other a replay of it, or a conflict; 1 created",
			"成功は 1 件。ほかはその再生か競合。1 件作られる"},
		run: func(ctx context.Context, t *trial) { t.sendBurst(ctx, 50) },
	}, {
		id: "key-case", promise: "P1", source: "RFC 9651 section 3.3.3",
		title:    Text{"keys that differ in case are two keys", "大文字と小文字が違うキーは別のキー"},
		expected: Text{"success for both, neither a replay; 2 created", "両方とも成功し、再生ではない。2 件作られる"},
		run:      keyCase,
	}, {
		id: "key-255", promise: "P1", source: "practice",
		title: Text{"two keys of 255 characters that differ in the last", "最後の文字だけが違う 255 文字のキー 2 つ"},
		expected: Text{"success for both, neither a replay; 2 created. A server with shorter keys refuses both (4xx)",
			"両方とも成功し、再生ではない。2 件作られる。より短いキーのサーバーは両方とも拒否する（4xx）"},
		run: func(ctx context.Context, t *trial) { longKeys(ctx, t, 255, false) },
	}, {
		id: "key-256", promise: "P1", source: "RFC 9110 section 5.4",
		title: Text{"two keys of 256 characters that differ in the last", "最後の文字だけが違う 256 文字のキー 2 つ"},
		expected: Text{"4xx for both, none created; or success for both, 2 created; never cut to the same key",
			"両方とも 4xx で何も作られない、または両方とも成功で 2 件。切り詰められて同じキーになることはない"},
		run: func(ctx context.Context, t *trial) { longKeys(ctx, t, 256, true) },
	}, {
		id: "injection-keys", promise: "P8", source: "draft-07 section 5",
		title: Text{"keys that would be commands elsewhere are only keys", "ほかではコマンドになる文字列もただのキー"},
		expected: Text{"for each 4xx twice, or success and a replay; as many created as there were successes",
			"それぞれ 2 回とも 4xx、または成功と再生。成功の数だけ作られる"},
		run: injectionKeys,
	}, {
		id: "oversize-body", promise: "P1", source: "RFC 9110 section 15.5.14",
		title: Text{"a body of 2 MiB is refused, or treated as any other", "2 MiB のボディは拒否されるか、普通に扱われる"},
		expected: Text{"4xx, none created; or success and then a replay, 1 created",
			"4xx で何も作られない、または成功して次は再生、1 件作られる"},
		run: oversizeBody,
	}, {
		id: "binary-answer", promise: "P3", source: "practice",
		title:    Text{"a binary answer is replayed to the byte", "バイナリの応答もバイト単位で再生される"},
		expected: Text{"success, then the same bytes; 1 created", "成功、次に同じバイト列。1 件作られる"},
		needs: func(r *runner) string {
			if r.api.Request.Binary == "" {
				return "the description has no request.binary"
			}
			return ""
		},
		run: binaryAnswer,
	}, {
		id: "gzip-answer", promise: "P3", source: "RFC 9110 section 8.4",
		title: Text{"a compressed answer is replayed so that it can be read", "圧縮された応答も読める形で再生される"},
		expected: Text{"the replay says how it is encoded, and decodes to what came first; 1 created",
			"再生は符号化を示し、復号すると最初と同じ。1 件作られる"},
		run: gzipAnswer,
	}, {
		id: "header-fidelity", promise: "P3", source: "practice",
		title: Text{"a replay has the fields of the first answer", "再生には最初の応答のフィールドがある"},
		expected: Text{"the same fields in the same lines, but for those of a connection, a caller or a moment; 1 created",
			"接続・呼び出し元・時刻に属するものを除き、同じフィールドが同じ行で。1 件作られる"},
		run: headerFidelity,
	}, {
		id: "credentials-not-replayed", promise: "P8", source: "practice",
		title: Text{"a replay has no cookies of the first caller", "再生に最初の呼び出し元の Cookie はない"},
		expected: Text{"no Set-Cookie and the like with the value of the first answer; 1 created",
			"最初の応答と同じ値の Set-Cookie などはない。1 件作られる"},
		run: credentialsNotReplayed,
	}, {
		id: "other-principal", promise: "P8", source: "draft-07 section 5",
		title: Text{"another principal's key is another key", "別の利用者のキーは別のキー"},
		expected: Text{"success for both, neither a replay; 2 created",
			"両者とも成功し、再生ではない。2 件作られる"},
		needs: func(r *runner) string {
			if len(r.api.Principals) < 2 {
				return "the description has no two principals"
			}
			return ""
		},
		run: otherPrincipal,
	}, {
		id: "replay-needs-credentials", promise: "P8", source: "practice",
		title:    Text{"who may not send the request gets no replay", "送る権限のない者に再生は渡らない"},
		expected: Text{"success, then 401 or 403 without credentials; 1 created", "成功、認証なしでは 401 か 403。1 件作られる"},
		needs: func(r *runner) string {
			if len(r.api.Principals) < 1 {
				return "the description has no principals"
			}
			return ""
		},
		run: replayNeedsCredentials,
	}, {
		id: "server-error-then-retry", promise: "P5", source: "practice",
		title: Text{"a failure of the server may be retried", "サーバー側の失敗は再試行できる"},
		expected: Text{"5xx, then success, not a replay, for the same request; 1 created",
			"5xx、次に同じリクエストで（再生でない）成功。1 件作られる"},
		needs: func(r *runner) string {
			if r.api.Request.Flaky == "" {
				return "the description has no request.flaky"
			}
			return ""
		},
		run: serverErrorThenRetry,
	}}
}

// settle sends a request again until the answer is not that its key is in progress.
func (t *trial) settle(ctx context.Context, body, key string, within time.Duration) answer {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		a := t.send(ctx, t.message(body, key))
		if a.err == nil && !a.inProgress() || ctx.Err() != nil {
			return a
		}
		select {
		case <-ctx.Done():
			return a
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// inProgress reports whether the answer says that the key is in progress, or that the server cannot tell yet.
func (a answer) inProgress() bool {
	if a.marked {
		return false
	}
	switch a.status {
	case http.StatusConflict, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return a.api.Expect.InProgress.has(a.status)
}

// retried grades what came of a request whose first sending had no answer.
func (t *trial) retried(ctx context.Context, body, key string) {
	a := t.settle(ctx, body, key, t.timeout)
	t.answers = append(t.answers, a)
	if !t.served(a) {
		return
	}
	if a.inProgress() {
		t.fault("the retry", []string{fmt.Sprintf("still %d after %v: the key is stuck%s", a.status, t.timeout, a.detail())})
	} else if !a.success() {
		t.fault("the retry", []string{a.String() + ", not a success" + a.detail()})
	}
	t.count(ctx, 1)
}

func hangUpMidRequest(ctx context.Context, t *trial) {
	body, key := t.body(), newKey()
	t.curl = t.script().cut(body)
	m := t.message(body, key)
	m.client = t.breaking(nil)
	m.body = &halves{first: strings.NewReader(body[:len(body)/2]), between: func() { time.Sleep(untilRead) }}
	t.graded(ctx, m)
	t.retried(ctx, body, key)
}

func resetAfterSend(ctx context.Context, t *trial) {
	body, key := t.slow(), newKey()
	t.curl = t.script().hurried(body, 20)
	m := t.message(body, key)
	conn := &lastConn{reset: make(chan struct{})}
	m.client = t.breaking(conn)
	if lost := t.graded(conn.resetWhenSent(ctx), m); lost.err == nil {
		t.blind(fmt.Errorf("the answer, %s, was not lost, so nothing was retried", lost))
	}
	t.retried(ctx, body, key)
}

func slowBody(ctx context.Context, t *trial) {
	body, key := t.body(), newKey()
	t.curl = t.script().dribbled(body)
	slow := t.message(body, key)
	between, done := make(chan struct{}), make(chan struct{})
	slow.body = &halves{first: strings.NewReader(body[:len(body)/2]), rest: strings.NewReader(body[len(body)/2:]), between: func() {
		close(between)
		select {
		case <-done:
		case <-time.After(t.timeout / 4): // a server may let the second request wait for the first
		case <-ctx.Done():
		}
	}}
	var late answer
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		late = t.send(ctx, slow)
	}()
	select {
	case <-between:
	case <-finished: // the server did not wait for the body, or is gone
	}
	early := t.send(ctx, t.message(body, key))
	close(done)
	<-finished
	again := t.settle(ctx, body, key, t.timeout)
	t.answers = append(t.answers, late, early, again)
	if !t.served(early) { // a server that refuses before it has read the body may close the connection of the other
		return
	}
	executed := executions([]answer{late, early})
	if len(executed) != 1 {
		t.fault("the answers", []string{fmt.Sprintf("%d say that the request was executed, not 1", len(executed))})
	} else {
		for _, a := range []answer{late, early} {
			t.fault("an answer", a.loserFaults(executed[0]))
		}
		t.fault("the last answer", again.replayFaults(executed[0]))
	}
	t.count(ctx, 1)
}

func keyCase(ctx context.Context, t *trial) {
	const lower = "abcdefab-cdef-4abc-8def-ab" + fresh // a UUID
	patterns := []string{lower, strings.ToUpper(lower)}
	t.curl = t.script().keys(t.body(), patterns, false)
	keys := t.freshly(patterns)
	first, second := t.post(ctx, t.body(), keys[0]), t.post(ctx, t.body(), strings.ToUpper(keys[0]))
	if !t.served(first) {
		return
	}
	t.fault("the first answer", first.executionFaults())
	want := 2
	switch {
	case !first.executed():
	case second.refused():
		want = 1
		t.differ(fmt.Sprintf("the key in capitals is refused: %d%s", second.status, second.detail()))
	case second.sameAs(first) && t.api.Key.CaseInsensitive:
		want = 1
		t.differ("case does not count, as the description says")
	case second.sameAs(first):
		t.fault("the second answer", []string{"a replay: two operations were taken for one"})
	default:
		t.fault("the second answer", second.executionFaults())
	}
	t.count(ctx, want)
}

// fresh stands in the pattern of a key for something new: in a run for digits at random, and in a script for the seconds
// since 1970, which have as many.
const (
	fresh    = "{}"
	freshLen = 10
)

// freshly makes keys of patterns, with the same digits in all.
func (t *trial) freshly(patterns []string) []string {
	digits := fmt.Sprintf("%0*d", freshLen, rand.Int64N(1e10))
	keys := make([]string, len(patterns))
	for i, pattern := range patterns {
		keys[i] = strings.Replace(pattern, fresh, digits, 1)
	}
	return keys
}

// longKeys sends a request under two keys of n characters. That both are refused is what is asked for if mayRefuse, and
// else a choice.
func longKeys(ctx context.Context, t *trial, n int, mayRefuse bool) {
	if !t.control(ctx) {
		return
	}
	stem := newKey()
	stem += strings.Repeat("x", n-1-freshLen-len(stem)) + fresh
	patterns := []string{stem + "a", stem + "b"}
	t.curl = t.script().keys(t.body(), patterns, false)
	keys := t.freshly(patterns)
	first, second := t.post(ctx, t.body(), keys[0]), t.post(ctx, t.body(), keys[1])
	if !t.served(first, second) {
		return
	}
	if first.refused() && second.refused() {
		if !mayRefuse {
			t.differ(fmt.Sprintf("keys of %d characters are refused: %d%s", n, first.status, first.detail()))
		}
		t.count(ctx, 0)
		return
	}
	t.fault("the first answer", first.executionFaults())
	if second.sameAs(first) {
		t.fault("the second answer", []string{"a replay: the key was cut, and two operations were taken for one"})
	} else {
		t.fault("the second answer", second.executionFaults())
	}
	t.count(ctx, 2)
}

// injections are what keys are not made for.
var injections = []string{
	`' OR '1'='1 {}`, `'); DROP TABLE idempotency_keys;-- {}`, `{}" OR ""="`, `../../../etc/passwd#{}`, `%00{}%0d%0aX-Injected:1`,
	`${jndi:ldap://127.0.0.1/{}}`, `$(id){}`, `{"$gt":""}{}`, `*){}(uid=*`, `a:{}:b|c\d`, `__proto__{}`, `<script>{}</script>`,
}

func injectionKeys(ctx context.Context, t *trial) {
	if !t.control(ctx) {
		return
	}
	keys := t.freshly(injections)
	t.curl = t.script().keys(t.body(), injections, true)
	successes := 0
	for _, key := range keys {
		first, second := t.post(ctx, t.body(), key), t.post(ctx, t.body(), key)
		which := "the answers to the key " + key
		if first.header.Get("X-Injected") != "" {
			t.fault(which, []string{"the key became a field"})
		}
		switch {
		case first.refused() && second.refused():
			continue
		case !first.executed():
			t.fault(which, first.executionFaults())
		default:
			t.fault(which, second.replayFaults(first))
		}
		if first.success() {
			successes++
		}
	}
	t.count(ctx, successes)
}

func oversizeBody(ctx context.Context, t *trial) {
	if !t.control(ctx) {
		return
	}
	const size = 2 << 20
	pad := " "
	body := t.body()
	switch {
	case strings.HasPrefix(t.api.Request.Headers["Content-Type"], "application/x-www-form-urlencoded"):
		body, pad = body+"&padding=", "x"
	case !strings.HasPrefix(strings.TrimSpace(body), "{"):
		t.blind(errors.New("the body is neither JSON nor a form, so it cannot be made longer"))
		return
	}
	t.curl = t.script().padded(body, pad, size)
	body += strings.Repeat(pad, size)
	key := newKey()
	first := t.post(ctx, body, key)
	if !t.served(first) {
		return
	}
	want := 0
	switch {
	case first.partial || errors.Is(first.err, context.DeadlineExceeded):
		t.fault("the answer", []string{"there is none"})
	case first.err != nil:
		t.differ("the connection is closed while the body is sent, as RFC 9110 section 15.5.14 lets a server do")
	case first.refused():
	case first.executed():
		want = 1
		second := t.post(ctx, body, key)
		t.fault("the second answer", second.replayFaults(first))
	default:
		t.fault("the answer", []string{fmt.Sprintf("%s, neither 4xx nor a success%s", first, first.detail())})
	}
	t.count(ctx, want)
}

// replayed sends a request twice, and looks at the second answer if it is a replay. That it is one is not the question
// here.
func (t *trial) replayed(ctx context.Context, body string, look func(first, second answer)) {
	t.curl = t.script().inTurn(body, body)
	key := newKey()
	first, second := t.post(ctx, body, key), t.post(ctx, body, key)
	if !t.served(first) {
		return
	}
	t.fault("the first answer", first.executionFaults())
	if !first.executed() {
		t.count(ctx, 1)
		return
	}
	if !second.tellsOf(first) {
		t.blind(fmt.Errorf("the second answer, %s, is no replay that could be looked at%s", second, second.detail()))
		return
	}
	look(first, second)
	t.count(ctx, 1)
}

// tellsOf reports whether the answer looks like a replay of first, right or wrong.
func (a answer) tellsOf(first answer) bool {
	return a.err == nil && a.status < 400 && (a.marked || a.name() == first.name())
}

func binaryAnswer(ctx context.Context, t *trial) {
	body := fill(t.api.Request.Binary, t.item, 1)
	t.replayed(ctx, body, func(first, second answer) {
		if utf8.Valid(first.body) {
			t.blind(fmt.Errorf("the answer to request.binary is text: %s", excerpt(first.body, 0)))
			return
		}
		t.fault("the second answer", append(second.replayFaults(first), second.fieldFaults(first)...))
	})
}

func gzipAnswer(ctx context.Context, t *trial) {
	t.curl = t.script().inTurn(t.body(), t.body())
	t.curl = strings.Replace(t.curl, "curl -isS", "curl -isS --compressed -H 'Accept-Encoding: gzip'", 1)
	key := newKey()
	m := t.message(t.body(), key).with("Accept-Encoding", "gzip")
	first := t.graded(ctx, m)
	m.body = strings.NewReader(t.body())
	second := t.graded(ctx, m)
	m = t.message(t.body(), key).with("Accept-Encoding", "identity")
	third := t.graded(ctx, m)
	if !t.served(first) {
		return
	}
	t.fault("the first answer", first.executionFaults())
	if !first.executed() {
		t.count(ctx, 1)
		return
	}
	if first.header.Get("Content-Encoding") != "gzip" {
		t.blind(errors.New("the server does not compress its answers, although gzip was accepted"))
		return
	}
	want, err := decoded(first)
	if err != nil {
		t.fault("the first answer", []string{"it says gzip and is not: " + err.Error()})
	}
	if !second.tellsOf(first) {
		t.blind(fmt.Errorf("the second answer, %s, is no replay that could be looked at%s", second, second.detail()))
		return
	}
	for i, a := range []answer{second, third} {
		which := []string{"the second answer", "the answer to a client without gzip"}[i]
		got, err := decoded(a)
		switch {
		case a.err != nil || a.status != first.status:
			t.fault(which, a.replayFaults(first))
		case err != nil:
			t.fault(which, []string{"it cannot be decoded as its Content-Encoding says: " + err.Error()})
		case !bytes.Equal(got, want):
			t.fault(which, []string{"other body: " + difference(got, want)})
		case i == 1 && a.header.Get("Content-Encoding") == "gzip":
			t.differ("a client that does not accept gzip gets the replay in gzip, as it was stored")
		}
	}
	t.count(ctx, 1)
}

// decoded returns the body without its encoding.
func decoded(a answer) ([]byte, error) {
	if a.header.Get("Content-Encoding") != "gzip" {
		return a.body, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, maxBody))
}

// passing are fields that belong to a connection, a caller or a moment; prefixes end with *.
var passing = []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Trailer", "Upgrade", "Date", "Age", "Via",
	"Set-Cookie", "Www-Authenticate", "Proxy-Authenticate", "Authentication-Info", "Traceparent", "Tracestate", "Baggage",
	"X-Request-Id", "Request-Id", "X-Correlation-Id", "X-Amzn-Trace-Id", "X-B3-*", "Server-Timing", "X-Runtime",
	"X-Response-Time", "Alt-Svc", "Ratelimit*", "X-Ratelimit*", "Retry-After", "Cf-Ray"}

func isPassing(name string) bool {
	return slices.ContainsFunc(passing, func(p string) bool {
		stem, prefix := strings.CutSuffix(p, "*")
		return name == p || prefix && strings.HasPrefix(name, stem)
	})
}

func headerFidelity(ctx context.Context, t *trial) {
	t.replayed(ctx, t.body(), func(first, second answer) {
		ours := append([]string{t.api.Key.Marker}, markers...)
		var faults []string
		for name, want := range first.header {
			if got := second.header[name]; !isPassing(name) && !slices.Contains(ours, name) && !slices.Equal(got, want) {
				faults = append(faults, fmt.Sprintf("%s %q, not %q", name, got, want))
			}
		}
		for name, got := range second.header {
			if _, ok := first.header[name]; !ok && !isPassing(name) && !slices.Contains(ours, name) {
				t.differ(fmt.Sprintf("the replay has a field more, %s: %q", name, got))
			}
		}
		slices.Sort(faults)
		t.fault("the second answer", faults)
	})
}

// callers are the fields that belong to a caller.
var callers = []string{"Set-Cookie", "Www-Authenticate", "Proxy-Authenticate", "Authentication-Info", "Proxy-Authentication-Info"}

func credentialsNotReplayed(ctx context.Context, t *trial) {
	t.replayed(ctx, t.body(), func(first, second answer) {
		none := true
		for _, name := range callers {
			for _, value := range first.header[name] {
				none = false
				if slices.Contains(second.header[name], value) {
					t.fault("the second answer", []string{"it has the " + name + " of the first"})
				}
			}
		}
		if none {
			t.blind(errors.New("the server's answers have no cookies and the like, so nothing can be replayed of them"))
		}
	})
}

const readsAnothers = "gets the answer of the first: who guesses a key reads what is another's"

func otherPrincipal(ctx context.Context, t *trial) {
	t.curl = t.script().users(t.body(), 1)
	key := newKey()
	theirs := t.watch(ctx)
	first := t.post(ctx, t.body(), key)
	if !t.served(first) {
		return
	}
	theirs.look(ctx)
	second := t.graded(ctx, t.message(t.body(), key).as(t.runner, 1))
	if second.unserved() && !second.marked {
		t.blind(fmt.Errorf("the second principal is answered %d%s", second.status, second.detail()))
		return
	}
	t.fault("the first answer", first.executionFaults())
	want := 2
	switch reply := second.reply(&first); {
	case !first.executed():
	case reply == replay && !second.marked: // or one that looks the same, of an API whose ids begin anew with each user
		t.countOfBoth(ctx, want, theirs)
		if t.unseen == nil && t.created != want {
			t.fault("the second principal", []string{readsAnothers})
		}
		return
	case reply == replay:
		t.fault("the second principal", []string{readsAnothers})
	default:
		t.judge("the second principal", principalPoint, t.api.Expect.OtherPrincipal, reply, second)
		if reply != execute {
			want = 1
		}
	}
	t.countOfBoth(ctx, want, theirs)
}

// A watch is what the second principal sees of what the first one makes.
type watch struct {
	*runner // whose first principal is the second one
	item    string
	begin   mark
	shared  bool  // the two see the same: what the first one made is there
	err     error // why that is not known
}

func (t *trial) watch(ctx context.Context) *watch {
	second := *t.runner
	second.api.Principals = slices.Clone(t.api.Principals)
	slices.Reverse(second.api.Principals)
	w := &watch{runner: &second, item: t.item}
	w.begin, w.err = second.mark(ctx)
	return w
}

// look finds out what is shared, when the first principal has made something and the second one has not.
func (w *watch) look(ctx context.Context) {
	if w.err != nil || w.api.Effects.Get == "" {
		return
	}
	n, err := w.effects(ctx, w.item, w.begin)
	w.shared, w.err = n > 0, err
}

// countOfBoth counts what both principals made, who may see each other's or only their own.
func (t *trial) countOfBoth(ctx context.Context, want int, theirs *watch) {
	made, ok := t.made(ctx)
	if ok && made < want && t.api.Effects.Get != "" && len(t.faults) == 0 && !theirs.shared {
		more, err := 0, theirs.err
		if err == nil {
			more, err = theirs.effects(ctx, t.item, theirs.begin)
		}
		if err != nil {
			t.blind(err)
			return
		}
		made += more
	}
	if !ok {
		return
	}
	t.created = made
	if made != want {
		t.faults = append(t.faults, fmt.Sprintf("%d created, not %d", made, want))
	}
}

func replayNeedsCredentials(ctx context.Context, t *trial) {
	nobody := len(t.api.Principals)
	t.curl = t.script().users(t.body(), nobody)
	key := newKey()
	first := t.post(ctx, t.body(), key)
	second := t.graded(ctx, t.message(t.body(), key).as(t.runner, nobody))
	if !t.served(first) {
		return
	}
	t.fault("the first answer", first.executionFaults())
	switch {
	case !first.executed():
	case second.sameAs(first) && second.err == nil:
		t.fault("the answer without credentials", []string{"it is a replay"})
	case second.success():
		t.blind(errors.New("the server asks nobody for credentials"))
		return
	case second.err != nil || second.status != http.StatusUnauthorized && second.status != http.StatusForbidden:
		t.fault("the answer without credentials", []string{second.String() + ", not 401 or 403" + second.detail()})
	}
	t.count(ctx, 1)
}

func serverErrorThenRetry(ctx context.Context, t *trial) {
	body := fill(t.api.Request.Flaky, t.item, 1)
	t.curl = t.script().inTurn(body, body)
	key := newKey()
	first, second := t.post(ctx, body, key), t.post(ctx, body, key)
	if !t.served(first, second) {
		return
	}
	if first.err != nil || first.status < 500 {
		t.blind(fmt.Errorf("request.flaky is answered %s the first time, which is no failure of the server", first))
		return
	}
	reply := second.reply(&first)
	t.judge("the second answer", serverErrorPoint, t.api.Expect.ServerError, reply, second)
	want := 0
	if second.success() {
		want = 1
	}
	if len(t.faults) == 0 {
		t.count(ctx, want)
	}
}
