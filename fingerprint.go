package ichido

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// fingerprintVersion precedes each stored fingerprint, so that a later format can be told from this one.
const fingerprintVersion = 1

// fingerprintOf returns the digest by which a request is recognised: of its method, path, query, media type and body,
// each with its length before it. JSON bodies are compared canonically: the order of members, white space and
// escapes do not matter, numbers are compared by their text. A body that is not unambiguous JSON (duplicate
// members, invalid UTF-8, lone surrogates) is compared by its bytes.
func fingerprintOf(r *http.Request, body []byte) []byte {
	d := newDigest()
	defer d.free()
	d.add(r.Method)
	d.add(r.URL.EscapedPath())
	d.add(r.URL.RawQuery)
	mediaType := mediaTypeOf(r.Header.Get("Content-Type"))
	d.add(mediaType)
	if !isJSON(mediaType) || !d.addJSON(body) {
		d.addRaw(body)
	}
	return d.sum()
}

// mediaTypeOf returns the media type of a Content-Type field without its parameters.
func mediaTypeOf(contentType string) string {
	switch contentType {
	case "", "application/json":
		return contentType
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return strings.ToLower(contentType)
	}
	return mediaType
}

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

// A digest hashes a sequence of parts so that no two sequences look alike.
type digest struct {
	hash    hash.Hash
	length  [8]byte
	scratch []byte // holds a canonical copy of a body
}

var digests = sync.Pool{New: func() any { return &digest{hash: sha256.New()} }}

func newDigest() *digest { return digests.Get().(*digest) }

const keptScratch = 64 << 10 // larger buffers are not kept for the next request

func (d *digest) free() {
	d.hash.Reset()
	if cap(d.scratch) > keptScratch {
		d.scratch = nil
	}
	digests.Put(d)
}

func (d *digest) add(part string) {
	d.scratch = append(d.scratch[:0], part...)
	d.write(d.scratch)
}

var rawKind, jsonKind = []byte("raw"), []byte("json") // how a body is compared

func (d *digest) addRaw(body []byte) {
	d.write(rawKind)
	d.write(body)
}

// addJSON adds a body that is unambiguous JSON, and reports whether it was.
func (d *digest) addJSON(body []byte) bool {
	d.scratch = append(d.scratch[:0], body...)
	value := jsontext.Value(d.scratch)
	err := value.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return false
	}
	d.write(jsonKind)
	d.write(value)
	d.scratch = value
	return true
}

func (d *digest) write(part []byte) {
	binary.BigEndian.PutUint64(d.length[:], uint64(len(part)))
	d.hash.Write(d.length[:])
	d.hash.Write(part)
}

func (d *digest) sum() []byte {
	return d.hash.Sum(append(make([]byte, 0, 1+sha256.Size), fingerprintVersion))
}
