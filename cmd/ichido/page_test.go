package main

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/internal/problem"
)

// people are the paths that the document leaves out: those of the page, which are for browsers.
var people = []string{"/", "/book", "/docs", demoPath, "/office.css", "/office.js", "/ichido.js"}

// sendForm sends the page's form as a browser does, without following where it leads.
func (s *testServer) sendForm(key string, form url.Values, fields ...string) answer {
	s.t.Helper()
	form.Set("key", key)
	return s.do("POST", "/book?lang=en", form.Encode(), append([]string{"Content-Type: application/x-www-form-urlencoded"}, fields...)...)
}

func projectorForm() url.Values {
	return url.Values{"item_code": {"PJ-001"}, "quantity": {"2"}, "reserved_by": {"太郎 & Co"}}
}

var keyInForm = regexp.MustCompile(`name="key" value="([^"]+)"`)

func TestFormSentTwiceIsOneBooking(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		page, again := s.do("GET", "/?lang=en", ""), s.do("GET", "/?lang=en", "")
		key := keyInForm.FindStringSubmatch(page.body)
		if key == nil || key[1] == keyInForm.FindStringSubmatch(again.body)[1] {
			t.Fatalf("the key of a form is %q", key)
		}
		one := s.sendForm(key[1], projectorForm(), "Sec-Fetch-Site: same-origin")
		if one.status != 303 || one.header.Get("Idempotent-Replayed") != "" {
			t.Fatalf("%d %s", one.status, one.body)
		}
		two := s.sendForm(key[1], projectorForm())
		if two.status != 303 || two.header.Get("Location") != one.header.Get("Location") || two.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%d %v", two.status, two.header)
		}
		s.wantCount(1)
		shown := s.do("GET", one.header.Get("Location"), "")
		for _, want := range []string{"Booked: Projector × 2, no. 1.", "Projector × 2</span>", `value="太郎 &amp; Co"`, ">28 left<"} {
			if shown.status != 200 || !strings.Contains(shown.body, want) {
				t.Errorf("%d: the page lacks %q", shown.status, want)
			}
		}
		if other := s.sendForm("another", projectorForm()); other.header.Get("Location") == one.header.Get("Location") {
			t.Errorf("another form: %d %v", other.status, other.header)
		}
		s.wantCount(2)
	})
}

// A form and its duplicate, which comes while the first one runs, lead to the same page.
func TestFormWaitsForTheFirst(t *testing.T) {
	g := newGate()
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{inProgress: "reject"}, g)
	one := later(func() answer { return s.sendForm("k", projectorForm()) })
	g.awaitBegin(t)
	two := later(func() answer { return s.sendForm("k", projectorForm()) })
	g.open(t)
	a, b := receive(t, one, "the first answer"), receive(t, two, "the second answer")
	if a.status != 303 || b.status != 303 || a.header.Get("Location") != b.header.Get("Location") {
		t.Errorf("%d %v, %d %v", a.status, a.header, b.status, b.header)
	}
	s.wantCount(1)
}

func TestWhatIsWrongWithAFormIsSaidOnAPage(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		with := func(name, value string) url.Values {
			form := projectorForm()
			form.Set(name, value)
			return form
		}
		if a := s.sendForm("taken", projectorForm()); a.status != 303 {
			t.Fatal(a.status)
		}
		for _, c := range []struct {
			key     string
			form    url.Values
			fields  string
			status  int
			code    string
			content string
		}{
			{"", projectorForm(), "", 400, "key-required", ""},
			{"k", with("quantity", "0"), "", 400, "member-invalid", "greater than 0"},
			{"k", with("quantity", "1.5"), "", 400, "member-invalid", "integer"},
			{"k", with("quantity", ""), "", 400, "member-invalid", "integer"},
			{"k", with("reserved_by", " "), "", 400, "member-invalid", "empty"},
			{"k", with("reserved_by", "\xff"), "", 400, "member-invalid", "UTF-8"},
			{"k", with("reserved_by", "a\x00"), "", 400, "member-invalid", "U&#43;0000"},
			{"k", with("item_code", strings.Repeat("x", 201)), "", 400, "member-invalid", "200"},
			{"k", with("item_code", strings.Repeat("x", maxForm)), "", 400, "member-invalid", "cannot be read"},
			{"taken", with("quantity", "3"), "", 422, "mismatch", "reserved_by="},
			{"k", projectorForm(), "Sec-Fetch-Site: cross-site", 403, "other-origin", ""},
			{"k", projectorForm(), "Origin: https://evil.example", 403, "other-origin", ""},
		} {
			var fields []string
			if c.fields != "" {
				fields = []string{c.fields}
			}
			a := s.sendForm(c.key, c.form, fields...)
			if a.status != c.status || !strings.Contains(a.body, "/problems/"+c.code+"?lang=en") || !strings.Contains(a.body, c.content) ||
				a.header.Get("Content-Type") != "text/html; charset=utf-8" || a.header.Get("Content-Security-Policy") != officePolicy {
				t.Errorf("%s %v: %d %v\n%s", c.code, c.form, a.status, a.header, a.body)
			}
		}
		s.wantCount(1)
		if a := s.do("POST", "/book?lang=ja", "", "Accept-Language: en"); !strings.Contains(a.body, `<html lang="ja">`) || !strings.Contains(a.body, "<h1>Idempotency-Key ヘッダーが必要です</h1>") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// What may work later can be sent again from the page that says so, under the same key.
func TestFormCanBeSentAgain(t *testing.T) {
	g := newGate()
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{waitLimit: 1}, g)
	one := later(func() answer { return s.sendForm("k", projectorForm()) })
	g.awaitBegin(t)
	a := s.sendForm("k", projectorForm())
	g.open(t)
	receive(t, one, "the first answer")
	if a.status != 409 || !strings.Contains(a.body, "Send it again") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	form := make(url.Values)
	for _, input := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(a.body, -1) {
		form.Set(input[1], strings.ReplaceAll(input[2], "&amp;", "&"))
	}
	if again := s.sendForm(form.Get("key"), form); again.status != 303 || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%v: %d %s", form, again.status, again.body)
	}
	s.wantCount(1)
}

