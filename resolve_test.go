package ichido_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

const testScope = "* POST /reservations"

// resolving is a route whose first attempt ends without saying how, and whose later ones answer with 201.
func resolving(t *testing.T, store ichido.Store, resolver ichido.Resolver) (*ichido.Manager, http.Handler) {
	t.Helper()
	m := newManager(t, store, leaseMode(func(c *ichido.Config) {
		c.Route, c.Resolver = "charge", resolver
	}))
	var runs atomic.Int32
	return m, m.Wrap(handler(func(w http.ResponseWriter, r *http.Request) {
		if runs.Add(1) == 1 {
			panic("the provider did not answer")
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "run %d", runs.Load())
	}))
}

func TestResolverOnTheNextRequest(t *testing.T) {
	for name, c := range map[string]struct {
		said ichido.Resolution
		err  error
		want func(*testing.T, answer)
		how  []ichido.SettledHow
	}{
		"done": {ichido.Done(201, http.Header{"Location": {"/charges/7"}, "Content-Type": {"text/plain"}}, []byte("charged")).Because("found at the provider"), nil,
			func(t *testing.T, a answer) {
				wantReplay(t, a, "charged")
				if a.header.Get("Location") != "/charges/7" {
					t.Errorf("header %v", a.header)
				}
			}, []ichido.SettledHow{ichido.SettledDone}},
		"not done":  {ichido.NotDone(), nil, func(t *testing.T, a answer) { wantFirst(t, a, "run 2") }, []ichido.SettledHow{ichido.SettledNotDone}},
		"not known": {ichido.Resolution{}, nil, wantUnknown, nil},
		"error":     {ichido.NotDone(), errors.New("the provider is down"), wantUnknown, nil},
		"too large": {ichido.Done(201, nil, make([]byte, 2<<20)), nil,
			func(t *testing.T, a answer) { wantProblem(t, a, 409, "answer-not-kept") }, []ichido.SettledHow{ichido.SettledDone}},
		"no such reply": {ichido.Done(0, nil, nil), nil, wantUnknown, nil},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New(nil)
			var asked []ichido.UnknownKey
			_, h := resolving(t, store, func(_ context.Context, key ichido.UnknownKey) (ichido.Resolution, error) {
				asked = append(asked, key)
				return c.said, c.err
			})
			wantProblem(t, send(h, post("k", "{}")), 500, "attempt-failed")
			wantProblem(t, send(h, post("k", `{"other":1}`)), 422, "mismatch")
			if len(asked) != 0 {
				t.Error("another request made the resolver be asked")
			}
			c.want(t, send(h, post("k", "{}")))
			if len(asked) != 1 {
				t.Fatalf("asked %d times", len(asked))
			}
			if k := asked[0]; k.Scope != testScope || k.Key != "k" || k.Route != "charge" || k.Attempts != 1 || k.Asked != 1 || k.Token == 0 || k.Since.IsZero() {
				t.Errorf("asked about %+v", k)
			}
			settled, err := store.Settlements(t.Context(), testScope, "k")
			if err != nil || len(settled) != len(c.how) {
				t.Fatalf("settlements %+v, %v; want %v", settled, err, c.how)
			}
			if len(c.how) == 1 && (settled[0].How != c.how[0] || settled[0].By != "resolver" || name == "done" && settled[0].Reason != "found at the provider") {
				t.Errorf("settlement %+v", settled[0])
			}
		})
	}
}

