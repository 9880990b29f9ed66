package conformance

import (
	_ "embed"
	"html/template"
	"io"
	"time"
)

//go:embed report.html
var pageText string

var pageTemplate = template.Must(template.New("report").Parse(pageText))

// words are the fixed texts of the page.
var words = map[string]Text{
	"title":               {"Idempotency keys, graded", "冪等キーの採点結果"},
	"broken":              {"broken", "違反"},
	"held":                {"held", "合格"},
	"differs":             {"differs by choice", "選択による相違"},
	"not-testable":        {"not testable here", "ここでは検証不能"},
	"source":              {"asked for by", "根拠"},
	"expected":            {"expected", "期待"},
	"got":                 {"came", "結果"},
	"try":                 {"try it", "再現"},
	"requests":            {"requests", "リクエスト"},
	"created":             {"created", "作成"},
	"practice":            {"practice", "実務"},
	string(Core):          {"core: what a key is for", "core: キーの本来の役割"},
	string(Robust):        {"robust: bad networks, odd keys and large bodies, other users", "robust: 不安定な回線、変わったキー、大きなボディ、ほかの利用者"},
	string(Published):     {"published: what clients are told", "published: クライアントへの情報"},
	string(Crash):         {"crash: killed and started again under load", "crash: 負荷の中での強制終了と再起動"},
	"not-testable-legend": {"What could not be seen is neither right nor wrong.", "確認できなかったものは、正しいとも誤りとも言えません。"},
}

type htmlPage struct {
	Lang   string
	Report *Report
	When   string
	Took   string
	Counts []htmlCount
	Levels []htmlLevel
}

type htmlCount struct {
	Verdict Verdict
	Word    string
	N       int
}

type htmlLevel struct {
	Title string
	Rows  []htmlRow
}

type htmlRow struct {
	Result
	Word, Got, Curl string
	Uncounted       bool
}

// Word returns a fixed text in the language of the page.
func (p htmlPage) Word(name string) string { return words[name].In(p.Lang) }

// WriteHTML writes the report as one HTML file that needs no other, in "en" or "ja". What came is in English in both.
func (r *Report) WriteHTML(w io.Writer, lang string) error {
	p := htmlPage{Lang: "en", Report: r, When: r.Started.UTC().Format("2006-01-02 15:04 UTC"),
		Took: (time.Duration(r.DurationMS) * time.Millisecond).String()}
	if lang == "ja" {
		p.Lang = lang
	}
	for _, v := range []Verdict{Held, Differs, Broken, NotTestable} {
		p.Counts = append(p.Counts, htmlCount{v, p.Word(string(v)), r.Count(v)})
	}
	known := map[string]Scenario{}
	for _, s := range Scenarios() {
		known[s.ID] = s
	}
	for _, level := range Levels {
		group := htmlLevel{Title: p.Word(string(level))}
		for _, result := range r.Results {
			if result.Level != level {
				continue
			}
			row := htmlRow{Result: result, Word: p.Word(string(result.Verdict)), Got: printable(result.Got),
				Curl: printable(result.Curl), Uncounted: result.Created < 0}
			if s, ok := known[result.ID]; ok && p.Lang != "en" {
				row.Title, row.Expected = s.Title.In(p.Lang), s.Expected.In(p.Lang)
			}
			if result.Source == "practice" {
				row.Source = p.Word("practice")
			}
			group.Rows = append(group.Rows, row)
		}
		if group.Rows != nil {
			p.Levels = append(p.Levels, group)
		}
	}
	return pageTemplate.Execute(w, p)
}
