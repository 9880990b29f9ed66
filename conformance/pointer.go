package conformance

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// at returns what a JSON pointer (RFC 6901) leads to in a document, and whether it leads anywhere.
func at(document json.RawMessage, pointer string) (json.RawMessage, bool) {
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		var object map[string]json.RawMessage
		var array []json.RawMessage
		switch {
		case json.Unmarshal(document, &object) == nil && object != nil:
			member, ok := object[token]
			if !ok {
				return nil, false
			}
			document = member
		case json.Unmarshal(document, &array) == nil:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(array) {
				return nil, false
			}
			document = array[i]
		default:
			return nil, false
		}
	}
	document = bytes.TrimSpace(document)
	return document, json.Valid(document)
}

// word returns the text that a pointer leads to: a string's value, or a number as it is written. "" is nothing.
func word(document json.RawMessage, pointer string) string {
	value, ok := at(document, pointer)
	if !ok || string(value) == "null" {
		return ""
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
