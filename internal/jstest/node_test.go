package jstest

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNode runs js/test in Node, and reports each test.
func TestNode(t *testing.T) {
	node := require(t, "Node 20 or newer", "ICHIDO_NODE", "node", "nodejs")
	files, err := filepath.Glob("../../js/test/*.test.js")
	if err != nil || len(files) < 2 {
		t.Fatalf("found %d files of tests: %v", len(files), err)
	}
	cmd := exec.CommandContext(t.Context(), node, append([]string{"--test", "--test-reporter=./testdata/reporter.mjs"}, files...)...)
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	passed, failed := 0, 0
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var test struct {
			Pass, Skipped bool
			Name, File    string
			Nesting, Line int
			Error         string
		}
		if err := json.Unmarshal(lines.Bytes(), &test); err != nil {
			t.Errorf("%s: %v", lines.Bytes(), err)
			continue
		}
		switch {
		case !test.Pass:
			failed++
		case !test.Skipped:
			passed++
		}
		t.Run(filepath.Base(test.File)+"/"+test.Name, func(t *testing.T) {
			if test.Skipped {
				t.Error("is skipped or to be done")
			}
			if !test.Pass {
				t.Errorf("line %d: %s", test.Line, test.Error)
			}
		})
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil && failed == 0 {
		t.Errorf("%v\n%s", err, talk.String())
	}
	if passed == 0 {
		t.Errorf("no test passed\n%s", talk.String())
	}
}
