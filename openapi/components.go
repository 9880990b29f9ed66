package openapi

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ichido-dev/ichido"
)

// An object is a JSON object.
type object = map[string]any

const (
	keyParameter  = "IdempotencyKey"
	retryAfter    = "Retry-After"
	problemSchema = "Problem"
)

// sections are those of Components, each before the ones that refer to it.
var sections = []string{"schemas", "headers", "parameters", "responses"}

// Components returns what a document needs under "components", by section:
//
//   - parameters: IdempotencyKey, unless the policy takes the key from elsewhere than a field,
//   - headers: Idempotent-Replayed for the successful responses, and Retry-After,
//   - schemas: Problem, unless the service has its own format of problems,
//   - responses: Idempotency400, Idempotency409 and so on, one for each status that problems have.
func Components(p ichido.KeyPolicy) map[string]any {
	headers := object{
		p.ReplayMarker: replayMarker(p),
		retryAfter: object{
			"description": "The number of seconds after which to send the same request again.",
			"schema":      object{"type": "integer", "minimum": 0},
		},
	}
	responses := object{}
	for _, status := range statuses(p) {
		responses[responseName(status)] = response(p, status)
	}
	components := object{"headers": headers, "responses": responses}
	if p.Header != "" {
		components["parameters"] = object{keyParameter: parameter(p)}
	}
	if p.ProblemMediaType != "" {
		components["schemas"] = object{problemSchema: problemObject()}
	}
	return components
}

// Operation returns what an operation has in addition to its own: "parameters" with the key and "responses" with the
// problems, both by references to [Components]. Its successful responses should have the header
//
//	"Idempotent-Replayed": {"$ref": "#/components/headers/Idempotent-Replayed"}
//
// too; [Decorate] adds it.
func Operation(p ichido.KeyPolicy) map[string]any {
	responses := object{}
	for _, status := range statuses(p) {
		responses[strconv.Itoa(status)] = reference("responses", responseName(status))
	}
	operation := object{"responses": responses}
	if p.Header != "" {
		operation["parameters"] = []any{reference("parameters", keyParameter)}
	}
	return operation
}

// statuses returns those of all problems, in order.
func statuses(p ichido.KeyPolicy) []int {
	var all []int
	for _, k := range problems(p) {
		all = append(all, k.Status)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// problems returns those that can occur.
func problems(p ichido.KeyPolicy) []ichido.ProblemRules {
	return slices.DeleteFunc(slices.Clone(p.Problems), func(k ichido.ProblemRules) bool {
		return k.Code == "key-required" && !p.Required
	})
}

func responseName(status int) string { return "Idempotency" + strconv.Itoa(status) }

func pointer(section, name string) string { return "#/components/" + section + "/" + name }

func reference(section, name string) object { return object{"$ref": pointer(section, name)} }

func replayMarker(p ichido.KeyPolicy) object {
	what := "with the status, header fields and body of the first one"
	if p.Stored.LocationOnly {
		what = "with the status and Location of the first one, and no body"
	}
	return object{
		"description": fmt.Sprintf("`true` on a replay: an answer from the record of the key, %s. First answers do not have the field.", what),
		"schema":      object{"type": "string", "enum": []any{"true"}},
	}
}
