package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A testDoc is the OpenAPI document as a client reads it.
type testDoc struct {
	OpenAPI    string
	Servers    []struct{ URL string }
	Paths      map[string]map[string]testOperation
	Components struct{ SecuritySchemes map[string]any }
}

type testOperation struct {
	Security  []map[string][]string
	Responses map[string]any
}

func fetchDoc(s *testServer) *testDoc {
	s.t.Helper()
	a, doc := s.do("GET", "/openapi.json", ""), new(testDoc)
	if err := json.Unmarshal([]byte(a.body), doc); err != nil || a.status != 200 {
		s.t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return doc
}

// operation returns the one that a request is for, or false.
func (d *testDoc) operation(method, path string) (testOperation, bool) {
	path, _, _ = strings.Cut(path, "?")
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for template, item := range d.Paths {
		want, got := strings.Split(template, "/"), strings.Split(path, "/")
		if slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") && g != "" }) {
			operation, ok := item[strings.ToLower(method)]
			return operation, ok
		}
	}
	return testOperation{}, false
}

// wantDescribed checks that the document knows the status of an answer, and its type if it is a problem.
func (d *testDoc) wantDescribed(t *testing.T, method, path string, a answer) {
	t.Helper()
	operation, ok := d.operation(method, path)
	switch {
	case a.status == 0, slices.Contains(people, strings.SplitN(path, "?", 2)[0]): // no answer, or no API
		return
	case !ok && a.status != 404 && a.status != 405:
		t.Errorf("%s %s is not described, and got %d", method, path, a.status)
	case ok && operation.Responses[strconv.Itoa(a.status)] == nil:
		t.Errorf("%s %s: the status %d is not described", method, path, a.status)
	}
}

// Each reference of the document leads to something, whatever the flags are.
func TestOpenAPIReferencesResolve(t *testing.T) {
	db := open(t, t.TempDir()+"/office.db")
	for _, o := range []serveOptions{{}, {inProgress: "wait", lang: "ja", token: []string{"shop=0123456789abcdef"}}} {
		var doc any
		a := serveAPI(t, db, o, nil).do("GET", "/openapi.json", "")
		if err := json.Unmarshal([]byte(a.body), &doc); err != nil {
			t.Fatal(err)
		}
		n := 0
		var walk func(v any)
		walk = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				if ref, ok := v["$ref"].(string); ok {
					n++
					wantTarget(t, doc, ref)
				}
				for _, member := range v {
					walk(member)
				}
			case []any:
				for _, element := range v {
					walk(element)
				}
			}
		}
		walk(doc)
		if n < 20 {
			t.Errorf("%d references only", n)
		}
	}
}

func wantTarget(t *testing.T, doc any, ref string) {
	t.Helper()
	rest, ok := strings.CutPrefix(ref, "#/")
	for part := range strings.SplitSeq(rest, "/") {
		o, _ := doc.(map[string]any)
		doc = o[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	if !ok || doc == nil {
		t.Errorf("%s leads nowhere", ref)
	}
}

// Every problem that the API has stands in the document, with the path that documents it.
func TestOpenAPIHasEveryProblem(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{token: []string{"shop=0123456789abcdef"}}, nil)
	body := s.do("GET", "/openapi.json", "").body
	for _, d := range s.problems() {
		if d.Code != "method-not-allowed" && d.Code != "other-origin" && // which only the form meets
			!strings.Contains(body, `"type": "/problems/`+d.Code+`"`) {
			t.Errorf("%s is not described", d.Code)
		}
	}
}

func TestOpenAPIFollowsTheFlags(t *testing.T) {
	db := open(t, t.TempDir()+"/office.db")
	plain := serveAPI(t, db, serveOptions{}, nil)
	set := serveAPI(t, db, serveOptions{inProgress: "wait", waitLimit: 90 * time.Second, retention: 72 * time.Hour, lang: "ja",
		token: []string{"shop=0123456789abcdef"}}, nil)
	if d := plain.doc; d.OpenAPI != "3.1.0" || len(d.Servers) != 1 || d.Servers[0].URL != "/" || d.Components.SecuritySchemes != nil {
		t.Errorf("%+v", d)
	}
	one, two := plain.do("GET", "/openapi.json", ""), set.do("GET", "/openapi.json", "")
	for _, want := range []string{"Retention: 3 days (PT72H)", "waits for the answer, up to 90 seconds", "else in Japanese"} {
		if strings.Contains(one.body, want) || !strings.Contains(two.body, want) {
			t.Errorf("%q does not follow its flag", want)
		}
	}
	if strings.Contains(two.body, "0123456789abcdef") {
		t.Error("the document has a secret in it")
	}
	for path, item := range set.doc.Paths {
		for method, operation := range item {
			if guarded := strings.HasPrefix(path, "/reservations") || strings.HasPrefix(path, "/orders") || path == "/items"; guarded != (len(operation.Security) == 1) || guarded != (operation.Responses["401"] != nil) {
				t.Errorf("%s %s: %+v", method, path, operation)
			}
		}
	}
}

func TestDescriptionsAreForEverybody(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{retention: time.Hour, token: []string{"shop=0123456789abcdef"}}, nil)
	for _, path := range []string{"/openapi.json", "/.well-known/idempotency"} {
		a := s.do("GET", path, "", "Origin: https://shop.example")
		tag := a.header.Get("ETag")
		if a.status != 200 || a.header.Get("Access-Control-Allow-Origin") != "*" || tag == "" || !strings.Contains(a.header.Get("Cache-Control"), "max-age=") {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
		if again := s.do("GET", path, "", "If-None-Match: "+tag); again.status != 304 || again.body != "" {
			t.Errorf("%s again: %d %q", path, again.status, again.body)
		}
		if a := s.do("HEAD", path, ""); a.status != 200 {
			t.Errorf("HEAD %s: %d", path, a.status)
		}
		wantProblem(t, s.do("POST", path, ""), 405, "method-not-allowed")
	}
	var policy struct {
		Header, Retention string
		Problems          []struct{ Type string }
	}
	a := s.do("GET", "/.well-known/idempotency", "")
	if err := json.Unmarshal([]byte(a.body), &policy); err != nil || policy.Header != "Idempotency-Key" || policy.Retention != "PT1H" || len(policy.Problems) == 0 {
		t.Errorf("%+v: %v", policy, err)
	}
	if !strings.Contains(a.body, `"/problems/attempt-repeatable"`) {
		t.Error("the policy lacks the problems of lease mode, which orders can meet")
	}
	if a := s.do("GET", "/nowhere", ""); !slices.Contains(a.header.Values("Link"), serviceDesc) {
		t.Errorf("Link %q", a.header.Values("Link"))
	}
}

// A page of another origin may read whether an answer is a replay, and nothing else is opened to it.
func TestReplayMarkerIsExposed(t *testing.T) {
	s := serveAPI(t, open(t, t.TempDir()+"/office.db"), serveOptions{}, nil)
	s.reserve("k", projector)
	a := s.reserve("k", projector, "Origin: https://shop.example")
	if exposed := a.header.Get("Access-Control-Expose-Headers"); !strings.Contains(exposed, "Idempotent-Replayed") || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", a.header)
	}
}
