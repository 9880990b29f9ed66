package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ichido-dev/ichido/conformance"
)

// TestConformance grades the program as it is built for users, on both databases and under both policies.
func TestConformance(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ichido")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, policy := range []string{"reject", "wait"} {
		t.Run(policy, func(t *testing.T) {
			onBoth(t, func(t *testing.T, location string) {
				p := serveProcess(t, program, "--db", location, "--in-progress", policy, "--work", "50ms")
				report, err := conformance.Run(t.Context(), p.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				if !report.Held() {
					var table strings.Builder
					report.WriteTable(&table, true)
					t.Error(table.String())
				}
				if err := p.end(syscall.SIGTERM); err != nil {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}
