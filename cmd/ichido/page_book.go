package main

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/problem"
)

// bookConfig makes the Config of the page's form from that of reservations. The form carries its key itself, and whoever
// sends it twice looks at what the second one gets, so that one waits for the first one's answer.
func (a *api) bookConfig(c *ichido.Config) {
	c.KeyFrom = formKey
	c.InProgress = ichido.Wait
	c.WriteProblem = func(w http.ResponseWriter, r *http.Request, p ichido.Problem) {
		a.people.notice(w, r, problem.Problem(p))
	}
}

// formKey takes the key from a form that was parsed before.
func formKey(r *http.Request, _ []byte) (string, error) { return r.PostForm.Get("key"), nil }

const maxForm = 64 << 10 // bytes

// routeBook returns the handler of the page's form, for browsers that run no script. Other sites cannot send it.
func (a *api) routeBook(once *ichido.Manager) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.people.refuse(w, r, otherOrigin, problem.Text{})
	}))
	book := protection.Handler(once.Wrap(http.HandlerFunc(a.book)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Accept-Language", a.languageOf(r)) // that of the page, also for the library's problems
		if a.tokens.needed() {
			a.people.refuse(w, r, tokenRequired, formsHaveNoToken)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil { // the Manager takes fields where there is no body any more
			a.people.refuse(w, r, memberInvalid, text("The form cannot be read.", "フォームを読み取れません。"))
			return
		}
		book.ServeHTTP(w, r)
	})
}

var formsHaveNoToken = problem.Text{
	EN: "A form without a script cannot send one. Allow this page to run its script, or use the API.",
	JA: "スクリプトなしのフォームではトークンを送れません。このページのスクリプトを許可するか、API を使ってください。",
}

// book makes a reservation from a form, like create, and leads to the page that shows it.
func (a *api) book(w http.ResponseWriter, r *http.Request) {
	f, bad := formFields(r.PostForm, reservationMembers)
	if bad != nil {
		a.people.refuse(w, r, bad.kind, bad.detail)
		return
	}
	id, ok := a.reserve(a.people, w, r, f)
	if !ok {
		return
	}
	query := url.Values{"booked": {strconv.FormatInt(id, 10)}, "lang": {a.languageOf(r)}, "reserved_by": {f.texts["reserved_by"]}}
	w.Header().Set("Location", "/?"+query.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// formFields reads the members of a form by the rules of a body.
func formFields(form url.Values, members []member) (*fields, *badBody) {
	f := &fields{texts: make(map[string]string), numbers: make(map[string]int64)}
	for _, m := range members {
		value := jsontext.Value(strings.TrimSpace(form.Get(m.name)))
		if m.max == 0 {
			quoted, err := jsontext.AppendQuote(nil, form.Get(m.name))
			if err != nil {
				return nil, &badBody{memberInvalid, text(`"%s" is not valid UTF-8.`, `"%s" は UTF-8 ではありません。`, m.name)}
			}
			value = quoted
		}
		if err := f.set(m, value); err != nil {
			return nil, err.(*badBody)
		}
	}
	return f, nil
}