func TestPageOfAnOfficeThatIsDown(t *testing.T) {
	db := open(t, t.TempDir()+"/office.db")
	s := serveAPI(t, db, serveOptions{}, nil)
	db.shut()
	a := s.do("GET", "/?lang=ja", "")
	if a.status < 500 || a.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(a.body, `href="/?lang=ja"`) || strings.Contains(a.body, "sql") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}

func TestPageShowsNothingWithoutAToken(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{token: []string{"shop=0123456789abcdef"}}, nil)
	for fields, status := range map[string]int{"Accept: */*": 200, "Authorization: Bearer wrong": 401} {
		a := s.do("GET", "/?lang=en&reserved_by=taro", "", fields)
		if a.status != status || strings.Contains(a.body, "Projector") || !strings.Contains(a.body, `id="token"`) || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v %s", fields, a.status, a.header, a.body)
		}
	}
	a := s.do("GET", "/?lang=en", "", "Authorization: Bearer 0123456789abcdef")
	if a.status != 200 || !strings.Contains(a.body, "Projector") || !strings.Contains(a.body, `data-principal="shop"`) || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a := s.sendForm("k", projectorForm(), "Authorization: Bearer 0123456789abcdef"); a.status != 401 {
		t.Errorf("the form: %d %s", a.status, a.body)
	}
	wantProblem(t, s.do("POST", demoPath, projector, "Content-Type: application/json"), 401, "token-required")
	wantProblem(t, s.do("GET", demoPath, ""), 401, "token-required")
}

// The whole page has no more than 60,000 bytes, before compression.
func TestPageIsSmall(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{}, nil)
	for i := range bookingsShown + 1 {
		s.reserve(fmt.Sprint(i), projector)
	}
	for _, lang := range []string{"en", "ja"} {
		sum := 0
		for _, path := range []string{"/?reserved_by=taro&booked=1&lang=" + lang, "/office.css", "/office.js", "/ichido.js"} {
			a := s.do("GET", path, "")
			if a.status != 200 || a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %d %v", path, a.status, a.header)
			}
			sum += len(a.body)
		}
		if sum > 60_000 {
			t.Errorf("%s: %d bytes", lang, sum)
		}
		t.Logf("%s: %d bytes", lang, sum)
	}
}

func TestPageLoadsOnlyFromItsServer(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{}, nil)
	s.reserve("k", `{"item_code":"</script><script>alert(1)</script>","quantity":1,"reserved_by":"<b>"}`)
	for _, path := range []string{"/?booked=1&reserved_by=%3Cb%3E", "/docs"} {
		for _, lang := range []string{"en", "ja"} {
			a := s.do("GET", path, "", "Accept-Language: "+lang)
			if a.status != 200 || a.header.Get("Content-Security-Policy") != officePolicy || a.header.Get("Content-Language") != lang {
				t.Errorf("%s: %d %v", path, a.status, a.header)
			}
			for _, bad := range []string{"style=", "<style", "//cdn", "https://", "onclick", "javascript:", "<script>", "<b>", "{n}", "{item}", "<no value>", "ZgotmplZ"} {
				if body := strings.SplitAfter(a.body, "</head>")[1]; strings.Contains(body, bad) {
					t.Errorf("%s in %s has %s", path, lang, bad)
				}
			}
		}
	}
	if strings.Contains(officePolicy, "unsafe") {
		t.Error(officePolicy)
	}
}

