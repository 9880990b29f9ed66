package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/client"
)

// An exchange is a block of a file in testdata/targets.
type exchange struct {
	title        string
	method, path string
	fields       [][2]string // that the request must have; "-" for none
	body         string
	status       int
	header       http.Header
	answer       string
	want         string
}

func exchanges(t *testing.T, name string) []exchange {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "targets", name+".txt"))
	if err != nil {
		t.Fatalf("%v: each target has its recorded exchanges", err)
	}
	var all []exchange
	for block := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		e := exchange{header: http.Header{}}
		inBody := false
		for line := range strings.SplitSeq(block, "\n") {
			mark, text, _ := strings.Cut(line, " ")
			name, value, isField := strings.Cut(text, ": ")
			switch {
			case mark == ">" && e.method == "":
				e.method, e.path, _ = strings.Cut(text, " ")
			case mark == ">" && isField:
				e.fields = append(e.fields, [2]string{name, value})
			case mark == ">":
				e.body = text
			case mark == "<" && e.status == 0:
				if e.status, err = strconv.Atoi(text); err != nil {
					t.Fatal(err)
				}
			case mark == "<" && text == "":
				inBody = true
			case mark == "<" && inBody:
				e.answer += text
			case mark == "<":
				e.header.Set(name, value)
			case mark == "=":
				e.want = text
			default:
				e.title = line
			}
		}
		if e.method == "" || e.status == 0 || e.want == "" {
			t.Fatalf("%s: the block %q is not whole", name, e.title)
		}
		all = append(all, e)
	}
	return all
}

func TestTargetsDoWhatTheirAPIsWereRecordedToDo(t *testing.T) {
	for _, target := range client.Known() {
		if target.Source == "" {
			t.Errorf("%s has no Source", target.Name)
		}
		for _, e := range exchanges(t, target.Name) {
			t.Run(target.Name+"/"+e.title, func(t *testing.T) { play(t, target, e) })
		}
	}
}

func play(t *testing.T, target client.Target, e exchange) {
	sent := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent++
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != e.path {
			t.Errorf("the path is %s, want %s", r.URL.Path, e.path)
		}
		if e.body != "" && string(body) != e.body {
			t.Errorf("the body is %s, want %s", body, e.body)
		}
		for _, f := range e.fields {
			if got := strings.Join(r.Header.Values(f[0]), " | "); got != f[1] && !(f[1] == "-" && got == "") {
				t.Errorf("%s is %q, want %q", f[0], got, f[1])
			}
		}
		for name, lines := range e.header {
			w.Header()[name] = lines
		}
		w.WriteHeader(e.status)
		io.WriteString(w, e.answer)
	}))
	defer s.Close()

	op := client.OperationFromKey("3fa85f64-5717-4562-b3fc-2c963f66afa6")
	if target.MaxLength == 32 {
		op.Key = "0123456789abcdef0123456789abcdef"
	}
	if target.FirstSent != "" {
		op.Started = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		target.Retention = 100 * 365 * 24 * time.Hour // the recording does not age
	}
	var seen []client.Attempt
	tr := newTransport(t, &client.Config{
		Targets:   client.Targets{"127.0.0.1": target},
		Attempts:  2,
		BaseDelay: time.Microsecond, MaxDelay: 2 * time.Second,
		Observe: func(_ context.Context, a client.Attempt) { seen = append(seen, a) },
	})
	body, kind := e.body, "application/json"
	switch {
	case strings.Contains(body, "="):
		kind = "application/x-www-form-urlencoded"
	case !target.CallerSets:
		body = `{"item":"desk"}`
	}
	send := func() client.Result {
		r, err := http.NewRequest(e.method, s.URL+e.path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		ctx := r.Context()
		if !target.CallerSets {
			ctx = client.WithOperation(ctx, op)
		}
		hc := http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		res, err := hc.Do(r.WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != e.answer {
			t.Errorf("the body of the answer is %q (%v), want %q", got, err, e.answer)
		}
		result, ok := client.ResultOf(res)
		if !ok {
			t.Fatal("ResultOf does not know the answer")
		}
		return result
	}
	result := send()
	again := "end"
	if sent == 2 {
		again = "again"
	}
	first := seen[0].Verdict
	got := fmt.Sprintf("%s; %s; %s", first, result.Outcome, again)
	if result.Resource != "" {
		got += "; " + result.Resource
	}
	if got != e.want {
		t.Errorf("got  %s\nwant %s", got, e.want)
	}
}
