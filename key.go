package ichido

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/ichido-dev/ichido/internal/problem"
)

// KeyHeader is the field that carries the key if Config.Header does not name another one
// (draft-ietf-httpapi-idempotency-key-header-07, section 2.1).
const KeyHeader = "Idempotency-Key"

const maxKeyLength = 255

// A KeyFormat refuses keys that are well-formed but not good enough, such as guessable ones. The zero value accepts
// every key. The draft recommends to fix the format, to publish it, and to check it first (section 5).
type KeyFormat struct {
	// MinLength is the smallest number of characters. Zero means 1.
	MinLength int
	// MaxLength is the largest number of characters, at most 255. Zero means 255.
	MaxLength int
	// Pattern is a regular expression, in the syntax that RE2 and ECMAScript share, for the whole key. "" accepts all.
	Pattern string
	// Name tells people what Pattern asks for, as in "a UUID".
	Name string

	pattern *regexp.Regexp
}

// UUIDKeys accepts UUIDs only, in their usual form of 36 characters (RFC 9562).
var UUIDKeys = KeyFormat{
	MinLength: 36, MaxLength: 36, Name: "a UUID",
	Pattern: "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}",
}

func (f *KeyFormat) fill() error {
	f.pattern = nil
	if f.MinLength == 0 {
		f.MinLength = 1
	}
	if f.MaxLength == 0 {
		f.MaxLength = maxKeyLength
	}
	if f.MinLength < 1 || f.MinLength > f.MaxLength || f.MaxLength > maxKeyLength {
		return fmt.Errorf("the field Config.KeyFormat asks for %d to %d characters; it must be within 1 to %d", f.MinLength, f.MaxLength, maxKeyLength)
	}
	if f.Pattern == "" {
		return nil
	}
	if f.Name == "" {
		f.Name = "of the form " + f.Pattern
	}
	var err error
	if f.pattern, err = regexp.Compile("^(?:" + f.Pattern + ")$"); err != nil {
		return fmt.Errorf("the field Config.KeyFormat.Pattern is %q: %w", f.Pattern, err)
	}
	return nil
}

// check says what is wrong with a key.
func (f *KeyFormat) check(key string) error {
	switch {
	case key == "":
		return wrong("The key is empty.", "キーが空です。")
	case len(key) > f.MaxLength:
		return wrong("The key has %d characters; at most %d are accepted.", "キーが %d 文字あります。%d 文字以内にしてください。", len(key), f.MaxLength)
	case len(key) < f.MinLength:
		return wrong("The key has %d characters; at least %d are needed, because a short key is easy to guess.", "キーが %d 文字しかありません。短いキーは推測されやすいため、%d 文字以上にしてください。", len(key), f.MinLength)
	case f.pattern != nil && !f.pattern.MatchString(key):
		return wrong("The key is not %s.", "キーの形式が違います(%s)。", f.Name)
	}
	return nil
}

// keyOf returns the key of a request, or "" if it has none.
func (m *Manager) keyOf(r *http.Request, body []byte) (string, error) {
	var key string
	var err error
	if m.config.KeyFrom != nil {
		if key, err = m.config.KeyFrom(r, body); key == "" && err == nil {
			return "", nil
		}
		if err == nil {
			err = printable(key)
		}
	} else {
		lines := r.Header[m.config.Header]
		if len(lines) == 0 {
			return "", nil
		}
		key, err = parseKey(lines, m.config.StrictKeys)
	}
	if err == nil {
		err = m.config.KeyFormat.check(key)
	}
	return key, err
}

func printable(key string) error {
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return wrongAt(i, "only printable ASCII characters are allowed in a key.", "キーに使えるのは印字可能な ASCII 文字だけです。")
		}
	}
	return nil
}

// KeyFromJSON takes the key from the string that a JSON Pointer (RFC 6901) names in the body, such as "/event_id", for
// [Config].KeyFrom. It panics if the pointer is none.
func KeyFromJSON(pointer string) func(*http.Request, []byte) (string, error) {
	if !jsontext.Pointer(pointer).IsValid() || pointer == "" {
		panic(fmt.Sprintf("ichido: KeyFromJSON: %q is not a JSON Pointer to a member, such as \"/event_id\"", pointer))
	}
	return func(_ *http.Request, body []byte) (string, error) {
		value, err := choose(body, []string{pointer}, nil)
		if errors.Is(err, errNoneChosen) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("the body is not JSON that could hold a key at %s", pointer)
		}
		var dec = jsontext.NewDecoder(strings.NewReader(string(value)))
		_, _ = dec.ReadToken() // {
		_, _ = dec.ReadToken() // the pointer
		token, err := dec.ReadToken()
		if err != nil || token.Kind() != '"' {
			return "", fmt.Errorf("the key at %s in the body is not a string", pointer)
		}
		return token.String(), nil
	}
}

