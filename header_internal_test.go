package ichido

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestStoredHeader(t *testing.T) {
	rec := recorded(func(w http.ResponseWriter) {
		h := w.Header()
		h.Set("Location", "/orders/1")
		h.Add("X-Many", "one")
		h.Add("X-Many", "two, three")
		h.Add("X-Many", "")
		h.Set("X-Text", "a: b")
		h.Set("X-Latin", "caf\xe9")
		h.Set("X-Lines", "a\r\nSet-Cookie: b\nc")
		w.WriteHeader(http.StatusCreated)
	})
	want := "Location: /orders/1\nX-Latin: caf\xe9\nX-Lines: a  Set-Cookie: b c\nX-Many: one\nX-Many: two, three\nX-Many: \nX-Text: a: b\n"
	stored := string(rec.response().Header)
	if stored != want {
		t.Errorf("stored header:\n%q\nwant\n%q", stored, want)
	}
	res := laterAnswer(rec)
	if got := res.Header["X-Many"]; !slices.Equal(got, []string{"one", "two, three", ""}) {
		t.Errorf("a repeated field is replayed as %q", got)
	}
	if res.Header.Get("Set-Cookie") != "" {
		t.Error("a line break within a value begins another field")
	}
}

// Fields of one connection, moment or caller go out with the first answer only.
func TestFieldsThatAreNotStored(t *testing.T) {
	fields := http.Header{
		"Set-Cookie": {"session=secret", "b=c"}, "Www-Authenticate": {"Negotiate secret"}, "Proxy-Authenticate": {"Basic"},
		"Authentication-Info": {"secret"}, "Proxy-Authentication-Info": {"secret"}, "Connection": {"close"}, "Keep-Alive": {"timeout=5"},
		"Proxy-Connection": {"close"}, "Te": {"trailers"}, "Trailer": {"X-Sum"}, "Upgrade": {"h2c"}, "Date": {"Mon, 02 Jan 2006 15:04:05 GMT"},
	}
	rec := recorded(func(w http.ResponseWriter) {
		maps.Copy(w.Header(), fields)
		w.WriteHeader(http.StatusCreated)
	})
	first, later := firstAnswer(rec), laterAnswer(rec)
	for name, values := range fields {
		if got := first.Header[name]; !slices.Equal(got, values) {
			t.Errorf("%s of the first answer is %q, want %q", name, got, values)
		}
		if got := later.Header[name]; got != nil {
			t.Errorf("%s is replayed: %q", name, got)
		}
	}
	if stored := string(rec.response().Header); strings.Contains(stored, "secret") {
		t.Errorf("stored: %q", stored)
	}
}

// net/http sends a field by any spelling of its name that the handler put into the map.
func TestCookiesUnderAnySpellingAreNotStored(t *testing.T) {
	for _, name := range []string{"set-cookie", "SET-COOKIE", "www-authenticate", "WWW-Authenticate"} {
		rec := recorded(func(w http.ResponseWriter) { w.Header()[name] = []string{"secret"} })
		if stored := string(rec.response().Header); strings.Contains(stored, "secret") {
			t.Errorf("stored: %q", stored)
		}
	}
}

// net/http leaves out what is no name of a field; stored, it could become a field of another name.
func TestNamesThatAreNoNamesAreNotStored(t *testing.T) {
	for _, name := range []string{"X\nSet-Cookie", "X: y", "", "a b", "予約"} {
		rec := recorded(func(w http.ResponseWriter) { w.Header()[name] = []string{"value"} })
		if stored := string(rec.response().Header); strings.Contains(stored, "value") {
			t.Errorf("the name %q: stored %q", name, stored)
		}
	}
}

// FuzzStoredHeader: what is stored comes back to the byte, except for line breaks.
func FuzzStoredHeader(f *testing.F) {
	f.Add("Location", "/1", "X-A", "caf\xe9", "\x80\xff")
	f.Add("X-A", "", "X-A", ": ", "a: b\r\nc")
	f.Add("X-A", "\x00", "X-a", " ", "予約")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2, value3 string) {
		if !isToken(name1) || !isToken(name2) {
			return
		}
		h := http.Header{}
		h[name1] = append(h[name1], value1)
		h[name2] = append(h[name2], value2, value3)
		want := http.Header{}
		for name, values := range h {
			for _, v := range values {
				if !neverStored[name] {
					want[name] = append(want[name], strings.NewReplacer("\n", " ", "\r", " ").Replace(v))
				}
			}
		}
		stored := encodeHeader(snapshot(h), defaults().keeps)
		got := http.Header{}
		decodeHeader(got, stored)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q is stored as %q and comes back as %q", h, stored, got)
		}
		if again := encodeHeader(snapshot(got), defaults().keeps); string(again) != string(stored) {
			t.Errorf("stored again: %q, want %q", again, stored)
		}
	})
}

// FuzzDecodeHeader: whatever a database holds, reading it does not panic and does not make a field out of a value.
func FuzzDecodeHeader(f *testing.F) {
	f.Add([]byte("A: 1\nA: 2\n"))
	f.Add([]byte("no colon\n: \n\n"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		h := http.Header{}
		decodeHeader(h, stored)
		n := 0
		for _, values := range h {
			n += len(values)
		}
		if lines := strings.Count(string(stored), "\n") + 1; n > lines {
			t.Errorf("%q has %d lines, but %d fields came out", stored, lines, n)
		}
	})
}

// isToken reports whether s is a field name (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
