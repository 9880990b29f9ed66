package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ichido-dev/ichido"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// display returns a text from the database as it may be shown on a terminal, and so that it cannot be taken for something
// else: quoted as in Go, unless it is plain.
func display(s string) string {
	if s == "" || s == "-" || s[0] == '"' || s[0] == ' ' || s[len(s)-1] == ' ' || strings.Contains(s, "  ") || !isPrintable(s) {
		return strconv.Quote(s)
	}
	return s
}

// isPrintable reports whether all of s is letters, marks, digits, punctuation, symbols and spaces. Characters that are
// invisible or change the direction of writing are not.
func isPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}

// printTerminalJSON is printJSON with all escaped that a terminal could take for something else than text.
func printTerminalJSON(w io.Writer, value any) error {
	var plain bytes.Buffer
	if err := printJSON(&plain, value); err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range plain.String() {
		if r == '\n' || strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) { // in a string, since nothing else of JSON is like this
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+:,./-]+$`)

// shellWord returns s as a word of a shell's command line that can be shown on a terminal.
func shellWord(s string) string {
	switch {
	case plainWord.MatchString(s):
		return s
	case isPrintable(s):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		char := s[:size]
		if s = s[size:]; r != '\'' && r != '\\' && isPrintable(char) {
			b.WriteString(char)
			continue
		}
		for i := range size {
			fmt.Fprintf(&b, `\%03o`, char[i])
		}
	}
	return b.String() + "'"
}

// A setFlag is a flag, with its value, of a command line that is shown to people.
type setFlag struct{ name, value string }

// commandLine returns the command line of cmd as it was given, with a key, if it is not empty, and with flags set.
func commandLine(cmd *cobra.Command, key string, set ...setFlag) string {
	var words []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		i := slices.IndexFunc(set, func(s setFlag) bool { return s.name == f.Name })
		many, isMany := f.Value.(pflag.SliceValue)
		switch {
		case i >= 0 && f.Value.Type() == "bool":
			words = append(words, "--"+f.Name)
		case i >= 0:
			words = append(words, "--"+f.Name, shellWord(set[i].value))
		case !f.Changed || f.Name == "db" || f.Name == "outbox":
		case isMany:
			for _, value := range many.GetSlice() {
				words = append(words, "--"+f.Name, shellWord(value))
			}
		case f.Value.Type() == "bool":
			words = append(words, "--"+f.Name+map[string]string{"false": "=false"}[f.Value.String()])
		default:
			words = append(words, "--"+f.Name, shellWord(f.Value.String()))
		}
	})
	return assemble(cmd.CommandPath(), key, append(words, databaseWords(cmd)...))
}

// siblingLine returns the command line of the command beside cmd that has the name, for a key.
func siblingLine(cmd *cobra.Command, name string, id ichido.EntryID, more ...string) string {
	words := append([]string{"--scope", shellWord(id.Scope)}, more...)
	return assemble(cmd.Parent().CommandPath()+" "+name, id.Key, append(words, databaseWords(cmd)...))
}

// databaseWords are those of --db or --outbox, if it was given. The URL of a database may hold a password, and is not
// repeated.
func databaseWords(cmd *cobra.Command) []string {
	for name, variable := range map[string]string{"db": "DATABASE_URL", "outbox": "ICHIDO_OUTBOX"} {
		switch f := cmd.Flags().Lookup(name); {
		case f == nil || !f.Changed:
		case isPostgres(f.Value.String()):
			return []string{"--" + name, `"$` + variable + `"`}
		default:
			return []string{"--" + name, shellWord(f.Value.String())}
		}
	}
	return nil
}

func assemble(path, key string, words []string) string {
	switch {
	case strings.HasPrefix(key, "-"):
		words = append(words, "--", shellWord(key))
	case key != "":
		words = append([]string{shellWord(key)}, words...)
	}
	return strings.Join(append([]string{path}, words...), " ")
}

// span writes how long something takes, in the largest unit of which there are at least two.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// moment writes a time, and how far it is from now.
func moment(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	far := span(time.Since(t)) + " ago"
	if until := time.Until(t); until > 0 {
		far = "in " + span(until)
	}
	return t.UTC().Format(time.DateTime) + " UTC (" + far + ")"
}

// widest is where a cell of a table is cut, in columns of a terminal.
const widest = 64

// A table writes rows in columns, page by page. A column never becomes narrower.
type table struct {
	widths []int
	cut    bool // a cell was
}

func (t *table) format(rows [][]string) string {
	for _, row := range rows {
		for i, cell := range row {
			if shown := cutTo(cell, widest); shown != cell {
				row[i], t.cut = shown, true
			}
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], columns(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[i]-columns(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// cutTo shortens s to a number of columns, the last of which is then an ellipsis.
func cutTo(s string, limit int) string {
	if columns(s) <= limit {
		return s
	}
	used := 0
	for i, r := range s {
		if used += width(r); used > limit-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// columns returns how many columns of a terminal s takes.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += width(r)
	}
	return n
}

// width is 2 for the characters that East Asian fonts have twice as wide (Unicode Standard Annex 11), 0 for marks on the
// character before, else 1.
func width(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff01 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}
