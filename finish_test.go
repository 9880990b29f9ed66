package ichido_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

func finishing(change func(*ichido.Config)) *ichido.Config {
	return stepped(func(c *ichido.Config) {
		c.Route, c.Finish = "orders", true
		if change != nil {
			change(c)
		}
	})
}

// The client never comes back: a worker finishes what it began, wherever it died.
func TestFinishWithoutTheClient(t *testing.T) {
	for _, name := range orderSteps {
		for _, when := range []string{"in ", "after the effect of ", "after "} {
			t.Run(when+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memstore.New(nil)
					o := newOrder()
					o.dies = when + name
					m := newManager(t, store, finishing(nil))
					send(m.Wrap(o), post("k", "{}"))
					found, finished, err := newManager(t, store, finishing(nil)).Finish(t.Context(), o)
					if found != 1 || finished != 1 || err != nil {
						t.Fatalf("Finish = %d, %d, %v", found, finished, err)
					}
					for _, step := range orderSteps {
						keys := make(map[string]bool)
						for _, key := range o.effects[step] {
							keys[key] = true
						}
						if len(keys) != 1 {
							t.Errorf("%s had effects under the keys %v", step, o.effects[step])
						}
					}
					if found, _, err := m.Finish(t.Context(), o); found != 0 || err != nil {
						t.Errorf("Finish found %d more, %v", found, err)
					}
					if a := send(m.Wrap(o), post("k", "{}")); a.status != 201 || !a.replayed() {
						t.Errorf("the client came back and got %d %s", a.status, a.body)
					}
				})
			})
		}
	}
}

// The handler finds the request as it was, and the principal whose it was.
func TestFinishRestoresTheRequest(t *testing.T) { synctest.Test(t, testFinishRestoresTheRequest) }

func testFinishRestoresTheRequest(t *testing.T) {
	type userKey struct{}
	store := memstore.New(nil)
	secret := ichido.Secret{ID: "one", Key: bytes.Repeat([]byte("k"), 32)}
	m, err := ichido.New(store, func(r *http.Request) (string, error) { return r.Header.Get("User"), nil }, finishing(func(c *ichido.Config) {
		c.RequestFields = []string{"x-shop"}
		c.Stored.Secrets = []ichido.Secret{secret}
		c.Restore = func(r *http.Request, principal string) (*http.Request, error) {
			return r.WithContext(context.WithValue(r.Context(), userKey{}, principal)), nil
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	dies := true
	h := handler(func(w http.ResponseWriter, r *http.Request) {
		if _, err := ichido.Step(r.Context(), "one", func(context.Context, string) (int, error) { return 1, nil }); err != nil {
			t.Error(err)
		}
		body, err := io.ReadAll(r.Body)
		user, _ := r.Context().Value(userKey{}).(string)
		got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.URL.Query().Get("q"), " ", r.PathValue("id"), " ", r.Pattern, " ", r.Host, " ",
			r.Header.Get("Content-Type"), " ", r.Header.Get("X-Shop"), " ", r.Header.Get("Authorization"), " ", user, " ", string(body), err))
		if dies {
			dies = false
			panic("died")
		}
		w.WriteHeader(http.StatusCreated)
	})
	authenticated := func(next http.Handler) http.Handler {
		return handler(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, "taro yamada")))
		})
	}
	mux := http.NewServeMux()
	mux.Handle("POST /shops/{id}/orders/{rest...}", authenticated(m.Wrap(h)))
	r := post("k", `{"item":"椅子"}`)
	r.URL.Path, r.URL.RawQuery, r.RequestURI = "/shops/7/orders/a/b", "q=1&q=2", "/shops/7/orders/a/b?q=1&q=2"
	r.Header.Set("User", "taro yamada")
	r.Header.Set("X-Shop", "shibuya")
	r.Header.Set("Authorization", "Bearer secret")
	send(mux, r)
	entries, err := store.Abandoned(t.Context(), ichido.Question{Route: "orders", Limit: 1, Patience: time.Nanosecond})
	if err != nil || len(entries) != 1 || bytes.Contains(entries[0].Request, []byte("shibuya")) {
		t.Fatalf("abandoned: %d, %v", len(entries), err)
	}
	finishSoon(t, m, h)
	if len(got) != 2 || strings.Replace(got[0], "Bearer secret", "", 1) != got[1] {
		t.Errorf("the two attempts saw\n%s", strings.Join(got, "\n"))
	}
}

// finishSoon finishes one operation, as soon as it is due: the look at it has made it wait.
func finishSoon(t *testing.T, m *ichido.Manager, next http.Handler) {
	t.Helper()
	time.Sleep(time.Minute)
	if _, finished, err := m.Finish(t.Context(), next); finished != 1 || err != nil {
		t.Fatalf("Finish finished %d, %v", finished, err)
	}
}

// Work that keeps failing is run at growing intervals, and not for ever: then its key is unknown.
func TestFinishGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		var runs []time.Duration
		h := handler(func(w http.ResponseWriter, r *http.Request) {
			_, err := ichido.Step(r.Context(), "charge", func(context.Context, string) (int, error) {
				runs = append(runs, now())
				return 0, errors.New("the provider is down")
			})
			http.Error(w, err.Error(), http.StatusBadGateway)
		})
		m := newManager(t, store, finishing(func(c *ichido.Config) { c.MaxAttempts = 4 }))
		send(m.Wrap(h), post("k", "{}"))
		ctx, stop := context.WithCancel(t.Context())
		go m.FinishEvery(ctx, time.Second, h, nil)
		at(time.Hour)
		stop()
		synctest.Wait()
		if len(runs) != 4 {
			t.Fatalf("the work ran at %v, want 4 times", runs)
		}
		for i := 2; i < len(runs); i++ {
			if d, before := runs[i]-runs[i-1], runs[i-1]-runs[i-2]; d < before {
				t.Errorf("the work ran at %v; the pauses shrink", runs)
			}
		}
		wantUnknown(t, send(m.Wrap(h), post("k", "{}")))
		e, err := store.Look(t.Context(), testScope, "k")
		if err != nil || e.State != ichido.Unknown || e.Attempts != 4 {
			t.Errorf("the entry is %+v, %v", e, err)
		}
	})
}

func TestFinishConfig(t *testing.T) {
	for want, c := range map[string]*ichido.Config{
		"Config.Route is empty":    stepped(func(c *ichido.Config) { c.Finish = true }),
		"carries credentials":      finishing(func(c *ichido.Config) { c.RequestFields = []string{"authorization"} }),
		"belong to Config.Finish":  stepped(func(c *ichido.Config) { c.RequestFields = []string{"X-Shop"} }),
		"belongs to lease mode":    {Finish: true},
		"does not keep requests":   finishing(nil),
		"Config.Finish is not set": stepped(nil),
	} {
		var store ichido.Store = memstore.New(nil)
		if want == "does not keep requests" {
			store = struct{ ichido.Settler }{memstore.New(nil)}
		}
		m, err := ichido.New(store, ichido.Shared, c)
		if err == nil {
			_, _, err = m.Finish(t.Context(), created("x"))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want one that says %q", err, want)
		}
	}
}
