package main

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/problem"
	"github.com/ichido-dev/ichido/openapi"
)

// responses returns one successful response and those of problems.
func responses(status string, success object, problems ...*kind) object {
	byStatus := make(map[int][]*kind)
	for _, k := range problems {
		byStatus[k.status] = append(byStatus[k.status], k)
	}
	out := object{status: success}
	for status, problems := range byStatus {
		out[strconv.Itoa(status)] = problemResponse(problems)
	}
	return out
}

// saying returns a kind with another detail.
func (k kind) saying(detail problem.Text) *kind {
	k.detail = detail
	return &k
}

// problemResponse describes the problems of one status as the library describes its own.
func problemResponse(problems []*kind) object {
	var lines []string
	headers, examples := object{}, object{}
	for _, k := range problems {
		line := fmt.Sprintf("- `%s`: %s.", k.code, k.title.EN)
		example := object{"type": problemBase + k.code, "title": k.title.EN, "status": k.status, "code": k.code, "retryable": k.retryable}
		if k.detail.EN != "" {
			line += " " + k.detail.EN
			example["detail"] = k.detail.EN
		}
		if k.retryAfter != "" {
			headers["Retry-After"] = object{"$ref": "#/components/headers/Retry-After"}
		}
		lines = append(lines, line)
		examples[k.code] = object{"summary": k.title.EN, "value": example}
	}
	out := object{
		"description": "The API refused the request, or failed:\n\n" + strings.Join(lines, "\n"),
		"content":     object{problem.ContentType: object{"schema": object{"$ref": "#/components/schemas/Problem"}, "examples": examples}},
	}
	if len(headers) > 0 {
		out["headers"] = headers
	}
	return out
}

// unchanged adds the answer to a client that has the document already.
func unchanged(responses object) object {
	responses["304"] = object{"description": "It is what the client has, by its `If-None-Match`."}
	return responses
}

// completeExamples puts the library's examples beside ours in the responses of a POST that have both.
func completeExamples(doc object, path string, policy ichido.KeyPolicy) {
	shared := openapi.Components(policy)["responses"].(object)
	responses := doc["paths"].(object)[path].(object)["post"].(object)["responses"].(object)
	for status, r := range responses {
		ours, theirs := examplesOf(r), examplesOf(shared["Idempotency"+status])
		if ours != nil {
			maps.Copy(ours, theirs)
		}
	}
}

func examplesOf(response any) object {
	o, _ := response.(object)
	contents, _ := o["content"].(object)
	media, _ := contents[problem.ContentType].(object)
	examples, _ := media["examples"].(object)
	return examples
}