// parseKey returns the key in the lines of the field. The draft asks for a String of RFC 9651, with quotes; nearly every
// client sends the key bare. Both name the same key, unless strict refuses the second. Parameters are ignored. What is
// neither is an error that says why: to ignore it would run the request unprotected.
func parseKey(lines []string, strict bool) (string, error) {
	if len(lines) != 1 {
		return "", wrong("The field was sent %d times; send it once.", "このフィールドが %d 回送られました。1 回だけ送ってください。", len(lines))
	}
	value := strings.Trim(lines[0], " \t")
	if strings.HasPrefix(value, `"`) {
		return parseQuoted(value)
	}
	if strict && value != "" {
		return "", wrongAt(0, "the key must be in double quotes (RFC 9651, String).", "キーを二重引用符で囲んでください(RFC 9651 の String)。")
	}
	return parseBare(value)
}

// parseQuoted parses a String (RFC 9651, section 4.2.5) and what may follow it.
func parseQuoted(value string) (string, error) {
	var unescaped []byte // nil as long as there was no escape
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			key := value[1:i]
			if unescaped != nil {
				key = string(unescaped)
			}
			return key, onlyParameters(value[i+1:], i+1)
		case c < ' ' || c > '~':
			return "", wrongAt(i, "only printable ASCII characters are allowed in a key.", "キーに使えるのは印字可能な ASCII 文字だけです。")
		case c == '\\':
			if i+1 == len(value) || value[i+1] != '"' && value[i+1] != '\\' {
				return "", wrongAt(i, `a backslash must be followed by " or \.`, `バックスラッシュの後には " か \ だけを置けます。`)
			}
			if unescaped == nil {
				unescaped = append(make([]byte, 0, len(value)), value[1:i]...)
			}
			i++
			unescaped = append(unescaped, value[i])
		case unescaped != nil:
			unescaped = append(unescaped, c)
		}
	}
	return "", wrongAt(len(value), "the closing quote is missing.", "閉じる引用符がありません。")
}

// parseBare takes a key without quotes: visible ASCII, except what would make it a list or a half-quoted String. Clients
// that send keys bare do not know of parameters: if all from a semicolon on were dropped, two keys could become one.
func parseBare(value string) (string, error) {
	for i := range len(value) {
		switch c := value[i]; {
		case c == ';':
			return "", wrongAt(i, "a semicolon may be part of the key or begin parameters; put the key in double quotes.", "セミコロンがキーの一部かどうか分かりません。キーを二重引用符で囲んでください。")
		case c == ',':
			return "", wrongAt(i, "a comma separates two keys; send one, or put the key in double quotes.", "コンマは 2 つのキーを区切ります。キーを 1 つにするか、二重引用符で囲んでください。")
		case c == '"':
			return "", wrongAt(i, "a quote within a key without quotes; put the whole key in double quotes.", "引用符で囲まないキーの中に引用符があります。キー全体を二重引用符で囲んでください。")
		case c <= ' ' || c > '~':
			return "", wrongAt(i, "this character is not allowed in a key without quotes.", "引用符で囲まないキーには使えない文字です。")
		}
	}
	return value, nil
}

// onlyParameters accepts rest, which begins offset bytes into the field, if it is nothing but parameters (RFC 9651,
// section 3.1.2).
func onlyParameters(rest string, offset int) error {
	if trailingParameters.MatchString(rest) {
		return nil
	}
	return wrongAt(offset, "something follows the key.", "キーの後に余分な文字があります。")
}

var trailingParameters = regexp.MustCompile(`^(?: *; *[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[ !#-\[\]-~]|\\["\\])*"|[A-Za-z0-9*:@?%-][A-Za-z0-9!#$%&'*+.^_|~:/=?"` + "`" + `-]*))?)* *$`)

// A textError says what is wrong with a request, in both languages.
type textError struct{ problem.Text }

func (e *textError) Error() string { return e.EN }

func wrong(en, ja string, args ...any) error {
	return &textError{problem.Text{EN: fmt.Sprintf(en, args...), JA: fmt.Sprintf(ja, args...)}}
}

// wrongAt says what is wrong at the byte with index i, which people count from 1.
func wrongAt(i int, en, ja string) error {
	return wrong("At character %d: "+en, "%d 文字目: "+ja, i+1)
}