func TestPageFilesAreAskedForAgain(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{}, nil)
	for path := range pageFilesByPath {
		a := s.do("GET", path, "")
		if again := s.do("GET", path, "", "If-None-Match: "+a.header.Get("ETag")); again.status != 304 || a.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d, %d %v", path, a.status, again.status, a.header)
		}
		wantProblem(t, s.do("POST", path, ""), 405, "method-not-allowed")
	}
	if a := s.do("GET", "/", ""); a.header.Get("Cache-Control") != "private, no-cache" { // no-store would give a form that comes back a new key
		t.Errorf("%v", a.header)
	}
	wantProblem(t, s.do("POST", "/", ""), 405, "method-not-allowed")
	wantProblem(t, s.do("DELETE", "/docs", ""), 405, "method-not-allowed")
	if a := s.do("GET", "/book", ""); a.status != 405 || a.header.Get("Allow") != "POST" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestWordsAreInBothLanguagesAndUsed(t *testing.T) {
	places := regexp.MustCompile(`\{\w+\}`)
	var templates strings.Builder
	for _, name := range []string{"office", "notice", "docs", "parts"} {
		source, err := pageFiles.ReadFile("pages/" + name + ".html")
		if err != nil {
			t.Fatal(err)
		}
		templates.Write(source)
	}
	check := func(words map[string]problem.Text, isUsed func(name string) bool) {
		for name, w := range words {
			en, ja := places.FindAllString(w.EN, -1), places.FindAllString(w.JA, -1)
			slices.Sort(en)
			slices.Sort(ja)
			if w.EN == "" || w.JA == "" || !slices.Equal(en, ja) {
				t.Errorf("%s: %+v", name, w)
			}
			if !isUsed(name) {
				t.Errorf("%s is not used", name)
			}
		}
	}
	check(officeWords, func(name string) bool {
		return name == "Booked" || regexp.MustCompile(`\.Words\.`+name+`\b`).MatchString(templates.String())
	})
	check(officeScriptWords, func(name string) bool {
		network, says := strings.CutPrefix(name, "says")
		return strings.Contains(string(officeScript), "'"+name+"'") || says && strings.Contains(templates.String(), `value="`+network+`"`) ||
			slices.Contains([]string{"sending", "queued", "offline"}, name) // states of ichido.js
	})
	for _, used := range regexp.MustCompile(`\.Words\.(\w+)`).FindAllStringSubmatch(templates.String(), -1) {
		if _, ok := officeWords[used[1]]; !ok {
			t.Errorf("there is no word %s", used[1])
		}
	}
	for _, used := range regexp.MustCompile(`(?:say|log|button|goOnButton)\('(\w+)'`).FindAllStringSubmatch(string(officeScript), -1) {
		if _, ok := officeScriptWords[used[1]]; !ok && used[1] != "booked" && used[1] != "no" {
			t.Errorf("the script has no word %s", used[1])
		}
	}
}

func TestDocsShowEveryOperation(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{token: []string{"shop=0123456789abcdef"}}, nil)
	en, ja := s.do("GET", "/docs?lang=en", ""), s.do("GET", "/docs?lang=ja", "")
	n := 0
	for path, item := range s.doc.Paths {
		for method := range item {
			n++
			heading := fmt.Sprintf("<code>%s %s</code></h2>", strings.ToUpper(method), path)
			if !strings.Contains(en.body, heading) || !strings.Contains(ja.body, heading) {
				t.Errorf("%s %s is not there", method, path)
			}
		}
	}
	if n != len(operationsJA) {
		t.Errorf("%d operations, %d texts", n, len(operationsJA))
	}
	for id, text := range operationsJA {
		if !strings.Contains(ja.body, `id="`+id+`"`) || !strings.Contains(ja.body, text) {
			t.Errorf("%s lacks %q", id, text)
		}
	}
	for _, want := range []string{"<code>Idempotency-Key</code> header, string, required", "<code>quantity</code> integer, required",
		`<a href="/problems/out-of-stock?lang=en">There is not enough of it left</a>`, "needs a token"} {
		if !strings.Contains(en.body, want) {
			t.Errorf("the docs lack %s", want)
		}
	}
}

// Without keys each request is a booking, in a ledger of its own.
func TestUnprotectedBooksEachTime(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{}, nil)
	send := func(body string) answer {
		return s.do("POST", demoPath, body, "Content-Type: application/json", "Idempotency-Key: k")
	}
	send(projector)
	wantCreated(t, send(projector), `{"id":2,"item_code":"PJ-001","quantity":1,"reserved_by":"taro"}`)
	send(strings.ReplaceAll(projector, "taro", "jiro"))
	s.wantCount(0)
	if ids, _ := readAll(t, s, demoPath+"?reserved_by=taro&limit=1"); fmt.Sprint(ids) != "[2 1]" {
		t.Errorf("%v", ids)
	}
	wantProblem(t, send(strings.ReplaceAll(projector, "1", "0")), 400, "member-invalid")
	wantProblem(t, s.do("POST", demoPath, projector, "Content-Type: text/plain"), 415, "media-type-unsupported")
	wantProblem(t, send(`{"item_code":"`+strings.Repeat("x", maxForm)+`"}`), 400, "not-json")
	u := new(unprotected)
	for range demoKept + 10 {
		u.insert(&fields{})
	}
	if len(u.entries) != demoKept || u.entries[0].ID != 11 {
		t.Errorf("%d entries are kept, from %d", len(u.entries), u.entries[0].ID)
	}
}
