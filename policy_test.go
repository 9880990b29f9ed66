package ichido_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// policies are configurations, each with a file in testdata/policy that has what is published of it.
var policies = map[string]ichido.Config{
	"default": {},
	"everything": {
		Methods: []string{"POST", "PUT"}, Optional: true, Header: "paypal-request-id", StrictKeys: true,
		KeyFormat: ichido.UUIDKeys, AcrossRoutes: true, InProgress: ichido.Wait, WaitLimit: 1500 * time.Millisecond,
		Retention: 36*time.Hour + 90*time.Second, MaxRequestBody: 1000, ConflictStatus: 425, MismatchStatus: 400,
		Keep:        func(status int) bool { return status < 500 },
		Stored:      ichido.Stored{LocationOnly: true},
		ProblemBase: "https://api.example/problems/",
	},
	"elsewhere": {
		KeyFrom:      ichido.KeyFromJSON("/event_id"),
		KeyFormat:    ichido.KeyFormat{MinLength: 4, Pattern: "^evt_[0-9a-z]+$"},
		WriteProblem: func(http.ResponseWriter, *http.Request, ichido.Problem) {},
	},
}

func managerFor(t *testing.T, config ichido.Config) *ichido.Manager {
	t.Helper()
	m, err := ichido.New(memstore.New(nil), ichido.Shared, &config)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func readPolicy(m *ichido.Manager, method string, header http.Header) *http.Response {
	r := httptest.NewRequest(method, "/.well-known/idempotency", nil)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	m.PolicyHandler().ServeHTTP(w, r)
	return w.Result()
}

func TestPolicyHandler(t *testing.T) {
	for name, config := range policies {
		t.Run(name, func(t *testing.T) {
			res := readPolicy(managerFor(t, config), http.MethodGet, nil)
			var got bytes.Buffer
			if _, err := got.ReadFrom(res.Body); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" ||
				res.Header.Get("Access-Control-Allow-Origin") != "*" || res.Header.Get("Cache-Control") != "public, max-age=3600" {
				t.Errorf("answered %d %v", res.StatusCode, res.Header)
			}
			file := filepath.Join("testdata", "policy", name+".json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("the policy is now:\n%s", got.String())
			}
		})
	}
}

func TestPolicyHandlerMethods(t *testing.T) {
	m := managerFor(t, ichido.Config{})
	first := readPolicy(m, http.MethodGet, nil)
	tag := first.Header.Get("ETag")
	if tag == "" || tag == readPolicy(managerFor(t, ichido.Config{Optional: true}), http.MethodGet, nil).Header.Get("ETag") {
		t.Errorf("the entity tag %s does not tell policies apart", tag)
	}
	for _, c := range []struct {
		method string
		header http.Header
		status int
		body   bool
	}{
		{http.MethodHead, nil, 200, false},
		{http.MethodGet, http.Header{"If-None-Match": {tag}}, 304, false},
		{http.MethodGet, http.Header{"If-None-Match": {`"other"`}}, 200, true},
		{http.MethodPost, nil, 405, true},
		{http.MethodDelete, nil, 405, true},
	} {
		res := readPolicy(m, c.method, c.header)
		var body bytes.Buffer
		_, _ = body.ReadFrom(res.Body)
		if res.StatusCode != c.status || body.Len() > 0 != c.body {
			t.Errorf("%s %v: %d with %d bytes, want %d", c.method, c.header, res.StatusCode, body.Len(), c.status)
		}
		if allow := res.Header.Get("Allow"); (allow == "GET, HEAD") != (c.status == 405) {
			t.Errorf("%s: Allow is %q", c.method, allow)
		}
		if c.method == http.MethodHead && res.Header.Get("Content-Length") != first.Header.Get("Content-Length") {
			t.Error("HEAD has another Content-Length than GET")
		}
	}
}

// A client can decode what a server publishes, and gets the same.
func TestPolicyRoundTrip(t *testing.T) {
	for name, config := range policies {
		p := managerFor(t, config).KeyPolicy()
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var again ichido.KeyPolicy
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		second, _ := json.Marshal(again)
		if string(text) != string(second) {
			t.Errorf("%s: decoded and encoded again it is %s", name, second)
		}
	}
}

// Every problem in the source is published, so that a new one is not forgotten.
func TestPolicyHasAllProblems(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(source, func(n ast.Node) bool {
			if literal, ok := n.(*ast.CompositeLit); ok && isIdent(literal.Type, "kind") {
				for _, e := range literal.Elts {
					if field, ok := e.(*ast.KeyValueExpr); ok && isIdent(field.Key, "name") {
						code, err := strconv.Unquote(field.Value.(*ast.BasicLit).Value)
						if err != nil {
							t.Fatal(err)
						}
						want = append(want, code)
					}
				}
			}
			return true
		})
	}
	if len(want) < 10 {
		t.Fatalf("found %d problems in the source", len(want))
	}
	slices.Sort(want)
	got := problemsOf(t, ichido.Config{Mode: ichido.LeaseMode})
	if !slices.Equal(got, want) {
		t.Errorf("published are %q, in the source are %q", got, want)
	}
	unheld := slices.DeleteFunc(want, func(code string) bool {
		return code == "outcome-unknown" || code == "attempt-failed" || code == "attempt-repeatable"
	})
	if got := problemsOf(t, ichido.Config{}); !slices.Equal(got, unheld) {
		t.Errorf("published in transaction mode are %q, want %q", got, unheld)
	}
}

