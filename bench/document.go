package main

import (
	"fmt"
	"strings"
)

// A document is a report for people. It is written as text, as Markdown, and as a page.
type document struct {
	Facts    []string // where and by what
	Sections []section
}

// A section is one of the comparisons, on one engine.
type section struct {
	Title string
	About string // what is compared
	Facts string // versions and settings; "" for none
	Parts []any  // paragraph, table, judgements or figures
}

func (s *section) add(parts ...any) { s.Parts = append(s.Parts, parts...) }

type paragraph string

// A table has names in its first column and numbers in the others.
type table struct {
	Head []string
	Rows [][]string
}

func (t *table) row(cells ...string) { t.Rows = append(t.Rows, cells) }

type judgements []judgement

// A judgement is a number that something is aimed at for, or not.
type judgement struct {
	What string
	Aim  string // "" if nothing is aimed at
	Met  bool
}

// Verdict tells whether the aim was met.
func (j judgement) Verdict() string {
	if j.Met {
		return "met"
	}
	return "MISSED"
}

type sectionAim struct {
	section
	judgement
}

// Aims are the judgements of all sections that have an aim.
func (d *document) Aims() (all []sectionAim) {
	for _, s := range d.Sections {
		for _, p := range s.Parts {
			list, _ := p.(judgements)
			for _, j := range list {
				if j.Aim != "" {
					all = append(all, sectionAim{s, j})
				}
			}
		}
	}
	return all
}

// Score says how many aims were met.
func (d *document) Score() string {
	all := d.Aims()
	met := 0
	for _, a := range all {
		if a.Met {
			met++
		}
	}
	return fmt.Sprintf("%d of %d aims met", met, len(all))
}

// ID names a section in links.
func (s section) ID() string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s.Title)), "-")
}

// spread writes a spread whose numbers have the format.
func spread(format string, s Spread) string {
	if s.Min == s.Max {
		return fmt.Sprintf(format, s.Median)
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.Median, s.Min, s.Max)
}
