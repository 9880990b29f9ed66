package lab

import (
	"fmt"
	"strings"
)

// A view is a report in one language, as all of its forms show it.
type view struct {
	*Report
	lang   string
	groups []group
}

// A group is a scenario and what it came to for each way.
type group struct {
	id, name, story, right string
	rows                   []row
}

type row struct {
	Result
	way, answers, seen, mark string
}

func (r *Report) in(lang string) *view {
	v := &view{Report: r, lang: lang}
	for _, result := range r.Results {
		if len(v.groups) == 0 || v.groups[len(v.groups)-1].id != result.Scenario {
			w := scenarioWords[result.Scenario]
			g := group{id: result.Scenario, name: w.name.In(lang), story: w.story.In(lang)}
			if g.right = fmt.Sprintf(v.say("right-rows"), result.RightRows); result.Scenario == "edit" {
				g.right = v.say("right-edit")
			}
			v.groups = append(v.groups, g)
		}
		g := &v.groups[len(v.groups)-1]
		g.rows = append(g.rows, v.row(result))
	}
	return v
}

func (v *view) row(r Result) row {
	w := wayWords[r.Way]
	out := row{Result: r, way: w.name.In(v.lang), mark: verdictWords[r.Verdict].mark}
	if !r.Applies {
		out.seen = fmt.Sprintf(v.say("inapplies"), w.reason.In(v.lang))
		return out
	}
	out.answers = v.answers(r.Answers)
	out.seen = seenWords[r.Sees].In(v.lang)
	if r.Varied {
		out.seen += " (" + v.say("varied") + ")"
	}
	return out
}

func (v *view) say(word string) string { return words[word].In(v.lang) }

func (v *view) measured() string { return fmt.Sprintf(v.say("measured"), v.Database, v.Runs) }

// generated says what wrote the page, and what the other database is.
func (v *view) generated() string {
	if v.onSQLite() {
		return v.say("generated-lite")
	}
	return v.say("generated-pg")
}

// counted is how many rows were made: an edit makes none.
func (r row) counted() string {
	if r.Scenario == "edit" {
		return "–"
	}
	return fmt.Sprint(r.Rows)
}

func (r row) lost() string {
	if r.Scenario != "edit" {
		return "–"
	}
	return fmt.Sprint(r.Lost)
}

func (r row) time() string { return fmt.Sprintf("%.1f ms", r.Millis) }

// answers writes answers in short: 201, 9 × 409.
func (v *view) answers(all []Answer) string {
	var parts []string
	for i := 0; i < len(all); {
		n := i
		for n < len(all) && v.answer(all[n]) == v.answer(all[i]) {
			n++
		}
		part := v.answer(all[i])
		if n-i > 1 {
			part = fmt.Sprintf("%d × %s", n-i, part)
		}
		parts = append(parts, part)
		i = n
	}
	return strings.Join(parts, ", ")
}

func (v *view) answer(a Answer) string {
	switch {
	case a.Status == 0:
		return v.say("none")
	case a.Withheld:
		return fmt.Sprintf("%d (%s)", a.Status, v.say("withheld"))
	case a.Replayed:
		return fmt.Sprintf("%d (%s)", a.Status, v.say("replay"))
	}
	return fmt.Sprint(a.Status)
}

// find returns the row of a way in a scenario, nil if it was not tried.
func (v *view) find(way, scenario string) *row {
	for _, g := range v.groups {
		for i := range g.rows {
			if g.id == scenario && g.rows[i].Way == way {
				return &g.rows[i]
			}
		}
	}
	return nil
}

// ways are those that were tried.
func (v *view) ways() (ids []string) {
	for _, s := range v.Schemas {
		ids = append(ids, s.Way)
	}
	return ids
}

// seen is the evidence for a piece of advice: cells of the table, in words.
func (v *view) seen(by []evidence) string {
	var parts []string
	for _, e := range by {
		r := v.find(e.way, e.scenario)
		if r == nil {
			continue
		}
		count := v.say("rows") + " " + r.counted()
		if r.Scenario == "edit" {
			count = v.say("lost") + " " + r.lost()
		}
		parts = append(parts, fmt.Sprintf("%s %s, %s: %s (%s; %s)", r.mark, r.way, scenarioWords[e.scenario].name.In(v.lang), r.seen, r.answers, count))
	}
	return strings.Join(parts, " / ")
}

// surprise returns the words for a surprise on the report's database.
func (v *view) surprise(id string) (title, story string) {
	w := surpriseWords[id]
	story = w.pg.In(v.lang)
	if v.onSQLite() && w.sqlite.EN != "" {
		story = w.sqlite.In(v.lang)
	}
	return w.title.In(v.lang), story
}

func (v *view) onSQLite() bool { return strings.HasPrefix(v.Database, "SQLite") }

// transcript writes a surprise as two shells would show it.
func (s Surprise) transcript() string {
	var b strings.Builder
	for _, l := range s.Lines {
		fmt.Fprintf(&b, "%s=> %s;\n", l.Session, l.SQL)
		for _, p := range l.Printed {
			b.WriteString(p + "\n")
		}
	}
	return b.String()
}

// marks explains the marks.
func (v *view) marks() string {
	var parts []string
	for _, verdict := range []string{"right", "told", "wrong", ""} {
		w := verdictWords[verdict]
		parts = append(parts, w.mark+" "+w.means.In(v.lang))
	}
	return strings.Join(parts, ", ")
}
