package lab

import (
	"fmt"
	"strings"
)

// tutorial writes all steps of the trials so that they can be followed.
func (v *view) tutorial() string {
	var b strings.Builder
	if v.onSQLite() {
		b.WriteString(v.say("follow-lite") + "\n\n  sqlite3 lab.db\n\n")
	} else {
		b.WriteString(v.say("follow-pg") + "\n\n  CREATE SCHEMA my_lab;\n  SET search_path = my_lab;\n\n")
	}
	b.WriteString(v.say("tables") + "\n")
	for _, s := range v.Schemas {
		fmt.Fprintf(&b, "\n-- %s\n", wayWords[s.Way].name.In(v.lang))
		for _, sql := range s.Statements {
			b.WriteString(strings.TrimSuffix(strings.TrimSpace(sql), ";") + ";\n")
		}
	}
	b.WriteString("\n" + v.say("empty") + "\n\n")
	for _, sql := range v.Schemas[len(v.Schemas)-1].Emptied {
		b.WriteString("  " + sql + ";\n")
	}
	for _, g := range v.groups {
		for _, r := range g.rows {
			fmt.Fprintf(&b, "\n-- %s / %s --\n   %s\n", g.name, r.way, g.story)
			if !r.Applies {
				b.WriteString("   " + r.seen + "\n")
				continue
			}
			v.steps(&b, r)
			fmt.Fprintf(&b, "%s %s. ", r.mark, r.seen)
			if r.Scenario == "edit" {
				fmt.Fprintf(&b, v.say("lost-edits")+"\n", r.Lost)
			} else {
				fmt.Fprintf(&b, v.say("in-table")+"\n", r.Rows, r.RightRows)
			}
		}
	}
	return b.String()
}

// steps writes the requests of a trial. Of those that went alike one is shown.
func (v *view) steps(b *strings.Builder, r row) {
	shown := make(map[string]int)
	alike := func(e *Exchange) string {
		var s strings.Builder
		fmt.Fprintln(&s, e.Opening, e.Answer.Status, e.Answer.Replayed)
		for _, statement := range e.Statements {
			fmt.Fprintln(&s, statement.Result != "" && statement.Result[0] == 'E', placeholders(statement.SQL))
		}
		return s.String()
	}
	atOnce := r.Scenario == "at-once"
	for _, e := range r.Log {
		shown[alike(e)]++
	}
	for _, e := range r.Log {
		kind := alike(e)
		if atOnce && shown[kind] == 0 {
			continue
		}
		v.step(b, e)
		if n := shown[kind]; atOnce && n > 1 {
			fmt.Fprintf(b, "    ("+v.say("like-this")+")\n", n)
		}
		shown[kind] = 0
	}
}

// placeholders is a statement with its numbers blotted out, so that those of two requests can be compared.
func placeholders(sql string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '0'
		}
		return r
	}, sql)
}

func (v *view) step(b *strings.Builder, e *Exchange) {
	does := v.say("sends")
	switch {
	case e.Opening:
		does = v.say("opens")
	case e.Elsewhere:
		does = v.say("killed")
	}
	fmt.Fprintf(b, "\n%s: %s\n    %s %s", e.Who, does, e.Method, e.Path)
	if e.Key != "" {
		fmt.Fprintf(b, "  Idempotency-Key: %q", e.Key)
	}
	if e.IfMatch != "" {
		fmt.Fprintf(b, "  If-Match: %s", e.IfMatch)
	}
	if e.Body != "" {
		b.WriteString("  " + e.Body)
	}
	b.WriteString("\n")
	for _, s := range e.Statements {
		fmt.Fprintf(b, "  %s=> %s;\n", e.Who, s.SQL)
		if s.Result != "" {
			b.WriteString("     " + s.Result + "\n")
		}
	}
	if len(e.Statements) == 0 {
		fmt.Fprintf(b, "    (%s)\n", v.say("no-sql"))
	}
	fmt.Fprintf(b, "    %s", v.answer(e.Answer))
	if e.Answer.Body != "" {
		b.WriteString("  " + e.Answer.Body)
	}
	b.WriteString("\n")
}
