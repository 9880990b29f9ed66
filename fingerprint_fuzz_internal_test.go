package ichido

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"
)

// FuzzFingerprintSame encodes a value again with members in another order, white space and escapes.
func FuzzFingerprintSame(f *testing.F) {
	for _, body := range []string{`{"a":1,"b":[true,null,{"c":"é","d":1.50}]}`, `"😀"`, `[[],{}]`, `{"":0,"a":-0.0e1}`, `9007199254740993`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !unambiguous(body) {
			return
		}
		var again strings.Builder
		encodeOtherwise(&again, decodeJSON(t, body))
		if jsonPrint(string(body)) != jsonPrint(again.String()) {
			t.Errorf("%q and %q have two fingerprints", body, again.String())
		}
	})
}

// FuzzFingerprintOther compares two bodies: they have one fingerprint if and only if they are one request.
func FuzzFingerprintOther(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":2}`), []byte(`{"b":2,"a":1}`))
	f.Add([]byte(`{"a":1}`), []byte(`{"a":1.0}`))
	f.Add([]byte(`{"a":1,"a":1}`), []byte(`{"a":1}`))
	f.Add([]byte("\"\xff\""), []byte("\"\xfe\""))
	f.Add([]byte(``), []byte(` `))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, contentType := range []string{"text/plain", "application/json"} {
			same := bytes.Equal(a, b)
			if contentType == "application/json" && unambiguous(a) && unambiguous(b) {
				same = reflect.DeepEqual(decodeJSON(t, a), decodeJSON(t, b))
			}
			got := printOf("POST", "/", contentType, string(a)) == printOf("POST", "/", contentType, string(b))
			if got != same {
				t.Errorf("%s: %q and %q have one fingerprint: %v, want %v", contentType, a, b, got, same)
			}
		}
	})
}

func unambiguous(body []byte) bool {
	d := newDigest(nil)
	defer d.free(nil)
	return d.addJSON("application/json", body, nil, nil)
}

func decodeJSON(t *testing.T, body []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q was taken for JSON: %v", body, err)
	}
	return v
}

// encodeOtherwise encodes members in the random order of maps, every character as an escape, and much white space.
func encodeOtherwise(w *strings.Builder, v any) {
	w.WriteString("\n ")
	switch v := v.(type) {
	case map[string]any:
		comma := "{"
		for name, member := range v {
			w.WriteString(comma)
			encodeOtherwise(w, name)
			w.WriteString(":")
			encodeOtherwise(w, member)
			comma = " ,"
		}
		if len(v) == 0 {
			w.WriteString("{")
		}
		w.WriteString("}")
	case []any:
		w.WriteString("[")
		for i, element := range v {
			if i > 0 {
				w.WriteString(",")
			}
			encodeOtherwise(w, element)
		}
		w.WriteString("\t]")
	case string:
		w.WriteString(`"`)
		for _, unit := range utf16.Encode([]rune(v)) {
			fmt.Fprintf(w, `\u%04x`, unit)
		}
		w.WriteString(`"`)
	case json.Number:
		w.WriteString(v.String())
	default:
		fmt.Fprint(w, map[any]string{nil: "null", true: "true", false: "false"}[v])
	}
	w.WriteString("\r")
}
