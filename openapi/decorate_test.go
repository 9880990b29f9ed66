package openapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/openapi"
)

func decorate(t *testing.T, doc map[string]any, config ichido.Config, method, path string) {
	t.Helper()
	if err := openapi.Decorate(doc, policy(t, config), method, path); err != nil {
		t.Fatal(err)
	}
	validate(t, parse(t, text(t, doc)))
}

func TestDecorateTwice(t *testing.T) {
	for name, config := range configs {
		doc := office(t)
		decorate(t, doc, config, "POST", "/reservations")
		want := text(t, doc)
		for _, again := range []map[string]any{doc, parse(t, want)} { // numbers are of another type after parse
			decorate(t, again, config, "post", "/reservations")
			if got := text(t, again); got != want {
				t.Errorf("%s: the second time it becomes\n%s", name, got)
			}
		}
	}
}

// What the author of a document wrote stays.
func TestDecorateKeeps(t *testing.T) {
	doc := parse(t, `{
		"openapi": "3.1.0",
		"info": {"title": "Office", "version": "1"},
		"paths": {"/items/{id}": {
			"parameters": [{"$ref": "#/components/parameters/Id"}],
			"patch": {
				"summary": "Change an item",
				"parameters": [{"name": "dry", "in": "query", "schema": {"type": "boolean"}}],
				"responses": {
					"200": {"$ref": "#/components/responses/Item"},
					"400": {"$ref": "common.json#/responses/Bad"},
					"409": {"description": "Lent out", "content": {"text/plain": {"schema": {"type": "string"}}}},
					"413": {"$ref": "#/components/responses/Large"},
					"5XX": {"description": "Our fault"}
				}
			},
			"get": {"responses": {"200": {"$ref": "#/components/responses/Item"}}}
		}},
		"components": {
			"parameters": {"Id": {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}},
			"responses": {
				"Item": {"description": "The item", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}},
				"Large": {"description": "Too large", "headers": {"retry-after": {"schema": {"type": "string"}}},
					"content": {"application/problem+json": {"schema": {"type": "object"}}}}
			},
			"schemas": {"Problem": {"type": "string", "description": "Not ours"}}
		}
	}`)
	decorate(t, doc, ichido.Config{}, "PATCH", "/items/{id}")

	patch := at(doc, "paths", "/items/{id}", "patch")
	if n := len(at(patch, "parameters").([]any)); n != 2 || at(patch, "summary") != "Change an item" {
		t.Errorf("the operation has %d parameters and the summary %v", n, at(patch, "summary"))
	}
	if at(patch, "responses", "400", "$ref") != "common.json#/responses/Bad" {
		t.Error("the reference to another document is gone")
	}
	lent := at(patch, "responses", "409", "description").(string)
	if !strings.HasPrefix(lent, "Lent out\n\n") || !strings.Contains(lent, "`in-progress`") {
		t.Errorf("409 is described by %q", lent)
	}
	if at(patch, "responses", "409", "content", "text/plain") == nil || at(patch, "responses", "409", "content", "application/problem+json") == nil {
		t.Error("409 lacks a media type")
	}
	if at(patch, "responses", "409", "headers", "Retry-After") == nil {
		t.Error("409 lacks Retry-After")
	}
	if at(patch, "responses", "413", "content", "application/problem+json", "schema", "$ref") != nil {
		t.Error("the author's schema was replaced")
	}
	if fault := at(patch, "responses", "503", "description").(string); !strings.HasPrefix(fault, "Our fault\n\n") {
		t.Errorf("503 is described by %q", fault)
	}
	if at(patch, "responses", "200", "headers", "Idempotent-Replayed") == nil {
		t.Error("200 lacks the marker")
	}
	if at(doc, "components", "responses", "Item", "headers") != nil || at(doc, "paths", "/items/{id}", "get", "responses", "200", "$ref") == nil {
		t.Error("another operation was changed")
	}
	if at(doc, "components", "schemas", "Problem", "type") != "string" || at(doc, "components", "schemas", "Problem_2", "type") != "object" {
		t.Error("the author's schema Problem was not kept beside ours")
	}
}

// A parameter for the same field stays the only one, whatever it is called and wherever it stands.
func TestDecorateKeepsKeyParameter(t *testing.T) {
	for _, place := range []string{"post", ""} {
		doc := office(t)
		item := at(doc, "paths", "/reservations").(map[string]any)
		holder := item
		if place != "" {
			holder = item[place].(map[string]any)
		}
		holder["parameters"] = []any{parse(t, `{"name": "idempotency-key", "in": "header", "schema": {"type": "string"}}`)}
		decorate(t, doc, ichido.Config{}, "POST", "/reservations")
		all, _ := at(item, "post", "parameters").([]any)
		shared, _ := item["parameters"].([]any)
		if len(all)+len(shared) != 1 {
			t.Errorf("in %q: there are %d parameters", place, len(all)+len(shared))
		}
	}
}

// Two policies are in one document, each with its own components where they differ.
func TestDecorateTwoPolicies(t *testing.T) {
	doc := office(t)
	at(doc, "paths").(map[string]any)["/payments"] = parse(t, `{"post": {"responses": {"201": {"description": "Paid"}}}}`)
	decorate(t, doc, ichido.Config{}, "POST", "/reservations")
	decorate(t, doc, ichido.Config{KeyFormat: ichido.UUIDKeys}, "POST", "/payments")
	for path, want := range map[string]string{
		"/reservations": "#/components/parameters/IdempotencyKey", "/payments": "#/components/parameters/IdempotencyKey_2",
	} {
		if got := at(at(doc, "paths", path, "post", "parameters").([]any)[0], "$ref"); got != want {
			t.Errorf("%s has the parameter %v, want %s", path, got, want)
		}
	}
	if at(doc, "components", "schemas", "Problem_2") != nil || at(doc, "components", "responses", "Idempotency409_2") != nil {
		t.Error("what is the same is there twice")
	}
}

func TestDecorateErrors(t *testing.T) {
	for _, c := range []struct{ change, method, path, want string }{
		{`{}`, "GET", "/reservations", "the policy does not apply to GET; it does to POST, PATCH"},
		{`{}`, "PATCH", "/reservations", "the document has no operation PATCH /reservations"},
		{`{}`, "POST", "/payments", "the document has no operation POST /payments"},
		{`{"paths": []}`, "POST", "/reservations", "the member paths is not an object"},
		{`{"components": 1}`, "POST", "/reservations", "the member components is not an object"},
		{`{"components": {"headers": []}}`, "POST", "/reservations", "components: the member headers is not an object"},
		{`{"paths": {"/reservations": {"$ref": "other.json"}}}`, "POST", "/reservations", "the document has no operation"},
		{`{"paths": {"/reservations": {"$ref": "#/paths/~1reservations"}}}`, "POST", "/reservations", "the document has no operation"},
		{`{"paths": {"/reservations": {"post": {"responses": 1}}}}`, "POST", "/reservations", "the member responses is not an object"},
		{`{"paths": {"/reservations": {"post": {"parameters": {}}}}}`, "POST", "/reservations", "its parameters are not an array"},
	} {
		doc := office(t)
		if err := json.Unmarshal([]byte(c.change), &doc); err != nil {
			t.Fatal(err)
		}
		before := text(t, doc)
		err := openapi.Decorate(doc, policy(t, ichido.Config{}), c.method, c.path)
		if err == nil || !strings.HasPrefix(err.Error(), "openapi: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %s", c.change, err, c.want)
		}
		if text(t, doc) != before {
			t.Errorf("%s: the document was changed", c.change)
		}
	}
}
