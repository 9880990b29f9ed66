package ichido

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Stored are rules for what is stored of an answer. The zero value stores status, header and body of every answer up to
// 1 MiB, without the fields that belong to one connection, one moment or one caller.
type Stored struct {
	// MaxBody is the largest body in bytes. Default: 1 MiB.
	MaxBody int

	// TooLarge says what happens to an answer with a larger body. Default: Fail.
	TooLarge TooLarge

	// LocationOnly stores the status and the Location field only, for answers with secrets. A replay then has no body,
	// and MaxBody does not matter: answers may have up to 64 MiB.
	LocationOnly bool

	// Deny are more fields not to store, such as those of a tracing system. These are never stored: Connection,
	// Keep-Alive, Proxy-Connection, TE, Trailer, Transfer-Encoding, Upgrade (of a connection), Date, Content-Length
	// (set anew), Set-Cookie, WWW-Authenticate, Proxy-Authenticate, Authentication-Info, Proxy-Authentication-Info
	// (of a caller), Access-Control-Allow-Origin, -Allow-Credentials (of a caller's origin), Traceparent, Tracestate, Baggage, X-Request-Id, X-Correlation-Id, X-Amzn-Trace-Id, X-B3-*, Via,
	// Age, Server-Timing, Alt-Svc (of one exchange).
	Deny []string

	// Allow, if not nil, are the only fields to store, besides Content-Type, Content-Encoding and Location. What is
	// never stored stays so.
	Allow []string

	// CompressFrom is the size in bytes from which bodies are compressed (DEFLATE), where that makes them smaller by a
	// tenth or more. Zero means 4 KiB, a negative number never. Replays carry the body as it was.
	CompressFrom int

	// Secrets encrypt stored bodies (AES-256-GCM). The first one is used; the others are still read. Scope, key,
	// status and header are authenticated with the body, so that no stored body can be put under another key.
	Secrets []Secret
}

// TooLarge says what happens to an answer that is too large to be stored.
type TooLarge int

const (
	// Fail answers 500 before anything is committed.
	Fail TooLarge = iota
	// Tombstone commits, sends the answer (up to 64 MiB), and stores that it happened, with its Location. Retries get
	// a problem that says so; nothing runs again.
	Tombstone
)

const maxBuffered = 64 << 20 // the largest body of all, stored or not

// limit is the largest body that a handler may write.
func (s *Stored) limit() int {
	if s.LocationOnly || s.TooLarge == Tombstone {
		return maxBuffered
	}
	return s.MaxBody
}

func (s *Stored) fill() error {
	if s.MaxBody < 0 {
		return errors.New("the field Config.Stored.MaxBody must be positive, or zero for the default 1 MiB")
	}
	if s.MaxBody == 0 {
		s.MaxBody = 1 << 20
	}
	if s.MaxBody > maxBuffered {
		return fmt.Errorf("the field Config.Stored.MaxBody is %d; at most %d are possible", s.MaxBody, maxBuffered)
	}
	if s.CompressFrom == 0 {
		s.CompressFrom = 4 << 10
	}
	if s.TooLarge != Fail && s.TooLarge != Tombstone {
		return fmt.Errorf("the field Config.Stored.TooLarge is %d; it must be Fail or Tombstone", s.TooLarge)
	}
	s.Deny, s.Allow = canonicalNames(s.Deny), canonicalNames(s.Allow)
	s.Secrets = cloneSecrets(s.Secrets)
	return checkSecrets("Config.Stored.Secrets", s.Secrets)
}

func canonicalNames(names []string) []string {
	if names == nil {
		return nil
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = http.CanonicalHeaderKey(name)
	}
	return out
}

// neverStored are the fields that belong to one connection, one moment or one caller, not to the answer.
var neverStored = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, // of the connection (RFC 9110, section 7.6.1)
	"Date": true, "Content-Length": true, // set anew on each sending
	"Set-Cookie": true, "Www-Authenticate": true, "Proxy-Authenticate": true, "Authentication-Info": true,
	"Proxy-Authentication-Info":   true,                                           // credentials
	"Access-Control-Allow-Origin": true, "Access-Control-Allow-Credentials": true, // of a caller's origin
	"Traceparent": true, "Tracestate": true, "Baggage": true, "X-Request-Id": true, "X-Correlation-Id": true,
	"X-Amzn-Trace-Id": true, "Via": true, "Age": true, "Server-Timing": true, "Alt-Svc": true, // of one exchange
	"X-B3-Traceid": true, "X-B3-Spanid": true, "X-B3-Parentspanid": true, "X-B3-Sampled": true, "X-B3-Flags": true,
}

// keeps reports whether a field is stored.
func (s *Stored) keeps(name string) bool {
	name = http.CanonicalHeaderKey(strings.TrimPrefix(name, "+")) // a handler may have put another spelling into the map
	switch {
	case neverStored[name] || slices.Contains(s.Deny, name):
		return false
	case s.LocationOnly:
		return name == "Location"
	case s.Allow != nil:
		return name == "Content-Type" || name == "Content-Encoding" || name == "Location" || slices.Contains(s.Allow, name)
	}
	return true
}

// isFieldName reports whether net/http would send a field of the name (RFC 9110, section 5.6.2).
func isFieldName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return name != ""
}

// Lines of the stored header that begin with a colon are no fields: they say how the body is stored. Those that begin
// with a plus are added to the fields of that name that are set around the handler.
const (
	markTombstone = ":tombstone"
	markDeflate   = ":deflate"   // with the original length
	markEncrypted = ":encrypted" // with the secret's id
)

