package main

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/problem"
	"github.com/ichido-dev/ichido/memstore"
)

// problems returns all that the API can answer with.
func (s *testServer) problems() []problemDoc {
	s.t.Helper()
	once, err := ichido.New(memstore.New(nil), ichido.Shared, &ichido.Config{ProblemBase: problemBase, Mode: ichido.LeaseMode})
	if err != nil {
		s.t.Fatal(err)
	}
	return problemDocs(once.KeyPolicy(), kinds)
}

// A problem of the library that has no text here fails this: it needs one in problem_text.go.
func TestEveryProblemIsDocumentedInBothLanguages(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{token: []string{"shop=0123456789abcdef"}}, nil)
	seen := make(map[string]bool)
	for _, d := range s.problems() {
		if seen[d.Code] {
			t.Errorf("%s is there twice", d.Code)
		}
		seen[d.Code] = true
		for lang, texts := range map[string][]string{
			"en": {d.title.EN, d.meaning.EN, d.action.EN, "What to do"},
			"ja": {d.title.JA, d.meaning.JA, d.action.JA, "クライアントがすること"},
		} {
			a := s.do("GET", problemBase+d.Code, "", "Accept-Language: "+lang)
			if a.status != 200 || a.header.Get("Content-Type") != "text/html; charset=utf-8" || a.header.Get("Content-Language") != lang {
				t.Errorf("%s: %d %v", d.Code, a.status, a.header)
			}
			for _, text := range append(texts, `<html lang="`+lang+`">`, "<code>"+d.Code+"</code>") {
				if text == "" || !strings.Contains(html.UnescapeString(a.body), text) {
					t.Errorf("%s in %s lacks %q", d.Code, lang, text)
				}
			}
		}
	}
	for _, k := range fakepayKinds { // whose pages are made of the same texts
		d := problemDoc{title: k.title, problemText: problemTexts[k.code]}
		seen[k.code] = true
		for _, text := range []problem.Text{d.title, d.meaning, d.action} {
			if text.EN == "" || text.JA == "" {
				t.Errorf("%s lacks a text: %+v", k.code, text)
			}
		}
	}
	if len(seen) != len(problemTexts) {
		t.Errorf("%d problems, %d texts", len(seen), len(problemTexts))
	}
}

func TestTitlesOfPagesAreThoseOfProblems(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{lang: "ja"}, nil)
	s.reserve("k", projector)
	for _, a := range []answer{
		s.do("POST", "/reservations", projector),
		s.reserve(`""`, projector),
		s.reserve("k", `{}`),
		s.reserve("large", strings.Repeat(" ", 2<<20)),
	} {
		match := regexp.MustCompile(`"type":"([^"]+)","title":"([^"]+)"`).FindStringSubmatch(a.body)
		if match == nil {
			t.Fatal(a.body)
		}
		if page := s.do("GET", match[1], ""); page.status != 200 || !strings.Contains(page.body, "<h1>"+match[2]+"</h1>") {
			t.Errorf("%s: %d %s", match[1], page.status, page.body)
		}
	}
}

func TestLanguageOfAPageCanBeChosen(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{}, nil)
	for _, path := range []string{"/problems/", "/problems/mismatch"} {
		for _, c := range []struct{ query, accept, want string }{
			{"", "", "en"}, {"", "ja", "ja"}, {"?lang=ja", "en", "ja"}, {"?lang=en", "ja", "en"}, {"?lang=fr", "ja", "ja"},
		} {
			a := s.do("GET", path+c.query, "", "Accept-Language: "+c.accept)
			if a.status != 200 || a.header.Get("Content-Language") != c.want || !strings.Contains(a.body, `<html lang="`+c.want+`">`) ||
				!strings.Contains(strings.Join(a.header.Values("Vary"), ","), "Accept-Language") {
				t.Errorf("%s%s, %q: %d %v", path, c.query, c.accept, a.status, a.header)
			}
		}
	}
}

func TestIndexLeadsToEveryProblem(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{}, nil)
	body := s.do("GET", "/problems/", "").body
	for _, d := range s.problems() {
		if !strings.Contains(body, `href="./`+d.Code+`?lang=en"`) {
			t.Errorf("%s is not listed", d.Code)
		}
	}
	a := s.do("GET", "/problems/nosuch", "")
	wantProblem(t, a, 404, "no-resource")
	wantProblem(t, s.do("GET", "/problems/mismatch/x", ""), 404, "no-resource")
	wantProblem(t, s.do("POST", "/problems/mismatch", ""), 405, "method-not-allowed")
}

// A page may load nothing: no script, no form, no other resource. Its own style is what the policy's hash is of.
func TestPagesLoadNothing(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{}, nil)
	for _, path := range []string{"/problems/", "/problems/mismatch"} {
		a := s.do("GET", path, "")
		policy := a.header.Get("Content-Security-Policy")
		style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(a.body)
		if style == nil {
			t.Fatal(a.body)
		}
		sum := sha256.Sum256([]byte(style[1]))
		if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
			t.Errorf("%s: policy %q", path, policy)
		}
		for _, loading := range []string{"<script", "<form", "<img", "<iframe", "src=", "style=", "http://", "https://", `rel="stylesheet"`, "url("} {
			if strings.Contains(a.body, loading) {
				t.Errorf("%s has %s", path, loading)
			}
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%v", a.header)
		}
	}
}
