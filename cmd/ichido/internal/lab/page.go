package lab

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// page is what the template shows.
type page struct {
	Lang, Title, Intro, Measured, Marks, Legend, Session, Combine string
	Words                                                         map[string]string
	Ways                                                          []named
	Groups                                                        []pageGroup
	Surprises                                                     []pageSurprise
	Advice                                                        []pageAdvice
	Tutorial                                                      string
}

type named struct{ Name, Text string }

type pageGroup struct {
	Name, Story, Right string
	Cells              []pageCell
	Charts             []chart
}

type pageCell struct{ Way, Mark, Class, Rows, Lost, Statements, Time, Answers, Seen string }

type pageSurprise struct{ Title, Story, Transcript string }

type pageAdvice struct{ Question, Answer, Seen string }

// WriteHTML writes a report as a page that needs nothing else, in the language "en" or "ja".
func (r *Report) WriteHTML(w io.Writer, lang string) error {
	v := r.in(lang)
	p := page{Lang: lang, Title: v.say("title"), Intro: v.say("intro"), Measured: v.measured(), Marks: v.marks(),
		Legend: v.say("legend"), Session: v.say("session"), Combine: v.say("combine"), Words: make(map[string]string)}
	for name := range words {
		p.Words[name] = v.say(name)
	}
	for _, id := range v.ways() {
		p.Ways = append(p.Ways, named{wayWords[id].name.In(lang), plain(wayWords[id].idea.In(lang))})
	}
	for _, g := range v.groups {
		p.Groups = append(p.Groups, v.pageGroup(g))
	}
	for _, s := range r.Surprises {
		title, story := v.surprise(s.ID)
		p.Surprises = append(p.Surprises, pageSurprise{title, story, s.transcript()})
	}
	for _, a := range advice {
		p.Advice = append(p.Advice, pageAdvice{a.question.In(lang), plain(a.answer.In(lang)), v.seen(a.by)})
	}
	p.Tutorial = v.tutorial()
	return pageTemplate.Execute(w, p)
}

func (v *view) pageGroup(g group) pageGroup {
	out := pageGroup{Name: g.name, Story: g.story, Right: g.right}
	counted := chart{Title: v.say("rows")}
	value := func(r row) float64 { return float64(r.Rows) }
	if g.id == "edit" {
		counted.Title = v.say("lost")
		value = func(r row) float64 { return float64(r.Lost) }
	}
	statements, times := chart{Title: v.say("statements")}, chart{Title: v.say("time")}
	for _, r := range g.rows {
		class := r.Verdict
		if !r.Applies {
			out.Cells = append(out.Cells, pageCell{Way: r.way, Mark: r.mark, Class: "none", Rows: "–", Lost: "–", Statements: "–", Time: "–", Seen: r.seen})
			for _, c := range []*chart{&counted, &statements, &times} {
				c.Bars = append(c.Bars, bar{Label: r.way, Text: "–", Class: "none"})
			}
			continue
		}
		out.Cells = append(out.Cells, pageCell{r.way, r.mark, class, r.counted(), r.lost(), fmt.Sprint(r.Statements), r.time(), r.answers, r.seen})
		counted.Bars = append(counted.Bars, bar{Label: r.way, Value: value(r), Text: fmt.Sprint(value(r)), Class: class})
		statements.Bars = append(statements.Bars, bar{Label: r.way, Value: float64(r.Statements), Text: fmt.Sprint(r.Statements), Class: "plain"})
		times.Bars = append(times.Bars, bar{Label: r.way, Value: r.Millis, Text: r.time(), Class: "plain"})
	}
	if g.id != "edit" && len(g.rows) > 0 {
		counted.right = float64(g.rows[0].RightRows)
		for _, r := range g.rows {
			counted.right = max(counted.right, float64(r.RightRows))
		}
	}
	out.Charts = []chart{counted, statements, times}
	return out
}

// A chart is a few horizontal bars.
type chart struct {
	Title string
	Bars  []bar
	right float64 // where a line marks what is right, if more than 0
}

type bar struct {
	Label, Text, Class string
	Value              float64
}

// The measures of a chart, in the units of its own view box.
const (
	chartWidth = 320
	barsBegin  = 118
	barsEnd    = 248 // the number beside the longest bar has its place
	barHeight  = 22
)

// SVG draws the chart. Colours are classes of the page.
func (c chart) SVG() template.HTML {
	longest := c.right
	for _, b := range c.Bars {
		longest = max(longest, b.Value)
	}
	at := func(value float64) float64 {
		if longest == 0 {
			return barsBegin
		}
		return barsBegin + (barsEnd-barsBegin)*value/longest
	}
	height := barHeight*len(c.Bars) + 4
	var s strings.Builder
	esc := template.HTMLEscapeString
	fmt.Fprintf(&s, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWidth, height, esc(c.Title))
	for i, b := range c.Bars {
		y := barHeight*i + 2
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`, barsBegin-8, y+15, esc(b.Label))
		fmt.Fprintf(&s, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, b.Class, barsBegin, y+3, max(at(b.Value)-barsBegin, 1), barHeight-6)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d">%s</text>`, at(b.Value)+6, y+15, esc(b.Text))
	}
	if c.right > 0 {
		fmt.Fprintf(&s, `<line x1="%[1]d" x2="%[1]d" y1="0" y2="%[2]d"/>`, int(at(c.right)), height)
	}
	s.WriteString(`</svg>`)
	return template.HTML(s.String()) // its texts are escaped
}
