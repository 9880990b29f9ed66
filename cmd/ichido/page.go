package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/problem"
	"github.com/ichido-dev/ichido/js"
)

// The page at / is the office for people. It is rendered here, with a fresh key in its form, so that a form that is sent
// twice is one booking even where no script runs. With scripts, pages/office.js sends operations of js/ichido.js to the
// API, and reads what has changed from this page again.

var (
	//go:embed pages/office.html pages/notice.html pages/docs.html pages/parts.html
	pageFiles     embed.FS
	pageTemplates = template.Must(template.New("pages").Funcs(template.FuncMap{"fill": fill, "yen": yen}).ParseFS(pageFiles, "pages/*.html"))

	//go:embed pages/office.css
	officeStyle string
	//go:embed pages/office.js
	officeScript []byte
)

// officePolicy lets a page use what this server has, and nothing inline.
const officePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// pageFile is a file that the pages load, by its path. A browser asks each time whether it is the same, because it has to
// be that of the page.
func pageFile(contentType string, body []byte) document {
	d := newDocument(contentType, body)
	d.cache = "no-cache"
	return d
}

var pageFilesByPath = map[string]document{
	"/office.css": pageFile("text/css; charset=utf-8", []byte(pageStyle+officeStyle)),
	"/office.js":  pageFile("text/javascript; charset=utf-8", officeScript),
	"/ichido.js": pageFile("text/javascript; charset=utf-8", func() []byte {
		body, err := js.Files.ReadFile("ichido.js")
		if err != nil { // embedded: it is there
			panic(err)
		}
		return body
	}()),
}

// routePages adds the pages, and what they need. What books by the form runs under forms.
func (a *api) routePages(mux *http.ServeMux, forms *ichido.Manager) {
	demo := new(unprotected)
	mux.HandleFunc("GET /{$}", a.page)
	mux.Handle("POST /book", a.routeBook(forms))
	mux.HandleFunc("GET /docs", a.docs)
	mux.Handle("GET "+demoPath, a.authenticated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		listReservations(a.refuser, w, r, demo.list)
	})))
	mux.Handle("POST "+demoPath, a.authenticated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.createUnprotected(w, r, demo)
	})))
	for path, file := range pageFilesByPath {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			file.ServeHTTP(w, r)
		})
		mux.Handle(path, a.only(http.MethodGet, http.MethodHead))
	}
	mux.Handle("/{$}", a.only(http.MethodGet, http.MethodHead))
	mux.Handle("/docs", a.only(http.MethodGet, http.MethodHead))
	mux.Handle("/book", a.people.only(http.MethodPost))
	mux.Handle(demoPath, a.only(http.MethodGet, http.MethodHead, http.MethodPost))
}

