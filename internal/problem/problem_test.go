package problem_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"

	"github.com/ichido-dev/ichido/internal/problem"
)

func TestLanguage(t *testing.T) {
	for accept, want := range map[string]string{
		"":                             "fallback",
		"ja":                           "ja",
		"en":                           "en",
		"ja-JP":                        "ja",
		"en-US,en;q=0.9":               "en",
		"JA-jp":                        "ja",
		"ja;q=0.5,en;q=0.9":            "en",
		"ja;q=0.9,en;q=0.5":            "ja",
		"en;q=0.5, ja":                 "ja",
		"ja,en":                        "ja",
		"en,ja":                        "en",
		" ja ; q=0.8 , en ; q=0.9 ":    "en",
		"fr":                           "fallback",
		"fr,ja;q=0.1":                  "ja",
		"fr-CH, fr;q=0.9, en;q=0.8, *": "fallback",
		"*":                            "fallback",
		"*;q=0.1,ja;q=0.2":             "ja",
		"en;q=0":                       "fallback",
		"ja;q=0,en;q=0":                "fallback",
		"ja;q=x,en;q=0.1":              "en",
		"ja;q=":                        "fallback",
		"ja;q=NaN":                     "fallback",
		"ja;q=-1":                      "fallback",
		"jav":                          "fallback",
		"english":                      "fallback",
		";;;,,,=":                      "fallback",
		"q=1":                          "fallback",
		"\x00\xff":                     "fallback",
		"x-ja":                         "fallback",
		"ja_JP":                        "fallback", // not a language tag
		"zh-Hant,ja-Jpan-JP;q=0.3":     "ja",
	} {
		for _, fallback := range []string{"en", "ja"} {
			wanted := want
			if want == "fallback" {
				wanted = fallback
			}
			if got := problem.Language(accept, fallback); got != wanted {
				t.Errorf("Language(%q, %q) = %q, want %q", accept, fallback, got, wanted)
			}
		}
	}
}

// The name of a weight is written in either case (RFC 9110, section 12.4.2), and is at most 1.
func TestWeights(t *testing.T) {
	for accept, want := range map[string]string{"ja;Q=0.1,en;q=0.5": "en", "ja;q=Inf,en": "en", "en,ja;q=9": "en"} {
		if got := problem.Language(accept, "ja"); got != want {
			t.Errorf("Language(%q) = %q, want %q", accept, got, want)
		}
	}
}

func FuzzLanguage(f *testing.F) {
	f.Add("ja;q=0.5,en;q=0.9", true)
	f.Add("*", false)
	f.Fuzz(func(t *testing.T, accept string, ja bool) {
		fallback := map[bool]string{true: "ja", false: "en"}[ja]
		if got := problem.Language(accept, fallback); got != "en" && got != "ja" {
			t.Errorf("Language(%q, %q) = %q", accept, fallback, got)
		}
	})
}

func TestText(t *testing.T) {
	both, english := problem.Text{EN: "yes", JA: "はい"}, problem.Text{EN: "yes"}
	for _, c := range []struct {
		text           problem.Text
		language, want string
	}{{both, "en", "yes"}, {both, "ja", "はい"}, {english, "ja", "yes"}, {both, "fr", "yes"}} {
		if got := c.text.In(c.language); got != c.want {
			t.Errorf("%v in %s is %q, want %q", c.text, c.language, got, c.want)
		}
	}
}

func TestWrite(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Vary", "Origin")
	problem.Write(w, problem.Problem{
		Type: "https://example.com/problems#mismatch", Title: "題", Status: http.StatusUnprocessableEntity, Detail: `send it with a "new" key`, Code: "mismatch",
	}, "ja")
	if w.Code != http.StatusUnprocessableEntity {
		t.Errorf("status %d", w.Code)
	}
	for name, want := range map[string][]string{
		"Content-Type": {"application/problem+json"}, "Content-Language": {"ja"}, "Cache-Control": {"no-store"}, "Vary": {"Origin", "Accept-Language"},
	} {
		if got := w.Header()[name]; !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	want := `{"type":"https://example.com/problems#mismatch","title":"題","status":422,"detail":"send it with a \"new\" key","code":"mismatch","retryable":false}` + "\n"
	if got := w.Body.String(); got != want {
		t.Errorf("the body is\n%s, want\n%s", got, want)
	}
}

// Members that say nothing are left out; those that programs read are always there.
func TestMembers(t *testing.T) {
	for _, c := range []struct {
		problem problem.Problem
		want    []string
	}{
		{problem.Problem{}, []string{"code", "retryable", "status", "title", "type"}},
		{problem.Problem{Detail: "d", Instance: "i"}, []string{"code", "detail", "instance", "retryable", "status", "title", "type"}},
	} {
		c.problem.Status = http.StatusConflict
		w := httptest.NewRecorder()
		problem.Write(w, c.problem, "en")
		var members map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &members); err != nil {
			t.Fatal(err)
		}
		var names []string
		for name := range members {
			names = append(names, name)
		}
		slices.Sort(names)
		if !reflect.DeepEqual(names, c.want) {
			t.Errorf("members %v, want %v", names, c.want)
		}
	}
}
