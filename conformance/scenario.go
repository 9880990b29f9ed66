package conformance

import (
	"context"
	"fmt"
)

// A Level is a group of scenarios.
type Level string

// The levels.
const (
	Core      Level = "core"      // what a key is for
	Robust    Level = "robust"    // bad networks, odd keys and large bodies, other users
	Published Level = "published" // what clients are told
	Crash     Level = "crash"     // the server is killed and started again under load
)

// Levels are all levels, in the order in which their scenarios run.
var Levels = []Level{Core, Robust, Published, Crash}

// A Text is in English and in Japanese.
type Text struct{ EN, JA string }

// In returns the text in a language, "en" or "ja".
func (t Text) In(lang string) string {
	if lang == "ja" {
		return t.JA
	}
	return t.EN
}

// A Scenario tells what is tested and who asks for it.
type Scenario struct {
	ID      string // names the scenario, in every version
	Level   Level
	Promise string // one of ichido's promises, "P1" to "P8", or "" for what is none of them
	// Source is a section of a specification, or "practice" where none says it.
	Source   string
	Title    Text
	Expected Text
}

// Scenarios returns what is known of each scenario, in the order in which they run. "At once" is 10 requests.
func Scenarios() []Scenario {
	var out []Scenario
	for _, s := range scenarios(defaultConcurrency) {
		out = append(out, Scenario{s.id, s.level, s.promise, s.source, s.title, s.expected})
	}
	return out
}

// A scenario is one thing to do to a server, and what should come of it.
type scenario struct {
	id              string
	level           Level
	promise, source string
	title, expected Text

	needs func(*runner) string // returns what the description or the options lack for it; nil needs nothing
	run   func(context.Context, *trial)

	uncounted bool // its verdict does not depend on effects
}

// scenarios returns all scenarios in the order in which they run; "at once" means n requests.
func scenarios(n int) []scenario {
	var all []scenario
	for level, group := range [][]scenario{coreScenarios(n), robustScenarios(), publishedScenarios(), crashScenarios()} {
		for _, s := range group {
			s.level = Levels[level]
			all = append(all, s)
		}
	}
	return all
}

