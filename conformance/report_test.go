package conformance_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/conformance"
)

var sample = conformance.Report{
	URL:        "http://localhost:8080",
	API:        "ichido",
	Started:    time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
	DurationMS: 1234,
	Results: []conformance.Result{
		{ID: "same-key-twice", Title: "sent twice, answered twice the same", Level: conformance.Core, Promise: "P3", Source: "draft-07 section 2.6",
			Verdict: conformance.Held, Expected: "201, then a replay", Got: "201, 201 replayed; 1 created", Requests: 2,
			Created: 1, DurationMS: 9, Curl: "curl -isS 'http://localhost:8080/reservations'"},
		{ID: "in-progress", Title: "a duplicate of a running request is told so", Level: conformance.Core,
			Source: "draft-07 section 2.6", Verdict: conformance.Differs, Expected: "409", Got: "wait", Requests: 10, Created: 1},
		{ID: "ten-at-once-one-key", Level: conformance.Core, Source: "draft-07 section 2.6", Title: "10 at once with one key take effect once", Verdict: conformance.Broken,
			Expected: "one 201; 1 created", Got: "10 × 201; 10 created — \x1b[31mred\n", Requests: 10, Created: 10,
			Curl: "for I in $(seq 10); do curl …"},
		{ID: "no-key", Title: "キーがない", Level: conformance.Core, Source: "practice", Verdict: conformance.NotTestable, Expected: "400",
			Got: "the list cannot be read: GET is answered 500", Requests: 1, Created: -1, Curl: "curl …"},
	},
}

// TestTable compares with the file, in which nothing that a server wrote reaches the terminal.
func TestTable(t *testing.T) {
	var got strings.Builder
	if err := sample.WriteTable(&got, false); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/table.txt", got.String())
}

// TestTableInColor: the colours are all that differs.
func TestTableInColor(t *testing.T) {
	var plain, color strings.Builder
	_ = sample.WriteTable(&plain, false)
	_ = sample.WriteTable(&color, true)
	for _, mark := range []string{"\x1b[32m✓\x1b[0m", "\x1b[31m✗\x1b[0m", "\x1b[33m?\x1b[0m", "\x1b[36m≠\x1b[0m"} {
		if !strings.Contains(color.String(), mark) {
			t.Errorf("no %q in\n%q", mark, color.String())
		}
	}
	stripped := strings.NewReplacer("\x1b[32m", "", "\x1b[31m", "", "\x1b[33m", "", "\x1b[2m", "", "\x1b[36m", "", "\x1b[0m", "").
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
  "api": "ichido",
  "started": "2026-11-29T12:00:00Z",
  "duration_ms": 1234,
  "results": [
    {
      "id": "same-key-twice",
      "title": "sent twice, answered twice the same",
      "level": "core",
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

// TestJUnit compares with the file, which is what programs read.
func TestJUnit(t *testing.T) {
	var got strings.Builder
	if err := sample.WriteJUnit(&got); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/junit.xml", got.String())
	var suite struct {
		Tests, Failures, Skipped int `xml:",attr"`
	}
	if err := xml.Unmarshal([]byte(strings.NewReplacer("tests=", "Tests=", "failures=", "Failures=", "skipped=", "Skipped=").
		Replace(got.String())), &suite); err != nil || suite.Tests != 4 || suite.Failures != 1 || suite.Skipped != 1 {
		t.Errorf("%+v, %v", suite, err)
	}
}

// TestHTML: the page stands alone, escapes what the server wrote, and is in the language that was asked for.
func TestHTML(t *testing.T) {
	for lang, words := range map[string][]string{
		"en": {`<html lang="en">`, "differs by choice", "sent twice, answered twice the same", "core: what a key is for"},
		"ja": {`<html lang="ja">`, "選択による相違", "2 回送ると、2 回とも同じ応答", "ここでは検証不能"},
	} {
		report := sample
		report.Results = slices.Clone(sample.Results)
		report.Results[2].Got = "<script>alert(1)</script>"
		var got strings.Builder
		if err := report.WriteHTML(&got, lang); err != nil {
			t.Fatal(err)
		}
		for _, word := range words {
			if !strings.Contains(got.String(), word) {
				t.Errorf("%s: no %q in\n%s", lang, word, got.String())
			}
		}
		if found := regexp.MustCompile(`<script|src=|href=|url\(|@import`).FindString(got.String()); found != "" {
			t.Errorf("%s: %q in\n%s", lang, found, got.String())
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
