package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ichido-dev/ichido/internal/problem"
)

// The page at /docs is the OpenAPI document for people.

// A docsPage is what pages/docs.html shows.
type docsPage struct {
	basePage
	Operations []docsOperation
}

type docsOperation struct {
	Method, Path, ID, Summary string
	Token                     bool
	Parameters, Body          []docsValue
	Answers                   []docsAnswer
}

// A docsValue is a parameter, or a member of an object.
type docsValue struct {
	Name, Kind string
	Required   bool
}

type docsAnswer struct {
	Status, Text string
	Members      []docsValue
	Problems     []docsProblem
}

type docsProblem struct{ Code, Title string }

// An openDoc is the document as far as the page shows it.
type openDoc struct {
	Paths      map[string]map[string]openOperation
	Components struct {
		Schemas    map[string]openSchema
		Responses  map[string]openResponse
		Parameters map[string]openParameter
	}
	titles map[string]problem.Text // of problems, by code
}

type openOperation struct {
	OperationID, Summary string
	Security             []any
	Parameters           []openParameter
	RequestBody          struct{ Content map[string]openMedia }
	Responses            map[string]openResponse
}

type openParameter struct {
	Ref      string `json:"$ref"`
	Name, In string
	Required bool
	Schema   openSchema
}

type openMedia struct {
	Schema   openSchema
	Examples map[string]any // of problems, by code
}

type openResponse struct {
	Ref     string `json:"$ref"`
	Content map[string]openMedia
}

type openSchema struct {
	Ref        string `json:"$ref"`
	Type, Enum any
	Required   []string
	Properties map[string]openSchema
}

// docs answers with the description of the API for people.
func (a *api) docs(w http.ResponseWriter, r *http.Request) {
	p := docsPage{basePage: a.basePage(r)}
	p.Operations = a.description.operations(p.Lang)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Link", serviceDesc)
	sendPage(w, http.StatusOK, p.Lang, "docs.html", p)
}

func parseOpenDoc(document []byte, problems []problemDoc) (*openDoc, error) {
	d := &openDoc{titles: make(map[string]problem.Text)}
	for _, p := range problems {
		d.titles[p.Code] = p.title
	}
	return d, json.Unmarshal(document, d)
}

// operations returns all operations by path, in the language.
func (d *openDoc) operations(lang string) (all []docsOperation) {
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			o := d.Paths[path][method]
			op := docsOperation{Method: strings.ToUpper(method), Path: path, ID: o.OperationID, Token: len(o.Security) > 0,
				Summary: problem.Text{EN: o.Summary, JA: operationsJA[o.OperationID]}.In(lang)}
			for _, p := range o.Parameters {
				if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
					p = d.Components.Parameters[name]
				}
				op.Parameters = append(op.Parameters, docsValue{p.Name, p.In + ", " + d.kind(p.Schema), p.Required})
			}
			op.Body = d.members(o.RequestBody.Content["application/json"].Schema)
			for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
				op.Answers = append(op.Answers, d.answer(status, o.Responses[status], lang))
			}
			all = append(all, op)
		}
	}
	return all
}

// answer describes the answers of one status.
func (d *openDoc) answer(status string, response openResponse, lang string) docsAnswer {
	if name, ok := strings.CutPrefix(response.Ref, "#/components/responses/"); ok {
		response = d.Components.Responses[name]
	}
	out := docsAnswer{Status: status, Members: d.members(response.Content["application/json"].Schema)}
	for _, code := range slices.Sorted(maps.Keys(response.Content[problem.ContentType].Examples)) {
		out.Problems = append(out.Problems, docsProblem{code, d.titles[code].In(lang)})
	}
	if code, err := strconv.Atoi(status); err == nil && out.Members == nil && out.Problems == nil {
		out.Text = http.StatusText(code)
	}
	return out
}

// members returns those of an object, the required ones first.
func (d *openDoc) members(s openSchema) (all []docsValue) {
	s = d.resolve(s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		all = append(all, docsValue{name, d.kind(s.Properties[name]), slices.Contains(s.Required, name)})
	}
	slices.SortStableFunc(all, func(a, b docsValue) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return all
}

func (d *openDoc) resolve(s openSchema) openSchema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return d.Components.Schemas[name]
	}
	return s
}

// kind says of what type a value is, or which values there are.
func (d *openDoc) kind(s openSchema) string {
	s = d.resolve(s)
	if values, ok := s.Enum.([]any); ok && len(values) <= 4 {
		var names []string
		for _, v := range values {
			name, _ := v.(string)
			names = append(names, name)
		}
		return strings.Join(names, " | ")
	}
	name, _ := s.Type.(string)
	return name
}
