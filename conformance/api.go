package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An API describes the server that is graded: how something is made, how to see what was made, and what the API
// promises where APIs legitimately differ. The tags are the members of a description in YAML.
//
// In Request and Effects, {item} stands for a word of letters, digits and hyphens that each scenario has its own of, and
// {quantity} for 1, or for 2 in another request. Header values may name environment variables, as in "Bearer $TOKEN_A".
type API struct {
	// Name is what reports call the API.
	Name string `yaml:"name"`
	// Request makes one thing, and is what is sent with a key.
	Request Request `yaml:"request"`
	// Key says how keys are sent.
	Key Key `yaml:"key"`
	// Effects says how to see what was made.
	Effects Effects `yaml:"effects"`
	// Principals are how two users prove who they are; the first sends everything that need not come from two. None
	// means that nobody has to.
	Principals []Principal `yaml:"principals"`
	// Policy is the path of the document that tells clients about keys. "" means that there is none.
	Policy string `yaml:"policy"`
	// Expect is what the API promises where APIs differ.
	Expect Expect `yaml:"expect"`
}

// A Request makes one thing. Bodies that are "" do not exist; scenarios that need one of them are then not testable.
type Request struct {
	Method  string            `yaml:"method"` // "" is POST
	Path    string            `yaml:"path"`   // below the base URL; may have a query
	Headers map[string]string `yaml:"headers"`
	Body    string            `yaml:"body"`
	// Other makes something else of the same item. "" means Body with another {quantity}.
	Other string `yaml:"other"`
	// Invalid must fail, and make nothing.
	Invalid string `yaml:"invalid"`
	// Slow takes a while, so that requests can be sent while it runs. "" means Body.
	Slow string `yaml:"slow"`
	// Flaky is answered with a status of 500 or above the first time, and as Body the second.
	Flaky string `yaml:"flaky"`
	// Binary is answered with bytes that are not text.
	Binary string `yaml:"binary"`
}

// Key says how keys are sent.
type Key struct {
	// Header carries the key. "" is Idempotency-Key.
	Header string `yaml:"header"`
	// Form is "quoted" for a String of RFC 9651, or "bare" for the key as it is. "" is quoted.
	Form string `yaml:"form"`
	// Optional says that a request without a key is executed.
	Optional bool `yaml:"optional"`
	// CaseInsensitive says that keys which differ in case only are one key.
	CaseInsensitive bool `yaml:"case_insensitive"`
	// Marker is the field that replays have and first answers have not. "" means that they look the same.
	Marker string `yaml:"marker"`
}

// Effects says how to see what was made. With neither Get nor Answer it cannot be seen.
type Effects struct {
	// Get is the path of what is read to count.
	Get string `yaml:"get"`
	// At is a JSON pointer (RFC 6901) to an array, whose elements are counted, or to a number. "" is the whole answer.
	At string `yaml:"at"`
	// Where is a pointer within an element to the item: others do not count. "" means that all do; then Get should have
	// {item} in it, or all is counted that anybody makes during the run.
	Where string `yaml:"where"`
	// ID is a pointer within an element to what names it.
	ID string `yaml:"id"`
	// Next is a pointer to the address of the next page, which is absent on the last.
	Next string `yaml:"next"`
	// After is the query parameter that takes the last ID of a page to get the next one.
	After string `yaml:"after"`
	// Page is the query parameter that counts pages from 1. A page without elements is behind the last. With none of
	// Next, After and Page, a field Link with rel="next" is followed (RFC 8288).
	Page string `yaml:"page"`
	// NewestFirst says that pages begin with what was made last, so that not all have to be read.
	NewestFirst bool `yaml:"newest_first"`
	// Answer is a pointer into the answer of a Request to the name of what was made. Without Get this is all that is
	// counted by, and shows nothing of requests that were refused.
	Answer string `yaml:"answer"`
}

// A Principal is a user, and the fields by which requests prove it. Their values are secrets: reports have the names of
// their variables instead, or $TOKEN_A and $TOKEN_B for what has none.
type Principal struct {
	Headers map[string]string `yaml:"headers"`
}

// Expect is what an API promises where APIs legitimately differ. A reply is a status, such as "422", or
//
//	execute   the request is executed
//	replay    it gets the first one's answer
//	wait      the same, after the first one has been executed
//
// A nil list means that nothing is promised. A reply that is promised, or that well-known APIs give and that harms
// nobody, but that is not the one the source of the scenario asks for, "differs by choice".
type Expect struct {
	// Success are the statuses of a request that was executed. nil means any from 200 to 299.
	Success Replies `yaml:"success"`
	// Replay are the statuses of a replay. nil means the first one's.
	Replay Replies `yaml:"replay"`
	// NoKey is the reply to a request without a key.
	NoKey Replies `yaml:"no_key"`
	// Mismatch is the reply to another request under a key that was used.
	Mismatch Replies `yaml:"mismatch"`
	// InProgress is the reply to a duplicate of a running request.
	InProgress Replies `yaml:"in_progress"`
	// Corrected is the reply to a correct request under the key of an invalid one.
	Corrected Replies `yaml:"corrected"`
	// ServerError is the reply to a request that was answered with 500 or above the first time.
	ServerError Replies `yaml:"server_error"`
	// OtherPrincipal is the reply to a key that another principal used.
	OtherPrincipal Replies `yaml:"other_principal"`
	// Problems says that refusals are problem documents (RFC 9457), Documentation that they link to documentation, and
	// RetryAfter that a conflict has Retry-After.
	Problems      bool `yaml:"problems"`
	Documentation bool `yaml:"documentation"`
	RetryAfter    bool `yaml:"retry_after"`
}

