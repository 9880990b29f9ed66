package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed report.html.tmpl
var page string

// html writes the document as one page that needs nothing else.
func (d *document) html(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"svg":   func(f figure) (template.HTML, error) { text, err := f.svg(); return template.HTML(text), err },
		"color": func(i int) template.CSS { return template.CSS(hex(lineColor(i))) },
		"kind":  func(part any) string { return strings.TrimPrefix(fmt.Sprintf("%T", part), "main.") },
	}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, d)
}
