package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandsOfTheBannerWorkAsPrinted(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	program := filepath.Join(installProgram(t), "ichido")
	t.Setenv("TOKEN", secretA)
	for name, flags := range map[string][]string{"shared": nil, "tokens": {"--token", "a=" + secretA}} {
		t.Run(name, func(t *testing.T) { testBanner(t, program, flags) })
	}
}

func testBanner(t *testing.T, program string, flags []string) {
	onBoth(t, func(t *testing.T, location string) {
		pay := fakepayProcess(t, program)
		p := serveProcess(t, program, append([]string{"--db", location, "--pay", pay.url, "--mailbox", filepath.Join(t.TempDir(), "mails")}, flags...)...)
		var commands []string
		until(t, "the commands to try", func() bool {
			commands = nil
			for line := range strings.Lines(p.stdout.String()) {
				if command, ok := strings.CutPrefix(line, "  curl "); ok && strings.HasSuffix(line, "\n") {
					commands = append(commands, "curl -sS "+command)
				}
			}
			return len(commands) == 3
		})
		for _, want := range []struct {
			command int
			in, out string
		}{
			{0, "HTTP/1.1 201 Created", "Idempotent-Replayed"},
			{0, "Idempotent-Replayed: true", "problem"},
			{1, `{"reservations":[{"id":1,"item_code":"PJ-001","quantity":1,"reserved_by":"taro",`, `"id":2`},
			{2, "HTTP/1.1 201 Created", "Idempotent-Replayed"},
			{2, "Idempotent-Replayed: true", "problem"},
		} {
			out, err := exec.Command("sh", "-c", commands[want.command]).CombinedOutput()
			if err != nil || !strings.Contains(string(out), want.in) || strings.Contains(string(out), want.out) {
				t.Errorf("%s: %v\n%s", commands[want.command], err, out)
			}
		}
	})
}

func TestBaseURLCanBeReached(t *testing.T) {
	for asked, want := range map[string]string{
		"localhost:8080": "http://localhost:4711",
		"localhost:0":    "http://localhost:4711",
		"127.0.0.1:0":    "http://127.0.0.1:4711",
		"[::1]:0":        "http://[::1]:4711",
		":8080":          "http://localhost:4711",
		"0.0.0.0:8080":   "http://localhost:4711",
		"[::]:8080":      "http://localhost:4711",
	} {
		if got := baseURL(asked, &net.TCPAddr{Port: 4711}); got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
}
