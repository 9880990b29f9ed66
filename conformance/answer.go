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

// markers are the fields by which known servers mark replays, for APIs of which it is not described.
var markers = []string{"Idempotent-Replayed", "Idempotency-Replayed", "Idempotent-Replay", "Idempotency-Replay"}

func (a answer) isMarked() bool {
	if a.api.Key.Marker != "" {
		return a.header.Get(a.api.Key.Marker) != "" && a.header.Get(a.api.Key.Marker) != "false"
	}
	return slices.ContainsFunc(markers, func(name string) bool { return a.header.Get(name) == "true" })
}

// success reports whether the status is one of an execution or of its replay.
func (a answer) success() bool {
	if a.err != nil {
		return false
	}
	if a.api.Expect.Success == nil {
		return a.status >= 200 && a.status <= 299
	}
	return a.api.Expect.Success.has(a.status) || a.marked && a.api.Expect.Replay.has(a.status)
}

// executed reports whether the answer says that its request was executed. Without a marker a replay says so, too: then
// the name of what was made tells whether it was the same execution.
func (a answer) executed() bool { return a.success() && !a.marked }

// name returns what names the thing that was made.
func (a answer) name() string {
	if pointer := a.api.Effects.Answer; pointer != "" {
		if name := word(a.body, pointer); name != "" {
			return name
		}
	}
	if location := a.header.Get("Location"); location != "" {
		return location
	}
	return string(a.body)
}

// sameAs reports whether the answer tells of the same execution as first.
func (a answer) sameAs(first answer) bool {
	return a.marked || a.success() && a.api.Key.Marker == "" && a.name() == first.name()
}

// refused reports whether the server answered that it did not execute the request.
func (a answer) refused() bool {
	return a.err == nil && a.status >= 400 && a.status <= 499 && !a.marked
}

// unserved reports whether the server says that it would not serve this request whatever its key. Then it is not the
// API that is graded here, or lets only others in.
func (a answer) unserved() bool {
	switch a.status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return !a.success()
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
	case a.marked:
		return fmt.Sprintf("%d replayed", a.status)
	}
	return strconv.Itoa(a.status)
}

// executionFaults returns what is wrong with an answer that should come from executing the request.
func (a answer) executionFaults() []string {
	switch {
	case a.err != nil:
		return []string{"there is none"}
	case !a.success():
		return []string{fmt.Sprintf("%d, not %s%s", a.status, a.api.Expect.successes(), a.detail())}
	case a.marked:
		return []string{"marked as a replay although nothing was there to replay"}
	}
	return nil
}

func (e *Expect) successes() string {
	if e.Success == nil {
		return "2xx"
	}
	return strings.Join(e.Success, " or ")
}

// replayFaults returns what is wrong with an answer that should replay first. Which fields it has is not the question in
// most scenarios; see fieldFaults.
func (a answer) replayFaults(first answer) []string {
	if a.err != nil {
		return []string{"there is none"}
	}
	if expected := a.api.Expect.Replay; a.status != first.status && !expected.has(a.status) {
		return []string{fmt.Sprintf("%d, not %d%s", a.status, first.status, a.detail())}
	}
	var faults []string
	if marker := a.api.Key.Marker; marker != "" && !a.marked {
		faults = append(faults, "not marked "+marker)
	}
	if !bytes.Equal(a.body, first.body) {
		faults = append(faults, "other body: "+difference(a.body, first.body))
	}
	return faults
}

// fieldFaults returns what is wrong with the fields of a replay that nobody can do without.
func (a answer) fieldFaults(first answer) []string {
	if a.err != nil {
		return nil
	}
	var faults []string
	for _, name := range []string{"Location", "Content-Type"} {
		if got, want := a.header.Values(name), first.header.Values(name); !slices.Equal(got, want) {
			faults = append(faults, fmt.Sprintf("%s %q, not %q", name, got, want))
		}
	}
	return faults
}

// problem reports whether the answer says that it is a problem document.
func (a answer) problem() bool {
	mediaType, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	return mediaType == "application/problem+json"
}

// problemFaults returns what is wrong with an answer that is a problem document (RFC 9457).
func (a answer) problemFaults() []string {
	var problem struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
	}
	if err := json.Unmarshal(a.body, &problem); err != nil {
		return []string{"its body is not a problem document: " + excerpt(a.body, 0)}
	}
	var faults []string
	if problem.Type == "" && problem.Title == "" { // each may be absent, but then nothing says which problem it is
		faults = append(faults, "the problem has neither type nor title")
	}
	if problem.Status != 0 && problem.Status != a.status {
		faults = append(faults, fmt.Sprintf("the problem's status is %d, the answer's %d", problem.Status, a.status))
	}
	return faults
}

// detail returns what the body of a failure says of the reason: the title of a problem, or its first bytes.
func (a answer) detail() string {
	if to := a.header.Get("Location"); to != "" && a.status >= 300 && a.status < 400 {
		return " (to " + excerpt([]byte(to), 0) + ")"
	}
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
