// Package openapi describes routes under a [github.com/ichido-dev/ichido.Manager] in the terms of OpenAPI 3.1: the field
// that carries the key, its form and retention, the marker of replays, and every problem that a request can meet.
//
// With a document at hand, parsed from JSON (or from YAML into the same types), [Decorate] adds all of it to one operation:
//
//	var doc map[string]any
//	err := json.Unmarshal(file, &doc)
//	…
//	err = openapi.Decorate(doc, once.KeyPolicy(), "POST", "/reservations")
//	…
//	out, err := json.MarshalIndent(doc, "", "  ")
//
// Without one, [Components] and [Operation] return the parts to place by hand or by a generator.
//
// The parts consist of map[string]any, []any, strings, numbers and bools. Package encoding/json sorts the members of
// maps, so that one policy gives the same bytes each time. The parts use nothing that OpenAPI 3.0 lacks.
package openapi
