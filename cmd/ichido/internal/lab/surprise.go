package lab

import (
	"context"
	"fmt"
	"strings"
)

// A Surprise is something that databases do and people do not expect, as a transcript of what was really run.
type Surprise struct {
	ID    string `json:"id"`
	Lines []Line `json:"lines"`
}

// A Line is a statement in one of the sessions, and what the database said to it.
type Line struct {
	Session string   `json:"session"` // A or B
	SQL     string   `json:"sql"`
	Printed []string `json:"printed,omitempty"`
}

// A script is what is typed for a surprise. Each makes tables of its own. {id} is a primary key that counts by itself.
type script struct {
	id     string
	common []string // on both databases, if the following are empty
	pg     []string
	sqlite []string
}

// scripts in the order in which they are shown. A line begins with its session.
var scripts = []script{
	{id: "gaps", common: []string{
		"A CREATE TABLE gaps (id {id}, name text UNIQUE)",
		"A INSERT INTO gaps (name) VALUES ('chair') RETURNING id",
		"A INSERT INTO gaps (name) VALUES ('chair') RETURNING id",
		"A BEGIN",
		"A INSERT INTO gaps (name) VALUES ('desk') RETURNING id",
		"A ROLLBACK",
		"A INSERT INTO gaps (name) VALUES ('chair') ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id",
		"A INSERT INTO gaps (name) VALUES ('lamp') RETURNING id",
	}},
	{id: "bytes",
		pg: []string{
			`A CREATE TABLE answers (as_bytes bytea, as_jsonb jsonb)`,
			`A INSERT INTO answers VALUES ('{"quantity":1,"item":"chair","quantity":2}', '{"quantity":1,"item":"chair","quantity":2}')`,
			`A SELECT convert_from(as_bytes, 'UTF8') AS as_bytes, as_jsonb FROM answers`,
			`A SELECT length(as_bytes) AS bytes, length(as_jsonb::text) AS jsonb, sha256(as_bytes) = sha256(as_jsonb::text::bytea) AS same_digest FROM answers`,
		},
		sqlite: []string{
			`A CREATE TABLE answers (as_bytes blob, as_json text)`,
			`A INSERT INTO answers VALUES ('{ "quantity": 1, "item": "chair", "quantity": 2 }', json('{ "quantity": 1, "item": "chair", "quantity": 2 }'))`,
			`A SELECT as_bytes, as_json, as_bytes = as_json AS same FROM answers`,
		}},
	{id: "aborted", common: []string{
		"A CREATE TABLE once (name text UNIQUE)",
		"A INSERT INTO once VALUES ('chair')",
		"A BEGIN",
		"A INSERT INTO once VALUES ('chair')",
		"A INSERT INTO once VALUES ('desk')",
		"A COMMIT",
		"A SELECT name FROM once ORDER BY name",
		"A BEGIN",
		"A SAVEPOINT attempt",
		"A INSERT INTO once VALUES ('chair')",
		"A ROLLBACK TO attempt",
		"A INSERT INTO once VALUES ('lamp')",
		"A COMMIT",
		"A SELECT name FROM once ORDER BY name",
	}},
	{id: "nothing-returned", common: []string{
		"A CREATE TABLE returned (id {id}, name text UNIQUE)",
		"A INSERT INTO returned (name) VALUES ('chair') ON CONFLICT DO NOTHING RETURNING id",
		"A INSERT INTO returned (name) VALUES ('chair') ON CONFLICT DO NOTHING RETURNING id",
	}},
	{id: "null", common: []string{
		"A CREATE TABLE nulls (ordered_by text, item text, UNIQUE (ordered_by, item))",
		"A INSERT INTO nulls VALUES (NULL, 'chair')",
		"A INSERT INTO nulls VALUES (NULL, 'chair')",
		"A SELECT count(*) FROM nulls",
	}},
	{id: "look-first", common: []string{
		"A CREATE TABLE looked (item text)",
		"A BEGIN",
		"B BEGIN",
		"A SELECT count(*) FROM looked WHERE item = 'chair'",
		"B SELECT count(*) FROM looked WHERE item = 'chair'",
		"A INSERT INTO looked VALUES ('chair')",
		"A COMMIT",
		"B INSERT INTO looked VALUES ('chair')",
		"B COMMIT",
		"A SELECT count(*) FROM looked",
	}},
	{id: "other-effects", common: []string{
		"A CREATE TABLE reserved (ordered_by text, item text, quantity integer, UNIQUE (ordered_by, item))",
		"A CREATE TABLE stock (item text PRIMARY KEY, quantity integer)",
		"A INSERT INTO stock VALUES ('chair', 10)",
		"A BEGIN",
		"A INSERT INTO reserved VALUES ('taro', 'chair', 1) ON CONFLICT (ordered_by, item) DO UPDATE SET quantity = excluded.quantity",
		"A UPDATE stock SET quantity = quantity - 1 WHERE item = 'chair'",
		"A COMMIT",
		"A BEGIN",
		"A INSERT INTO reserved VALUES ('taro', 'chair', 1) ON CONFLICT (ordered_by, item) DO UPDATE SET quantity = excluded.quantity",
		"A UPDATE stock SET quantity = quantity - 1 WHERE item = 'chair'",
		"A COMMIT",
		"A SELECT (SELECT sum(quantity) FROM reserved) AS reserved, 10 - quantity AS taken_from_stock FROM stock",
	}},
	{id: "late", common: []string{
		"A CREATE TABLE settings (name text PRIMARY KEY, value text)",
		"A INSERT INTO settings VALUES ('theme', 'dark') ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		"B INSERT INTO settings VALUES ('theme', 'light') ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		"A INSERT INTO settings VALUES ('theme', 'dark') ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		"A SELECT value FROM settings WHERE name = 'theme'",
	}},
	{id: "strangers", common: []string{
		"A CREATE TABLE versions (item text PRIMARY KEY, version integer)",
		"A INSERT INTO versions VALUES ('chair', 1)",
		"A SELECT version FROM versions WHERE item = 'chair'",
		"B SELECT version FROM versions WHERE item = 'chair'",
		"A UPDATE versions SET version = version + 1 WHERE item = 'chair' AND version = 1 RETURNING version",
		"B UPDATE versions SET version = version + 1 WHERE item = 'chair' AND version = 1 RETURNING version",
	}},
}

