package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ichido-dev/ichido/conformance"
	"go.yaml.in/yaml/v3"
)

// An openAPIDocument is one as it was read.
type openAPIDocument struct{ root object }

// fromOpenAPI puts into a description what an OpenAPI document says of an operation. Its notes are what a person has to
// fill in.
func fromOpenAPI(d *description, text []byte, operation string) (notes []string, err error) {
	var root object
	if err := yaml.Unmarshal(text, &root); err != nil { // JSON is YAML
		return nil, err
	}
	doc := openAPIDocument{root}
	method, path, op, err := doc.find(operation)
	if err != nil {
		return nil, err
	}
	if info := doc.object(root["info"]); info["title"] != nil {
		d.Name = fmt.Sprint(info["title"])
	}
	d.Request = conformance.Request{Path: path, Headers: map[string]string{}}
	if method != http.MethodPost {
		d.Request.Method = method
	}
	if strings.Contains(path, "{") {
		notes = append(notes, "request.path has parameters: fill them in")
	}
	if key := doc.key(op); key != "" {
		d.Key.Header = key
	}
	item := doc.body(d, op)
	if item == "" {
		notes = append(notes, "request.body: put {item} where the name of a thing is")
	}
	if !strings.Contains(d.Request.Body, "{quantity}") {
		notes = append(notes, "request.body: put {quantity} where a number is, or say what request.other is")
	}
	d.Expect.Success = doc.successes(op)
	d.Effects = conformance.Effects{}
	if !doc.effects(d, path, op, item) {
		notes = append(notes, "effects: the document has no GET of "+path+" with a list; say how to count what was made")
	}
	if op["security"] != nil || root["security"] != nil {
		d.Principals = []conformance.Principal{
			{Headers: map[string]string{"Authorization": "Bearer $TOKEN_A"}},
			{Headers: map[string]string{"Authorization": "Bearer $TOKEN_B"}},
		}
		notes = append(notes, "principals: set TOKEN_A and TOKEN_B to tokens of two users, or change how they are sent")
	}
	if d.Request.Invalid == "" {
		notes = append(notes, "request.invalid: say what body must fail")
	}
	if d.Policy = ""; doc.object(root["paths"])["/.well-known/idempotency"] != nil {
		d.Policy = "/.well-known/idempotency"
	}
	if marker := doc.marker(op, d.Expect.Success); marker != "" {
		d.Key.Marker = marker
	}
	return notes, nil
}

// marker returns the field of a success that marks replays.
func (d openAPIDocument) marker(op object, successes []string) string {
	for _, status := range successes {
		for name := range d.object(d.object(d.object(op["responses"])[status])["headers"]) {
			if strings.Contains(strings.ToLower(name), "replay") {
				return name
			}
		}
	}
	return ""
}

// object follows a reference within the document and returns what is there, or nil.
func (d openAPIDocument) object(v any) object {
	o, _ := v.(object)
	for range 10 { // references to references
		ref, ok := o["$ref"].(string)
		if !ok {
			return o
		}
		var at any = d.root
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			parent, _ := at.(object)
			at = parent[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		}
		o, _ = at.(object)
	}
	return o
}

var writing = []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}

// find returns the operation that is asked for, or the only one with a key.
func (d openAPIDocument) find(operation string) (method, path string, op object, err error) {
	paths := d.object(d.root["paths"])
	if operation != "" {
		method, path, _ := strings.Cut(operation, " ")
		op := d.object(d.object(paths[path])[strings.ToLower(method)])
		if op == nil {
			return "", "", nil, fmt.Errorf("there is no operation %q in the document", operation)
		}
		return strings.ToUpper(method), path, op, nil
	}
	var found []string
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		for _, m := range writing {
			if o := d.object(d.object(paths[p])[strings.ToLower(m)]); o != nil && d.key(o) != "" {
				found = append(found, m+" "+p)
				method, path, op = m, p, o
			}
		}
	}
	switch len(found) {
	case 1:
		return method, path, op, nil
	case 0:
		return "", "", nil, errors.New("no operation has a header parameter for a key; choose one with --operation \"POST /path\"")
	}
	return "", "", nil, fmt.Errorf("several operations have keys; choose one with --operation: %s", strings.Join(found, ", "))
}

// key returns the header parameter that is a key.
func (d openAPIDocument) key(op object) string {
	parameters, _ := op["parameters"].([]any)
	for _, p := range parameters {
		parameter := d.object(p)
		name, _ := parameter["name"].(string)
		if parameter["in"] == "header" && (strings.Contains(strings.ToLower(name), "idempot") || strings.HasSuffix(name, "Request-Id")) {
			return name
		}
	}
	return ""
}

func (d openAPIDocument) successes(op object) (replies conformance.Replies) {
	for status := range d.object(op["responses"]) {
		if len(status) == 3 && status[0] == '2' && status != "2XX" {
			replies = append(replies, status)
		}
	}
	slices.Sort(replies)
	return replies
}

