package conformance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/conformance"
)

// lists serves the reservations of s in the ways of other APIs, three on a page.
func (s *server) lists() http.Handler {
	write := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	mux := http.NewServeMux()
	mux.Handle("/", s.handler())
	number := func(r *http.Request, name string) (n int) {
		_, _ = fmt.Sscan(r.FormValue(name), &n)
		return n
	}
	page := func(from int) ([]row, int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		rest := slices.Clone(s.rows[min(from, len(s.rows)):])
		return rest[:min(perPage, len(rest))], from
	}
	mux.HandleFunc("GET /count/{item}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := len(slices.DeleteFunc(slices.Clone(s.rows), func(in row) bool { return in.ItemCode != r.PathValue("item") }))
		write(w, map[string]any{"meta": map[string]any{"total": n}})
	})
	mux.HandleFunc("GET /total", func(w http.ResponseWriter, _ *http.Request) { write(w, s.made()) })
	mux.HandleFunc("GET /link", func(w http.ResponseWriter, r *http.Request) {
		rows, from := page(number(r, "from"))
		if len(rows) == perPage {
			w.Header().Set("Link", fmt.Sprintf(`</x>; rel="prev", </link?from=%d>; rel="next"`, from+perPage))
		}
		write(w, rows)
	})
	mux.HandleFunc("GET /after", func(w http.ResponseWriter, r *http.Request) {
		rows, _ := page(number(r, "starting_after")) // ids are from 1
		write(w, map[string]any{"data": rows})
	})
	mux.HandleFunc("GET /pages", func(w http.ResponseWriter, r *http.Request) {
		rows, _ := page(max(0, number(r, "page")-1) * perPage)
		write(w, map[string]any{"a/b": map[string]any{"rows": rows}})
	})
	return mux
}

// TestEffects counts in all ways that a description knows. Each must see what is there, and must see what should not.
func TestEffects(t *testing.T) {
	ids := []string{"no-key", "same-key-twice", "ten-at-once-ten-keys", "two-field-lines"}
	for name, test := range map[string]struct {
		effects     conformance.Effects
		notTestable []string // by a right server
		broken      []string // by one that ignores keys, or takes none
		unseen      []string // by the same
	}{
		"a number for each item": {effects: conformance.Effects{Get: "/count/{item}", At: "/meta/total"}},
		"a number for all":       {effects: conformance.Effects{Get: "/total"}},
		"Link":                   {effects: conformance.Effects{Get: "/link", Where: "/item_code", ID: "/id"}},
		"after the last":         {effects: conformance.Effects{Get: "/after", At: "/data", Where: "/item_code", ID: "/id", After: "starting_after"}},
		"numbered pages":         {effects: conformance.Effects{Get: "/pages?x=1", At: "/a~1b/rows", Where: "/item_code", Page: "page"}},
		"names in the answers": {effects: conformance.Effects{Answer: "/id"}, notTestable: []string{"two-field-lines"},
			broken: []string{"no-key", "same-key-twice", "two-field-lines"}},
		"nothing": {notTestable: ids, broken: []string{"no-key", "same-key-twice", "two-field-lines"},
			unseen: []string{"ten-at-once-ten-keys"}},
		"what is not there": {effects: conformance.Effects{Get: "/total", At: "/data"}, notTestable: ids,
			broken: []string{"no-key", "same-key-twice", "two-field-lines"}, unseen: []string{"ten-at-once-ten-keys"}},
		"elements without the item": {effects: conformance.Effects{Get: "/link", Where: "/sku", ID: "/id"}, notTestable: ids,
			broken: []string{"no-key", "same-key-twice", "two-field-lines"}, unseen: []string{"ten-at-once-ten-keys"}},
		"a number of an item": {effects: conformance.Effects{Get: "/total", Where: "/item_code"}, notTestable: ids,
			broken: []string{"no-key", "same-key-twice", "two-field-lines"}, unseen: []string{"ten-at-once-ten-keys"}},
		// Nothing was made before the first scenario, so there is nothing that it should not see.
		"a list that does not choose": {effects: conformance.Effects{Get: "/total?sku={item}"}, notTestable: ids[1:],
			broken: []string{"no-key", "same-key-twice", "two-field-lines"}, unseen: []string{"ten-at-once-ten-keys"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.broken == nil {
				test.broken = []string{"no-key", "same-key-twice", "two-field-lines"}
			}
			api, _ := conformance.Preset("ichido")
			api.Effects = test.effects
			if name == "names in the answers" {
				test.notTestable = append([]string{"no-key"}, test.notTestable...) // a refusal has no name
			}
			for _, wrong := range []bool{false, true} {
				s := &server{flaws: flaws{noRecords: wrong, keyOptional: wrong, firstLine: wrong}}
				listening := httptest.NewServer(s.lists())
				defer listening.Close()
				report, err := conformance.Run(t.Context(), listening.URL, &conformance.Options{API: &api, Scenarios: ids})
				if err != nil {
					t.Fatal(err)
				}
				broken, unseen := []string(nil), test.notTestable
				if wrong {
					broken, unseen = test.broken, test.unseen
				}
				equal(t, "broken", withVerdict(report, conformance.Broken), broken)
				equal(t, "not testable", withVerdict(report, conformance.NotTestable), unseen)
				if wrong && test.unseen == nil && !strings.Contains(report.Results[1].Got, "2 created, not 1") {
					t.Errorf("it does not count: %s", report.Results[1].Got)
				}
				if t.Failed() {
					var table strings.Builder
					_ = report.WriteTable(&table, false)
					t.Fatal(table.String())
				}
			}
		})
	}
}

