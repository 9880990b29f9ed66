package ichido

import (
	"fmt"
	"strings"
)

// KeyHeader is the field that carries the key (draft-ietf-httpapi-idempotency-key-header-07, section 2.1).
const KeyHeader = "Idempotency-Key"

const maxKeyLength = 255

// parseKey returns the key in the lines of the Idempotency-Key field. The draft asks for a String of RFC 9651, with
// quotes; nearly every client sends the key bare. Both name the same key. Parameters are ignored. What is neither is
// an error that says why: to ignore it would run the request unprotected.
func parseKey(lines []string) (string, error) {
	if len(lines) != 1 {
		return "", fmt.Errorf("the field was sent %d times; send it once", len(lines))
	}
	value := strings.Trim(lines[0], " \t")
	var key string
	var err error
	if strings.HasPrefix(value, `"`) {
		key, err = parseQuoted(value)
	} else {
		key, err = parseBare(value)
	}
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", fmt.Errorf("the key is empty")
	case len(key) > maxKeyLength:
		return "", fmt.Errorf("the key has %d characters; at most %d are accepted", len(key), maxKeyLength)
	}
	return key, nil
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
			return "", errAt(i, "%q is not allowed in a key; only ASCII characters are", c)
		case c == '\\':
			if i+1 == len(value) || value[i+1] != '"' && value[i+1] != '\\' {
				return "", errAt(i, `a backslash must be followed by " or \`)
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
	return "", errAt(len(value), "the closing quote is missing")
}

// parseBare takes a key without quotes: visible ASCII, except what would make it a list or a half-quoted String.
func parseBare(value string) (string, error) {
	for i := range len(value) {
		switch c := value[i]; {
		case c == ';':
			return value[:i], onlyParameters(value[i:], i)
		case c == ',':
			return "", errAt(i, "a comma separates two keys; send one, or put it in double quotes")
		case c == '"':
			return "", errAt(i, "a quote within a key without quotes; put the whole key in double quotes")
		case c <= ' ' || c > '~':
			return "", errAt(i, "%q is not allowed in a key without quotes", c)
		}
	}
	return value, nil
}

// onlyParameters accepts rest, which begins offset bytes into the field, if it is nothing but parameters.
func onlyParameters(rest string, offset int) error {
	trimmed := strings.TrimLeft(rest, " ")
	if trimmed == "" || trimmed[0] == ';' && !strings.Contains(trimmed, ",") {
		return nil
	}
	return errAt(offset, "something follows the key")
}

// errAt describes what is wrong at the byte with index i, which people count from 1.
func errAt(i int, format string, args ...any) error {
	return fmt.Errorf("at character %d: %s", i+1, fmt.Sprintf(format, args...))
}
