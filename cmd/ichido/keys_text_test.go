package main

import (
	"os/exec"
	"testing"
	"time"
)

// bash returns what a script prints.
func bash(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Env = []string{"LC_ALL=C.UTF-8"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return string(out)
}

func TestShellsUnderstandShellWords(t *testing.T) {
	for _, s := range append(hostile, "", "plain", "it's", `back\slash`, "a b", "~", "*", "é\n", "\x7f", "!x", "#x") {
		word := shellWord(s)
		if got := bash(t, "printf %s "+word); got != s || !isPrintable(word) {
			t.Errorf("%q as %s is %q", s, word, got)
		}
	}
}

func TestTextsAreDisplayed(t *testing.T) {
	for s, want := range map[string]string{
		"order-7": "order-7", "taro POST /x": "taro POST /x", "予約": "予約", "it's": "it's", "": `""`, "-": `"-"`, "a\nb": `"a\nb"`,
		"\x1b[2J": `"\x1b[2J"`, "a\u202eb": `"a\u202eb"`, "a  b": `"a  b"`, " a": `" a"`, "a ": `"a "`, `"a\nb"`: `"\"a\\nb\""`, "\xff": `"\xff"`,
	} {
		if got := display(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

func TestSpans(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m", 2 * time.Hour: "2h",
		47 * time.Hour: "47h", 2 * day: "2d", 400 * day: "400d",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

func TestColumnsLineUp(t *testing.T) {
	var out table
	got := out.format([][]string{{"KEY", "AGE"}, {"予約", "2h"}, {"e\u0301", "5s"}, {"order-7", "1d"}}) + out.format([][]string{{"a", "1s"}})
	want := "KEY      AGE\n予約     2h\ne\u0301        5s\norder-7  1d\na        1s\n"
	if got != want {
		t.Errorf("\n%swant\n%s", got, want)
	}
	if out.cut {
		t.Error("a cell was cut")
	}
	if got := cutTo("予約予約", 7); got != "予約予…" {
		t.Error(got)
	}
	if got := cutTo("予約予約", 8); got != "予約予約" {
		t.Error(got)
	}
}
