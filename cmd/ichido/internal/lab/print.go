package lab

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// WriteText writes a report for a terminal, in the language "en" or "ja".
func (r *Report) WriteText(w io.Writer, lang string, explain bool) error {
	v := r.in(lang)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n%s\n", v.say("title"), plain(v.say("intro")), v.measured())
	for _, id := range v.ways() {
		fmt.Fprintf(&b, "\n  %s\n    %s\n", wayWords[id].name.In(lang), plain(wayWords[id].idea.In(lang)))
	}
	for _, g := range v.groups {
		fmt.Fprintf(&b, "\n%s (%s)\n%s\n", g.name, g.right, g.story)
		b.WriteString(v.table(g))
	}
	fmt.Fprintf(&b, "\n%s\n%s\n", v.marks(), v.say("legend"))
	if len(r.Surprises) > 0 {
		fmt.Fprintf(&b, "\n%s\n%s\n", v.say("surprises"), v.say("session"))
		for _, s := range r.Surprises {
			title, story := v.surprise(s.ID)
			fmt.Fprintf(&b, "\n%s\n\n%s\n%s\n", title, indent(s.transcript()), story)
		}
	}
	if explain {
		fmt.Fprintf(&b, "\n%s\n\n%s", v.say("tutorial"), v.tutorial())
	}
	fmt.Fprintf(&b, "\n%s\n", v.say("advice"))
	for _, a := range advice {
		fmt.Fprintf(&b, "\n%s\n  %s\n", a.question.In(lang), plain(a.answer.In(lang)))
		if seen := v.seen(a.by); seen != "" {
			fmt.Fprintf(&b, "  %s%s\n", v.say("seen"), seen)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", v.say("combine"))
	_, err := io.WriteString(w, b.String())
	return err
}

// table writes the rows of a group in columns.
func (v *view) table(g group) string {
	grid := [][]string{{"", v.say("way"), v.say("rows"), v.say("lost"), v.say("statements"), v.say("time"), v.say("sees")}}
	for _, r := range g.rows {
		if !r.Applies {
			grid = append(grid, []string{r.mark, r.way, "–", "–", "–", "–", r.seen})
			continue
		}
		grid = append(grid, []string{r.mark, r.way, r.counted(), r.lost(), fmt.Sprint(r.Statements), r.time(), r.answers + ": " + r.seen})
	}
	widths := make([]int, len(grid[0]))
	for _, cells := range grid {
		for i, cell := range cells {
			widths[i] = max(widths[i], width(cell))
		}
	}
	var b strings.Builder
	for _, cells := range grid {
		line := " "
		for i, cell := range cells {
			pad := strings.Repeat(" ", widths[i]-width(cell))
			if i >= 2 && i <= 5 { // numbers
				line += " " + pad + cell + " "
			} else {
				line += " " + cell + pad + " "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// width is how many columns of a terminal a text takes: two for each Japanese character.
func width(s string) int {
	n := utf8.RuneCountInString(s)
	for _, r := range s {
		if r >= 0x2e80 && r <= 0xffdc {
			n++
		}
	}
	return n
}

// plain takes the marks of code out of a text.
func plain(s string) string { return strings.ReplaceAll(s, "`", "") }

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n  ") + "\n"
}

// WriteMarkdown writes a report as a page of Markdown, in the language "en" or "ja".
func (r *Report) WriteMarkdown(w io.Writer, lang string) error {
	v := r.in(lang)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n%s\n\n%s %s\n", v.say("title"), v.say("others"), v.say("intro"), v.measured(), v.generated())

	fmt.Fprintf(&b, "\n## %s\n\n", v.say("ways"))
	for _, id := range v.ways() {
		fmt.Fprintf(&b, "- **%s**: %s\n", wayWords[id].name.In(lang), wayWords[id].idea.In(lang))
	}

	fmt.Fprintf(&b, "\n## %s\n\n| |", v.say("glance"))
	for _, id := range v.ways() {
		b.WriteString(" " + wayWords[id].name.In(lang) + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(v.ways())) + "\n")
	for _, g := range v.groups {
		b.WriteString("| " + g.name + " |")
		for _, r := range g.rows {
			b.WriteString(" " + r.mark + " |")
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\n%s.\n", v.marks())

	fmt.Fprintf(&b, "\n## %s\n\n| %s | %s | %s | %s | %s | %s | %s |\n|---|---|---:|---:|---|---:|---:|\n", v.say("results"),
		v.say("scenario"), v.say("way"), v.say("rows"), v.say("lost"), v.say("sees"), v.say("statements"), v.say("time"))
	for _, g := range v.groups {
		for i, r := range g.rows {
			name := ""
			if i == 0 {
				name = fmt.Sprintf("**%s** (%s)", g.name, g.right)
			}
			if !r.Applies {
				fmt.Fprintf(&b, "| %s | %s | – | – | %s %s | – | – |\n", name, r.way, r.mark, r.seen)
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s %s: %s | %d | %s |\n", name, r.way, r.counted(), r.lost(), r.mark, r.answers, r.seen, r.Statements, r.time())
		}
	}
	b.WriteString("\n")
	for _, g := range v.groups {
		fmt.Fprintf(&b, "- **%s**: %s\n", g.name, g.story)
	}
	fmt.Fprintf(&b, "\n%s\n", v.say("legend"))

	if len(r.Surprises) > 0 {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", v.say("surprises"), v.say("session"))
	}
	for _, s := range r.Surprises {
		title, story := v.surprise(s.ID)
		fmt.Fprintf(&b, "\n### %s\n\n```\n%s```\n\n%s\n", title, s.transcript(), story)
	}

	fmt.Fprintf(&b, "\n## %s\n", v.say("advice"))
	for _, a := range advice {
		fmt.Fprintf(&b, "\n**%s** %s\n", a.question.In(lang), a.answer.In(lang))
		if seen := v.seen(a.by); seen != "" {
			fmt.Fprintf(&b, "\n> %s%s\n", v.say("seen"), seen)
		}
	}
	fmt.Fprintf(&b, "\n%s\n\n%s\n", v.say("combine"), v.say("further"))
	_, err := io.WriteString(w, b.String())
	return err
}
