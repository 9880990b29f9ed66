package client_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido/client"
)

// answers is a Base that gives them in turn, the last one for ever, and keeps when it was asked.
type answers struct {
	give []func(*http.Request) (*http.Response, error)
	at   []time.Time
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.at = append(a.at, time.Now())
	return a.give[min(len(a.at), len(a.give))-1](r)
}

func status(code int, fields ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(fields); i += 2 {
			h.Add(fields[i], fields[i+1])
		}
		return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader("unread")), Request: r}, nil
	}
}

// hang answers when the attempt ends.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func try(t *testing.T, config client.Config, ctx context.Context, give ...func(*http.Request) (*http.Response, error)) (*answers, *http.Response, error) {
	t.Helper()
	base := &answers{give: give}
	config.Base, config.Targets = base, client.Targets{"api.example.com": client.Draft07}
	rt := newTransport(t, &config)
	res, err := rt.RoundTrip(request(t, "POST", "https://api.example.com/", "x").WithContext(ctx))
	if err == nil {
		t.Cleanup(func() { res.Body.Close() })
	}
	return base, res, err
}

func TestFullJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bounds := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}
		lowest, highest := [5]float64{1, 1, 1, 1, 1}, [5]float64{}
		for range 200 {
			config := client.Config{Attempts: 6, BaseDelay: time.Second, MaxDelay: 5 * time.Second}
			base, _, _ := try(t, config, t.Context(), status(503))
			if len(base.at) != 6 {
				t.Fatalf("%d attempts", len(base.at))
			}
			for i, bound := range bounds {
				part := float64(base.at[i+1].Sub(base.at[i])) / float64(bound)
				if part > 1 {
					t.Fatalf("wait %d is %g of its bound %s", i+1, part, bound)
				}
				lowest[i], highest[i] = min(lowest[i], part), max(highest[i], part)
			}
		}
		for i := range bounds { // all of 200 in one part of ten: 10⁻⁹
			if lowest[i] > 0.1 || highest[i] < 0.9 {
				t.Errorf("wait %d is between %g and %g of its bound", i+1, lowest[i], highest[i])
			}
		}
	})
}

func TestHintsAreWaitedForOrEndIt(t *testing.T) {
	for name, c := range map[string]struct {
		hint     []string
		deadline time.Duration // of the context
		total    time.Duration
		stop     client.Stop // "" if it is waited for
		min, max time.Duration
	}{
		"seconds":                          {[]string{"3"}, 0, 0, "", 3 * time.Second, 4 * time.Second},
		"zero":                             {[]string{"0"}, 0, 0, "", 0, time.Second},
		"the cap itself":                   {[]string{"10"}, 0, 0, "", 10 * time.Second, 10 * time.Second},
		"beyond the cap":                   {[]string{"11"}, 0, 0, client.StopHint, 0, 0},
		"484289 hours":                     {[]string{"1743441620"}, 0, 0, client.StopHint, 0, 0},
		"more than fits":                   {[]string{"99999999999999999999"}, 0, 0, client.StopHint, 0, 0},
		"date":                             {[]string{"Sat, 01 Jan 2000 00:00:04 GMT"}, 0, 0, "", 4 * time.Second, 5 * time.Second},
		"date that is past":                {[]string{"Fri, 31 Dec 1999 00:00:00 GMT"}, 0, 0, "", 0, time.Second},
		"date beyond the cap":              {[]string{"Sat, 01 Jan 2000 01:00:00 GMT"}, 0, 0, client.StopHint, 0, 0},
		"negative, which is none":          {[]string{"-5"}, 0, 0, "", 0, time.Second},
		"nonsense, which is none":          {[]string{"soon"}, 0, 0, "", 0, time.Second},
		"one more than fits":               {[]string{"9223372037"}, 0, 0, client.StopHint, 0, 0},
		"two lines, the longer first":      {[]string{"6", "1"}, 0, 0, "", 6 * time.Second, 7 * time.Second},
		"two lines":                        {[]string{"1", "6"}, 0, 0, "", 6 * time.Second, 7 * time.Second},
		"beyond the deadline":              {[]string{"3"}, 2 * time.Second, 0, client.StopHint, 0, 0},
		"up to the deadline":               {[]string{"3"}, 3 * time.Second, 0, client.StopHint, 0, 0},
		"within the deadline, just":        {[]string{"3"}, 3*time.Second + 1, 0, "", 3 * time.Second, 3 * time.Second},
		"beyond TotalTimeout":              {[]string{"3"}, 0, 2 * time.Second, client.StopHint, 0, 0},
		"within TotalTimeout, no deadline": {[]string{"3"}, 0, time.Minute, "", 3 * time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				var fields []string
				for _, h := range c.hint {
					fields = append(fields, "Retry-After", h)
				}
				begun := time.Now()
				config := client.Config{BaseDelay: time.Second, MaxDelay: 10 * time.Second, TotalTimeout: c.total}
				base, res, err := try(t, config, ctx, status(429, fields...), status(201))
				if err != nil {
					t.Fatal(err)
				}
				result, _ := client.ResultOf(res)
				if c.stop != "" {
					if res.StatusCode != 429 || result.Stopped != c.stop || len(base.at) != 1 || time.Since(begun) != 0 || result.RetryAfter <= 0 {
						t.Errorf("answered %d after %s and %d attempts, %q, hint %s; want the 429 at once", res.StatusCode, time.Since(begun), len(base.at), result.Stopped, result.RetryAfter)
					}
					if body, _ := io.ReadAll(res.Body); string(body) != "unread" {
						t.Errorf("its body is %q", body)
					}
					return
				}
				if res.StatusCode != 201 || len(base.at) != 2 {
					t.Fatalf("answered %d, %q", res.StatusCode, result.Stopped)
				}
				if wait := base.at[1].Sub(base.at[0]); wait < c.min || wait > c.max {
					t.Errorf("waited for %s, want %s to %s", wait, c.min, c.max)
				}
			})
		})
	}
}

