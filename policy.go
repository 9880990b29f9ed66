package ichido

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ichido-dev/ichido/internal/problem"
)

// A KeyPolicy is what a server publishes about its keys, for people who write clients and for the clients themselves
// (draft-07, section 2.5.2, asks for it). [Manager.PolicyHandler] serves it; the package openapi describes it in the
// terms of OpenAPI. Members may be added; those that are here keep their names and meanings.
type KeyPolicy struct {
	// Location is "header" if a field carries the key, or "elsewhere" under Config.KeyFrom.
	Location string `json:"location"`
	// Header is the field that carries the key, or "".
	Header string `json:"header"`
	// Required says that requests without a key are refused; else they run unprotected.
	Required bool `json:"required"`
	// Methods are those to which all this applies.
	Methods []string `json:"methods"`
	// Key says which keys are accepted.
	Key KeyRules `json:"key"`
	// Scope is what a key is unique within: "principal and route", or "principal".
	Scope string `json:"scope"`
	// Retention is how long a completed record is kept, as an ISO 8601 duration such as "PT24H". After that the key
	// is a new operation, so clients must have stopped sending it.
	Retention string `json:"retention"`
	// RetentionSeconds is Retention as a number.
	RetentionSeconds float64 `json:"retention_seconds"`
	// InProgress says what happens to a request whose key has an attempt in progress.
	InProgress InProgressRules `json:"in_progress"`
	// Mismatch says what happens to another request under the same key.
	Mismatch MismatchRules `json:"mismatch"`
	// ReplayMarker is the field that a replay has and a first answer has not.
	ReplayMarker string `json:"replay_marker"`
	// MaxRequestBody is the largest request body in bytes.
	MaxRequestBody int64 `json:"max_request_body"`
	// Stored says which answers are kept.
	Stored StoredRules `json:"stored"`
	// ProblemMediaType is the media type of the problems, or "" under Config.WriteProblem, which has a format of its own.
	ProblemMediaType string `json:"problem_media_type"`
	// Problems are those that a request can meet before or instead of its handler.
	Problems []ProblemRules `json:"problems"`
}

// KeyRules say which keys are accepted. All characters are ASCII.
type KeyRules struct {
	MinLength int `json:"min_length"`
	MaxLength int `json:"max_length"`
	// Pattern is a regular expression for the key without its quotes, from ^ to $. "" accepts all keys.
	Pattern string `json:"pattern,omitempty"`
	// Format tells people what Pattern asks for, as in "a UUID".
	Format string `json:"format,omitempty"`
	// Quotes is "required" if the key must be in double quotes, "optional" if they may be left out, and "" if no field
	// carries the key.
	Quotes string `json:"quotes,omitempty"`
}

// InProgressRules say what happens to a request whose key has an attempt in progress.
type InProgressRules struct {
	// Policy is "reject", or "wait" if the answer comes when the first request is done.
	Policy string `json:"policy"`
	// WaitLimitSeconds is the longest wait before the request is refused after all. Zero under "reject".
	WaitLimitSeconds float64 `json:"wait_limit_seconds,omitempty"`
	// Status is that of the refusal.
	Status int `json:"status"`
}

// MismatchRules say what happens to another request under the same key: it is refused.
type MismatchRules struct {
	Status int `json:"status"`
}

// StoredRules say which answers are kept and replayed. In transaction mode what is not kept left nothing behind, and its key
// is free.
type StoredRules struct {
	// Statuses is "below 400", or "by rule" under a Config.Keep that says otherwise. A handler may overrule both.
	Statuses string `json:"statuses"`
	// LocationOnly says that a replay has the status and the field Location of the first answer only.
	LocationOnly bool `json:"location_only,omitempty"`
}

// ProblemRules describe one type of problem.
type ProblemRules struct {
	Code   string `json:"code"`
	Type   string `json:"type"`
	Status int    `json:"status"`
	Title  string `json:"title"`
	// Detail says what to do; "" if each occurrence has its own.
	Detail string `json:"detail,omitempty"`
	// Retryable says that the same request, unchanged, may succeed later.
	Retryable bool `json:"retryable"`
	// RetryAfter says that the field Retry-After comes with it.
	RetryAfter bool `json:"retry_after"`
}

