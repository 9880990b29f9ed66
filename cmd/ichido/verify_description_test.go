package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/conformance"
)

// TestDocumentedDescription: the example in the documents is a description, in every line of it that is not a comment,
// and in those that are one if they are taken out of it.
func TestDocumentedDescription(t *testing.T) {
	var first string
	for _, file := range []string{"../../docs/verify.md", "../../docs/ja/verify.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) != 1 {
			t.Fatalf("%s has %d examples", file, len(blocks))
		}
		for _, example := range []string{blocks[0][1], uncommented(blocks[0][1])} {
			api, err := parseDescription([]byte(example))
			if err != nil {
				t.Fatalf("%s: %v\n%s", file, err, example)
			}
			if api.Expect.Mismatch[0] != "400" || len(api.Expect.InProgress) != 2 || len(api.Principals) != 2 {
				t.Errorf("%s: %+v", file, api)
			}
			d := &description{API: *api}
			text, err := d.text()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := parseDescription([]byte(text)); err != nil || again.Effects != api.Effects {
				t.Errorf("%s: written again it is\n%s\n%v", file, text, err)
			}
			if first == "" {
				first = text
			}
		}
	}
	if !strings.Contains(first, "get: /v1/orders?sku={item}") || strings.Contains(first, "newest_first") {
		t.Errorf("it is written as\n%s", first)
	}
}

// uncommented takes members out of comments: "# other: text" has a text, which is not YAML's business.
func uncommented(example string) string {
	out := regexp.MustCompile(`(?m)^(  )# ([a-z_]+): +([^\s#]+).*$`).ReplaceAllString(example, "$1$2: $3")
	return regexp.MustCompile(`(?m)^  # .*\n`).ReplaceAllString(out, "")
}

// TestFromOpenAPI reads documents of several shapes.
func TestFromOpenAPI(t *testing.T) {
	const list = `
    get:
      responses:
        "200":
          content:
            application/json:
              schema: {type: array, items: {type: object, properties: {id: {type: string}, email: {type: string}}}}
`
	key := `
      parameters: [{$ref: "#/components/parameters/Key"}]`
	form := `
      requestBody: {content: {application/x-www-form-urlencoded: {schema: {required: [email, kind, n], properties: {
        email: {type: string}, kind: {enum: [a, b], type: string}, n: {type: integer, minimum: 1}}}}}}`
	tail := `
components: {parameters: {Key: {name: X-Idempotency-Key, in: header}}}
`
	for name, test := range map[string]struct {
		text, operation string
		err             string // that it must fail with
		check           func(*conformance.API) bool
		notes           int
	}{
		"a form and a bare list": {
			text: "openapi: 3.1.0\nsecurity: [{}]\npaths:\n  /c:" + list + "    post:" + key + form + "\n      responses: {\"200\": {}, default: {}}" + tail,
			check: func(a *conformance.API) bool {
				return a.Request.Body == "email={item}&kind=a&n={quantity}" && a.Request.Invalid == "email={item}&kind=a&n=0" &&
					a.Key.Header == "X-Idempotency-Key" && a.Effects.Get == "/c" && a.Effects.At == "" && a.Effects.Where == "/email" &&
					a.Effects.ID == "/id" && len(a.Principals) == 2 && a.Expect.Success[0] == "200" && a.Policy == ""
			}, notes: 1,
		},
		"nothing but a path": {
			text: "paths: {\"/c/{id}\": {put: {responses: {}}}}", operation: "PUT /c/{id}",
			check: func(a *conformance.API) bool { return a.Request.Method == "PUT" && a.Request.Path == "/c/{id}" }, notes: 5,
		},
		"two operations": {text: "paths:\n  /a:\n    post:" + key + "\n  /b:\n    patch:" + key + tail, err: "choose one with --operation: POST /a, PATCH /b"},
		"no key":         {text: "paths: {/a: {post: {}}}", err: "no operation has a header parameter"},
		"no such":        {text: "paths: {/a: {post: {}}}", operation: "POST /b", err: `no operation "POST /b"`},
		"no document":    {text: ":", err: "yaml"},
		"a circle":       {text: "paths: {/a: {post: {$ref: '#/paths/~1a/post'}}}", err: "no operation"},
	} {
		d := &description{}
		notes, err := fromOpenAPI(d, []byte(test.text), test.operation)
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", name, err, test.err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !test.check(&d.API) || len(notes) != test.notes:
			t.Errorf("%s: %+v\n%q", name, d.API, notes)
		}
	}
}

// TestAskingEnds: the end of the input takes what is there, and "-" takes nothing.
func TestAskingEnds(t *testing.T) {
	d := &description{}
	d.API, _ = conformance.Preset("ichido")
	if err := ask(d, strings.NewReader("shop\n/orders\n\n\n-\n"), io.Discard); err != nil {
		t.Fatal(err)
	}
	if d.Name != "shop" || d.Request.Path != "/orders" || d.Request.Invalid != "" || d.Effects.Get != "/reservations" {
		t.Errorf("%+v", d.API)
	}
}
