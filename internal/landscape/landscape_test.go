package landscape

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/conformance"
)

var update = flag.Bool("update", false, "write docs/landscape.md")

// A subject is what is graded.
type subject struct {
	name, version string
	setup         conformance.Text // how its server was made
	api           conformance.API
	start         func(*testing.T) string
}

func subjects() []subject {
	ichido, _ := conformance.Preset("ichido")
	for _, name := range []string{"a", "b"} {
		ichido.Principals = append(ichido.Principals, conformance.Principal{Headers: map[string]string{"Authorization": "Bearer " + token(name)}})
	}
	return []subject{{
		name: "ichido serve", version: "(this one)", api: ichido, start: startIchido,
		setup: conformance.Text{EN: "the example of this repository, on SQLite", JA: "このリポジトリの例。SQLite"},
	}, {
		name: "gofiber/fiber `middleware/idempotency`", version: "v3.1.0", api: orders("X-Idempotency-Key"), start: startFiber,
		setup: conformance.Text{EN: "`app.Use(idempotency.New())`, its defaults; keys are optional",
			JA: "`app.Use(idempotency.New())`、既定の設定。キーは任意"},
	}, {
		name: "npm `express-idempotency`", version: "1.0.6", api: withMismatch(orders("Idempotency-Key"), "417"),
		start: func(t *testing.T) string { return startNode(t, "express-idempotency") },
		setup: conformance.Text{EN: "its defaults, on express 5.3.0; keys are optional; its code answers a mismatch with 417",
			JA: "既定の設定、express 5.3.0。キーは任意。不一致には 417 を返す作り"},
	}, {
		name: "npm `@node-idempotency/core`", version: "1.0.11", api: required(orders("Idempotency-Key")),
		start: func(t *testing.T) string { return startNode(t, "node-idempotency") },
		setup: conformance.Text{EN: "in memory, `enforceIdempotency`, on express 5.3.0; its errors as 400, 409 and 422, as in the draft",
			JA: "メモリ上、`enforceIdempotency`、express 5.3.0。エラーはドラフトどおり 400、409、422"},
	}}
}

// token returns a user's for ichido serve.
func token(name string) string { return strings.Repeat(name, 32) }

// orders describes the servers of this package.
func orders(header string) conformance.API {
	return conformance.API{
		Request: conformance.Request{
			Path:    "/orders",
			Headers: map[string]string{"Content-Type": "application/json"},
			Body:    `{"item":"{item}","quantity":{quantity}}`,
			Invalid: `{"item":"{item}","quantity":0}`,
			Flaky:   `{"item":"{item}","quantity":{quantity},"flaky":true}`,
		},
		Key:     conformance.Key{Header: header, Form: "bare", Optional: true},
		Effects: conformance.Effects{Get: "/orders", At: "/orders", Where: "/item", ID: "/id", Answer: "/id"},
		Principals: []conformance.Principal{
			{Headers: map[string]string{"Authorization": "Bearer a"}},
			{Headers: map[string]string{"Authorization": "Bearer b"}},
		},
	}
}

func withMismatch(a conformance.API, status string) conformance.API {
	a.Expect.Mismatch = conformance.Replies{status}
	return a
}

func required(a conformance.API) conformance.API {
	a.Key.Optional = false
	return a
}

