package main

import (
	"fmt"
	"io"
	"strings"
)

// markdown writes the document as Markdown, without its figures.
func (d *document) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks of ichido\n\n")
	for _, f := range d.Facts {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	fmt.Fprintf(&b, "- %s\n", d.Score())
	for _, s := range d.Sections {
		fmt.Fprintf(&b, "\n## %s\n", s.Title)
		for _, line := range []string{s.About, s.Facts} {
			if line != "" {
				fmt.Fprintf(&b, "\n%s\n", line)
			}
		}
		for _, p := range s.Parts {
			switch p := p.(type) {
			case paragraph:
				fmt.Fprintf(&b, "\n%s\n", p)
			case table:
				p.markdown(&b)
			case judgements:
				b.WriteByte('\n')
				for _, j := range p {
					fmt.Fprintf(&b, "- %s", j.What)
					if j.Aim != "" {
						fmt.Fprintf(&b, ", aim %s: **%s**", j.Aim, strings.ToLower(j.Verdict()))
					}
					b.WriteByte('\n')
				}
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t table) markdown(b *strings.Builder) {
	b.WriteByte('\n')
	line := func(cells []string) {
		escaped := make([]string, len(cells))
		for i, c := range cells {
			escaped[i] = strings.ReplaceAll(c, "|", `\|`)
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(escaped, " | "))
	}
	line(t.Head)
	fmt.Fprintf(b, "|---|%s\n", strings.Repeat("---:|", len(t.Head)-1))
	for _, cells := range t.Rows {
		line(cells)
	}
}
