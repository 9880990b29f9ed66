package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fixture is a report with every part, one of which has missed its aim.
func fixture(t *testing.T) *Report {
	r := new(Report)
	if err := r.read("testdata/report.json"); err != nil {
		t.Fatal(err)
	}
	return r
}

// Every field of the report stands in the fixture, so that each is rendered.
func TestFixtureIsWhole(t *testing.T) {
	text, err := json.Marshal(fixture(t))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"comparisons", "memory", "duplicates", "rivals", "lease", "steps", "keys", "schemas", "purge", "retention", "drivers", "client", "simulation", "storms"} {
		if got[part] == nil {
			t.Errorf("testdata/report.json has no %s", part)
		}
	}
}

// The same report is written the same, in both forms.
func TestGolden(t *testing.T) {
	d := fixture(t).document()
	for file, write := range map[string]func(io.Writer) error{"testdata/report.md": d.markdown, "testdata/report.txt": d.text} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s is not what is written now; go test ./bench -run TestGolden -update writes it, to be looked at", file)
		}
	}
}

// The page needs nothing from elsewhere, is well-formed, shows each section with its figures, and counts the aims.
func TestPage(t *testing.T) {
	d := fixture(t).document()
	var b bytes.Buffer
	if err := d.html(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if from := regexp.MustCompile(`(src=|url\(|@import|<script|<link|https?://)[^ ]*`).FindString(page); from != "" {
		t.Errorf("the page needs %s", from)
	}
	body := page[strings.Index(page, "<body>"):strings.Index(page, "</html>")]
	for decoder := xml.NewDecoder(strings.NewReader(body)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
	}
	plotted := 0
	for _, s := range d.Sections {
		if strings.Count(page, `id="`+s.ID()+`"`) != 1 || !strings.Contains(page, `href="#`+s.ID()+`"`) {
			t.Errorf("section %s has no id, or not one of its own, or no link", s.ID())
		}
		for _, p := range s.Parts {
			if f, ok := p.(figures); ok {
				plotted += len(f)
			}
		}
	}
	if got := strings.Count(page, "<svg "); got != plotted || got < 20 {
		t.Errorf("%d figures, want %d", got, plotted)
	}
	aims := d.Aims()
	missed := strings.Count(page, `class="missed"`)
	if met := strings.Count(page, `class="met"`); met+missed != 2*len(aims) || missed == 0 || !strings.Contains(page, d.Score()) {
		t.Errorf("%d aims met and %d missed are shown, each twice, of %d", met, missed, len(aims))
	}
}

// What has the color of the text takes that of the page, light or dark, and nothing is drawn in black or on white.
func TestFigureIsForDarkPagesToo(t *testing.T) {
	f := figure{Title: `a "title"`, x: "x", y: "y", labels: []string{"1", "2"}, Lines: []line{{"a", []point{{0, Spread{2, 1, 3}}, {1, exactly(20_000)}}}}}
	svg, err := f.svg()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(svg, hex(ink)) || strings.Contains(svg, "#000000") || strings.Contains(svg, "#FFFFFF") || !strings.Contains(svg, "currentColor") ||
		!strings.Contains(svg, hex(lineColor(0))) || !strings.Contains(svg, ">20k<") || !strings.Contains(svg, `aria-label="a title"`) {
		t.Error(svg)
	}
}

// Ticks cover what is drawn, from 0 or from below, and are few.
func TestTicks(t *testing.T) {
	for _, most := range []float64{0, 0.3, 1, 1.49, 2.9, 6, 9.99, 12_345, 250_000} {
		f := figure{labels: []string{"a"}, Lines: []line{{"a", []point{{0, exactly(most)}}}}}
		for _, log := range []bool{false, true} {
			f.log = log
			svg, err := f.svg()
			if err != nil {
				t.Fatal(err)
			}
			if labels := strings.Count(svg, "<text"); labels < 2 || labels > 12 {
				t.Errorf("%g, log %v: %d labels\n%s", most, log, labels, svg)
			}
		}
	}
}

func TestProgressInLines(t *testing.T) {
	var b strings.Builder
	p := &progress{out: &b}
	p.title("1 of 2, %s", "lease")
	p.begin(3, "%d clients", 16)
	p.step()
	p.say("ending")
	p.end()
	if b.String() != "1 of 2, lease: 16 clients\n1 of 2, lease: ending\n" {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	p.terminal = true
	p.begin(2, "%d clients", 16)
	p.step()
	p.step()
	p.end()
	if !strings.Contains(b.String(), "16 clients") || !strings.Contains(b.String(), "\r") {
		t.Errorf("%q", b.String())
	}
	var none *progress
	none.title("x")
	none.say("x")
	none.step()
	none.end()
}
