package openapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
	"github.com/ichido-dev/ichido/openapi"
)

var update = flag.Bool("update", false, "write the documents in testdata anew")

// configs are configurations, each with a document in testdata.
var configs = map[string]ichido.Config{
	"default":      {},
	"uuid":         {KeyFormat: ichido.UUIDKeys, StrictKeys: true},
	"optional":     {Optional: true, Retention: 48 * time.Hour},
	"acrossroutes": {AcrossRoutes: true, InProgress: ichido.Wait, KeyFormat: ichido.KeyFormat{MinLength: 16, MaxLength: 32, Pattern: "[A-Za-z0-9_-]+"}},
	"statuses":     {MismatchStatus: 409, ConflictStatus: 425, Stored: ichido.Stored{LocationOnly: true}},
	"paypal":       {Header: "PayPal-Request-Id", MismatchStatus: 400, ProblemBase: "https://api.example/problems/"},
	"elsewhere":    {KeyFrom: ichido.KeyFromJSON("/event_id")},
	"ownproblems":  {WriteProblem: func(http.ResponseWriter, *http.Request, ichido.Problem) {}},
}

func policy(t testing.TB, config ichido.Config) ichido.KeyPolicy {
	t.Helper()
	m, err := ichido.New(memstore.New(nil), ichido.Shared, &config)
	if err != nil {
		t.Fatal(err)
	}
	return m.KeyPolicy()
}

// office returns a document with one operation that has nothing of ours.
func office(t testing.TB) map[string]any {
	return parse(t, `{
		"openapi": "3.1.0",
		"info": {"title": "Office", "version": "1"},
		"paths": {"/reservations": {
			"post": {"responses": {"201": {"description": "Registered"}}},
			"get": {"responses": {"200": {"description": "All reservations"}}}
		}}
	}`)
}

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func text(t testing.TB, v any) string {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// at returns the value at a path of members, or nil.
func at(v any, path ...string) any {
	for _, name := range path {
		o, _ := v.(map[string]any)
		v = o[name]
	}
	return v
}

func TestDocuments(t *testing.T) {
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			doc := office(t)
			if err := openapi.Decorate(doc, policy(t, config), "POST", "/reservations"); err != nil {
				t.Fatal(err)
			}
			got := text(t, doc)
			validate(t, parse(t, got))
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the document is now:\n%s", got)
			}
		})
	}
}

// Components and Operation, placed by hand, make the same document as Decorate, but for the marker of replays.
func TestByHand(t *testing.T) {
	p := policy(t, ichido.Config{})
	decorated, doc := office(t), office(t)
	if err := openapi.Decorate(decorated, p, "POST", "/reservations"); err != nil {
		t.Fatal(err)
	}
	doc["components"] = openapi.Components(p)
	operation := openapi.Operation(p)
	operation["responses"].(map[string]any)["201"] = parse(t, `{
		"description": "Registered",
		"headers": {"Idempotent-Replayed": {"$ref": "#/components/headers/Idempotent-Replayed"}}
	}`)
	at(doc, "paths", "/reservations").(map[string]any)["post"] = operation
	if got, want := text(t, doc), text(t, decorated); got != want {
		t.Errorf("by hand it is\n%s", got)
	}
}

func TestSameBytes(t *testing.T) {
	p := policy(t, ichido.Config{})
	want := text(t, openapi.Components(p)) + text(t, openapi.Operation(p))
	for range 20 {
		if got := text(t, openapi.Components(p)) + text(t, openapi.Operation(p)); got != want {
			t.Fatalf("now it is\n%s", got)
		}
	}
}

// Problems that have one status are in one response, which lists them all.
func TestOneStatusSeveralProblems(t *testing.T) {
	components := openapi.Components(policy(t, ichido.Config{MismatchStatus: 409}))
	description, _ := at(components, "responses", "Idempotency409", "description").(string)
	for _, code := range []string{"`in-progress`", "`mismatch`", "`answer-not-kept`"} {
		if strings.Count(description, code) != 1 {
			t.Errorf("%s is not in %q once", code, description)
		}
	}
	if at(components, "responses", "Idempotency422") != nil {
		t.Error("there is a 422, which the server never sends")
	}
}

func TestOptionalKeyIsNeverMissing(t *testing.T) {
	components := openapi.Components(policy(t, ichido.Config{Optional: true}))
	if strings.Contains(text(t, components), "key-required") {
		t.Error("a key is optional, and yet its absence a problem")
	}
	if at(components, "parameters", "IdempotencyKey", "required") != false {
		t.Error("the parameter is required")
	}
}
