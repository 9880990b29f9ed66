package conformance_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/conformance"
)

var sample = conformance.Report{
	URL:        "http://localhost:8080",
	Started:    time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
	DurationMS: 1234,
	Results: []conformance.Result{
		{ID: "same-key-twice", Title: "sent twice, answered twice the same", Promise: "P3", Source: "draft-07 section 2.6",
			Verdict: conformance.Held, Expected: "201, then a replay", Got: "201, 201 replayed; 1 created", Requests: 2,
			Created: 1, DurationMS: 9, Curl: "curl -isS 'http://localhost:8080/reservations'"},
		{ID: "ten-at-once-one-key", Title: "10 at once with one key take effect once", Verdict: conformance.Broken,
			Expected: "one 201; 1 created", Got: "10 × 201; 10 created — \x1b[31mred\n", Requests: 10, Created: 10,
			Curl: "for I in $(seq 10); do curl …"},
		{ID: "no-key", Title: "キーがない", Verdict: conformance.NotTestable, Expected: "400",
			Got: "the list cannot be read: GET is answered 500", Requests: 1, Created: -1, Curl: "curl …"},
	},
}

// TestTable compares with the file, in which nothing that a server wrote reaches the terminal.
func TestTable(t *testing.T) {
	want, err := os.ReadFile("testdata/table.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := sample.WriteTable(&got, false); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// TestTableInColor: the colours are all that differs.
func TestTableInColor(t *testing.T) {
	var plain, color strings.Builder
	_ = sample.WriteTable(&plain, false)
	_ = sample.WriteTable(&color, true)
	for _, mark := range []string{"\x1b[32m✓\x1b[0m", "\x1b[31m✗\x1b[0m", "\x1b[33m?\x1b[0m"} {
		if !strings.Contains(color.String(), mark) {
			t.Errorf("no %q in\n%q", mark, color.String())
		}
	}
	stripped := strings.NewReplacer("\x1b[32m", "", "\x1b[31m", "", "\x1b[33m", "", "\x1b[2m", "", "\x1b[0m", "").
		Replace(color.String())
	if stripped != plain.String() {
		t.Errorf("without colours\n%s\nwant\n%s", stripped, plain.String())
	}
}

// TestJSON pins the documented members.
func TestJSON(t *testing.T) {
	report := sample
	report.Results = report.Results[:1]
	got, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "url": "http://localhost:8080",
  "started": "2026-11-29T12:00:00Z",
  "duration_ms": 1234,
  "results": [
    {
      "id": "same-key-twice",
      "title": "sent twice, answered twice the same",
      "promise": "P3",
      "source": "draft-07 section 2.6",
      "verdict": "held",
      "expected": "201, then a replay",
      "got": "201, 201 replayed; 1 created",
      "requests": 2,
      "created": 1,
      "duration_ms": 9,
      "curl": "curl -isS 'http://localhost:8080/reservations'"
    }
  ]
}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestEmptyReport: a report of nothing has not held.
func TestEmptyReport(t *testing.T) {
	if (&conformance.Report{}).Held() {
		t.Error("held")
	}
}
