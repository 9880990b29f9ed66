package conformance_test

import (
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/conformance"
)

// TestCurl runs the commands of a report in a shell: they must do once more what the run did.
func TestCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	s := &server{}
	listening := httptest.NewServer(s.handler())
	defer listening.Close()
	report, err := conformance.Run(t.Context(), listening.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		created int
		output  []string // in this order
	}{
		{0, []string{"400 Bad Request"}},
		{1, []string{"201 Created", "201 Created", "Idempotent-Replayed: true"}},
		{1, []string{"201 Created", "422 Unprocessable", "201 Created", "Idempotent-Replayed: true"}},
		{1, []string{"201 Created", "201 Created", "Idempotent-Replayed: true"}},
		{1, []string{"409\n", "409\n", "201\n"}},
		{1, []string{"409\n", "201\n", "201 Created", "Idempotent-Replayed: true"}},
		{10, []string{"201\n", "201\n", "201\n"}},
		{1, []string{"400 Bad Request", "201 Created"}},
	} {
		r := report.Results[i]
		before := s.made()
		out, err := exec.CommandContext(t.Context(), "sh", "-c", r.Curl).CombinedOutput()
		if err != nil {
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
