package ichido_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// diesFirst runs one step, and dies in its first attempt. Each attempt notes what it sees.
func diesFirst(t *testing.T, sees func(r *http.Request) string) (h http.Handler, seen func() []string) {
	var all []string
	return handler(func(w http.ResponseWriter, r *http.Request) {
		if _, err := ichido.Step(r.Context(), "one", func(context.Context, string) (int, error) { return 1, nil }); err != nil {
			t.Error(err)
		}
		if all = append(all, sees(r)); len(all) == 1 {
			panic("died")
		}
		w.WriteHeader(http.StatusCreated)
	}), func() []string { return all }
}

// What a handler finds of its request is the same when it is finished without its client, to the byte: paths that a
// router has stripped, bytes that are no UTF-8, fields of several values.
func TestFinishKeepsTheRequestToTheByte(t *testing.T) {
	for _, c := range []struct {
		name, target string
		around       func(http.Handler) http.Handler
	}{
		{"plain", "/orders/7?q=1", nil},
		{"nothing left of the path", "/orders/7", func(h http.Handler) http.Handler { return http.StripPrefix("/orders/7", h) }},
		{"no slash left", "/orders/7?q=%20", func(h http.Handler) http.Handler { return http.StripPrefix("/orders/", h) }},
		{"a colon", "/orders/a:b", func(h http.Handler) http.Handler { return http.StripPrefix("/orders/", h) }},
		{"no UTF-8", "/orders/%ff%fe?q=%ff&r=\xff", nil},
		{"a slash in a part", "/orders/a%2Fb", nil},
		{"a question mark only", "/orders/7?", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, seen := diesFirst(t, func(r *http.Request) string {
				body, err := io.ReadAll(r.Body)
				return strings.Join([]string{r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.URL.String(), r.RequestURI, r.PathValue("id"), r.Pattern,
					strings.Join(r.Header["Accept"], "|"), strings.Join(r.Header["X-Shop"], "|"), string(body)}, "\n") + "\n" + errText(err)
			})
			m := newManager(t, memstore.New(nil), finishing(func(c *ichido.Config) { c.RequestFields = []string{"X-Shop"} }))
			wrapped := m.Wrap(h)
			if c.around != nil {
				wrapped = c.around(wrapped)
			}
			mux := http.NewServeMux()
			mux.Handle("POST /orders/{id}", wrapped)
			r := post("k", "\xff\x00 body")
			r.RequestURI = c.target
			var err error
			if r.URL, err = r.URL.Parse(c.target); err != nil {
				t.Fatal(err)
			}
			r.Header["Accept"] = []string{"text/html", "*/*"}
			r.Header["X-Shop"] = []string{"caf\xe9", "", "渋谷"}
			wantProblem(t, send(mux, r), 500, "attempt-repeatable")
			if found, finished, err := m.Finish(t.Context(), h); found != 1 || finished != 1 || err != nil {
				t.Fatalf("Finish = %d, %d, %v", found, finished, err)
			}
			if all := seen(); len(all) != 2 || all[0] != all[1] {
				t.Errorf("the attempts saw\n%q", all)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A panic of what the service brings along does not end the process, which serves others, and an operation that cannot be
// restored leaves the others be. The log says which operation it is, without its key.
func TestFinishSurvivesWhatFails(t *testing.T) {
	for _, c := range []struct {
		name, logged string
		change       func(*ichido.Config)
		fails        func(w http.ResponseWriter, r *http.Request) // the second attempt; the first dies
	}{
		{name: "Restore panics", logged: "no such user", change: func(c *ichido.Config) {
			c.Restore = func(r *http.Request, _ string) (*http.Request, error) {
				if r.URL.Query().Has("bad") {
					panic("no such user")
				}
				return r, nil
			}
		}},
		{name: "Restore fails", logged: "no such user", change: func(c *ichido.Config) {
			c.Restore = func(r *http.Request, _ string) (*http.Request, error) {
				if r.URL.Query().Has("bad") {
					return nil, errors.New("no such user")
				}
				return r, nil
			}
		}},
		{name: "Restore returns nothing", logged: "Config.Restore", change: func(c *ichido.Config) {
			c.Restore = func(r *http.Request, _ string) (*http.Request, error) {
				if r.URL.Query().Has("bad") {
					return nil, nil
				}
				return r, nil
			}
		}},
		{name: "Keep panics", logged: "no opinion", change: func(c *ichido.Config) {
			c.Keep = func(status int) bool {
				if status == 299 {
					panic("no opinion")
				}
				return status < 400
			}
		}, fails: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) }},
		{name: "the handler panics", logged: "again", fails: func(http.ResponseWriter, *http.Request) { panic("again") }},
		{name: "the handler fails", fails: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }},
		{name: "its steps are others", logged: "other-step", fails: func(w http.ResponseWriter, r *http.Request) {
			_, _ = ichido.Step(r.Context(), "other-step", func(context.Context, string) (int, error) { return 1, nil })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			first := true
			h := handler(func(w http.ResponseWriter, r *http.Request) {
				if !first && r.URL.Query().Has("bad") && c.fails != nil {
					c.fails(w, r)
					return
				}
				if _, err := ichido.Step(r.Context(), "one", func(context.Context, string) (int, error) { return 1, nil }); err != nil {
					t.Error(err)
				}
				if first {
					panic("died")
				}
				w.WriteHeader(http.StatusCreated)
			})
			m := newManager(t, memstore.New(nil), finishing(func(config *ichido.Config) {
				config.Logger = slog.New(slog.NewTextHandler(&log, nil))
				if c.change != nil {
					c.change(config)
				}
			}))
			for key, query := range map[string]string{"secret-bad": "bad", "secret-good": "good"} {
				r := post(key, "secret-body")
				r.URL.RawQuery = query
				send(m.Wrap(h), r)
			}
			first = false
			log.Reset()
			if found, finished, err := m.Finish(t.Context(), h); found != 2 || finished != 1 || err != nil {
				t.Errorf("Finish = %d, %d, %v; want 2, 1", found, finished, err)
			}
			if c.logged == "" { // that is for the handler to log, as it is under Wrap
				if log.Len() > 0 {
					t.Errorf("the log has %s", &log)
				}
				return
			}
			if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), c.logged) ||
				!strings.Contains(log.String(), "operation.route=orders operation.digest=") || strings.Contains(log.String(), "secret-") {
				t.Errorf("the log has %d lines, want one that says %q and of which operation:\n%s", n, c.logged, &log)
			}
		})
	}
}

