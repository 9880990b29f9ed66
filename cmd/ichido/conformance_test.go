package main

import (
	"cmp"
	"context"
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
				tokens := "a=0123456789abcdef0123456789abcdef,b=fedcba9876543210fedcba9876543210"
				flags := []string{"--db", location, "--in-progress", policy, "--work", "50ms", "--token", tokens}
				p := serveProcess(t, program, flags...)
				flags = append(flags, "--addr", strings.TrimPrefix(p.url, "http://"))
				api, _ := conformance.Preset("ichido")
				for _, secret := range []string{"0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"} {
					api.Principals = append(api.Principals, conformance.Principal{Headers: map[string]string{"Authorization": "Bearer " + secret}})
				}
				report, err := conformance.Run(t.Context(), p.url, &conformance.Options{API: &api, Levels: conformance.Levels,
					Crash: func(context.Context) error {
						p.kill()
						p = serveProcess(t, program, flags...)
						return nil
					}})
				if err != nil {
					t.Fatal(err)
				}
				// Its answers are neither binary, compressed nor cookies, and it does not fail on demand.
				want := map[string]conformance.Verdict{"binary-answer": conformance.NotTestable, "gzip-answer": conformance.NotTestable,
					"credentials-not-replayed": conformance.NotTestable, "server-error-then-retry": conformance.NotTestable}
				if policy == "wait" {
					want["in-progress"], want["retry-after"] = conformance.Differs, conformance.Differs
				}
				for _, r := range report.Results {
					if w := cmp.Or(want[r.ID], conformance.Held); r.Verdict != w {
						t.Errorf("%s is %s, want %s: %s", r.ID, r.Verdict, w, r.Got)
					}
				}
				if err := p.end(syscall.SIGTERM); err != nil {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}
