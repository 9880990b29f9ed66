package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const someCharge = `{"amount":1360,"card":"visa","reference":"order 1"}`

// pay asks for a charge under a key.
func (f *testProvider) pay(key, body string) answer {
	return f.do("POST", "/charges", body, "Content-Type: application/json", "Idempotency-Key: "+key)
}

func (f *testProvider) wantCharges(want int) {
	f.t.Helper()
	if all := f.charges(); len(all) != want {
		f.t.Errorf("%d charges, want %d: %+v", len(all), want, all)
	}
}

func TestChargeIsMadeOnce(t *testing.T) {
	f := servePayments(t)
	wantProblem(t, f.do("POST", "/charges", someCharge, "Content-Type: application/json"), 400, "key-required")
	one := f.pay("k", someCharge)
	var c charge
	if err := json.Unmarshal([]byte(one.body), &c); err != nil || one.status != 201 || c.ID != "ch_1" || c.Amount != 1360 ||
		c.Card != "visa" || c.Reference != "order 1" || time.Since(c.CreatedAt) > time.Minute || one.header.Get("Location") != "/charges/ch_1" {
		t.Errorf("%d %s %v: %v", one.status, one.body, one.header, err)
	}
	wantReplay(t, f.pay(`"k"`, someCharge), one)
	wantProblem(t, f.pay("k", strings.Replace(someCharge, "1360", "1", 1)), 422, "mismatch")
	f.wantCharges(1)
	if a := f.do("GET", "/charges/ch_1", ""); a.status != 200 || a.body != one.body {
		t.Errorf("%d %s", a.status, a.body)
	}
	for body, status := range map[string]int{
		`{"card":"visa","reference":"r"}`: 400, `{"amount":0,"card":"visa","reference":"r"}`: 400, `{"amount":1,"card":"","reference":"r"}`: 400, `{`: 400,
		`{"amount":9007199254740993,"card":"visa","reference":"r"}`: 400,
	} {
		if a := f.pay("bad", body); a.status != status {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/charges/ch_2", 404, "no-charge"}, {"GET", "/charges/ch_01", 404, "no-charge"}, {"GET", "/charges/x", 404, "no-charge"},
		{"GET", "/x", 404, "no-resource"}, {"DELETE", "/charges", 405, "method-not-allowed"}, {"POST", "/switches", 405, "method-not-allowed"},
		{"GET", "/charges?limit=0", 400, "parameter-invalid"},
	} {
		wantProblem(t, f.do(c.method, c.path, ""), c.status, c.code)
	}
	if a := f.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("healthz: %d", a.status)
	}
}

func TestChargesArePaged(t *testing.T) {
	f := servePayments(t)
	for i := range 5 {
		f.pay(fmt.Sprint(i), someCharge)
	}
	var ids []string
	pages := 0
	for path := "/charges?limit=2"; path != ""; pages++ {
		var p chargePage
		f.read(&p, path)
		for _, c := range p.Charges {
			ids = append(ids, c.ID)
		}
		path = p.Next
	}
	if fmt.Sprint(ids) != "[ch_5 ch_4 ch_3 ch_2 ch_1]" || pages != 3 {
		t.Errorf("%v on %d pages", ids, pages)
	}
}

