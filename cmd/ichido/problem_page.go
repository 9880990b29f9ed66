package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"slices"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/problem"
)

// The types of problems are paths of the server itself. Here is what it answers there: for people, so in HTML.

var (
	//go:embed pages/style.css
	pageStyle string
	//go:embed pages/problem.html
	problemSource   string
	problemTemplate = template.Must(template.New("problem").Parse(problemSource))
)

// pagePolicy lets a page use its own style and nothing else. It has no scripts, forms or pictures.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// A problemDoc describes one type of problem, in both languages.
type problemDoc struct {
	Code       string
	Status     int
	Retryable  bool
	RetryAfter bool
	title      problem.Text
	problemText
}

// problemDocs describes all problems that an API has: the library's under the policy, then its own kinds, by status.
func problemDocs(policy ichido.KeyPolicy, kinds []*kind) []problemDoc {
	var docs []problemDoc
	for _, rules := range policy.Problems {
		d := problemDoc{Code: rules.Code, Status: rules.Status, Retryable: rules.Retryable, RetryAfter: rules.RetryAfter,
			title:       problem.Text{EN: rules.Title, JA: libraryTitles[rules.Code]},
			problemText: problemTexts[rules.Code]}
		if d.meaning.EN == "" {
			d.meaning.EN = cmp.Or(rules.Detail, rules.Title)
		}
		docs = append(docs, d)
	}
	for _, k := range kinds {
		docs = append(docs, problemDoc{Code: k.code, Status: k.status, Retryable: k.retryable, RetryAfter: k.retryAfter != "",
			title: k.title, problemText: problemTexts[k.code]})
	}
	slices.SortStableFunc(docs, func(a, b problemDoc) int { return cmp.Compare(a.Status, b.Status) })
	return docs
}

// A problemPage is what the template shows: one problem, or with Rows the list of all.
type problemPage struct {
	Lang, Other             string
	Words                   map[string]string
	Style                   template.CSS
	Title, Code, StatusText string
	Status                  int
	Retryable, RetryAfter   bool
	Office                  bool
	Meaning, Action         string
	Rows                    []problemRow
}

type problemRow struct {
	Code, Title string
	Status      int
	Retryable   bool
}

// problemPages are the pages by language and code; that of all problems has no code.
type problemPages map[[2]string]document

// newProblemPages makes the pages. office says that the server has an office and its API, to which they lead.
func newProblemPages(docs []problemDoc, office bool) problemPages {
	pages := make(problemPages)
	for _, lang := range []string{"en", "ja"} {
		words := make(map[string]string)
		for name, text := range pageWords {
			words[name] = text.In(lang)
		}
		all := problemPage{Lang: lang, Other: map[string]string{"en": "ja", "ja": "en"}[lang], Words: words,
			Style: template.CSS(pageStyle), Title: words["All"], Office: office}
		for _, d := range docs {
			p := all
			p.Title, p.Code, p.Status, p.StatusText = d.title.In(lang), d.Code, d.Status, http.StatusText(d.Status)
			p.Retryable, p.RetryAfter, p.Meaning, p.Action = d.Retryable, d.RetryAfter, d.meaning.In(lang), d.action.In(lang)
			pages[[2]string{lang, d.Code}] = p.render()
			all.Rows = append(all.Rows, problemRow{d.Code, p.Title, d.Status, d.Retryable})
		}
		pages[[2]string{lang, ""}] = all.render()
	}
	return pages
}

func (p problemPage) render() document {
	var body bytes.Buffer
	if err := problemTemplate.Execute(&body, p); err != nil { // our own template and types: cannot fail
		panic(err)
	}
	return newDocument("text/html; charset=utf-8", body.Bytes())
}

// problem answers with the page of a problem, or of all, in the language of ?lang= or of the client.
func (f refuser) problem(w http.ResponseWriter, r *http.Request) {
	lang := f.languageOf(r)
	page, ok := f.pages[[2]string{lang, r.PathValue("name")}]
	if !ok {
		f.refuse(w, r, noResource, text("There is no problem of this name; /problems/ lists all.", "この名前のエラーはありません。一覧は /problems/ にあります。"))
		return
	}
	pageHeader(w.Header(), lang, pagePolicy)
	page.ServeHTTP(w, r)
}