// A hundred duplicates make one call; they get what it brought.
func TestResolverIsAskedByOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		var calls atomic.Int32
		resolver := func(context.Context, ichido.UnknownKey) (ichido.Resolution, error) {
			calls.Add(1)
			time.Sleep(5 * time.Second)
			return ichido.Done(201, nil, []byte("charged")), nil
		}
		_, h := resolving(t, store, resolver)
		_, elsewhere := resolving(t, store, resolver)
		wantProblem(t, send(h, post("k", "{}")), 500, "attempt-failed")
		var all []<-chan answer
		for range 100 {
			all = append(all, start(h, post("k", "{}")))
		}
		synctest.Wait()
		wantUnknown(t, send(elsewhere, post("k", "{}"))) // it does not wait for another process's call
		for _, one := range all {
			wantReplay(t, <-one, "charged")
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// A Resolver that hangs, or panics, holds nobody up for long, and its late answer changes nothing.
func TestResolverIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		_, h := resolving(t, store, func(_ context.Context, key ichido.UnknownKey) (ichido.Resolution, error) {
			if key.Asked == 1 {
				time.Sleep(time.Minute)
				return ichido.NotDone(), nil
			}
			panic("resolver")
		})
		send(h, post("k", "{}"))
		for range 2 {
			wantUnknown(t, send(h, post("k", "{}")))
		}
		wantTime(t, 10*time.Second)
		at(2 * time.Minute)
		wantUnknown(t, send(h, post("k", "{}")))
	})
}

// A sweep asks about what nobody sends again, at growing intervals, and about nothing else.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		var asked []time.Duration
		m, h := resolving(t, store, func(_ context.Context, key ichido.UnknownKey) (ichido.Resolution, error) {
			asked = append(asked, now())
			if key.Asked < 4 {
				return ichido.Resolution{}, nil
			}
			return ichido.Done(201, nil, []byte("charged")), nil
		})
		send(h, post("k", "{}"))
		ctx, stop := context.WithCancel(t.Context())
		total := 0
		go m.SweepEvery(ctx, time.Second, func(_, settled int, err error) {
			if err != nil {
				t.Error(err)
			}
			total += settled
		})
		at(10 * time.Minute)
		stop()
		synctest.Wait()
		if len(asked) != 4 || total != 1 {
			t.Fatalf("asked at %v, settled %d", asked, total)
		}
		for i, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
			if d := asked[i+1] - asked[i]; d < pause || d > pause+2*time.Second {
				t.Errorf("question %d came after %v, want about %v", i+2, d, pause)
			}
		}
		wantReplay(t, send(h, post("k", "{}")), "charged")
	})
}

func TestSweepNeedsAResolver(t *testing.T) {
	m := newManager(t, memstore.New(nil), leaseMode(nil))
	if _, _, err := m.Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), "Config.Resolver is nil") {
		t.Errorf("Sweep: %v", err)
	}
}

// Whom to ask is in the problem, in the client's language.
func TestContact(t *testing.T) {
	for _, c := range []struct{ contact, language, want string }{
		{"", "en", "Ask the operator of this service, naming the key."},
		{"", "ja", "このサービスの運用者に問い合わせて"},
		{"support@example.com", "ja", "support@example.comに問い合わせて"},
	} {
		h := newManager(t, memstore.New(nil), leaseMode(func(to *ichido.Config) { to.Contact = c.contact })).Wrap(
			handler(func(http.ResponseWriter, *http.Request) { panic("x") }))
		send(h, post("k", "{}"))
		r := post("k", "{}")
		r.Header.Set("Accept-Language", c.language)
		if a := send(h, r); !strings.Contains(a.body, c.want) {
			t.Errorf("%s does not say %q", a.body, c.want)
		}
	}
}

// A Resolver that answers late about an attempt does not settle the next one.
func TestResolverSettlesWhatItWasAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		_, h := resolving(t, store, func(context.Context, ichido.UnknownKey) (ichido.Resolution, error) {
			// In the meantime a person frees the key, and the next attempt fails, too.
			if err := store.Settle(t.Context(), ichido.Settlement{Scope: testScope, Key: "k", How: ichido.SettledNotDone, By: "hanako"}); err != nil {
				t.Error(err)
			}
			send(newManager(t, store, leaseMode(nil)).Wrap(handler(func(http.ResponseWriter, *http.Request) { panic("again") })), post("k", "{}"))
			return ichido.NotDone(), nil // of the first one
		})
		send(h, post("k", "{}"))
		wantUnknown(t, send(h, post("k", "{}")))
		if _, err := store.Look(t.Context(), testScope, "k"); err != nil {
			t.Errorf("the second attempt was settled by an answer about the first: %v", err)
		}
	})
}