// Replies are what a request may get.
type Replies []string

// UnmarshalYAML takes one reply or a list of them.
func (r *Replies) UnmarshalYAML(unmarshal func(any) error) error {
	var list []string
	if err := unmarshal(&list); err == nil {
		*r = list
		return nil
	}
	var one string
	if err := unmarshal(&one); err != nil {
		return err
	}
	*r = Replies{one}
	return nil
}

const (
	execute = "execute"
	replay  = "replay"
	wait    = "wait"
)

var statusReply = regexp.MustCompile(`^[2-5][0-9][0-9]$`)

// check returns what is wrong with the description. The caller says that it is the description that is wrong.
func (a *API) check() error {
	var wrong []error
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if !strings.HasPrefix(a.Request.Path, "/") {
		say("request.path is %q; it must begin with /", a.Request.Path)
	}
	if a.Request.Body != "" && a.Request.Other == "" && !strings.Contains(a.Request.Body, "{quantity}") {
		say("request.body has no {quantity}, and there is no request.other: another request cannot be told from it")
	}
	if a.Key.Form != "" && a.Key.Form != "quoted" && a.Key.Form != "bare" {
		say("key.form is %q; it must be quoted or bare", a.Key.Form)
	}
	if a.Effects.Get != "" && !strings.HasPrefix(a.Effects.Get, "/") {
		say("effects.get is %q; it must begin with /", a.Effects.Get)
	}
	for name, pointer := range map[string]string{"at": a.Effects.At, "where": a.Effects.Where, "id": a.Effects.ID,
		"next": a.Effects.Next, "answer": a.Effects.Answer} {
		if pointer != "" && !strings.HasPrefix(pointer, "/") {
			say("effects.%s is %q; a JSON pointer begins with /", name, pointer)
		}
	}
	if a.Effects.After != "" && a.Effects.ID == "" {
		say("effects.after needs effects.id, whose last value it takes")
	}
	if a.Policy != "" && !strings.HasPrefix(a.Policy, "/") {
		say("policy is %q; it must begin with /", a.Policy)
	}
	if len(a.Principals) > 2 {
		say("there are %d principals; two are all that is asked for", len(a.Principals))
	}
	e := &a.Expect
	for name, list := range map[string]struct {
		replies Replies
		words   []string
	}{
		"success": {e.Success, nil}, "replay": {e.Replay, nil}, "no_key": {e.NoKey, []string{execute}},
		"mismatch": {e.Mismatch, []string{execute, replay}}, "in_progress": {e.InProgress, []string{wait}},
		"corrected": {e.Corrected, []string{execute, replay}}, "server_error": {e.ServerError, []string{execute, replay}},
		"other_principal": {e.OtherPrincipal, []string{execute}},
	} {
		for _, reply := range list.replies {
			if !statusReply.MatchString(reply) && !slices.Contains(list.words, reply) {
				say("expect.%s has %q; it must be a status%s", name, reply, orWords(list.words))
			}
		}
	}
	slices.SortFunc(wrong, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(wrong...)
}

func orWords(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return " or " + strings.Join(words, " or ")
}

// withDefaults returns a copy in which "" stands for nothing else any more.
func (a API) withDefaults() API {
	a.Request.Method = cmp.Or(a.Request.Method, http.MethodPost)
	a.Request.Slow = cmp.Or(a.Request.Slow, a.Request.Body)
	a.Request.Other = cmp.Or(a.Request.Other, strings.ReplaceAll(a.Request.Body, "{quantity}", "2"))
	a.Key.Header = cmp.Or(a.Key.Header, "Idempotency-Key")
	a.Key.Form = cmp.Or(a.Key.Form, "quoted")
	a.Request.Headers = maps.Clone(a.Request.Headers)
	if a.Key.Optional && a.Expect.NoKey == nil {
		a.Expect.NoKey = Replies{execute}
	}
	return a
}

// has reports whether a status is among the replies.
func (r Replies) has(status int) bool { return slices.Contains(r, strconv.Itoa(status)) }

// fill puts an item and a quantity into a template.
func fill(template, item string, quantity int) string {
	return strings.NewReplacer("{item}", item, "{quantity}", strconv.Itoa(quantity)).Replace(template)
}

// sortedNames returns the names of header fields in an order that is always the same.
func sortedNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