// kinds are all that [Manager.refuse] may be given.
var kinds = []*kind{
	keyRequired, keyInvalid, noPrincipal, bodyTooLarge, bodyUnreadable, inProgress, mismatch, storeUnavailable,
	commitUnknown, outcomeUnknown, attemptFailed, attemptRepeatable, contention, notCommitted, handlerFailed, fingerprintFailed, replayRefused, answerNotKept, unreadable,
	unstorable,
}

// KeyPolicy returns what there is to publish about the keys of m. Managers made by [Manager.With] have policies of their
// own. Config.Keep is asked about every status.
func (m *Manager) KeyPolicy() KeyPolicy {
	c := &m.config
	p := KeyPolicy{
		Location:         "header",
		Header:           c.Header,
		Required:         !c.Optional,
		Methods:          slices.Clone(c.Methods),
		Key:              KeyRules{MinLength: c.KeyFormat.MinLength, MaxLength: c.KeyFormat.MaxLength, Quotes: "optional"},
		Scope:            "principal and route",
		Retention:        isoDuration(c.Retention),
		RetentionSeconds: c.Retention.Seconds(),
		InProgress:       InProgressRules{Policy: "reject", Status: c.ConflictStatus},
		Mismatch:         MismatchRules{Status: c.MismatchStatus},
		ReplayMarker:     replayedHeader,
		MaxRequestBody:   c.MaxRequestBody,
		Stored:           StoredRules{Statuses: "below 400", LocationOnly: c.Stored.LocationOnly},
		ProblemMediaType: problem.ContentType,
	}
	if c.StrictKeys {
		p.Key.Quotes = "required"
	}
	if c.KeyFrom != nil {
		p.Location, p.Header, p.Key.Quotes = "elsewhere", "", ""
	}
	if c.KeyFormat.Pattern != "" {
		p.Key.Pattern, p.Key.Format = anchored(c.KeyFormat.Pattern), c.KeyFormat.Name
	}
	if c.AcrossRoutes {
		p.Scope = "principal"
	}
	if c.InProgress == Wait {
		p.InProgress.Policy, p.InProgress.WaitLimitSeconds = "wait", c.WaitLimit.Seconds()
	}
	for status := 200; status < 600; status++ {
		if c.Keep(status) != (status < 400) {
			p.Stored.Statuses = "by rule"
			break
		}
	}
	if c.WriteProblem != nil {
		p.ProblemMediaType = ""
	}
	for _, k := range kinds {
		if k.leaseMode && c.Mode != LeaseMode {
			continue
		}
		p.Problems = append(p.Problems, ProblemRules{
			Code:       k.name,
			Type:       c.ProblemBase + k.name,
			Status:     m.statusOf(k),
			Title:      k.title.EN,
			Detail:     strings.ReplaceAll(k.detail.EN, contactMark, m.contactIn("en")),
			Retryable:  k.retryable,
			RetryAfter: k == inProgress || k.retryAfter != "",
		})
	}
	return p
}

// PolicyHandler returns a handler that serves the [KeyPolicy] of m as JSON, to everybody and to scripts of every
// origin. By custom it is registered without authentication:
//
//	mux.Handle("/.well-known/idempotency", once.PolicyHandler())
func (m *Manager) PolicyHandler() http.Handler {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(m.KeyPolicy()); err != nil { // strings, numbers and bools: cannot fail
		panic(err)
	}
	sum := sha256.Sum256(body.Bytes())
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "The policy can be read only.", http.StatusMethodNotAllowed)
			return
		}
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "public, max-age=3600")
		h.Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body.Bytes()))
	})
}

// anchored returns a pattern that holds for the whole text, with one pair of anchors.
func anchored(pattern string) string {
	pattern = strings.TrimPrefix(pattern, "^")
	if !strings.HasSuffix(pattern, `\$`) {
		pattern = strings.TrimSuffix(pattern, "$")
	}
	return "^(?:" + pattern + ")$"
}

// isoDuration writes a duration in hours, minutes and seconds, as ISO 8601 has it.
func isoDuration(d time.Duration) string {
	out := "PT"
	if hours := d / time.Hour; hours > 0 {
		out += strconv.FormatInt(int64(hours), 10) + "H"
	}
	if minutes := d % time.Hour / time.Minute; minutes > 0 {
		out += strconv.FormatInt(int64(minutes), 10) + "M"
	}
	if rest := d % time.Minute; rest > 0 || out == "PT" {
		out += strconv.FormatFloat(rest.Seconds(), 'f', -1, 64) + "S"
	}
	return out
}