func problemsOf(t *testing.T, config ichido.Config) (codes []string) {
	for _, p := range managerFor(t, config).KeyPolicy().Problems {
		codes = append(codes, p.Code)
	}
	slices.Sort(codes)
	return codes
}

func isIdent(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}

// What is published of a problem is what a client gets.
func TestPolicyTellsTheTruth(t *testing.T) {
	m := managerFor(t, ichido.Config{MismatchStatus: 400, ProblemBase: "https://api.example/problems/"})
	h := m.Wrap(created("x"))
	for _, a := range []answer{
		send(h, post("", "{}")),
		send(h, post("k", "{}")), // registers k
		send(h, post("k", `{"other":1}`)),
	} {
		if a.status == 201 {
			continue
		}
		var sent ichido.Problem
		if err := json.Unmarshal([]byte(a.body), &sent); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(m.KeyPolicy().Problems, func(p ichido.ProblemRules) bool {
			return p.Code == sent.Code && p.Type == sent.Type && p.Status == a.status && p.Title == sent.Title &&
				p.Detail == sent.Detail && p.Retryable == sent.Retryable && p.RetryAfter == (a.header.Get("Retry-After") != "")
		}) {
			t.Errorf("not published: %d %s", a.status, a.body)
		}
	}
}

func TestPolicyRetention(t *testing.T) {
	for d, want := range map[time.Duration]string{
		24 * time.Hour:          "PT24H",
		90 * time.Minute:        "PT1H30M",
		time.Minute:             "PT1M",
		36 * time.Second:        "PT36S",
		1500 * time.Millisecond: "PT1.5S",
		time.Nanosecond:         "PT0.000000001S",
		720*time.Hour + time.Minute + 30*time.Second: "PT720H1M30S",
	} {
		if got := managerFor(t, ichido.Config{Retention: d}).KeyPolicy().Retention; got != want {
			t.Errorf("%s is published as %s, want %s", d, got, want)
		}
	}
}

// The published pattern accepts what the server accepts, however Config.KeyFormat writes it.
func TestPolicyPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		`a|b`:   `^(?:a|b)$`,
		`^a|b$`: `^(?:a|b)$`,
		`a\$`:   `^(?:a\$)$`,
		``:      ``,
	} {
		got := managerFor(t, ichido.Config{KeyFormat: ichido.KeyFormat{Pattern: pattern}}).KeyPolicy().Key.Pattern
		if got != want {
			t.Errorf("%s is published as %s, want %s", pattern, got, want)
		}
		if _, err := regexp.Compile(got); err != nil {
			t.Error(err)
		}
	}
}

// Whoever changes a policy that was read changes nothing of the Manager's.
func TestPolicyIsACopy(t *testing.T) {
	m := managerFor(t, ichido.Config{})
	p := m.KeyPolicy()
	p.Methods[0], p.Problems[0].Code = "BREW", "tea"
	if again := m.KeyPolicy(); again.Methods[0] != "POST" || again.Problems[0].Code != "key-required" {
		t.Errorf("now it is %v %v", again.Methods, again.Problems[0])
	}
}