// Each switch, set at run time; and what the same request gets once it is off.
func TestSwitches(t *testing.T) {
	for name, c := range map[string]struct {
		status  int // 0: the connection is cut
		code    string
		charges int  // then
		kept    bool // the answer stays
	}{
		"down":         {503, "provider-down", 0, false},
		"fail_after":   {500, "provider-failed", 1, false},
		"lose_answers": {0, "", 1, false},
		"decline":      {402, "card-declined", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := servePayments(t)
			if a := f.do("PUT", "/switches", `{"`+name+`":1}`); a.status != 200 || !strings.Contains(a.body, `"`+name+`":1`) {
				t.Fatalf("%d %s", a.status, a.body)
			}
			for range 2 {
				a, err := f.try("POST", "/charges", someCharge, "Content-Type: application/json", "Idempotency-Key: k")
				switch {
				case c.status == 0 && err == nil:
					t.Errorf("the answer was not lost: %d %s", a.status, a.body)
				case c.status != 0:
					wantProblem(t, a, c.status, c.code)
				}
				f.wantCharges(c.charges)
			}
			f.do("PUT", "/switches", `{"`+name+`":0}`)
			a := f.pay("k", someCharge)
			switch replayed := a.header.Get("Idempotent-Replayed") == "true"; {
			case c.kept:
				wantProblem(t, a, c.status, c.code)
				f.wantCharges(0)
			case a.status != 201 || replayed != (c.charges == 1):
				t.Errorf("%d %s, replayed: %v", a.status, a.body, replayed)
			default:
				f.wantCharges(1)
			}
			if a := f.pay("another", someCharge); a.status != 201 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

func TestDeclinedCardIsAlwaysDeclined(t *testing.T) {
	f := servePayments(t)
	f.misbehave(misbehaviour{LoseAnswers: 1, FailAfter: 1}) // of charges, which this is none
	one := f.pay("k", strings.Replace(someCharge, "visa", declinedCard, 1))
	wantProblem(t, one, 402, "card-declined")
	f.misbehave(misbehaviour{})
	wantReplay(t, f.pay("k", strings.Replace(someCharge, "visa", declinedCard, 1)), one)
	f.wantCharges(0)
}

// A charge that is slow goes on although its client has left, and the same request gets its answer.
func TestSlowCharge(t *testing.T) {
	f := servePayments(t)
	f.do("PUT", "/switches", `{"slow":"1s"}`)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := later(func() error {
		for { // the look below may be there first
			r, err := http.NewRequestWithContext(ctx, "POST", f.url+"/charges", strings.NewReader(someCharge))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", "k")
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				return nil
			}
			response.Body.Close()
			if response.StatusCode != 422 {
				return fmt.Errorf("the charge was answered before its client left: %s", response.Status)
			}
		}
	})
	until(t, "the charge to begin", func() bool { return f.pay("k", `{}`).status == 422 }) // alone it is a 400, and leaves nothing
	leave()
	if err := receive(t, left, "the client to leave"); err != nil {
		t.Fatal(err)
	}
	if a := f.pay("k", someCharge); a.status != 201 || a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %s %v", a.status, a.body, a.header)
	}
	f.wantCharges(1)
}

// A share of the requests is what it says, about.
func TestSharesAreDrawn(t *testing.T) {
	f := servePayments(t)
	f.misbehave(misbehaviour{Down: 0.5})
	var down atomic.Int32
	var wg sync.WaitGroup
	const requests = 200
	for i := range requests {
		wg.Go(func() {
			if a := f.pay(fmt.Sprint(i), someCharge); a.status == 503 {
				down.Add(1)
			}
		})
	}
	wg.Wait()
	if n := down.Load(); n < requests/4 || n > requests*3/4 { // more than seven standard deviations
		t.Errorf("%d of %d", n, requests)
	}
	f.wantCharges(requests - int(down.Load()))
}

func TestSwitchesThatAreRefused(t *testing.T) {
	f := servePayments(t)
	f.do("PUT", "/switches", `{"slow":"1s","down":0.5}`)
	const want = `{"slow":"1s","lose_answers":0,"fail_after":0,"decline":0,"down":0.5}` + "\n"
	for _, body := range []string{``, `{`, `[]`, `1`, `null`, `{"slow":null}`, `{"down":2}`, `{"down":-0.1}`, `{"down":"NaN"}`, `{"down":true}`, `{"up":1}`, `{"slow":1}`,
		`{"slow":"-1s"}`, `{"slow":"11m"}`, `{"slow":"soon"}`, `{"decline":0.5,"up":1}`, `{"decline":0.5}x`} {
		wantProblem(t, f.do("PUT", "/switches", body), 400, "switch-invalid")
	}
	wantProblem(t, f.do("PUT", "/switches", `{"down":1}`+strings.Repeat(" ", 64<<10)), 400, "not-json")
	for body, want := range map[string]string{`{"down":"1"}`: `\"down\" must be a number from 0 to 1. Nothing was changed.`, `{"slow":5}`: `\"slow\" must be`,
		`{"dwn":1}`: `There is no switch \"dwn\".`, `x`: "must be one JSON object"} {
		if a := f.do("PUT", "/switches", body); !strings.Contains(a.body, want) {
			t.Errorf("%s: %s, want one that says %s", body, a.body, want)
		}
	}
	if a := f.do("GET", "/switches", ""); a.status != 200 || a.body != want {
		t.Errorf("%d %s, want %s", a.status, a.body, want)
	}
}

// The program: switches by flags and variables, and charges that outlive a SIGKILL.
func TestFakepayProcess(t *testing.T) {
	program := filepath.Join(installProgram(t), "ichido")
	db := filepath.Join(t.TempDir(), "fakepay.db")
	start := func(flags ...string) (*process, *testProvider) {
		cmd := exec.Command(program, append([]string{"fakepay", "--addr", "localhost:0", "--db", db}, flags...)...)
		cmd.Env = append(cmd.Environ(), "ICHIDO_FAKEPAY_FAIL_AFTER=0.5", "DATABASE_URL=postgres://not.this/one")
		p, err := startServe(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p, &testProvider{testServer: &testServer{t: t, url: p.url}}
	}
	p, f := start("--slow", "5ms", "--lose-answers", "0.25", "--decline", "0.5", "--down", "1")
	const want = `{"slow":"5ms","lose_answers":0.25,"fail_after":0.5,"decline":0.5,"down":1}` + "\n"
	if a := f.do("GET", "/switches", ""); a.body != want {
		t.Errorf("%s, want %s", a.body, want)
	}
	f.do("PUT", "/switches", `{"slow":"0s","lose_answers":0,"fail_after":0,"decline":0,"down":0}`)
	one := f.pay("k", someCharge)
	p.kill()
	p, f = start("--fail-after", "0")
	wantReplay(t, f.pay("k", someCharge), one)
	f.wantCharges(1)
	if out := p.stdout.String(); !strings.Contains(out, db) || !strings.Contains(out, "curl -X PUT "+p.url+"/switches") {
		t.Errorf("%s", out)
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestPagesOfTheProvidersProblems(t *testing.T) {
	f := servePayments(t)
	for _, k := range fakepayKinds {
		a := f.do("GET", problemBase+k.code, "", "Accept-Language: ja")
		if a.status != 200 || !strings.Contains(a.body, k.title.JA) {
			t.Errorf("%s: %d", k.code, a.status)
		}
	}
}
