package main

import (
	"encoding/json"
	"io"
)

// printJSON writes a value as JSON that people can read too: < and & stay what they are.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
