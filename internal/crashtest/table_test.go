package crashtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the tables in docs anew")

// A crashTable collects what every point of an order leads to. It does not depend on the database, nor on who completes
// the order; on the policy it may.
type crashTable struct {
	mu    sync.Mutex
	rows  map[string]map[string]crashed // by point and policy
	notes int
}

// crashed is what was there when the process had died, and what the next attempt did: the steps that it ran, by commas,
// or nothing.
type crashed struct {
	left remains
	next string
}

const (
	chargedAgain = "charge again" // the provider knew its key
	mailFound    = "mail found"   // by the step's look
)

func (c *crashTable) note(t *testing.T, point, policy string, row crashed) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows = make(map[string]map[string]crashed)
	}
	if c.rows[point] == nil {
		c.rows[point] = make(map[string]crashed)
	}
	if before, ok := c.rows[point][policy]; ok && before != row {
		t.Errorf("a crash led to %+v, and on another database or in another way to %+v", row, before)
	}
	c.rows[point][policy] = row
	c.notes++
}

// compare compares the table with those in the documents, if all of it ran.
func (c *crashTable) compare(t *testing.T) {
	if t.Failed() || c.notes != len(orderPoints)*len(engines)*len(policies)*2 {
		t.Log("not all points were run; the tables in docs are not compared")
		return
	}
	for _, words := range tableWords {
		name := filepath.Join("../..", words.file)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, begins := strings.Cut(string(text), tableBegin)
		_, after, ends := strings.Cut(rest, tableEnd)
		if !begins || !ends {
			t.Fatalf("%s: the markers of the table are missing: %s … %s", words.file, tableBegin, tableEnd)
		}
		want := before + tableBegin + "\n\n" + c.render(words) + "\n" + tableEnd + after
		if want == string(text) {
			continue
		}
		if *update {
			err = os.WriteFile(name, []byte(want), 0o644)
		} else {
			err = fmt.Errorf("%s: the table is not what the run has shown (-update writes it):\n%s", words.file, c.render(words))
		}
		if err != nil {
			t.Error(err)
		}
	}
}

const (
	tableBegin = "<!-- made by: go test ./internal/crashtest -run TestStepsKilled -update -->"
	tableEnd   = "<!-- end -->"
)

// render returns the table in a language.
func (c *crashTable) render(w words) string {
	var b strings.Builder
	line := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(w.head...)
	b.WriteString("|---|--:|--:|--:|---|---|---|\n")
	for _, point := range orderPoints {
		hold, rerun := c.rows[point]["hold"], c.rows[point]["rerun"]
		left, next := w.left(hold.left), w.next(hold)
		if other := w.left(rerun.left); strings.Join(other, "") != strings.Join(left, "") {
			for i := range left {
				left[i] = w.either(left[i], other[i])
			}
		}
		line(append(append([]string{w.points[point]}, left...), w.either(next, w.next(rerun)))...)
	}
	return b.String()
}

// words are those of a table in one language.
type words struct {
	file   string
	head   []string
	points map[string]string
	cells  map[string]string
	comma  string
	both   string // formats cells that differ by policy
}

// either is a cell that may differ by policy.
func (w words) either(hold, rerun string) string {
	if hold == rerun {
		return hold
	}
	return fmt.Sprintf(w.both, hold, rerun)
}

func (w words) left(r remains) []string {
	return []string{fmt.Sprint(r.movements), fmt.Sprint(r.charges), fmt.Sprint(r.mails), w.list(r.kept), w.cells[r.state]}
}

func (w words) next(c crashed) string {
	switch {
	case c.next != "":
		return w.list(c.next)
	case c.left.state == "completed":
		return w.cells["replay"]
	case c.left.kept == "":
		return w.cells["unknown"]
	}
	return w.cells["no step"]
}

// list translates a list of steps.
func (w words) list(steps string) string {
	if steps == "" {
		return "–"
	}
	var all []string
	for _, step := range strings.Split(steps, ", ") {
		if word, ok := w.cells[step]; ok {
			step = word
		} else {
			step = "`" + step + "`"
		}
		all = append(all, step)
	}
	return strings.Join(all, w.comma)
}

var tableWords = []words{{
	file: "docs/steps.md",
	head: []string{"the process dies", "stock rows", "charges", "mails", "kept steps", "the key", "the next attempt runs"},
	points: map[string]string{
		"claim before":    "before its claim",
		"claim after":     "after its claim",
		"begin before":    "before its first step begins",
		"begin after":     "when its first step has begun",
		"reserve before":  "in `reserve`, before its first statement",
		"reserve after":   "in `reserve`, before its COMMIT",
		"reserve kept":    "after that COMMIT",
		"renew before":    "between two steps, before a renewal of the lease",
		"renew after":     "between two steps, after a renewal",
		"charge before":   "in `charge`, before its call",
		"charge after":    "after that call, before its result is kept",
		"charge kept":     "after the result is kept",
		"mail before":     "in `mail`, before its look",
		"mail looked":     "between its look and its call",
		"mail after":      "after that call, before its result is kept",
		"mail kept":       "after the result is kept",
		"complete before": "before the answer is stored",
		"complete after":  "after the answer is stored",
	},
	cells: map[string]string{
		noRecord: "no record", "in progress": "in progress", "completed": "completed",
		chargedAgain: "`charge` (the provider knows its key)",
		mailFound:    "`mail` (its look finds it)",
		"replay":     "there is none; the answer is replayed",
		"no step":    "no step; the answer is made from the results",
		"unknown":    "there is none, the key becomes unknown",
	},
	comma: ", ",
	both:  "`Hold`: %s. `Rerun`: %s",
}, {
	file: "docs/ja/steps.md",
	head: []string{"プロセスが落ちたとき", "在庫の行", "課金", "メール", "保存済みのステップ", "キー", "次の試行が実行するもの"},
	points: map[string]string{
		"claim before":    "実行権を得る前",
		"claim after":     "実行権を得た後",
		"begin before":    "最初のステップが始まる前",
		"begin after":     "最初のステップが始まった後",
		"reserve before":  "`reserve` の中、最初の文の前",
		"reserve after":   "`reserve` の中、COMMIT の前",
		"reserve kept":    "その COMMIT の後",
		"renew before":    "ステップの間、リースの更新の前",
		"renew after":     "ステップの間、リースの更新の後",
		"charge before":   "`charge` の中、呼び出しの前",
		"charge after":    "その呼び出しの後、結果を保存する前",
		"charge kept":     "結果を保存した後",
		"mail before":     "`mail` の中、調べる前",
		"mail looked":     "調べた後、呼び出す前",
		"mail after":      "その呼び出しの後、結果を保存する前",
		"mail kept":       "結果を保存した後",
		"complete before": "レスポンスを保存する前",
		"complete after":  "レスポンスを保存した後",
	},
	cells: map[string]string{
		noRecord: "レコードなし", "in progress": "処理中", "completed": "完了",
		chargedAgain: "`charge`（相手はキーを知っている）",
		mailFound:    "`mail`（調べて見つける）",
		"replay":     "試行はない。レスポンスを再送する",
		"no step":    "ステップは実行しない。結果からレスポンスを作る",
		"unknown":    "試行はない。キーは不明になる",
	},
	comma: "、",
	both:  "`Hold`：%s。`Rerun`：%s",
}}
