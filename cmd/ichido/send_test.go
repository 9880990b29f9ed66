package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A send that is killed while the server works, and is called again, is one order.
func TestSendIsKilled(t *testing.T) {
	bin := installProgram(t)
	onBoth(t, func(t *testing.T, location string) {
		var mu sync.Mutex
		sendings := make(map[string]int) // by key
		arrived, hold := make(chan struct{}, 2), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			sendings[r.Header.Get("Idempotency-Key")]++
			first := len(sendings) == 1 && sendings[r.Header.Get("Idempotency-Key")] == 1
			mu.Unlock()
			arrived <- struct{}{}
			if first {
				<-hold
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "made")
		}))
		defer server.Close()
		defer close(hold)
		send := func() (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
			cmd := exec.Command(filepath.Join(bin, "ichido"), "send", "--operation", "order-42", "--max-time", "3", "-d", "item=1", server.URL)
			cmd.Env = append(os.Environ(), "ICHIDO_OUTBOX="+location)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return cmd, &stdout, &stderr
		}
		cmd, _, _ := send()
		<-arrived
		_ = cmd.Process.Kill()
		_ = cmd.Wait()

		cmd, stdout, stderr := send()
		err := cmd.Wait()
		if err != nil || stdout.String() != "made" || !strings.Contains(stderr.String(), "or by one that died") {
			t.Errorf("%v\n%s\n%s", err, stdout, stderr)
		}
		mu.Lock()
		defer mu.Unlock()
		for key, n := range sendings {
			if len(sendings) != 1 || key == "" || n != 2 {
				t.Errorf("sendings by key: %v", sendings)
			}
		}
	})
}

func TestSendData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, []byte("a\r\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		parts []dataPart
		want  string
	}{
		{[]dataPart{{"a=1", "data"}, {"b=2", "data"}}, "a=1&b=2"},
		{[]dataPart{{"@" + file, "data"}}, "ab"},
		{[]dataPart{{"@" + file, "data-binary"}}, "a\r\nb\n"},
		{[]dataPart{{"{", "json"}, {"}", "json"}}, "{}"},
		{[]dataPart{{"@-", "json"}}, "in\n"},
	} {
		if got, err := body(c.parts, strings.NewReader("in\n")); err != nil || string(got) != c.want {
			t.Errorf("%v: %q, %v; want %q", c.parts, got, err, c.want)
		}
	}
	if err := os.WriteFile(file, []byte("Authorization: Bearer x\n\nX-A: b:c\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := headerFields([]string{"@" + file, "x-a: d"}, nil)
	if err != nil || h.Get("Authorization") != "Bearer x" || strings.Join(h["X-A"], " ") != "b:c d" {
		t.Errorf("%v, %v", h, err)
	}
}

func TestSendSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "0.5": 500 * time.Millisecond, "1m": time.Minute, "1d": 24 * time.Hour, "0": 0, "-1": 0, "x": 0} {
		var got time.Duration
		err := secondsFlag{durationFlag{value: &got}}.Set(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
