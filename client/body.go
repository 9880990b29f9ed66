package client

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A body is that of the request, which may have to be sent again.
type body struct {
	first  io.ReadCloser                 // for the first attempt; nil if there is none, or it was given away
	again  func() (io.ReadCloser, error) // for the others; nil if it can be sent once only
	length int64                         // as Request.ContentLength
	none   bool
	given  bool // first was given away

	bytes []byte // all of it, if it was read to find the key
}

// next returns the body of the next attempt; nil if the request has none.
func (b *body) next() (io.ReadCloser, error) {
	switch {
	case b.none:
		return nil, nil
	case !b.given:
		first := b.first
		b.given, b.first = true, nil
		return first, nil
	case b.again == nil:
		return nil, errors.New("it has no GetBody")
	}
	return b.again()
}

func (b *body) repeatable() bool { return b.none || b.again != nil }

// prepare makes the body repeatable, if the request may be repeated.
func (b *body) prepare(c *call) error {
	r := c.r
	if r.Body == nil || r.Body == http.NoBody {
		b.none = b.bytes == nil
		if c.made && c.field == "" && c.target != nil {
			return fmt.Errorf("%s takes the key in a JSON body, and the request has none", c.target.name())
		}
		return nil
	}
	b.length = r.ContentLength
	if c.made && c.field == "" && c.target != nil {
		return b.insert(c, c.target.Members[0], c.op.Key)
	}
	if b.bytes != nil {
		b.of(b.bytes)
		return nil
	}
	if b.first != nil { // its beginning has been read
		return nil
	}
	b.first, b.again = r.Body, r.GetBody
	if b.again != nil || c.target == nil && !c.idempotent {
		return nil
	}
	limit := c.t.config.MaxBufferedBody
	if limit < 0 || r.ContentLength > limit {
		return nil
	}
	start, err := c.readBody(limit + 1)
	if err != nil {
		return err
	}
	if int64(len(start)) > limit {
		b.first = behind(start, r.Body)
		return nil
	}
	if err := r.Body.Close(); err != nil {
		return fmt.Errorf("its body cannot be closed: %w", err)
	}
	if r.ContentLength > 0 && r.ContentLength != int64(len(start)) {
		return fmt.Errorf("its body has %d bytes, and its ContentLength is %d", len(start), r.ContentLength)
	}
	b.of(start)
	return nil
}

// readBody reads the caller's body up to a limit. A body that does not come, as that of a pipe, ends with the context: it is
// closed.
func (c *call) readBody(limit int64) ([]byte, error) {
	stop := context.AfterFunc(c.Context, func() { c.r.Body.Close() })
	data, err := io.ReadAll(io.LimitReader(c.r.Body, limit))
	if !stop() {
		c.stopped, err = StopContext, context.Cause(c.Context)
	}
	if err != nil {
		return nil, fmt.Errorf("its body cannot be read: %w", err)
	}
	return data, nil
}

// behind returns rest with what was read of it before.
func behind(start []byte, rest io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), rest), rest}
}

// of makes data the body.
func (b *body) of(data []byte) {
	b.again = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	b.first, _ = b.again()
}

// read reads the whole body for the key that is in it. One that is too long for that stays as it is if it need not have
// one.
func (b *body) read(c *call, t *Target) error {
	r := c.r
	if b.bytes != nil || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	limit := c.t.config.MaxBufferedBody
	if limit < 0 {
		limit = 1 << 20
	}
	data, err := c.readBody(limit + 1)
	switch {
	case err != nil:
		return err
	case int64(len(data)) > limit && t.CallerSets:
		b.first = behind(data, r.Body)
		return nil
	case int64(len(data)) > limit:
		return fmt.Errorf("its body, which carries the key, has more than %d bytes; see Config.MaxBufferedBody", limit)
	}
	b.bytes = data
	return r.Body.Close()
}

// key returns the key in the URL, the form or the JSON body.
func (b *body) key(c *call, t *Target) (key string, found bool, err error) {
	if query := c.r.URL.Query(); len(query) > 0 {
		if key, found = among(query, t.Members); found {
			return key, true, nil
		}
	}
	if err := b.read(c, t); err != nil || b.bytes == nil {
		return "", false, err
	}
	switch kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); {
	case kind == "application/x-www-form-urlencoded":
		if form, err := url.ParseQuery(string(b.bytes)); err == nil {
			key, found = among(form, t.Members)
		}
	default:
		var members map[string]json.RawMessage
		if json.Unmarshal(b.bytes, &members) == nil {
			for _, name := range t.Members {
				switch raw, there := members[name]; {
				case !there:
				case json.Unmarshal(raw, &key) == nil && key != "":
					return key, true, nil
				case !t.CallerSets: // one that is put before it would not count
					return "", false, fmt.Errorf("the member %s of its body is empty, or no text; leave it out, and a key is made", name)
				}
			}
		}
	}
	return key, found, nil
}

func among(values url.Values, names []string) (string, bool) {
	for _, name := range names {
		if v := values.Get(name); v != "" {
			return v, true
		}
	}
	return "", false
}

// insert puts a member into the JSON object that the body is.
func (b *body) insert(c *call, name, key string) error {
	dec := jsontext.NewDecoder(bytes.NewReader(b.bytes))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return fmt.Errorf("%s takes the key in a JSON body, and that of the request is no JSON object", c.target.name())
	}
	at := dec.InputOffset()
	quoted, err := json.Marshal(key)
	if err != nil {
		return err
	}
	member := `"` + name + `":` + string(quoted)
	if dec.PeekKind() != '}' {
		member += ","
	}
	data := make([]byte, 0, len(b.bytes)+len(member))
	data = append(append(append(data, b.bytes[:at]...), member...), b.bytes[at:]...)
	b.length = int64(len(data))
	b.of(data)
	return nil
}

// peekLimit is how much of an answer's body is read to judge it, or kept of one that is not returned.
const peekLimit = 64 << 10

// A peeked body has been read in part, which it gives again.
type peeked struct {
	io.Reader
	io.Closer
	start []byte
}

// peek returns the beginning of the body of an answer, which stays as if it were unread.
func peek(res *http.Response) []byte {
	start, _ := io.ReadAll(io.LimitReader(res.Body, peekLimit)) // a body that fails does so again
	res.Body = &peeked{io.MultiReader(bytes.NewReader(start), res.Body), res.Body, start}
	return start
}

// decoded returns the beginning of an answer's body without its Content-Encoding, which is there if the caller asked for it.
// False if it cannot be read.
func decoded(h http.Header, start []byte) ([]byte, bool) {
	switch strings.ToLower(h.Get("Content-Encoding")) {
	case "", "identity":
		return start, true
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(bytes.NewReader(start))
		if err != nil {
			return nil, false
		}
		text, err := io.ReadAll(io.LimitReader(z, peekLimit))
		return text, err == nil
	}
	return nil, false
}

// drainTime is how long the body of an answer is read so that its connection can be used again.
const drainTime = time.Second

// shelve returns the answer with the beginning of its body in memory, and frees its connection.
func shelve(res *http.Response, a *attempt) *http.Response {
	kept := *res
	p, ok := res.Body.(*peeked)
	if !ok {
		if a.timer != nil {
			a.timer.Reset(drainTime)
		} else {
			a.timer = time.AfterFunc(drainTime, a.cancel)
		}
		peek(res)
		p = res.Body.(*peeked)
	}
	res.Body.Close()
	kept.Body = io.NopCloser(strings.NewReader(string(p.start)))
	return &kept
}
