package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ichido-dev/ichido"
)

// Decorate adds [Components] and [Operation] to the operation of an OpenAPI document that method and path name, as in
// "POST" and "/reservations/{id}", and the marker of replays to its successful responses. What is there is kept:
//
//   - A parameter for the same field stays as it is.
//   - A response for the same status gets our description after its own, and the headers and media types that it lacks.
//     If it is a reference into components, the operation gets a copy, so that other operations stay as they are; if it
//     refers to another document, it stays. What "4XX" or "default" say of a status so far is kept in the same way.
//   - A component of the same name but with another content stays, and ours gets a name that ends in _2, _3 and so on.
//     Thus operations with different policies can be in one document.
//
// To decorate twice changes nothing; after a change of the policy, begin with the undecorated document. An error says
// what is wrong with the arguments or the document, which is then unchanged.
func Decorate(doc map[string]any, p ichido.KeyPolicy, method, path string) error {
	if !slices.ContainsFunc(p.Methods, func(m string) bool { return strings.EqualFold(m, method) }) {
		return fmt.Errorf("openapi: the policy does not apply to %s; it does to %s", method, strings.Join(p.Methods, ", "))
	}
	item, operation, err := find(doc, method, path)
	if err != nil {
		return fmt.Errorf("openapi: %w", err)
	}
	present, err := child(doc, "components")
	if err != nil {
		return fmt.Errorf("openapi: %w", err)
	}
	responses, err := child(operation, "responses")
	if err != nil {
		return fmt.Errorf("openapi: the operation %s %s: %w", method, path, err)
	}
	parameters, ok := operation["parameters"].([]any)
	if !ok && operation["parameters"] != nil {
		return fmt.Errorf("openapi: the operation %s %s: its parameters are not an array", method, path)
	}
	components, renamed, err := place(present, Components(p))
	if err != nil {
		return fmt.Errorf("openapi: %w", err)
	}

	doc["components"] = present
	for section, added := range components {
		if present[section] == nil {
			present[section] = object{}
		}
		maps.Copy(present[section].(object), added)
	}
	ours := copied(Operation(p), renamed).(object)
	shared, _ := item["parameters"].([]any) // by all operations of the path
	if added, ok := ours["parameters"].([]any); ok && !hasField(doc, slices.Concat(shared, parameters), p.Header) {
		operation["parameters"] = append(slices.Clip(parameters), added...)
	}
	operation["responses"] = responses
	for status, added := range ours["responses"].(object) {
		responses[status] = withProblems(doc, responses, status, added)
	}
	marker := copied(object{"headers": object{p.ReplayMarker: reference("headers", p.ReplayMarker)}}, renamed).(object)
	for status, r := range responses {
		there, ok := resolve(doc, r).(object)
		headers, _ := there["headers"].(object)
		if ok && !hasName(headers, p.ReplayMarker) && (strings.HasPrefix(status, "2") || strings.HasPrefix(status, "3")) {
			responses[status] = merge(there, marker)
		}
	}
	return nil
}

// withProblems returns the response of a status with our problems, to which ref refers.
func withProblems(doc, responses object, status string, ref any) any {
	for _, key := range []string{status, status[:1] + "XX", "default"} {
		there, ok := resolve(doc, responses[key]).(object)
		switch {
		case key == status && responses[key] != nil && (!ok || equal(responses[key], ref)):
			return responses[key] // it refers to another document, or to ours already
		case ok:
			return merge(there, resolve(doc, ref).(object))
		}
	}
	return ref
}

// find returns the Path Item Object of a path and its Operation Object of a method.
func find(doc object, method, path string) (item, operation object, err error) {
	paths, err := child(doc, "paths")
	if err != nil {
		return nil, nil, err
	}
	item, _ = resolve(doc, paths[path]).(object)
	operation, _ = item[strings.ToLower(method)].(object)
	if operation == nil {
		return nil, nil, fmt.Errorf("the document has no operation %s %s", method, path)
	}
	return item, operation, nil
}

// child returns the object that is a member of parent, or a new one if there is no such member.
func child(parent object, name string) (object, error) {
	switch v := parent[name].(type) {
	case nil:
		return object{}, nil
	case object:
		return v, nil
	}
	return nil, fmt.Errorf("the member %s is not an object", name)
}

// place finds names for components among those present. It returns what to add, by section, and the references that
// changed.
func place(present, components object) (added map[string]object, renamed map[string]string, err error) {
	added, renamed = make(map[string]object), make(map[string]string)
	for _, section := range sections {
		there, err := child(present, section)
		if err != nil {
			return nil, nil, fmt.Errorf("components: %w", err)
		}
		ours, _ := components[section].(object)
		added[section] = make(object)
		for name, component := range ours {
			component = copied(component, renamed)
			free := name
			for n := 2; there[free] != nil && !equal(there[free], component); n++ {
				free = name + "_" + strconv.Itoa(n)
			}
			added[section][free] = component
			if free != name {
				renamed[pointer(section, name)] = pointer(section, free)
			}
		}
		if len(ours) == 0 {
			delete(added, section)
		}
	}
	return added, renamed, nil
}

// copied returns a deep copy of v in which references are changed.
func copied(v any, renamed map[string]string) any {
	switch v := v.(type) {
	case object:
		out := make(object, len(v))
		for name, member := range v {
			out[name] = copied(member, renamed)
		}
		if ref, ok := v["$ref"].(string); ok && renamed[ref] != "" {
			out["$ref"] = renamed[ref]
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = copied(element, renamed)
		}
		return out
	}
	return v
}

// equal compares by the JSON text, since numbers may be of several types.
func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// resolve returns v, or what it refers to within doc; nil if it refers elsewhere.
func resolve(doc object, v any) any {
	for range 10 { // references to references; more are a circle
		o, _ := v.(object)
		ref, ok := o["$ref"].(string)
		if !ok {
			return v
		}
		rest, ok := strings.CutPrefix(ref, "#/")
		if !ok {
			return nil
		}
		v = doc
		for part := range strings.SplitSeq(rest, "/") {
			o, _ := v.(object)
			v = o[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		}
	}
	return nil
}

// hasField reports whether one of the parameters is the header field of that name.
func hasField(doc object, parameters []any, name string) bool {
	return slices.ContainsFunc(parameters, func(v any) bool {
		o, _ := resolve(doc, v).(object)
		there, _ := o["name"].(string)
		return o["in"] == "header" && strings.EqualFold(there, name)
	})
}

// merge returns a copy of the response old with what it lacks of added.
func merge(old, added object) object {
	out := copied(old, nil).(object)
	before, _ := out["description"].(string)
	if text, _ := added["description"].(string); !strings.Contains(before, text) {
		out["description"] = strings.TrimSpace(before + "\n\n" + text)
	}
	for _, member := range []string{"headers", "content"} {
		ours, _ := added[member].(object)
		if len(ours) == 0 {
			continue
		}
		all, _ := out[member].(object)
		if all == nil {
			all = make(object)
			out[member] = all
		}
		for name, v := range ours {
			if !hasName(all, name) {
				all[name] = copied(v, nil)
			}
		}
	}
	return out
}

// hasName reports whether o has a member of that name, in whatever case, as names of fields and media types are compared.
func hasName(o object, name string) bool {
	for there := range o {
		if strings.EqualFold(there, name) {
			return true
		}
	}
	return false
}