// TestGetOfALaterPage: that the first page of a list stays as it was is no fault if what is new is on the last.
func TestGetOfALaterPage(t *testing.T) {
	api, _ := conformance.Preset("ichido")
	api.Effects = conformance.Effects{Get: "/link", Where: "/item_code", ID: "/id"}
	listening := httptest.NewServer((&server{}).lists())
	defer listening.Close()
	for _, test := range []struct {
		scenario string
		want     conformance.Verdict
	}{
		{"get-harmless", conformance.Held}, // all is on one page
		{"ten-at-once-ten-keys", conformance.Held},
		{"get-harmless", conformance.NotTestable},
	} {
		report, err := conformance.Run(t.Context(), listening.URL, &conformance.Options{API: &api, Scenarios: []string{test.scenario}})
		if err != nil {
			t.Fatal(err)
		}
		if r := report.Results[0]; r.Verdict != test.want {
			t.Errorf("%s: %s, want %s: %s", r.ID, r.Verdict, test.want, r.Got)
		}
	}
}

// TestNumberOfEach: where users see a number of their own things only, what the second one had made before is not counted.
func TestNumberOfEach(t *testing.T) {
	a, b := (&server{}).lists(), (&server{}).lists()
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer secret-of-b" {
			b.ServeHTTP(w, r)
		} else {
			a.ServeHTTP(w, r)
		}
	}))
	defer listening.Close()
	api := full()
	api.Effects = conformance.Effects{Get: "/total"}
	for range 2 {
		report, err := conformance.Run(t.Context(), listening.URL, &conformance.Options{API: api, Scenarios: []string{"other-principal"}})
		if err != nil {
			t.Fatal(err)
		}
		if r := report.Results[0]; r.Verdict != conformance.Held || r.Created != 2 {
			t.Errorf("%s, %d created: %s", r.Verdict, r.Created, r.Got)
		}
	}
}

// TestDescriptionsThatAreWrong names the member that is.
func TestDescriptionsThatAreWrong(t *testing.T) {
	for want, spoil := range map[string]func(*conformance.API){
		"request.path":    func(a *conformance.API) { a.Request.Path = "x" },
		"request.body":    func(a *conformance.API) { a.Request.Body = "{}" },
		"key.form":        func(a *conformance.API) { a.Key.Form = "x" },
		"effects.get":     func(a *conformance.API) { a.Effects.Get = "x" },
		"effects.where":   func(a *conformance.API) { a.Effects.Where = "x" },
		"effects.after":   func(a *conformance.API) { a.Effects.ID, a.Effects.After = "", "x" },
		"policy":          func(a *conformance.API) { a.Policy = "x" },
		"principals":      func(a *conformance.API) { a.Principals = make([]conformance.Principal, 3) },
		"expect.mismatch": func(a *conformance.API) { a.Expect.Mismatch = conformance.Replies{"wait"} },
		"the two principals send the same": func(a *conformance.API) {
			one := conformance.Principal{Headers: map[string]string{"X-User": "a"}}
			a.Principals = []conformance.Principal{one, one}
		},
		"variable NOT_THERE":  func(a *conformance.API) { a.Request.Headers["X"] = "$NOT_THERE" },
		"expect.success":      func(a *conformance.API) { a.Expect.Success = conformance.Replies{"execute"} },
		"expect.server_error": func(a *conformance.API) { a.Expect.ServerError = conformance.Replies{"600"} },
	} {
		api, _ := conformance.Preset("ichido")
		spoil(&api)
		_, err := conformance.Run(t.Context(), "http://localhost:1", &conformance.Options{API: &api,
			Getenv: func(string) string { return "" }})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the description: ") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestPresets: each can be used as it is, and a copy is its own.
func TestPresets(t *testing.T) {
	for _, name := range conformance.Presets {
		a, ok := conformance.Preset(name)
		if !ok || a.Name != name {
			t.Errorf("%s: %+v", name, a)
		}
		a.Request.Headers["Content-Type"] = "x"
		if b, _ := conformance.Preset(name); b.Request.Headers["Content-Type"] == "x" {
			t.Errorf("%s is shared", name)
		}
		s := httptest.NewServer((&server{flaws: flaws{status: 404}}).handler())
		b, _ := conformance.Preset(name)
		if _, err := conformance.Run(t.Context(), s.URL, &conformance.Options{API: &b, Scenarios: []string{"no-key"}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
	}
	if _, ok := conformance.Preset("x"); ok {
		t.Error("there is a preset x")
	}
}