func coreScenarios(n int) []scenario {
	return []scenario{{
		id: "no-key", promise: "P1", source: "draft-07 section 2.7",
		title: Text{"a request without a key is refused", "キーのないリクエストは拒否される"},
		expected: Text{"400; none created",
			"400。何も作られない"},
		run: noKey,
	}, {
		id: "same-key-twice", promise: "P3", source: "draft-07 section 2.6",
		title: Text{"sent twice, answered twice the same", "2 回送ると、2 回とも同じ応答"},
		expected: Text{"success, then the same status, body to the byte, Location and Content-Type, with the marker the second time only; 1 created",
			"成功、次に同じステータス、バイト単位で同じボディ、同じ Location と Content-Type。印は 2 回目だけ。1 件作られる"},
		run: sameKeyTwice,
	}, {
		id: "other-quantity", promise: "P4", source: "draft-07 section 2.7",
		title: Text{"another request under a used key is refused", "使用済みのキーで別のリクエストを送ると拒否される"},
		expected: Text{"success, then 422 for the other request, then a replay for the first; 1 created",
			"成功、別のリクエストには 422、最初のリクエストには再生。1 件作られる"},
		run: otherQuantity,
	}, {
		id: "mismatch-leaves-record", promise: "P4", source: "practice",
		title: Text{"refused requests do not damage the record", "拒否されたリクエストは記録を壊さない"},
		expected: Text{"success; then, after five other requests at once under its key, a replay; 1 created",
			"成功。同じキーで別のリクエストを同時に 5 件送った後も再生。1 件作られる"},
		run: mismatchLeavesRecord,
	}, {
		id: "member-order", promise: "P4", source: "RFC 8259 section 1",
		title: Text{"members in another order are the same request", "メンバーの順序が違っても同じリクエスト"},
		expected: Text{"success, then a replay of it; 1 created. A server that compares bytes (draft-07 section 2.4 lets it) refuses the second",
			"成功、次に再生。1 件作られる。バイト列を比較するサーバー（draft-07 2.4 節が認める）は 2 回目を拒否する"},
		run: memberOrder,
	}, {
		id: "ten-at-once-one-key", promise: "P1", source: "draft-07 section 2.6",
		title: Text{fmt.Sprintf("%d at once with one key take effect once", n), fmt.Sprintf("1 つのキーで同時に %d 件送っても 1 回だけ効果がある", n)},
		expected: Text{"one success; for every other a replay of it, or a conflict; 1 created",
			"成功は 1 件。ほかはその再生か競合。1 件作られる"},
		run: atOnceOneKey,
	}, {
		id: "once-more-afterwards", promise: "P3", source: "draft-07 section 2.6",
		title: Text{"the same once more afterwards is answered the same", "その後もう一度送っても同じ応答"},
		expected: Text{"a replay of the success; none created",
			"成功の再生。何も作られない"},
		run: onceMoreAfterwards,
	}, {
		id: "ten-at-once-ten-keys", promise: "P1", source: "draft-07 section 2.2",
		title: Text{fmt.Sprintf("%d at once with %d keys are %d operations", n, n, n), fmt.Sprintf("%d 個のキーで同時に %d 件送ると %d 件の操作になる", n, n, n)},
		expected: Text{fmt.Sprintf("success for each, none a replay; %d created", n),
			fmt.Sprintf("すべて成功し、再生はない。%d 件作られる", n)},
		run: atOnceOwnKeys,
	}, {
		id: "failure-then-same-key", promise: "P5", source: "practice",
		title: Text{"a failure leaves nothing, and the key is free", "失敗は何も残さず、キーは再び使える"},
		expected: Text{"a failure for the invalid request, then success, not a replay, for the correct one under the same key; 1 created",
			"不正なリクエストには失敗、同じキーの正しいリクエストには（再生でない）成功。1 件作られる"},
		needs: needInvalid, run: failureThenSameKey,
	}, {
		id: "in-progress", promise: "P1", source: "draft-07 section 2.6",
		title: Text{"a duplicate of a running request is told so", "実行中のリクエストの重複はそうと知らされる"},
		expected: Text{"409 while the first runs; each key creates 1",
			"最初のリクエストの実行中は 409。キーごとに 1 件作られる"},
		run: whileInProgress,
	}, {
		id: "mismatch-in-flight", promise: "P4", source: "draft-07 section 2.7",
		title: Text{"another request while the first runs is refused", "実行中に同じキーで送られた別のリクエストは拒否される"},
		expected: Text{"of two requests sent at once under one key, half of them each, one wins; the other gets 422; each key creates 1",
			"1 つのキーで 2 種類のリクエストを半数ずつ同時に送ると一方だけが実行され、他方は 422。キーごとに 1 件作られる"},
		run: mismatchInFlight,
	}, {
		id: "get-harmless", promise: "P1", source: "RFC 9110 section 9.2.1",
		title: Text{"a key on a GET has no effect", "GET に付けたキーは何もしない"},
		expected: Text{"200 for the GET, before and after the key is used for a request that succeeds; the second shows what was created; 1 created",
			"キーを使って成功する前も後も GET は 200。後の GET には作られたものが見える。1 件作られる"},
		needs: needGet, run: getHarmless,
	}, {
		id: "quoted-and-bare", promise: "P1", source: "practice",
		title: Text{"a key in quotes and the same bare are one key", "引用符付きのキーと引用符なしのキーは同じキー"},
		expected: Text{"success, then a replay in the other form; 1 created. A server may refuse one of the forms",
			"成功、もう一方の形では再生。1 件作られる。一方の形を拒否するサーバーもある"},
		run: quotedAndBare,
	}, {
		id: "two-field-lines", promise: "P1", source: "RFC 9651 section 4.2",
		title: Text{"two keys in one request are refused", "1 つのリクエストに 2 つのキーがあると拒否される"},
		expected: Text{"4xx; none created",
			"4xx。何も作られない"},
		run: twoFieldLines,
	}}
}

// needInvalid and its like say what a description lacks.
func needInvalid(r *runner) string {
	if r.api.Request.Invalid == "" {
		return "the description has no request.invalid"
	}
	return ""
}

func needGet(r *runner) string {
	if r.api.Effects.Get == "" {
		return "the description has no effects.get"
	}
	return ""
}