// TestLandscape grades all subjects. The verdicts must be those in the document.
func TestLandscape(t *testing.T) {
	graded := subjects()
	urls := make([]string, len(graded))
	for i := range graded {
		urls[i] = graded[i].start(t)
		graded[i].api.Name = graded[i].name
	}
	// Some servers race with themselves, and seldom get away with it: the verdicts are those of the page if one run in
	// three has them.
	for run := 1; ; run++ {
		reports := grade(t, graded, urls)
		if *update {
			for file, document := range pages(graded, reports) {
				if err := os.WriteFile(file, []byte(document), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			return
		}
		var differ []string
		for file, document := range pages(graded, reports) {
			written, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := verdicts(document), verdicts(string(written)); got != want {
				differ = append(differ, fmt.Sprintf("the verdicts are\n%s\nwhere %s has\n%s", got, file, want))
			}
		}
		switch {
		case differ == nil:
			return
		case run == 3:
			t.Fatalf("%s\nRun the test with -update, and see why.", strings.Join(differ, "\n"))
		}
		t.Logf("run %d: %s", run, strings.Join(differ, "\n"))
	}
}

func grade(t *testing.T, graded []subject, urls []string) []*conformance.Report {
	reports := make([]*conformance.Report, len(graded))
	for i := range graded {
		report, err := conformance.Run(t.Context(), urls[i], &conformance.Options{API: &graded[i].api,
			Levels: []conformance.Level{conformance.Core, conformance.Robust, conformance.Published}})
		if err != nil {
			t.Fatalf("%s: %v", graded[i].name, err)
		}
		reports[i] = report
		if testing.Verbose() {
			_ = report.WriteTable(os.Stdout, false)
		}
	}
	return reports
}

// pages returns the page in each language, by its file.
func pages(graded []subject, reports []*conformance.Report) map[string]string {
	docs := filepath.Join("..", "..", "docs")
	return map[string]string{
		filepath.Join(docs, "landscape.md"):       page("en", graded, reports),
		filepath.Join(docs, "ja", "landscape.md"): page("ja", graded, reports),
	}
}

// verdicts returns the table of a page: what does not change from run to run.
func verdicts(document string) string {
	return strings.Join(regexp.MustCompile(`(?m)^\| .* \|$`).FindAllString(document, -1), "\n")
}

var marks = map[conformance.Verdict]string{conformance.Held: "✓", conformance.Differs: "≠", conformance.Broken: "✗", conformance.NotTestable: "?"}

// page writes the document in a language.
func page(lang string, graded []subject, reports []*conformance.Report) string {
	var out strings.Builder
	text := func(en, ja string) string { return conformance.Text{EN: en, JA: ja}.In(lang) }
	fmt.Fprintf(&out, "# %s\n\n%s\n\n", text("Landscape: what others do with keys", "ほかの実装のキーの扱い"),
		text("[日本語](ja/landscape.md)", "[English](../landscape.md)"))
	fmt.Fprintln(&out, text(intro, introJA))
	fmt.Fprintf(&out, "| | %s | %s |\n|---|---|---|\n", text("version", "バージョン"), text("server", "サーバー"))
	for i, s := range graded {
		fmt.Fprintf(&out, "| %d | %s %s | %s |\n", i+1, s.name, s.version, s.setup.In(lang))
	}
	fmt.Fprintf(&out, "\n## %s\n\n| |", text("Verdicts", "判定"))
	for i := range graded {
		fmt.Fprintf(&out, " %d |", i+1)
	}
	fmt.Fprintf(&out, "\n|---|%s\n", strings.Repeat("---|", len(graded)))
	titles := map[string]string{}
	for _, s := range conformance.Scenarios() {
		titles[s.ID] = s.Title.In(lang)
	}
	for row, result := range reports[0].Results {
		fmt.Fprintf(&out, "| %s (`%s`) |", titles[result.ID], result.ID)
		for _, report := range reports {
			fmt.Fprintf(&out, " %s |", marks[report.Results[row].Verdict])
		}
		fmt.Fprintln(&out)
	}
	fmt.Fprintf(&out, "| %s |", text("held, differs, broken, not testable", "合格、相違、違反、検証不能"))
	for _, r := range reports {
		fmt.Fprintf(&out, " %d, %d, %d, %d |", r.Count(conformance.Held), r.Count(conformance.Differs), r.Broken(), r.Count(conformance.NotTestable))
	}
	fmt.Fprintf(&out, "\n\n## %s\n\n%s\n", text("What came", "結果"), text(
		"Of the run that wrote this page; keys and ids are shortened.", "このページを生成したときの結果です（英語）。キーと ID は省略しています。"))
	for i, s := range graded {
		fmt.Fprintf(&out, "\n### %s %s\n\n", s.name, s.version)
		for _, r := range reports[i].Results {
			if r.Verdict != conformance.Held {
				fmt.Fprintf(&out, "- %s `%s` (%s): %s\n", marks[r.Verdict], r.ID, r.Source, shortened(r.Got))
			}
		}
	}
	return out.String()
}

var (
	runs = regexp.MustCompile(`verify-[0-9a-f]{8}-`)
	keys = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]{10}`)
	cell = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`)
)

// shortened leaves out what is other in every run.
func shortened(got string) string {
	return cell.Replace(keys.ReplaceAllString(runs.ReplaceAllString(got, "…-"), "…"))
}

const intro = `Middleware that keeps idempotency keys, graded by ` + "`ichido verify`" + ` on small servers that use it as its own
instructions say, with its defaults. Every server makes an order in 30 ms, lists the orders, and asks two users for
tokens in front of the middleware. A default is a choice: much of what is missing here can be added by whoever uses the
middleware. Made by

` + "```sh\ngo test ./internal/landscape -run TestLandscape -update\n```" + `

The servers are in [internal/landscape](https://github.com/ichido-dev/ichido/tree/main/internal/landscape). What each
scenario sends and who asks for it is in [verify.md](verify.md). ✓ held, ≠ differs by choice, ✗ broken, ? could not be seen
here. The level *crash* is not graded: those servers keep their keys in memory by default.
`

const introJA = `冪等キーを扱うミドルウェアを、それぞれの説明どおり既定の設定で使った小さなサーバーの上で ` + "`ichido verify`" + ` で採点した結果です。
どのサーバーも 30 ms で注文を作り、注文の一覧を返し、ミドルウェアの前で 2 人の利用者のトークンを確かめます。既定の設定は選択であり、ここで欠けているものの多くは利用者が補えます。次のコマンドで生成しました。

` + "```sh\ngo test ./internal/landscape -run TestLandscape -update\n```" + `

サーバーは [internal/landscape](https://github.com/ichido-dev/ichido/tree/main/internal/landscape) にあります。各シナリオの内容と根拠は
[verify.md](verify.md) にあります。✓ 合格、≠ 選択による相違、✗ 違反、? ここでは確認できない。*crash* は採点していません。これらのサーバーは既定でキーをメモリに置くためです。
`
