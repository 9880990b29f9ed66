package ichido

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

func jsonPrint(body string) string { return printOf("POST", "/orders", "application/json", body) }

func printOf(method, target, contentType, body string) string {
	r := httptest.NewRequest(method, target, nil)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return string(mustPrint(r, []byte(body)))
}

func TestFingerprintOfEqualJSON(t *testing.T) {
	for _, group := range [][]string{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, "{ \"b\" : 2 ,\r\n\t\"a\" : 1 }\n"},
		{`{"x":{"y":{"a":1,"b":[{"c":1,"d":2}]}}}`, `{"x":{"y":{"b":[{"d":2,"c":1}],"a":1}}}`},
		{`{"name":"é/\n"}`, `{"name":"\u00e9\/\u000a"}`, `{"\u006eame":"é/\n"}`},
		{`"😀"`, `"\ud83d\ude00"`},
		{`[]`, ` [ ] `},
		{`{"n":9007199254740993}`, `{ "n" : 9007199254740993 }`},
		{`{"😀":1,"":2}`, `{"":2,"😀":1}`}, // sorted in another order by UTF-8 than by UTF-16
	} {
		for _, other := range group[1:] {
			if jsonPrint(group[0]) != jsonPrint(other) {
				t.Errorf("%s and %s have two fingerprints", group[0], other)
			}
		}
	}
}

func TestFingerprintOfOtherJSON(t *testing.T) {
	for _, pair := range [][2]string{
		{`{"a":1,"b":2}`, `{"a":2,"b":1}`},
		{`[1,2]`, `[2,1]`},
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`},
		{`{"n":0.1}`, `{"n":0.10000000000000001}`},
		{`{"n":1}`, `{"n":1.0}`},
		{`{"n":100}`, `{"n":1e2}`},
		{`{"n":1}`, `{"n":"1"}`},
		{`{"n":null}`, `{}`},
		{`{"n":0}`, `{"n":-0}`},
		{`{"a":{"b":1}}`, `{"a":{},"b":1}`},
		{`""`, `"\u0000"`},
		{``, `null`},
		{`{}`, `[]`},
		{"\"\u00e9\"", "\"e\u0301\""}, // composed and decomposed
		{`1e400`, `1e401`},
	} {
		if jsonPrint(pair[0]) == jsonPrint(pair[1]) {
			t.Errorf("%s and %s have one fingerprint", pair[0], pair[1])
		}
	}
}

// What readers of JSON may understand in two ways is compared by its bytes, and so never taken for another request.
func TestFingerprintOfAmbiguousJSON(t *testing.T) {
	bodies := []string{
		`{"a":1,"a":2}`, `{"a":2,"a":1}`, `{"a":1, "a":2}`, `{"a":2}`, `{"a":1}`, `{"a":1,"\u0061":2}`,
		`{"x":{"a":1,"a":2}}`, `{"x":{"a":2}}`,
		"\"\xff\"", "\"\xfe\"", `"\ufffd"`, "\"\xff\" ",
		`"\ud800"`, `"\udbff"`, `"\udc00"`, `"\ud800 "`, "\"\xed\xa0\x80\"",
		`{} {}`, `{}{}`, `{}`, `{`, `[1,]`, `[1]`, "\xef\xbb\xbf[1]", `NaN`, `'a'`, `"a"`, `01`, `1`, ``, ` `,
	}
	seen := make(map[string]string)
	for _, body := range bodies {
		print := jsonPrint(body)
		if other, ok := seen[print]; ok {
			t.Errorf("%q and %q have one fingerprint", body, other)
		}
		seen[print] = body
		if jsonPrint(body) != print {
			t.Errorf("%q has two fingerprints", body)
		}
	}
}

func TestFingerprintOfTheRequest(t *testing.T) {
	const body = `{"a":1}`
	seen := make(map[string]string)
	for _, c := range [][4]string{
		{"POST", "/orders", "application/json", body},
		{"PATCH", "/orders", "application/json", body},
		{"POST", "/orders/", "application/json", body},
		{"POST", "/Orders", "application/json", body},
		{"POST", "/orders%2F1", "application/json", body},
		{"POST", "/orders/1", "application/json", body},
		{"POST", "/orders?dry=1", "application/json", body},
		{"POST", "/orders?dry=2", "application/json", body},
		{"POST", "/orders", "", body},
		{"POST", "/orders", "text/plain", body},
		{"POST", "/orders", "application/merge-patch+json", body},
		{"POST", "/orders", "application/json", ""},
		{"POST", "/orders", "text/plain", ""},
	} {
		print := printOf(c[0], c[1], c[2], c[3])
		if other, ok := seen[print]; ok {
			t.Errorf("%q and %s have one fingerprint", c, other)
		}
		seen[print] = fmt.Sprintf("%q", c)
	}
}

func TestFingerprintOfMediaTypes(t *testing.T) {
	const ab, ba = `{"a":1,"b":2}`, `{"b":2,"a":1}`
	for contentType, canonical := range map[string]bool{
		"application/json":                true,
		"application/json; charset=utf-8": true,
		"Application/JSON":                true,
		"application/vnd.api+json":        true,
		"application/vnd.api+json;v=2":    true,
		"application/x-json":              false,
		"application/json-seq":            false,
		"application/jsonx":               false,
		"text/plain":                      false,
		"application/json; charset":       false, // not a valid field
		"":                                false,
	} {
		if got := printOf("POST", "/", contentType, ab) == printOf("POST", "/", contentType, ba); got != canonical {
			t.Errorf("%q: bodies that differ in the order of members are equal: %v, want %v", contentType, got, canonical)
		}
	}
	if printOf("POST", "/", "application/json", ab) != printOf("POST", "/", "application/json;charset=UTF-8", ab) {
		t.Error("a parameter of the media type makes another request")
	}
}

// No byte may move from one part of a request to the next unnoticed.
func TestFingerprintPartsCannotBeShifted(t *testing.T) {
	sum := func(parts ...string) string {
		d := newDigest(nil)
		defer d.free(nil)
		for _, p := range parts {
			d.addText(p)
		}
		return string(d.sum(nil))
	}
	seen := make(map[string][]string)
	for _, parts := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc"}, {"abc", ""}, {"", "abc"}, {"a", "b", "c"}, {}, {""}, {"", ""},
		{"a\x00\x00\x00\x00\x00\x00\x00\x01b"}, {"a", "b"}} {
		print := sum(parts...)
		if other, ok := seen[print]; ok {
			t.Errorf("%q and %q have one digest", parts, other)
		}
		seen[print] = parts
	}
}

// Digests are pooled: no request may see what another one left.
func TestFingerprintsAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"b":%d,"a":"%s"}`, i, strings.Repeat("x", i*keptScratch/4))
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Header.Set("Content-Type", "application/json")
			want := mustPrint(r, []byte(body))
			for range 50 {
				if got := mustPrint(r, []byte(body)); !bytes.Equal(got, want) {
					t.Errorf("body %d has two fingerprints", i)
				}
			}
		})
	}
	wg.Wait()
}

func TestFingerprintKeepsTheBody(t *testing.T) {
	const body = `{"b" : 1, "a" : "\u0041"}`
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Content-Type", "application/json")
	b := []byte(body)
	mustPrint(r, b)
	if string(b) != body {
		t.Errorf("the body that the handler gets was changed to %s", b)
	}
}

func mustPrint(r *http.Request, body []byte) []byte {
	print, err := new(Fingerprint).of(r, body)
	if err != nil {
		panic(err)
	}
	return print
}
