package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// text writes the document for a terminal, without its figures.
func (d *document) text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", strings.Join(d.Facts, "\n"), d.Score())
	for _, s := range d.Sections {
		fmt.Fprintf(&b, "\n## %s\n", s.Title)
		for _, line := range []string{s.About, s.Facts} {
			if line != "" {
				fmt.Fprintln(&b, line)
			}
		}
		for _, p := range s.Parts {
			switch p := p.(type) {
			case paragraph:
				fmt.Fprintln(&b, p)
			case table:
				b.WriteByte('\n')
				t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
				for _, cells := range append([][]string{p.Head}, p.Rows...) {
					fmt.Fprintf(t, "%s\t\n", strings.Join(cells, "\t"))
				}
				t.Flush()
			case judgements:
				for _, j := range p {
					fmt.Fprintf(&b, "  %s", j.What)
					if j.Aim != "" {
						fmt.Fprintf(&b, "  aim %s: %s", j.Aim, j.Verdict())
					}
					b.WriteByte('\n')
				}
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