// surprise runs the scripts, each in two new sessions.
func (l *lab) surprise(ctx context.Context) (found []Surprise, err error) {
	for _, s := range scripts {
		lines, id := s.pg, pgIdentity
		if _, ok := l.db.(*sqliteFile); ok {
			lines, id = s.sqlite, sqliteIdentity
		}
		if lines == nil {
			lines = s.common
		}
		played, err := l.play(ctx, lines, id)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.id, err)
		}
		found = append(found, Surprise{s.id, played})
	}
	return found, ctx.Err()
}

func (l *lab) play(ctx context.Context, lines []string, id string) (played []Line, err error) {
	sessions := make(map[string]session)
	defer func() {
		for _, s := range sessions {
			s.close()
		}
	}()
	for _, line := range lines {
		who, sql, _ := strings.Cut(line, " ")
		if sessions[who] == nil {
			if sessions[who], err = l.db.session(ctx); err != nil {
				return nil, err
			}
		}
		sql = strings.ReplaceAll(sql, "{id}", id)
		played = append(played, Line{who, sql, sessions[who].run(ctx, sql)})
	}
	return played, nil
}

// shell writes rows as psql does, roughly.
func shell(head []string, grid [][]string) []string {
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, grid...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	line := func(row []string, between string, fill string) string {
		var b strings.Builder
		for i, cell := range row {
			if i > 0 {
				b.WriteString(between)
			}
			b.WriteString(fill + cell + strings.Repeat(fill, widths[i]-len(cell)+1))
		}
		return strings.TrimRight(b.String(), " ")
	}
	printed := []string{line(head, "|", " "), line(make([]string, len(head)), "+", "-")}
	for _, row := range grid {
		printed = append(printed, line(row, "|", " "))
	}
	rows := "rows"
	if len(grid) == 1 {
		rows = "row"
	}
	return append(printed, fmt.Sprintf("(%d %s)", len(grid), rows))
}
