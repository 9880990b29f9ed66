// Package model holds the model of lease mode, in Promela, and the test that explores it with Spin: every order in which
// two attempts, a resolver, a person and the clock can act on one key. docs/design/007-lease-model.md explains it.
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

func TestP1P4P6_LeaseModelHolds(t *testing.T) {
	t.Parallel()
	requireSpin(t)
	unreached := make(map[string]int)
	policies := []string{"HOLD", "RERUN"}
	for _, policy := range policies {
		out := explore(t, safety, policy)
		requireAll(t, policy, out)
		for _, statement := range unreachedIn(out) {
			unreached[statement]++
		}
	}
	// A property that holds because nothing happens is none.
	for statement, n := range unreached {
		if n == len(policies) {
			t.Errorf("no run reaches %s", statement)
		}
	}
}

// With fairness, and a resolver that knows: the key is not in limbo for ever, whatever happens before.
func TestP6_LeaseModelEndsEveryLimbo(t *testing.T) {
	t.Parallel()
	requireSpin(t)
	for _, policy := range []string{"HOLD", "RERUN"} {
		requireAll(t, policy, explore(t, liveness, policy, "RESOLVER_KNOWS"))
	}
}

// What lease mode does not promise. If one of these is not found any more, the documents promise too little.
func TestLeaseModelFindsTheLimits(t *testing.T) {
	testFinds(t, []finding{
		{"SETTLEMENTS_ARE_FINAL", "!(effect)||0"},   // not done, and then a late effect
		{"CLAIM_ANY_TIME", "lease)&&!(lapsed[me])"}, // a claim that arrives after its lease
	})
}

// Mistakes that a store could make.
func TestLeaseModelFindsMistakes(t *testing.T) {
	testFinds(t, []finding{
		{"RERUN NO_FENCING", "completions==1"},
		{"NO_FENCING", "!(told_unknown)"},
		{"LEASE_UNCHECKED", "lease)&&!(lapsed[me])"},
		{"ABANDON_IGNORES_TOKEN", "token==me))&&lease"},
		{"RERUN TAKEOVER_IN_TWO_STEPS", "&&!(lease))"},
		{"RERUN CLAIM_IGNORES_FINGERPRINT", "print=="},
		{"CLAIM_IGNORES_OWN_TOKEN", "token!=me"},
		{"COMPLETE_FORGETS", "(answer==me)))"},
		{"SETTLE_IGNORES_TOKEN", "!(effect)||early"},
		{"SETTLE_KEEPS_TOKEN", "(answer==me)"},
		{"RERUN REFUSAL_FORGETS_OTHERS", "!(effect)||early"},
		{"LEASES_NEVER_END", "rerun&&!(lease)"},
	})
}

// A finding is the assertion that fails under some macros, a part of it without spaces.
type finding struct{ macros, assertion string }

func testFinds(t *testing.T, findings []finding) {
	t.Parallel()
	requireSpin(t)
	for _, f := range findings {
		t.Run(f.macros, func(t *testing.T) {
			t.Parallel()
			out := explore(t, glance, strings.Fields(f.macros)...)
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
func requireAll(t *testing.T, policy, out string) {
	t.Helper()
	if !strings.Contains(out, "Full statespace search") || !strings.Contains(out, "errors: 0\n") ||
		strings.Contains(out, "max search depth too small") || strings.Contains(out, "Search not completed") {
		t.Fatalf("%s: something was found, or not all was explored; scripts/model.sh shows the steps:\n%s", policy, out)
	}
	t.Logf("%s: %s", policy, states.FindString(out))
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
func explore(t *testing.T, how search, macros ...string) string {
	t.Helper()
	model, err := filepath.Abs("lease.pml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := slices.Concat(how.generate, []string{"-a"})
	for _, macro := range macros {
		args = append(args, "-D"+macro)
	}
	command(t, dir, "spin", append(args, model)...)
	command(t, dir, "gcc", slices.Concat(how.compile, []string{"-o", "pan", "pan.c"})...)
	return command(t, dir, "./pan", slices.Concat(how.run, []string{"-m100000", "-w21"})...)
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
			t.Skipf("%s is not installed: the model of lease mode is not explored", program)
		}
	}
}
