package ichido

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"testing"
)

// A vector is a request and what its fingerprint is, in this release and all later ones.
type vector struct {
	Name            string
	Method          string
	URL             string
	ContentType     string   `json:",omitempty"`
	ContentEncoding string   `json:",omitempty"`
	Body            string   // in hexadecimal if it is no text
	Hex             bool     `json:",omitempty"`
	Raw             bool     `json:",omitempty"`
	Only            []string `json:",omitempty"`
	Ignore          []string `json:",omitempty"`
	Secret          string   `json:",omitempty"` // its id; the key is 32 times the byte 'k'
	Fingerprint     string   // in hexadecimal, in its stored form
}

func (v *vector) compute(t *testing.T) string {
	t.Helper()
	body := []byte(v.Body)
	if v.Hex {
		var err error
		if body, err = hex.DecodeString(v.Body); err != nil {
			t.Fatal(err)
		}
	}
	r, err := http.NewRequest(v.Method, v.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v.ContentType != "" {
		r.Header.Set("Content-Type", v.ContentType)
	}
	if v.ContentEncoding != "" {
		r.Header.Set("Content-Encoding", v.ContentEncoding)
	}
	f := Fingerprint{Raw: v.Raw, Only: v.Only, Ignore: v.Ignore}
	if v.Secret != "" {
		f.Secrets = []Secret{{ID: v.Secret, Key: bytes.Repeat([]byte{'k'}, 32)}}
	}
	if err := f.fill(); err != nil {
		t.Fatal(err)
	}
	got, err := f.of(r, body)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(got)
}

// The stored form of fingerprints is frozen: a change here would make every stored key a mismatch after an upgrade. Add
// vectors; never change one. A new form gets a new first byte, and this one stays computable.
func TestFingerprintVectors(t *testing.T) {
	const file = "testdata/fingerprints.json"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 30 {
		t.Errorf("only %d vectors", len(vectors))
	}
	for i := range vectors {
		v := &vectors[i]
		if got := v.compute(t); got != v.Fingerprint {
			t.Errorf("%s: fingerprint %s, want %s", v.Name, got, v.Fingerprint)
		}
	}
}
