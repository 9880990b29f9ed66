// Package problem writes problem documents (RFC 9457) in the language that the client asks for.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// ContentType is the media type of a problem document.
const ContentType = "application/problem+json"

// A Text is what a person reads, in both languages.
type Text struct{ EN, JA string }

// In returns the text in the language, "en" or "ja".
func (t Text) In(language string) string {
	if language == "ja" && t.JA != "" {
		return t.JA
	}
	return t.EN
}

// A Problem is one problem document.
type Problem struct {
	Type      string `json:"type"`               // a URI; what programs tell problems apart by
	Title     string `json:"title"`              // the same for every occurrence
	Status    int    `json:"status"`             // that of the response
	Detail    string `json:"detail,omitempty"`   // about this occurrence: what is wrong, what to do
	Instance  string `json:"instance,omitempty"` // names this occurrence in the server's log
	Code      string `json:"code"`               // the last part of Type
	Retryable bool   `json:"retryable"`          // whether the same request may be sent again as it is
}

// Write sends p as the response. language is that of its texts.
func Write(w http.ResponseWriter, p Problem, language string) {
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers: cannot fail
		panic(err)
	}
	body = append(body, '\n')
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Content-Language", language)
	h.Add("Vary", "Accept-Language")
	h.Set("Cache-Control", "no-store")
	if len(h["Content-Encoding"]) == 0 && len(h["Trailer"]) == 0 { // else a handler around changes the body, or adds to it
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client has gone if this fails
}

// Language returns the one of "en" and "ja" that an Accept-Language field (RFC 9110, section 12.5.4) prefers, or
// fallback if it prefers neither.
func Language(accept, fallback string) string {
	best, bestQ := fallback, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		tag, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		q := 1.0
		if v, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(params)), "q="); ok {
			var err error
			if q, err = strconv.ParseFloat(v, 64); err != nil || !(q >= 0 && q <= 1) {
				q = 0 // what is no weight prefers nothing
			}
		}
		primary, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-")
		if primary == "*" {
			primary = fallback
		}
		if (primary == "en" || primary == "ja") && q > bestQ {
			best, bestQ = primary, q
		}
	}
	return best
}
