package ichido

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// addJSON adds a body that is unambiguous JSON, and reports whether it was.
func (d *digest) addJSON(media string, body []byte, only, ignore []string) bool {
	if tooDeep(body) {
		return false
	}
	d.scratch = append(d.scratch[:0], body...)
	value := jsontext.Value(d.scratch)
	if only != nil || ignore != nil {
		var err error
		if value, err = choose(body, only, ignore); err != nil {
			return false
		}
	}
	if err := value.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return false
	}
	d.scratch = value // keep what grew
	d.add(jsonKind)
	d.addText(media)
	d.add(value)
	return true
}

// tooDeep reports whether JSON is nested so deep that sorting its members would take more than linear time. No real
// body is; those are compared by their bytes.
func tooDeep(body []byte) bool {
	const limit = 100
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// choose returns the JSON of what is compared of a body: all but the values that ignore names, or, as one object by
// pointer, those that only names.
func choose(body []byte, only, ignore []string) (jsontext.Value, error) {
	var out bytes.Buffer
	c := chooser{dec: jsontext.NewDecoder(bytes.NewReader(body)), enc: jsontext.NewEncoder(&out), only: only, ignore: ignore}
	if only != nil {
		c.write(jsontext.BeginObject)
	}
	c.value("")
	if _, err := c.dec.ReadToken(); c.err == nil && !errors.Is(err, io.EOF) {
		c.err = errors.New("something follows the value")
	}
	if only != nil {
		c.write(jsontext.EndObject)
	}
	if c.err == nil && only != nil && !c.found {
		return nil, errNoneChosen
	}
	return out.Bytes(), c.err
}

// errNoneChosen says that a body has none of the values that are compared.
var errNoneChosen = errors.New("none of the chosen values is there")

// A chooser copies JSON. Its first error sticks.
type chooser struct {
	dec          *jsontext.Decoder
	enc          *jsontext.Encoder
	only, ignore []string
	found        bool // one of only
	err          error
}

// value copies the next value, which has the pointer, as far as it is wanted.
func (c *chooser) value(pointer jsontext.Pointer) {
	if c.err != nil {
		return
	}
	if c.only != nil && slices.Contains(c.only, string(pointer)) {
		c.found = true
		c.write(jsontext.String(string(pointer)))
		c.whole()
		return
	}
	switch c.dec.PeekKind() {
	case '{':
		c.token()
		for c.err == nil && c.dec.PeekKind() != '}' {
			name, err := c.dec.ReadToken()
			if err != nil {
				c.err = err
				return
			}
			member := pointer.AppendToken(name.String())
			if slices.Contains(c.ignore, string(member)) {
				c.err = c.dec.SkipValue()
				continue
			}
			if c.only == nil {
				c.write(jsontext.String(name.String()))
			}
			c.value(member)
		}
		c.token()
	case '[':
		c.token()
		for i := 0; c.err == nil && c.dec.PeekKind() != ']'; i++ {
			c.value(pointer.AppendToken(strconv.Itoa(i)))
		}
		c.token()
	default:
		c.whole()
	}
}

// whole copies a value as it is, unless it is not one of those that only names.
func (c *chooser) whole() {
	if c.err != nil {
		return
	}
	value, err := c.dec.ReadValue()
	if err == nil && (c.only == nil || c.enc.StackDepth() > 0 && isName(c.enc)) {
		err = c.enc.WriteValue(value)
	}
	c.err = err
}

// isName reports whether the encoder has written a member's name and waits for its value.
func isName(enc *jsontext.Encoder) bool {
	_, n := enc.StackIndex(enc.StackDepth())
	return n%2 == 1
}

// token copies the begin or end of an object or array.
func (c *chooser) token() {
	if c.err != nil {
		return
	}
	token, err := c.dec.ReadToken()
	if err != nil {
		c.err = err
		return
	}
	if c.only == nil {
		c.write(token)
	}
}

func (c *chooser) write(token jsontext.Token) {
	if c.err == nil {
		c.err = c.enc.WriteToken(token)
	}
}
