package ichido

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A Fingerprint says how requests under one key are compared: what makes a request another one. The zero value
// compares method, path, query, content type and body.
//
// A JSON body is compared canonically: the order of members (at every depth), white space and escapes do not matter;
// numbers are compared by their text, so that 9007199254740993 is not 9007199254740992; a body that is not unambiguous
// JSON (duplicate members, invalid UTF-8, lone surrogates), or is nested deeper than 100 levels, is compared by its
// bytes. Forms
// (application/x-www-form-urlencoded, multipart/form-data) are compared by their fields: the order of fields with
// different names, the encoding of characters and the boundary do not matter, the contents of files do. Every other body
// is compared by its bytes, and a body with a Content-Encoding as it was sent.
//
// A change of these settings, unlike a release of this package, makes requests under stored keys look different.
type Fingerprint struct {
	// Raw compares every body by its bytes.
	Raw bool

	// Only compares, of a JSON body, the values that these JSON Pointers (RFC 6901) name, such as "/order/id", for
	// clients that cannot send the same body twice. A body that has none of them is compared by its bytes.
	Only []string

	// Ignore leaves out of a JSON body the values that these JSON Pointers name, such as "/sent_at".
	Ignore []string

	// Func replaces all of the above, and method, path and query too: requests are the same if it returns the same
	// bytes for them. body is the whole body. An error refuses the request with 400 and is shown to the client.
	Func func(r *http.Request, body []byte) ([]byte, error)

	// Secrets key the digest (HMAC-SHA-256), so that who reads the table cannot find out a request by trying. The
	// first one is used for new records; the others are still recognised. Records made before there was a secret are
	// recognised too.
	Secrets []Secret
}

// A Secret is a key for cryptography, with a name by which stored data refers to it.
type Secret struct {
	ID  string // 1 to 32 bytes, unique; not secret
	Key []byte // 32 bytes
}

// fill makes the settings the Manager's own, and refuses what makes no sense.
func (f *Fingerprint) fill() error {
	f.Only, f.Ignore, f.Secrets = slices.Clone(f.Only), slices.Clone(f.Ignore), cloneSecrets(f.Secrets)
	if f.Func != nil && (f.Raw || f.Only != nil || f.Ignore != nil) || f.Raw && (f.Only != nil || f.Ignore != nil) || f.Only != nil && f.Ignore != nil {
		return errors.New("only one of the fields Raw, Only, Ignore and Func of Config.Fingerprint may be set")
	}
	for _, p := range slices.Concat(f.Only, f.Ignore) {
		if !jsontext.Pointer(p).IsValid() || p == "" {
			return fmt.Errorf("%q in Config.Fingerprint is not a JSON Pointer to a member, such as \"/sent_at\"", p)
		}
	}
	return checkSecrets("Config.Fingerprint.Secrets", f.Secrets)
}

// cloneSecrets makes secrets the Manager's own, which its caller may wipe.
func cloneSecrets(secrets []Secret) []Secret {
	own := slices.Clone(secrets)
	for i := range own {
		own[i].Key = slices.Clone(own[i].Key)
	}
	return own
}

func checkSecrets(field string, secrets []Secret) error {
	seen := make(map[string]bool)
	for _, s := range secrets {
		switch {
		case s.ID == "" || len(s.ID) > 32 || seen[s.ID] || strings.ContainsAny(s.ID, "\r\n"):
			return fmt.Errorf("the field %s has the id %q; ids are unique and have 1 to 32 bytes", field, s.ID)
		case len(s.Key) != 32:
			return fmt.Errorf("the secret %q in %s has %d bytes; it must have 32", s.ID, field, len(s.Key))
		}
		seen[s.ID] = true
	}
	return nil
}

// The stored form of a fingerprint is one byte that names the form, the id of the secret with a length byte before it
// if there is one, and the digest. The forms are frozen by testdata/fingerprints.json: a change needs a new number, and
// the old ones must still be computed, or an upgrade would make stored keys mismatches.
const (
	plainForm byte = 1 // SHA-256
	keyedForm byte = 2 // HMAC-SHA-256
)

