// Package model holds models in Promela, and the tests that explore them with Spin: every order in which attempts, a
// resolver, a person and the clock can act on one key. lease.pml is lease mode (docs/design/007-lease-model.md), steps.pml
// an operation of steps (docs/design/008-steps-model.md).
package model

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testHolds explores a model under each of several sets of macros. Nothing may be found.
func testHolds(t *testing.T, model string, sets ...string) {
	t.Parallel()
	requireSpin(t)
	unreached := make(map[string]int)
	for _, macros := range sets {
		out := explore(t, model, safety, macros)
		requireAll(t, macros, out)
		for _, statement := range unreachedIn(out) {
			unreached[statement]++
		}
	}
	// A property that holds because nothing happens is none.
	for statement, n := range unreached {
		if n == len(sets) {
			t.Errorf("no run reaches %s", statement)
		}
	}
}

// testEndsEveryLimbo explores a model with fairness.
func testEndsEveryLimbo(t *testing.T, model string, sets ...string) {
	t.Parallel()
	requireSpin(t)
	for _, macros := range sets {
		requireAll(t, macros, explore(t, model, liveness, macros))
	}
}

// A finding is the assertion that fails under some macros, a part of it without spaces.
type finding struct{ macros, assertion string }

func testFinds(t *testing.T, model string, findings []finding) {
	t.Parallel()
	requireSpin(t)
	for _, f := range findings {
		t.Run(f.macros, func(t *testing.T) {
			t.Parallel()
			out := explore(t, model, glance, f.macros)
			found := violated.FindStringSubmatch(out)
			if found == nil {
				t.Fatalf("nothing was found:\n%s", out)
			}
			if got := strings.ReplaceAll(found[1], " ", ""); !strings.Contains(got, f.assertion) {
				t.Errorf("the assertion that failed is %s, want one with %s", got, f.assertion)
			}
		})
	}
}

var (
	violated  = regexp.MustCompile(`assertion violated (.*) \(at depth`)
	states    = regexp.MustCompile(`\d+ states, stored`)
	proctype  = regexp.MustCompile(`^unreached in (.*)$`)
	statement = regexp.MustCompile(`^\t\S+:(\d+), (state \d+, .*)$`)
)

// requireAll fails the test unless all states were explored and nothing was found.
func requireAll(t *testing.T, macros, out string) {
	t.Helper()
	if !strings.Contains(out, "Full statespace search") || !strings.Contains(out, "errors: 0\n") ||
		strings.Contains(out, "max search depth too small") || strings.Contains(out, "Search not completed") {
		t.Fatalf("%s: something was found, or not all was explored; scripts/model.sh shows how it comes about:\n%s", macros, out)
	}
	t.Logf("%s: %s", macros, states.FindString(out))
}

// unreachedIn returns the statements that were never executed, by process, line and number.
func unreachedIn(out string) (statements []string) {
	process := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if m := proctype.FindStringSubmatch(line); m != nil {
			process = m[1]
		}
		if m := statement.FindStringSubmatch(line); m != nil && !strings.Contains(line, `"-end-"`) {
			statements = append(statements, process+", line "+m[1]+", "+m[2])
		}
	}
	return statements
}

// How Spin generates the program that searches, and how that is compiled and run.
type search struct{ generate, compile, run []string }

var (
	// With -o3 each statement is a step of its own, and is told if it was not reached.
	safety   = search{[]string{"-o3"}, []string{"-DSAFETY", "-O1"}, nil}
	liveness = search{nil, []string{"-DNFAIR=3", "-O1"}, []string{"-a", "-f"}}
	glance   = search{nil, []string{"-DSAFETY", "-O0"}, nil} // for what is found soon
)

// explore goes through the states of the model until it finds something, and returns the report.
func explore(t *testing.T, model string, how search, macros string) string {
	t.Helper()
	path, err := filepath.Abs(model)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := slices.Concat(how.generate, []string{"-a"})
	for _, macro := range strings.Fields(macros) {
		args = append(args, "-D"+macro)
	}
	command(t, dir, "spin", append(args, path)...)
	command(t, dir, "gcc", slices.Concat(how.compile, []string{"-o", "pan", "pan.c"})...)
	return command(t, dir, "./pan", slices.Concat(how.run, []string{"-m100000", "-w22"})...)
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &out)
	}
	return out.String()
}

func requireSpin(t *testing.T) {
	t.Helper()
	for _, program := range []string{"spin", "gcc"} {
		_, err := exec.LookPath(program)
		switch {
		case err == nil:
		case os.Getenv("ICHIDO_TEST_REQUIRE") == "1" || os.Getenv("CI") == "true":
			t.Fatalf("%s is not installed (make test installs it on Debian and Ubuntu)", program)
		default:
			t.Skipf("%s is not installed: the models are not explored", program)
		}
	}
}
