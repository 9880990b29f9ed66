package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	markerField = "Idempotent-Replayed"
	marker      = markerField + ": true"
)

// replayed reports whether the answer is marked as a replay.
func (a answer) replayed() bool { return a.header.Get(markerField) == "true" }

// executed reports whether the answer says that its request was executed.
func (a answer) executed() bool { return a.status == http.StatusCreated && !a.replayed() }

// unserved reports whether the server says that it would not serve this request whatever its key. Then it is not the
// API that is graded here, or lets only others in.
func (a answer) unserved() bool {
	switch a.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotImplemented:
		return true
	}
	return false
}

// String returns the answer in a word, such as "201 replayed".
func (a answer) String() string {
	switch {
	case a.err != nil:
		return fmt.Sprintf("no answer (%v)", a.err)
	case a.replayed():
		return fmt.Sprintf("%d replayed", a.status)
	}
	return strconv.Itoa(a.status)
}

// executionFaults returns what is wrong with an answer that should come from executing the request.
func (a answer) executionFaults() []string {
	switch {
	case a.err != nil:
		return []string{"there is none"}
	case a.status != http.StatusCreated:
		return []string{fmt.Sprintf("%d, not 201%s", a.status, a.detail())}
	case len(a.header.Values(markerField)) > 0:
		return []string{fmt.Sprintf("%s: %q although nothing was there to replay", markerField, a.header.Get(markerField))}
	}
	return nil
}

// replayFaults returns what is wrong with an answer that should replay first.
func (a answer) replayFaults(first answer) []string {
	if a.err != nil {
		return []string{"there is none"}
	}
	if a.status != first.status {
		return []string{fmt.Sprintf("%d, not %d%s", a.status, first.status, a.detail())}
	}
	var faults []string
	if !a.replayed() {
		faults = append(faults, "not marked "+marker)
	}
	if !bytes.Equal(a.body, first.body) {
		faults = append(faults, "other body: "+difference(a.body, first.body))
	}
	for _, name := range []string{"Location", "Content-Type"} {
		if got, want := a.header.Values(name), first.header.Values(name); !slices.Equal(got, want) {
			faults = append(faults, fmt.Sprintf("%s %q, not %q", name, got, want))
		}
	}
	return faults
}

// problemFaults returns what is wrong with an answer that should be a problem document (RFC 9457) with the status; a
// status of 0 stands for any from 400 to 599.
func (a answer) problemFaults(status int) []string {
	switch {
	case a.err != nil:
		return []string{"there is none"}
	case status != 0 && a.status != status:
		return []string{fmt.Sprintf("%d, not %d", a.status, status)}
	case status == 0 && (a.status < 400 || a.status > 599):
		return []string{fmt.Sprintf("%d, not a failure", a.status)}
	}
	if mediaType, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); mediaType != "application/problem+json" {
		return []string{fmt.Sprintf("Content-Type %q, not application/problem+json", a.header.Get("Content-Type"))}
	}
	var problem struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
	}
	if err := json.Unmarshal(a.body, &problem); err != nil {
		return []string{"its body is not a problem document: " + excerpt(a.body, 0)}
	}
	var faults []string
	if problem.Type == "" {
		faults = append(faults, "the problem has no type")
	}
	if problem.Title == "" {
		faults = append(faults, "the problem has no title")
	}
	if problem.Status != a.status {
		faults = append(faults, fmt.Sprintf("the problem's status is %d, the answer's %d", problem.Status, a.status))
	}
	return faults
}

// conflictFaults returns what is wrong with an answer that should say that an attempt is in progress.
func (a answer) conflictFaults() []string {
	faults := a.problemFaults(http.StatusConflict)
	if a.status != http.StatusConflict {
		return faults
	}
	hint := a.header.Get("Retry-After")
	if _, err := strconv.ParseUint(hint, 10, 32); err == nil {
		return faults
	}
	if _, err := http.ParseTime(hint); err == nil {
		return faults
	}
	return append(faults, fmt.Sprintf("Retry-After %q is neither seconds nor a date", hint))
}

// detail returns what the body of a failure says of the reason: the title of a problem, or its first bytes.
func (a answer) detail() string {
	if a.status < 400 || len(a.body) == 0 {
		return ""
	}
	var problem struct {
		Title string `json:"title"`
	}
	if err := json.Unmarshal(a.body, &problem); err == nil && problem.Title != "" {
		return " (" + excerpt([]byte(problem.Title), 0) + ")"
	}
	return " (" + excerpt(a.body, 0) + ")"
}

// difference shows both bodies where they begin to differ.
func difference(got, want []byte) string {
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	const before = 12 // bytes, so that the reader sees what differs
	at = max(0, at-before)
	return fmt.Sprintf("%s, not %s", excerpt(got, at), excerpt(want, at))
}

// excerpt quotes some bytes of a body from at on.
func excerpt(body []byte, at int) string {
	const length = 60
	rest := body[min(at, len(body)):]
	part := string(rest[:min(length, len(rest))])
	quoted := strconv.Quote(part)
	if strconv.CanBackquote(part) && strings.Contains(part, `"`) {
		quoted = "`" + part + "`"
	}
	if at > 0 {
		quoted = "…" + quoted
	}
	return quoted + strings.Repeat("…", min(1, max(0, len(rest)-length)))
}