// Clients that are told the same time do not all come at it.
func TestHintsHaveJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := map[time.Duration]bool{}
		for range 20 {
			base, _, err := try(t, client.Config{BaseDelay: time.Second}, t.Context(), status(503, "Retry-After", "3"), status(201))
			if err != nil {
				t.Fatal(err)
			}
			waits[base.at[1].Sub(base.at[0])] = true
		}
		if len(waits) < 10 {
			t.Errorf("20 clients wait for %v", waits)
		}
	})
}

// The clocks of client and server differ by an hour: the Date of the answer is what its Retry-After is compared with.
func TestHintsAreReadByTheServersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, _, err := try(t, client.Config{BaseDelay: 1}, t.Context(),
			status(503, "Date", "Sat, 01 Jan 2000 01:00:00 GMT", "Retry-After", "Sat, 01 Jan 2000 01:00:07 GMT"), status(201))
		if err != nil || len(base.at) != 2 || base.at[1].Sub(base.at[0]).Round(time.Second) != 7*time.Second {
			t.Errorf("%v, %v", base.at, err)
		}
	})
}

func TestTotalTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		config := client.Config{Attempts: 100, AttemptTimeout: 4 * time.Second, TotalTimeout: 10 * time.Second, BaseDelay: 1}
		base, _, err := try(t, config, t.Context(), hang)
		unknown := new(client.UnknownError)
		if !errors.As(err, &unknown) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || unknown.Stopped != client.StopTime || len(base.at) != 3 || time.Since(begun) > 10*time.Second {
			t.Errorf("%v after %s and %d attempts, want 3 within 10 s", err, time.Since(begun), len(base.at))
		}
	})
}

// Nothing is waited for that the deadline does not allow.
func TestNoSleepIntoTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, res, err := try(t, client.Config{BaseDelay: 1000 * time.Hour, MaxDelay: 1000 * time.Hour}, ctx, status(503))
		if err != nil || res.StatusCode != 503 || time.Since(begun) != 0 {
			t.Errorf("%v, %v after %s, want the 503 at once", res, err, time.Since(begun))
		}
	})
}

// A server remembers keys for less time than TotalTimeout: nothing is sent later than that.
func TestRetentionBoundsTheRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &answers{give: []func(*http.Request) (*http.Response, error){status(503)}}
		target := client.Draft07
		target.Retention = time.Minute
		rt := newTransport(t, &client.Config{
			Base: base, Targets: client.Targets{"*": target}, Attempts: 1000, TotalTimeout: time.Hour, BaseDelay: 10 * time.Second, Budget: client.Budget{Unlimited: true},
		})
		op := client.NewOperation()
		time.Sleep(30 * time.Second)
		result := rt.Send(request(t, "POST", "https://api.example.com/", "x"), op)
		defer result.Response.Body.Close()
		if last := base.at[len(base.at)-1]; result.Stopped != client.StopTime || last.Sub(op.Started) >= time.Minute || len(base.at) < 2 {
			t.Errorf("%q; the last of %d sendings is %s after the first", result.Stopped, len(base.at), last.Sub(op.Started))
		}
	})
}

