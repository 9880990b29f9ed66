package openapi_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// validate reports where a document is not what OpenAPI 3.1 asks for, as far as our parts could break it: required and
// exclusive members, names of components, references, and examples that do not fit their schemas.
func validate(t *testing.T, doc map[string]any) {
	t.Helper()
	v := validator{t, doc}
	v.require("", doc, "openapi", "info", "paths")
	v.references("#", doc)
	for section, all := range v.object("components", doc["components"]) {
		for name, component := range v.object(section, all) {
			where := "components/" + section + "/" + name
			if !regexp.MustCompile(`^[a-zA-Z0-9._-]+$`).MatchString(name) {
				t.Errorf("%s: not a name for a component", where)
			}
			switch section {
			case "parameters":
				v.parameter(where, component)
			case "headers":
				v.header(where, component)
			case "responses":
				v.response(where, component)
			}
		}
	}
	for path, item := range v.object("paths", doc["paths"]) {
		for method, operation := range v.object(path, item) {
			if method != "parameters" {
				v.operation(method+" "+path, v.object(path, operation))
			}
		}
	}
}

type validator struct {
	t   *testing.T
	doc map[string]any
}

func (v validator) object(where string, x any) map[string]any {
	v.t.Helper()
	if x == nil {
		return nil
	}
	o, ok := x.(map[string]any)
	if !ok {
		v.t.Errorf("%s: %T is not an object", where, x)
	}
	return o
}

// follow returns x, or what it refers to within the document; nil if it refers elsewhere.
func (v validator) follow(where string, x any) map[string]any {
	o := v.object(where, x)
	ref, ok := o["$ref"].(string)
	if !ok {
		return o
	}
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	target, ok := at(v.doc, strings.Split(path, "/")...).(map[string]any)
	if !ok {
		v.t.Errorf("%s: %s leads nowhere", where, ref)
	}
	return target
}

func (v validator) references(where string, x any) {
	switch x := x.(type) {
	case map[string]any:
		v.follow(where, x)
		if x["$ref"] != nil && len(x) != 1 {
			v.t.Errorf("%s: a reference with other members", where)
		}
		for name, member := range x {
			v.references(where+"/"+name, member)
		}
	case []any:
		for _, element := range x {
			v.references(where, element)
		}
	}
}

func (v validator) require(where string, o map[string]any, names ...string) {
	v.t.Helper()
	for _, name := range names {
		if o[name] == nil {
			v.t.Errorf("%s: %s is missing", where, name)
		}
	}
}

func (v validator) operation(where string, o map[string]any) {
	v.require(where, o, "responses")
	seen := make(map[string]bool)
	parameters, _ := o["parameters"].([]any)
	for _, p := range parameters {
		p := v.follow(where, p)
		v.parameter(where, p)
		id, _ := p["name"].(string)
		if seen[id] {
			v.t.Errorf("%s: two parameters %s", where, id)
		}
		seen[id] = true
	}
	for status, r := range v.object(where, o["responses"]) {
		if !regexp.MustCompile(`^([1-5][0-9][0-9]|[1-5]XX|default)$`).MatchString(status) {
			v.t.Errorf("%s: %q is not a status", where, status)
		}
		if r := v.follow(where, r); r != nil {
			v.response(where+" "+status, r)
		}
	}
}

func (v validator) parameter(where string, x any) {
	o := v.object(where, x)
	v.require(where, o, "name", "in", "schema")
	if o["in"] == "path" && o["required"] != true {
		v.t.Errorf("%s: in the path, but not required", where)
	}
	schema := v.object(where, o["schema"])
	v.schema(where, schema)
	if o["example"] != nil {
		v.fits(where, schema, o["example"])
	}
}

func (v validator) header(where string, x any) {
	o := v.follow(where, x)
	v.require(where, o, "schema")
	for _, name := range []string{"name", "in"} {
		if o[name] != nil {
			v.t.Errorf("%s: a header must not have the member %s", where, name)
		}
	}
	v.schema(where, v.object(where, o["schema"]))
}

func (v validator) response(where string, x any) {
	o := v.object(where, x)
	v.require(where, o, "description")
	for name, h := range v.object(where, o["headers"]) {
		v.header(where+"/"+name, h)
	}
	for media, content := range v.object(where, o["content"]) {
		where := where + "/" + media
		content := v.object(where, content)
		if content["example"] != nil && content["examples"] != nil {
			v.t.Errorf("%s: both example and examples", where)
		}
		schema := v.follow(where, content["schema"])
		v.schema(where, schema)
		for name, e := range v.object(where, content["examples"]) {
			v.fits(where+"/"+name, schema, v.object(where, e)["value"])
		}
	}
}

func (v validator) schema(where string, o map[string]any) {
	if kind, _ := o["type"].(string); !slices.Contains([]string{"string", "integer", "boolean", "object"}, kind) {
		v.t.Errorf("%s: the type of the schema is %q", where, kind)
	}
	for name, property := range v.object(where, o["properties"]) {
		v.schema(where+"/"+name, v.object(where, property))
	}
}

// fits checks an example against those keywords of JSON Schema that we use.
func (v validator) fits(where string, schema map[string]any, x any) {
	var ok bool
	switch schema["type"] {
	case "string":
		s, isString := x.(string)
		ok = isString
		if pattern, has := schema["pattern"].(string); has {
			ok = ok && regexp.MustCompile(pattern).MatchString(s)
		}
		if n, has := schema["minLength"].(float64); has {
			ok = ok && len(s) >= int(n)
		}
		if n, has := schema["maxLength"].(float64); has {
			ok = ok && len(s) <= int(n)
		}
	case "integer":
		n, isNumber := x.(float64)
		ok = isNumber && n == float64(int64(n))
	case "boolean":
		_, ok = x.(bool)
	case "object":
		var o map[string]any
		o, ok = x.(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range required {
			ok = ok && o[name.(string)] != nil
		}
		for name, member := range o {
			if property := at(schema, "properties", name); property != nil {
				v.fits(where+"/"+name, v.object(where, property), member)
			}
		}
	}
	if !ok {
		v.t.Errorf("%s: the example %v does not fit its schema", where, x)
	}
}
