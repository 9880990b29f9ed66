package main

import (
	"bytes"
	"net/http"
	"strconv"
)

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, status int, value any) {
	var body bytes.Buffer
	if err := printJSON(&body, value); err != nil { // our own types: cannot fail
		panic(err)
	}
	sendJSON(w, status, body.Bytes())
}

// sendJSON answers with a body that is JSON already.
func sendJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone if this fails
}