// A failing answer whose body does not end is not waited for.
func TestDrainingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(r *http.Request) (*http.Response, error) {
			res, _ := status(503)(r)
			res.Body = struct {
				io.Reader
				io.Closer
			}{blocked{r.Context()}, io.NopCloser(nil)}
			return res, nil
		}
		for _, timeout := range []time.Duration{time.Minute, -1} {
			base := &answers{give: []func(*http.Request) (*http.Response, error){slow, status(200)}}
			rt := newTransport(t, &client.Config{Base: base, BaseDelay: 1, AttemptTimeout: timeout, TotalTimeout: -1})
			res, err := rt.RoundTrip(request(t, "GET", "https://api.example.com/", ""))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if wait := base.at[1].Sub(base.at[0]).Round(time.Second); wait != time.Second {
				t.Errorf("AttemptTimeout %s: the body was read for %s", timeout, wait)
			}
		}
	})
}

type blocked struct{ ctx context.Context }

func (b blocked) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// With the server down, the default budget keeps the load at 1.1 of normal.
func TestTheDefaultBudgetWhileTheServerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &answers{give: []func(*http.Request) (*http.Response, error){status(503)}}
		rt := newTransport(t, &client.Config{Base: base, Targets: client.Targets{"*": client.Draft07}, BaseDelay: 1})
		const requests = 2000
		spent := 0
		for range requests {
			res, err := rt.RoundTrip(request(t, "POST", "https://api.example.com/", "x"))
			if err != nil {
				t.Fatal(err)
			}
			if result, _ := client.ResultOf(res); result.Stopped == client.StopBudget {
				spent++
			}
			res.Body.Close()
			time.Sleep(100 * time.Millisecond)
		}
		if load := float64(len(base.at)) / requests; load > 1.1 || load < 1.05 || spent == 0 {
			t.Errorf("the load is %g of normal; %d requests found the budget spent", load, spent)
		}
		// Another host is none of its business, and time fills the bucket again.
		before := len(base.at)
		send := func(url string) {
			res, err := rt.RoundTrip(request(t, "POST", url, "x"))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		send("https://other.example.com/")
		if got := len(base.at) - before; got != 4 {
			t.Errorf("%d sendings to another host, want 4", got)
		}
		time.Sleep(time.Minute)
		before = len(base.at)
		send("https://api.example.com/")
		if got := len(base.at) - before; got != 4 {
			t.Errorf("%d sendings after a minute, want 4", got)
		}
	})
}

func TestBudgetSettings(t *testing.T) {
	for _, c := range []struct {
		budget client.Budget
		want   int
	}{{client.Budget{Reserve: 2, PerSecond: -1, Ratio: 0.001}, 12}, {client.Budget{Ratio: 1, Reserve: 1, PerSecond: -1}, 20}, {client.Budget{Unlimited: true}, 40}} {
		base := &answers{give: []func(*http.Request) (*http.Response, error){status(503)}}
		rt := newTransport(t, &client.Config{Base: base, BaseDelay: 1, Budget: c.budget})
		for range 10 {
			res, err := rt.RoundTrip(request(t, "GET", "https://api.example.com/", ""))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		if len(base.at) != c.want {
			t.Errorf("%+v: %d sendings of 10 requests, want %d", c.budget, len(base.at), c.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "1", "120", "-1", "1.5", "+3", "99999999999999999999", "9223372036", "9223372037", "Sat, 01 Jan 2000 00:00:04 GMT",
		"Saturday, 01-Jan-00 00:00:04 GMT", "Sat Jan  1 00:00:04 2000", "soon", " 7 ", "0x10", "１"} {
		f.Add(s, "")
	}
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT")
	f.Fuzz(func(t *testing.T, value, date string) {
		now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		wait, ok := client.RetryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, now)
		if wait < 0 || !ok && wait != 0 {
			t.Errorf("%q is %s, %v", value, wait, ok)
		}
		if digits := strings.Trim(value, " \t"); digits != "" && strings.Trim(digits, "0123456789") == "" {
			if !ok || len(digits) < 10 && wait%time.Second != 0 || len(strings.TrimLeft(digits, "0")) > 12 && wait != math.MaxInt64 {
				t.Errorf("%q is %s, %v", value, wait, ok)
			}
		}
	})
}
