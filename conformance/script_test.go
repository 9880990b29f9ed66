package conformance_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/conformance"
)

// TestCurl runs the commands of a report in a shell: they must do once more what the run did, as the users whose secrets
// they do not have.
func TestCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	const ok, again = "201 Created", "Idempotent-Replayed: true"
	twice := []string{ok, ok, again}
	expected := map[string]struct {
		created int
		output  []string // in this order
	}{
		"no-key":                   {0, []string{"400 Bad Request"}},
		"same-key-twice":           {1, twice},
		"other-quantity":           {1, []string{ok, "422 Unprocessable", ok, again}},
		"mismatch-leaves-record":   {1, []string{ok, "422\n", "422\n", ok, again}},
		"member-order":             {1, twice},
		"ten-at-once-one-key":      {1, []string{"409\n", "409\n", "201\n"}},
		"once-more-afterwards":     {1, []string{"409\n", "201\n", ok, again}},
		"ten-at-once-ten-keys":     {10, []string{"201\n", "201\n", "201\n"}},
		"failure-then-same-key":    {1, []string{"400 Bad Request", ok}},
		"in-progress":              {1, []string{"409\n", "409\n", "201\n"}},
		"mismatch-in-flight":       {1, []string{"4"}},
		"get-harmless":             {1, []string{"200 OK", ok, "200 OK"}},
		"quoted-and-bare":          {1, twice},
		"two-field-lines":          {0, []string{"400 Bad Request"}},
		"hang-up-mid-request":      {1, []string{ok}},
		"reset-after-send":         {1, []string{ok}},
		"slow-body":                {1, []string{ok, ok}},
		"fifty-at-once":            {1, []string{"409\n", "409\n", "201\n"}},
		"key-case":                 {2, []string{ok, ok}},
		"key-255":                  {2, []string{ok, ok}},
		"key-256":                  {0, []string{"400 Bad Request", "400 Bad Request"}},
		"injection-keys":           {12, []string{ok, again, ok, again}},
		"oversize-body":            {0, []string{"413 "}},
		"binary-answer":            {1, twice},
		"gzip-answer":              {1, []string{"Content-Encoding: gzip"}},
		"header-fidelity":          {1, twice},
		"credentials-not-replayed": {1, twice},
		"other-principal":          {2, []string{ok, ok}},
		"replay-needs-credentials": {1, []string{ok, "401 Unauthorized"}},
		"server-error-then-retry":  {1, []string{"500 Internal", ok}},
		"problem-documents":        {1, []string{"400 Bad", "problem+json", "422 Unprocessable", "problem+json"}},
		"documentation-link":       {1, []string{"400 Bad", "/help", "422 Unprocessable", "/help"}},
		"retry-after":              {1, []string{"409 Conflict", "Retry-After: 1"}},
		"policy-document":          {0, []string{"200 OK", "retention"}},
		"crash-once":               {100, []string{"201\n"}},
		"crash-acknowledged":       {100, []string{"201\n"}},
		"crash-no-limbo":           {100, []string{"201\n"}},
	}
	api := full()
	api.Principals[0].Headers["Authorization"] = "Bearer $TOKEN_A"
	api.Principals[1].Headers["Authorization"] = "Bearer $TOKEN_B"
	tokens := map[string]string{"TOKEN_A": "secret-of-a", "TOKEN_B": "secret-of-b"}
	s := &server{auth: true, crash: make(chan struct{}), dying: make(chan struct{}, 1)}
	listening := httptest.NewServer(s.handler())
	defer listening.Close()
	report, err := conformance.Run(t.Context(), listening.URL, &conformance.Options{API: api, Levels: conformance.Levels, Crash: s.kill,
		Getenv: func(name string) string { return tokens[name] }})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		want, ok := expected[r.ID]
		if !ok {
			t.Errorf("%s is not in the test", r.ID)
		}
		if strings.Contains(r.Curl+r.Got, "secret-of") {
			t.Errorf("%s: a secret is in the report: %s %s", r.ID, r.Curl, r.Got)
		}
		before := s.made()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", r.Curl)
		cmd.Env = append(os.Environ(), "TOKEN_A=secret-of-a", "TOKEN_B=secret-of-b")
		out, err := cmd.CombinedOutput()
		if err != nil && r.ID != "oversize-body" { // there curl may find the connection closed
			t.Fatalf("%s: %v\n%s\n%s", r.ID, err, r.Curl, out)
		}
		if created := s.made() - before; created != want.created {
			t.Errorf("%s: the command created %d, want %d\n%s\n%s", r.ID, created, want.created, r.Curl, out)
		}
		rest := string(out)
		for _, part := range want.output {
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("%s: the output lacks %q\n%s\n%s", r.ID, part, r.Curl, out)
			}
			rest = after
		}
	}
}
