package conformance_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/conformance"
)

var update = flag.Bool("update", false, "write the tables of scenarios in docs/verify.md and docs/ja/verify.md")

// TestDocument: the documents list the scenarios that there are.
func TestDocument(t *testing.T) {
	const begin, end = "-update -->\n", "<!-- end -->"
	for lang, file := range map[string]string{"en": "verify.md", "ja": "ja/verify.md"} {
		name := filepath.Join("..", "docs", filepath.FromSlash(file))
		written, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, ok := strings.Cut(string(written), begin)
		_, tail, found := strings.Cut(rest, end)
		if !ok || !found {
			t.Fatalf("%s has no place for the table", name)
		}
		want := head + begin + scenarioTables(lang) + end + tail
		if want == string(written) {
			continue
		}
		if !*update {
			t.Errorf("%s does not list the scenarios as they are; run the test with -update", name)
			continue
		}
		if err := os.WriteFile(name, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func scenarioTables(lang string) string {
	var out strings.Builder
	head := conformance.Text{EN: "| id | shows | expected | asked for by | |", JA: "| ID | 内容 | 期待 | 根拠 | |"}.In(lang)
	for _, level := range conformance.Levels {
		fmt.Fprintf(&out, "\n### %s\n\n%s\n|---|---|---|---|---|\n", level, head)
		for _, s := range conformance.Scenarios() {
			if s.Level != level {
				continue
			}
			source := s.Source
			if source == "practice" {
				source = conformance.Text{EN: "practice", JA: "実務"}.In(lang)
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", s.ID, s.Title.In(lang), s.Expected.In(lang), source, s.Promise)
		}
	}
	return out.String() + "\n"
}