// body makes a body of the schema, and returns the member that has {item}.
func (d openAPIDocument) body(out *description, op object) (item string) {
	content := d.object(d.object(op["requestBody"])["content"])
	types := slices.Sorted(maps.Keys(content))
	i := slices.IndexFunc(types, func(t string) bool { return strings.HasPrefix(t, "application/json") })
	form := i < 0
	if form {
		i = slices.Index(types, "application/x-www-form-urlencoded")
	}
	if i < 0 {
		return ""
	}
	out.Request.Headers["Content-Type"] = types[i]
	schema := d.object(d.object(content[types[i]])["schema"])
	members, item, least := d.members(schema)
	var parts []string
	for _, m := range members {
		if form {
			parts = append(parts, m.name+"="+strings.Trim(m.value, `"`))
		} else {
			parts = append(parts, strconv.Quote(m.name)+":"+m.value)
		}
	}
	if form {
		out.Request.Body = strings.Join(parts, "&")
	} else {
		out.Request.Body = "{" + strings.Join(parts, ",") + "}"
	}
	if least > 0 {
		out.Request.Invalid = strings.Replace(out.Request.Body, "{quantity}", "0", 1)
	}
	return item
}

type property struct{ name, value string }

// members returns those that a schema requires, or all if it requires none; and which of them has {item}, and the least
// number that may be in place of {quantity}.
func (d openAPIDocument) members(schema object) (members []property, item string, least float64) {
	properties := d.object(schema["properties"])
	var names []string
	required, _ := schema["required"].([]any)
	for _, name := range required {
		names = append(names, fmt.Sprint(name))
	}
	if names == nil {
		names = slices.Sorted(maps.Keys(properties))
	}
	quantity := false
	for _, name := range names {
		about := d.object(properties[name])
		value := d.value(about, 0)
		switch kind := about["type"]; {
		case kind == "string" && item == "" && about["enum"] == nil && about["format"] == nil:
			item, value = name, `"{item}"`
		case (kind == "integer" || kind == "number") && !quantity:
			quantity, value = true, "{quantity}"
			least, _ = strconv.ParseFloat(encoded(about["minimum"]), 64) // 0 if there is none
		}
		members = append(members, property{name, value})
	}
	return members, item, least
}

// value returns a JSON value that a schema accepts, as far as that can be known.
func (d openAPIDocument) value(schema object, depth int) string {
	for _, name := range []string{"const", "example", "default"} {
		if v, ok := schema[name]; ok {
			return encoded(v)
		}
	}
	for _, name := range []string{"examples", "enum"} {
		if list, ok := schema[name].([]any); ok && len(list) > 0 {
			return encoded(list[0])
		}
	}
	switch schema["type"] {
	case "integer", "number":
		if least, ok := schema["minimum"]; ok {
			return encoded(least)
		}
		return "1"
	case "boolean":
		return "false"
	case "array":
		return "[]"
	case "object":
		if depth > 3 {
			return "{}"
		}
		var parts []string
		required, _ := schema["required"].([]any)
		for _, name := range required {
			parts = append(parts, encoded(name)+":"+d.value(d.object(d.object(schema["properties"])[fmt.Sprint(name)]), depth+1))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	switch schema["format"] {
	case "date":
		return `"2030-01-31"`
	case "date-time":
		return `"2030-01-31T00:00:00Z"`
	case "email":
		return `"verify@example.com"`
	case "uuid":
		return `"8e03978e-40d5-43dd-bc93-6894a57f9324"`
	}
	return `"verify"`
}

func encoded(v any) string {
	out, err := json.Marshal(v)
	if err != nil { // a map with keys that are no strings
		return "null"
	}
	return string(out)
}

// effects finds the list that a GET of the same path shows, and the name in the answer of the operation.
func (d openAPIDocument) effects(out *description, path string, op object, item string) bool {
	for _, status := range out.Expect.Success {
		answer := d.schema(d.object(op["responses"])[status])
		if d.object(answer["properties"])["id"] != nil {
			out.Effects.Answer = "/id"
		}
	}
	get := d.object(d.object(d.object(d.root["paths"])[path])["get"])
	schema := d.schema(d.object(get["responses"])["200"])
	element := d.object(schema["items"])
	if schema["type"] != "array" {
		properties := d.object(schema["properties"])
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			property := d.object(properties[name])
			if property["type"] == "array" && element == nil {
				out.Effects.At, element = "/"+name, d.object(property["items"])
			}
			if strings.HasPrefix(name, "next") && property["type"] == "string" {
				out.Effects.Next = "/" + name
			}
		}
	}
	if element == nil {
		return false
	}
	out.Effects.Get = path
	properties := d.object(element["properties"])
	if properties["id"] != nil {
		out.Effects.ID = "/id"
	}
	if item != "" && properties[item] != nil {
		out.Effects.Where = "/" + item
	}
	return true
}

// schema returns that of the JSON in a response.
func (d openAPIDocument) schema(response any) object {
	return d.object(d.object(d.object(d.object(response)["content"])["application/json"])["schema"])
}