// pack returns what is stored of an answer.
func (s *Stored) pack(claim *Claim, status int, fields []field, body []byte) (Response, error) {
	r := Response{Status: status}
	switch {
	case s.LocationOnly:
		r.Header = encodeHeader(fields, s.keeps)
		body = nil
	case len(body) > s.MaxBody:
		r.Header = encodeHeader(fields, func(name string) bool { return s.keeps(name) && name == "Location" })
		r.Header = appendLine(r.Header, markTombstone, "")
		body = nil
	default:
		r.Header = encodeHeader(fields, s.keeps)
		if s.CompressFrom > 0 && len(body) >= s.CompressFrom && !hasCoding(fields) {
			if small := deflate(body); len(small) <= len(body)/10*9 {
				r.Header = appendLine(r.Header, markDeflate, strconv.Itoa(len(body)))
				body = small
			}
		}
	}
	if r.Body = body; body == nil {
		r.Body = []byte{}
	}
	if len(s.Secrets) == 0 {
		return r, checkHeader(r.Header)
	}
	r.Header = appendLine(r.Header, markEncrypted, s.Secrets[0].ID)
	aead, err := s.Secrets[0].aead()
	if err != nil {
		return r, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(body)+aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	r.Body = aead.Seal(nonce, nonce, body, associated(claim, status, r.Header))
	return r, checkHeader(r.Header)
}

// checkHeader bounds the header that is stored, which has no setting: real ones are far from it.
func checkHeader(header []byte) error {
	const limit = 256 << 10
	if len(header) > limit {
		return fmt.Errorf("ichido: a header of %d bytes cannot be stored; the limit is %d", len(header), limit)
	}
	return nil
}

func hasCoding(fields []field) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return f.name == "Content-Encoding" && len(f.values) > 0 })
}

// An answer is a stored response unpacked.
type answer struct {
	status    int
	header    http.Header
	body      []byte
	tombstone bool
}

// unpack returns the answer that pack was given.
func (s *Stored) unpack(claim *Claim, r Response) (answer, error) {
	a := answer{status: r.Status, header: make(http.Header, 4), body: r.Body}
	if r.Status < 200 || r.Status > 999 {
		return a, fmt.Errorf("ichido: the stored status is %d", r.Status)
	}
	marks := decodeHeader(a.header, r.Header)
	if id, ok := marks[markEncrypted]; ok {
		i := slices.IndexFunc(s.Secrets, func(x Secret) bool { return x.ID == id })
		if i < 0 {
			return a, fmt.Errorf("ichido: the stored body was encrypted with the secret %q, which is not in Config.Stored.Secrets", id)
		}
		aead, err := s.Secrets[i].aead()
		if err != nil {
			return a, err
		}
		if len(r.Body) < aead.NonceSize() {
			return a, errors.New("ichido: the stored body is too short to have been encrypted")
		}
		nonce, sealed := r.Body[:aead.NonceSize()], r.Body[aead.NonceSize():]
		if a.body, err = aead.Open(nil, nonce, sealed, associated(claim, r.Status, r.Header)); err != nil {
			return a, fmt.Errorf("ichido: the stored body does not belong to this record, or was changed: %w", err)
		}
	}
	if length, ok := marks[markDeflate]; ok {
		body, err := inflate(a.body, length)
		if err != nil {
			return a, fmt.Errorf("ichido: the stored body cannot be decompressed: %w", err)
		}
		a.body = body
	}
	_, a.tombstone = marks[markTombstone]
	return a, nil
}

// aead returns the cipher of a secret.
func (s *Secret) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(s.Key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// associated is the data that is authenticated with an encrypted body.
func associated(claim *Claim, status int, header []byte) []byte {
	var out []byte
	for _, part := range []string{claim.Scope, claim.Key, strconv.Itoa(status), string(header)} {
		out = binary.BigEndian.AppendUint64(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out
}

func deflate(body []byte) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil { // a valid level, and a buffer: cannot fail
		panic(err)
	}
	return out.Bytes()
}

// inflate decompresses to exactly the length that was noted.
func inflate(body []byte, length string) ([]byte, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > maxBuffered {
		return nil, fmt.Errorf("its length is noted as %q", length)
	}
	out := make([]byte, n)
	r := flate.NewReader(bytes.NewReader(body))
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, err
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is longer than noted")
	}
	return out, nil
}

var oneLine = strings.NewReplacer("\n", " ", "\r", " ")

// encodeHeader returns the stored form of the header fields that are kept: one "Name: value\n" a line. Line breaks within
// a value become spaces, as they do when net/http sends it.
func encodeHeader(fields []field, keeps func(name string) bool) []byte {
	size := 0
	for _, f := range fields {
		for _, v := range f.values {
			size += len(f.name) + len(v) + len(": \n")
		}
	}
	out := make([]byte, 0, size)
	for _, f := range fields {
		if !isFieldName(strings.TrimPrefix(f.name, "+")) || !keeps(f.name) {
			continue
		}
		for _, v := range f.values {
			out = appendLine(out, f.name, v)
		}
	}
	return out
}

func appendLine(header []byte, name, value string) []byte {
	header = append(header, name...)
	header = append(header, ": "...)
	header = append(header, oneLine.Replace(value)...)
	return append(header, '\n')
}

// decodeHeader sets the stored fields in h, and returns the marks.
func decodeHeader(h http.Header, stored []byte) (marks map[string]string) {
	for line := range bytes.Lines(stored) {
		name, value, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), ": ")
		switch {
		case !ok: // not written by encodeHeader
		case strings.HasPrefix(name, ":"):
			if marks == nil {
				marks = make(map[string]string)
			}
			marks[name] = value
		default:
			h[name] = append(h[name], value)
		}
	}
	return marks
}
