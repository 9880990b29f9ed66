package openapi

import (
	"fmt"
	"strings"

	"github.com/ichido-dev/ichido"
)

// response returns the Response Object of a status, which may be that of several problems.
func response(p ichido.KeyPolicy, status int) object {
	description := []string{"The request was refused, or failed:\n"}
	headers, examples := object{}, object{}
	for _, k := range problems(p) {
		if k.Status != status {
			continue
		}
		line := fmt.Sprintf("- `%s`: %s.", k.Code, k.Title)
		if k.Detail != "" {
			line += " " + k.Detail
		}
		description = append(description, line)
		if k.RetryAfter {
			headers[retryAfter] = reference("headers", retryAfter)
		}
		if k.Code == "answer-not-kept" {
			headers[p.ReplayMarker] = reference("headers", p.ReplayMarker)
		}
		examples[k.Code] = object{"summary": k.Title, "value": example(p, k)}
	}
	out := object{"description": strings.Join(description, "\n")}
	if len(headers) > 0 {
		out["headers"] = headers
	}
	if p.ProblemMediaType != "" {
		out["content"] = object{p.ProblemMediaType: object{
			"schema":   reference("schemas", problemSchema),
			"examples": examples,
		}}
	}
	return out
}

// example returns a problem as a client gets it.
func example(p ichido.KeyPolicy, k ichido.ProblemRules) object {
	out := object{"type": k.Type, "title": k.Title, "status": k.Status, "code": k.Code, "retryable": k.Retryable}
	detail := k.Detail
	switch k.Code {
	case "key-invalid":
		detail = fmt.Sprintf("the key has %d characters; at most %d are accepted", p.Key.MaxLength+1, p.Key.MaxLength)
	case "body-too-large":
		detail = fmt.Sprintf("At most %d bytes are accepted.", p.MaxRequestBody)
	}
	if detail != "" {
		out["detail"] = detail
	}
	if k.Status >= 500 {
		out["instance"] = "urn:ichido:fault:K5ZQGTOX2D7LJ4BHVW6NAYRE3M"
	}
	return out
}

// problemObject returns the schema of [ichido.Problem].
func problemObject() object {
	text := func(format, description string) object {
		out := object{"type": "string", "description": description}
		if format != "" {
			out["format"] = format
		}
		return out
	}
	return object{
		"type":        "object",
		"description": "A problem document (RFC 9457): why a request was not answered by its handler.",
		"required":    []any{"type", "title", "status", "code", "retryable"},
		"properties": object{
			"type":      text("uri-reference", "Names the type of problem, and leads to its documentation."),
			"title":     text("", "What the problem is; the same for every occurrence, in the language of the client."),
			"status":    object{"type": "integer", "description": "The status of the response."},
			"detail":    text("", "What is wrong with this request, and what to do."),
			"instance":  text("uri-reference", "Names this occurrence in the log of the server."),
			"code":      text("", "The type as a short name, which stays the same."),
			"retryable": object{"type": "boolean", "description": "Whether the same request, unchanged and with the same key, may succeed later."},
		},
	}
}
