package main

import (
	"slices"
	"strings"
	"testing"
)

func TestProblemsSpeakTheClientsLanguage(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		db := open(t, location)
		en, ja := serveAPI(t, db, serveOptions{lang: "en"}, nil), serveAPI(t, db, serveOptions{lang: "ja"}, nil)
		en.reserve("used", projector)
		g := newGate()
		busy := serveAPI(t, db, serveOptions{lang: "ja"}, g)
		running := later(func() answer { return busy.reserve("running", projector) })
		g.awaitBegin(t)

		const accept = "Accept-Language: "
		for _, c := range []struct {
			answer answer
			title  string
		}{
			{en.do("POST", "/reservations", projector), "Idempotency-Key header is required"},
			{en.do("POST", "/reservations", projector, accept+"ja"), "Idempotency-Key ヘッダーが必要です"},
			{en.do("POST", "/reservations", projector, accept+"ja-JP,en;q=0.5"), "Idempotency-Key ヘッダーが必要です"},
			{en.do("POST", "/reservations", projector, accept+"fr"), "Idempotency-Key header is required"},
			{ja.do("POST", "/reservations", projector), "Idempotency-Key ヘッダーが必要です"},
			{ja.do("POST", "/reservations", projector, accept+"en"), "Idempotency-Key header is required"},
			{busy.reserve("running", projector), "同じキーのリクエストを処理中です"},
			{ja.reserve("used", `{"item_code":"x","quantity":1,"reserved_by":"taro"}`), "このキーは別の内容のリクエストで使われています"},
			{ja.do("GET", "/nowhere", ""), "このパスには何もありません"},
			{en.do("GET", "/nowhere", "", accept+"ja"), "このパスには何もありません"},
			{ja.reserve("k", `{"item_code":"x","quantity":0,"reserved_by":"taro"}`), "本文の項目が正しくありません"},
		} {
			if !strings.Contains(c.answer.body, `"title":"`+c.title+`"`) {
				t.Errorf("want the title %s, got %s", c.title, c.answer.body)
			}
		}
		g.open(t)
		receive(t, running, "the running request")
	})
}

func TestProblemsHaveDistinctTypesInBothLanguages(t *testing.T) {
	seen := make(map[string]bool)
	for _, k := range slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(kinds, fakepayKinds)), func(a, b *kind) int { return strings.Compare(a.code, b.code) })) {
		if seen[k.code] || k.title.EN == "" || k.title.JA == "" || (k.detail.EN == "") != (k.detail.JA == "") {
			t.Errorf("%+v is there twice, or lacks a language", k)
		}
		seen[k.code] = true
	}
}