// A settlement, as people make it, between the look for abandoned operations and the claim of one counts. What Finish learns so
// is no fault to a client that comes back just then: its request begins the operation anew, or gets the answer.
func TestFinishAfterASettlement(t *testing.T) {
	for _, how := range []ichido.SettledHow{ichido.SettledDone, ichido.SettledNotDone, ichido.SettledDeleted} {
		t.Run(how.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &settlingStore{Store: memstore.New(nil), how: how}
				o := newOrder()
				o.dies = "after " + orderSteps[0]
				m := newManager(t, store, finishing(nil))
				send(m.Wrap(o), post("k", "{}"))
				found, finished, err := m.Finish(t.Context(), o)
				if want := map[bool]int{true: 1}[how == ichido.SettledDone]; found != 1 || finished != want || err != nil {
					t.Errorf("Finish = %d, %d, %v", found, finished, err)
				}
				for _, step := range orderSteps[1:] {
					if n := len(o.effects[step]); n != 0 {
						t.Errorf("%s ran %d times, though it was settled", step, n)
					}
				}
				if e, err := store.Look(t.Context(), testScope, "k"); how != ichido.SettledDone && !errors.Is(err, ichido.ErrNoRecord) {
					t.Errorf("there is %+v, %v; the key was free", e, err)
				}

				o.dies = "after " + orderSteps[0]
				send(m.Wrap(o), post("again", "{}"))
				var client <-chan answer
				store.claims, store.before = 0, func() {
					client = start(m.Wrap(o), post("again", "{}"))
					synctest.Wait()
				}
				if _, _, err := m.Finish(t.Context(), o); err != nil {
					t.Errorf("Finish: %v", err)
				}
				if a := <-client; a.status != 201 && a.status != 200 {
					t.Errorf("the client got %d %s", a.status, a.body)
				}
				if store.claims != 1 {
					t.Errorf("Finish claimed %d times", store.claims)
				}
			})
		})
	}
}