// errUnknownForm says that a record was made with a secret or by a release that this process does not know.
var errUnknownForm = errors.New("ichido: the record's fingerprint was made with a secret that is not in Config.Fingerprint.Secrets, or by a later release")

// of returns the fingerprint of a request for a new record.
func (f *Fingerprint) of(r *http.Request, body []byte) ([]byte, error) {
	return f.compute(r, body, f.first())
}

// first returns the secret for new records, or nil.
func (f *Fingerprint) first() *Secret {
	if len(f.Secrets) == 0 {
		return nil
	}
	return &f.Secrets[0]
}

// again returns the fingerprint of a request in the form of a stored one, so that the two can be compared.
func (f *Fingerprint) again(stored []byte, r *http.Request, body []byte) ([]byte, error) {
	secret, err := f.secretOf(stored)
	if err != nil {
		return nil, err
	}
	return f.compute(r, body, secret)
}

// secretOf returns the secret of a stored fingerprint, nil if it has none.
func (f *Fingerprint) secretOf(stored []byte) (*Secret, error) {
	switch {
	case len(stored) > 0 && stored[0] == plainForm:
		return nil, nil
	case len(stored) > 1 && stored[0] == keyedForm && len(stored) >= 2+int(stored[1]):
		id := stored[2 : 2+int(stored[1])]
		if i := slices.IndexFunc(f.Secrets, func(s Secret) bool { return s.ID == string(id) }); i >= 0 {
			return &f.Secrets[i], nil
		}
	}
	return nil, errUnknownForm
}

func (f *Fingerprint) compute(r *http.Request, body []byte, secret *Secret) ([]byte, error) {
	d := newDigest(secret)
	defer d.free(secret)
	if f.Func != nil {
		own, err := f.Func(r, body)
		if err != nil {
			return nil, err
		}
		d.addText("own")
		d.add(own)
		return d.sum(secret), nil
	}
	d.addText(r.Method)
	d.addText(r.URL.EscapedPath())
	d.addForm(parseForm(r.URL.RawQuery))
	f.addBody(d, r.Header, body)
	if len(body) == 0 && (r.PostForm != nil || r.MultipartForm != nil) {
		// A handler around has read the form, for a token or a method in it, and used up the body.
		fields, err := parsedForm(r)
		if err != nil {
			return nil, err
		}
		d.addForm(fields)
	}
	return d.sum(secret), nil
}

// addBody adds the content type and the body, in the form in which they are compared.
func (f *Fingerprint) addBody(d *digest, h http.Header, body []byte) {
	contentType := h.Get("Content-Type")
	media, params := mediaTypeOf(contentType)
	encoded := h.Get("Content-Encoding")
	switch {
	case f.Raw || encoded != "":
	case isJSON(media):
		if d.addJSON(media, body, f.Only, f.Ignore) {
			return
		}
	case media == "application/x-www-form-urlencoded":
		if fields, ok := parseFormStrictly(string(body)); ok {
			d.add(formKind)
			d.addText(media)
			d.addForm(fields)
			return
		}
	case media == "multipart/form-data":
		if fields, ok := parseMultipart(body, params["boundary"]); ok {
			d.add(formKind)
			d.addText(media)
			d.addForm(fields)
			return
		}
	}
	d.add(rawKind)
	d.addText(contentType)
	d.addText(encoded)
	d.add(body)
}

var rawKind, jsonKind, formKind = []byte("raw"), []byte("json"), []byte("form") // how a body is compared

// mediaTypeOf returns the media type of a Content-Type field, in lower case, and its parameters.
func mediaTypeOf(contentType string) (media string, params map[string]string) {
	switch contentType {
	case "", "application/json":
		return contentType, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", nil
	}
	return media, params
}

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}