// sendPage answers with a page that is made of a template.
func sendPage(w http.ResponseWriter, status int, lang, name string, data any) {
	var body bytes.Buffer
	if err := pageTemplates.ExecuteTemplate(&body, name, data); err != nil { // our own template and types: cannot fail
		panic(err)
	}
	pageHeader(w.Header(), lang, officePolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client has gone if this fails
}

// pageHeader sets what all pages have in common.
func pageHeader(h http.Header, lang, policy string) {
	h.Set("Content-Language", lang)
	h.Add("Vary", "Accept-Language")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}

// languageOf returns the language of ?lang=, or else the one that the client prefers.
func (f refuser) languageOf(r *http.Request) string {
	if lang := r.URL.Query().Get("lang"); lang == "en" || lang == "ja" {
		return lang
	}
	return problem.Language(r.Header.Get("Accept-Language"), f.language)
}

// A basePage is what all templates of pages know.
type basePage struct {
	Lang, Other string
	OtherURL    string // this page in the other language
	Words       map[string]string
}

func (f refuser) basePage(r *http.Request) basePage {
	p := basePage{Lang: f.languageOf(r), Words: make(map[string]string)}
	p.Other = map[string]string{"en": "ja", "ja": "en"}[p.Lang]
	query := r.URL.Query()
	query.Set("lang", p.Other)
	p.OtherURL = "?" + query.Encode()
	for name, text := range officeWords {
		p.Words[name] = text.In(p.Lang)
	}
	return p
}

// An officePage is what pages/office.html shows.
type officePage struct {
	basePage
	Script template.JS // the words of the script, as JSON

	AskToken, BadToken bool   // nothing is shown without a token
	Principal          string // the name of the token; "" where nobody is asked for one

	Key      string // of the next booking
	Filled   filledForm
	Items    []itemRow
	Booked   string // what was booked by the form before; "" if nothing was
	Bookings []bookingRow
	More     string // where the next bookings are; "" if these are all
}

// A filledForm is what the form of a booking has in it.
type filledForm struct{ ItemCode, Quantity, ReservedBy string }

type itemRow struct {
	Code, Name string
	Price      int64
	Chosen     bool
	Left       int64 // 0 if more is reserved than there is
	Short      int64 // by how much
}

type bookingRow struct {
	ID          int64
	Name        string // of the item, or its code if the office does not know it
	Quantity    int32
	At, AtShown string
}

// bookingsShown is how many bookings a page has.
const bookingsShown = 5

// page answers with the office.
func (a *api) page(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	p := officePage{basePage: a.basePage(r), Key: uuid(), Filled: filledForm{query.Get("item_code"), query.Get("quantity"), query.Get("reserved_by")}}
	p.Script = scriptWords(p.Lang)
	status := http.StatusOK
	// Going back shows the form with its key again, reloading it one with a new key.
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("Link", serviceDesc)
	if a.tokens.needed() {
		w.Header().Set("Cache-Control", "no-store") // what only the holder of the token may see
		w.Header().Add("Vary", "Authorization")
		secret, sent := bearer(r.Header)
		name, ok := a.tokens.principal(secret)
		p.Principal, p.AskToken, p.BadToken = name, !ok, sent && !ok
		if p.BadToken {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			status = http.StatusUnauthorized
		}
	}
	if !p.AskToken {
		if err := a.fill(r, &p); err != nil {
			a.people.failReading(w, r, err)
			return
		}
	}
	sendPage(w, status, p.Lang, "office.html", p)
}

// fill reads what the page shows.
func (a *api) fill(r *http.Request, p *officePage) error {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	items, err := a.office.items(ctx)
	if err != nil {
		return err
	}
	names := make(map[string]string)
	for _, i := range items {
		name := problem.Text{EN: i.NameEN, JA: i.NameJA}.In(p.Lang)
		names[i.Code] = name
		left := int64(i.Stock) - i.Reserved
		p.Items = append(p.Items, itemRow{i.Code, name, i.Price, i.Code == p.Filled.ItemCode, max(left, 0), max(-left, 0)})
	}
	show := func(e entry) bookingRow {
		name, ok := names[e.ItemCode]
		if !ok {
			name = e.ItemCode
		}
		return bookingRow{e.ID, name, e.Quantity, e.CreatedAt.Format("2006-01-02T15:04:05Z"), e.CreatedAt.Format("2006-01-02 15:04 UTC")}
	}
	query := r.URL.Query()
	if id, ok := parameter(query, "booked", 0, math.MaxInt64); ok && id > 0 {
		e, err := a.office.get(ctx, id)
		switch {
		case err == nil:
			row := show(e)
			p.Booked = fill(officeWords["Booked"].In(p.Lang), "item", row.Name, "n", row.Quantity, "id", row.ID)
		case !errors.Is(err, errNoEntry):
			return err
		}
	}
	by, before := p.Filled.ReservedBy, int64(math.MaxInt64)
	if n, ok := parameter(query, "cursor", before, before); ok {
		before = n
	}
	if by == "" || !isName(by) {
		return nil
	}
	entries, err := a.office.list(ctx, by, before, bookingsShown+1)
	if err != nil {
		return err
	}
	if len(entries) > bookingsShown {
		entries = entries[:bookingsShown]
		p.More = "/?" + url.Values{"lang": {p.Lang}, "reserved_by": {by}, "cursor": {strconv.FormatInt(entries[bookingsShown-1].ID, 10)}}.Encode()
	}
	for _, e := range entries {
		p.Bookings = append(p.Bookings, show(e))
	}
	return nil
}

// scriptWords returns the words that pages/office.js needs.
func scriptWords(lang string) template.JS {
	words := make(map[string]string)
	for name, text := range officeScriptWords {
		words[name] = text.In(lang)
	}
	words["booked"], words["no"] = officeWords["Booked"].In(lang), officeWords["No"].In(lang)
	out, err := json.Marshal(words) // which escapes <, > and &
	if err != nil {                 // strings: cannot fail
		panic(err)
	}
	return template.JS(out)
}

// A noticePage is what pages/notice.html shows: one problem, and what can be done.
type noticePage struct {
	basePage
	Title, Detail string
	About         string     // the page of the problem
	Again         string     // what to look at again; "" if it was no page
	Send          url.Values // the form to send again; nil if that does not help
	Action        string     // where it goes
	Back          string     // the form, filled in as it was
}

// notice answers with a problem as a page.
func (f refuser) notice(w http.ResponseWriter, r *http.Request, p problem.Problem) {
	n := noticePage{basePage: f.basePage(r), Title: p.Title, Detail: p.Detail}
	lang := url.Values{"lang": {n.Lang}}
	n.About, n.Action = p.Type+"?"+lang.Encode(), r.URL.Path+"?"+lang.Encode()
	if r.Method == http.MethodPost {
		n.OtherURL = "" // a form is not sent for another language
		if p.Retryable {
			n.Send = r.PostForm
		}
		for _, m := range reservationMembers {
			lang.Set(m.name, r.PostForm.Get(m.name))
		}
	} else {
		n.Again = r.URL.RequestURI()
	}
	n.Back = "/?" + lang.Encode()
	w.Header().Set("Cache-Control", "no-store")
	sendPage(w, p.Status, n.Lang, "notice.html", n)
}