// A settlingStore settles each operation that it hands out, at once. It does before when Finish claims one.
type settlingStore struct {
	*memstore.Store
	how    ichido.SettledHow
	before func()
	claims int
}

func (s *settlingStore) Abandoned(ctx context.Context, q ichido.Question) ([]ichido.AbandonedKey, error) {
	keys, err := s.Store.Abandoned(ctx, q)
	for _, k := range keys {
		err = errors.Join(err, s.Settle(ctx, ichido.Settlement{Scope: k.Scope, Key: k.Key, How: s.how, By: "a person",
			Response: ichido.Response{Status: 200}, Retention: time.Hour}))
	}
	return keys, err
}

func (s *settlingStore) Begin(ctx context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	if claim.Lease.Follows {
		s.claims++
		if s.before != nil {
			s.before()
		}
	}
	return s.Store.Begin(ctx, claim)
}

// The pause before the next attempt begins when the last one has ended, however long it took.
func TestFinishPausesAfterTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 25 * time.Second
		var runs []time.Duration
		h := handler(func(w http.ResponseWriter, r *http.Request) {
			runs = append(runs, now())
			_, _ = ichido.Step(r.Context(), "charge", func(context.Context, string) (int, error) {
				time.Sleep(took)
				return 0, errors.New("the provider is slow")
			})
			w.WriteHeader(http.StatusBadGateway)
		})
		m := newManager(t, memstore.New(nil), finishing(nil))
		send(m.Wrap(h), post("k", "{}"))
		ctx, stop := context.WithCancel(t.Context())
		go m.FinishEvery(ctx, time.Second, h, nil)
		at(10 * time.Minute)
		stop()
		time.Sleep(took)
		synctest.Wait()
		for i, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
			if len(runs) < i+3 || runs[i+2]-runs[i+1]-took < want {
				t.Errorf("attempts of %v began at %v; want a pause of %v before the %d. of Finish", took, runs, want, i+2)
			}
		}
	})
}

// Secrets of fingerprints are replaced while an operation is abandoned: its client, whose request has another digest by now,
// resumes it all the same.
func TestStepsResumeUnderAnotherSecret(t *testing.T) {
	one := ichido.Secret{ID: "one", Key: bytes.Repeat([]byte("1"), 32)}
	two := ichido.Secret{ID: "two", Key: bytes.Repeat([]byte("2"), 32)}
	store := memstore.New(nil)
	o := newOrder()
	o.dies = "after " + orderSteps[0]
	asked := 0
	with := func(secrets ...ichido.Secret) *ichido.Manager {
		return newManager(t, store, finishing(func(c *ichido.Config) {
			c.Fingerprint.Secrets = secrets
			c.Resolver = func(context.Context, ichido.UnknownKey) (ichido.Resolution, error) {
				asked++
				return ichido.Resolution{}, nil
			}
		}))
	}
	send(with(one).Wrap(o), post("k", "{}"))
	wantProblem(t, send(with(two, one).Wrap(o), post("k", "{ }  x")), 422, "mismatch")
	if a := send(with(two, one).Wrap(o), post("k", "{}")); a.status != 201 {
		t.Errorf("the client came back and got %d %s", a.status, a.body)
	}
	if asked != 0 {
		t.Errorf("the Resolver was asked %d times", asked)
	}

	// A key that is unknown in truth is asked about under the other digest, too.
	fails := handler(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	send(with(one).Wrap(fails), post("unknown", "{}"))
	wantUnknown(t, send(with(two, one).Wrap(fails), post("unknown", "{}")))
	if asked != 1 {
		t.Errorf("the Resolver was asked %d times, want 1", asked)
	}
}

// A request that is too large to be kept is refused by New, and not lost when it has to be finished.
func TestFinishBoundsTheBody(t *testing.T) {
	_, err := ichido.New(memstore.New(nil), ichido.Shared, finishing(func(c *ichido.Config) { c.MaxRequestBody = 60 << 20 }))
	if err == nil || !strings.Contains(err.Error(), "Config.MaxRequestBody") {
		t.Errorf("New: %v", err)
	}
}
