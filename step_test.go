package ichido_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

func stepped(change func(*ichido.Config)) *ichido.Config {
	return leaseMode(func(c *ichido.Config) {
		c.StepSecret = []byte("a secret of sixteen bytes")
		if change != nil {
			change(c)
		}
	})
}

// An order has three steps whose effects are counted by the keys that they got. It dies at the point named by dies.
type order struct {
	dies    string
	effects map[string][]string // by step: the derived keys
}

func newOrder() *order { return &order{effects: make(map[string][]string)} }

func (o *order) point(at string) {
	if o.dies == at {
		o.dies = ""
		panic("died " + at)
	}
}

func (o *order) step(ctx context.Context, name string) (string, error) {
	o.point("before " + name)
	got, err := ichido.Step(ctx, name, func(_ context.Context, key string) (string, error) {
		o.point("in " + name)
		o.effects[name] = append(o.effects[name], key)
		o.point("after the effect of " + name)
		return name + fmt.Sprint(len(o.effects[name])), nil
	})
	o.point("after " + name)
	return got, err
}

var orderSteps = []string{"reserve", "charge", "mail"}

func (o *order) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var all []string
	for _, name := range orderSteps {
		got, err := o.step(r.Context(), name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		all = append(all, got)
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, strings.Join(all, " "))
}

// The operation dies at every point, and is sent again: it resumes, and each effect is one, by the key that the other side
// gets.
func TestStepsResume(t *testing.T) {
	for _, name := range orderSteps {
		for _, when := range []string{"before ", "in ", "after the effect of ", "after "} {
			t.Run(when+name, func(t *testing.T) {
				o := newOrder()
				o.dies = when + name
				h := newManager(t, memstore.New(nil), stepped(nil)).Wrap(o)
				first := send(h, post("k", "{}"))
				if first.status != 500 || when+name != "before reserve" && first.code() != "attempt-repeatable" {
					t.Errorf("the attempt that died answered %d %s", first.status, first.body)
				}
				if when+name == "before reserve" { // nothing says yet that the operation has steps
					wantUnknown(t, send(h, post("k", "{}")))
					return
				}
				wantProblem(t, send(h, post("k", `{"other":1}`)), 422, "mismatch")
				a := send(h, post("k", "{}"))
				if a.status != 201 || a.replayed() {
					t.Fatalf("sent again: %d %s", a.status, a.body)
				}
				wantReplay(t, send(h, post("k", "{}")), a.body)
				for _, step := range orderSteps {
					want := 1
					if when == "after the effect of " && step == name {
						want = 2 // by one key: the other side makes one of them
					}
					if keys := o.effects[step]; len(keys) != want || len(slices.Compact(slices.Clone(keys))) != 1 {
						t.Errorf("%s had effects under the keys %q", step, keys)
					}
				}
			})
		}
	}
}

func TestStepKeys(t *testing.T) {
	keys := make(map[string]string)
	collect := func(secret, scope, key, step string) string {
		var got string
		m := newManager(t, memstore.New(nil), stepped(func(c *ichido.Config) { c.StepSecret = []byte(secret) }))
		_, err := ichido.Do(t.Context(), m, ichido.Operation{Scope: scope, Key: key}, func(ctx context.Context) (int, error) {
			return ichido.Step(ctx, step, func(_ context.Context, key string) (int, error) { got = key; return 0, nil })
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for _, of := range [][4]string{
		{"secret of 16 bytes", "s", "k", "a"}, {"Secret of 16 bytes", "s", "k", "a"}, {"secret of 16 bytes", "sk", "", "a"},
		{"secret of 16 bytes", "t", "k", "a"}, {"secret of 16 bytes", "s", "l", "a"}, {"secret of 16 bytes", "s", "k", "b"},
	} {
		if of[2] == "" {
			of[1], of[2] = "s", "ka"
		}
		key := collect(of[0], of[1], of[2], of[3])
		if !uuid.MatchString(key) {
			t.Errorf("%v: %q is no UUID of version 8", of, key)
		}
		if other, taken := keys[key]; taken {
			t.Errorf("%v and %s have the same key", of, other)
		}
		keys[key] = fmt.Sprint(of)
		if again := collect(of[0], of[1], of[2], of[3]); again != key {
			t.Errorf("%v: %s, then %s", of, key, again)
		}
	}
	// Frozen: a release that derives other keys would charge again what is resumed.
	if got := collect("0123456789abcdef", "taro POST /orders", "k-1", "charge"); got != frozenStepKey {
		t.Errorf("the derived key is %s, want %s", got, frozenStepKey)
	}
}

const frozenStepKey = "ce0e036a-f105-825e-8880-f1355d4e019c"

// The code's steps are no longer those that are kept: the attempt fails loudly, whatever the handler makes of it, and
// resumes when the code is right again.
func TestStepsChanged(t *testing.T) {
	runSteps := func(names ...string) http.Handler {
		return handler(func(w http.ResponseWriter, r *http.Request) {
			for _, name := range names {
				if name == "die" {
					panic("died")
				}
				_, _ = ichido.Step(r.Context(), name, func(context.Context, string) (int, error) { return 1, nil }) // ignores errors
			}
			w.WriteHeader(http.StatusCreated)
		})
	}
	for name, c := range map[string]struct {
		renamed map[string]string
		steps   []string
		ok      bool
	}{
		"renamed":                  {nil, []string{"a", "B", "c"}, false},
		"another order":            {nil, []string{"b", "a", "c"}, false},
		"one less":                 {nil, []string{"a"}, false},
		"one in between":           {nil, []string{"a", "new", "b", "c"}, false},
		"one more at the end":      {nil, []string{"a", "b", "c", "d"}, true},
		"renamed, and it is known": {map[string]string{"b": "B"}, []string{"a", "B", "c"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New(nil)
			old := newManager(t, store, stepped(nil)).Wrap(runSteps("a", "b", "die"))
			send(old, post("k", "{}"))
			changed := newManager(t, store, stepped(func(to *ichido.Config) { to.RenamedSteps = c.renamed })).Wrap(runSteps(c.steps...))
			a := send(changed, post("k", "{}"))
			if c.ok {
				wantStatus(t, a, 201)
				return
			}
			wantProblem(t, a, 500, "attempt-repeatable")
			wantStatus(t, send(newManager(t, store, stepped(nil)).Wrap(runSteps("a", "b", "c")), post("k", "{}")), 201)
		})
	}
}

// A definite failure is kept, and is the answer.
func TestFinalStep(t *testing.T) {
	type declined struct{ Code string }
	runs := 0
	dies := true
	h := newManager(t, memstore.New(nil), stepped(nil)).Wrap(handler(func(w http.ResponseWriter, r *http.Request) {
		d, err := ichido.Step(r.Context(), "charge", func(context.Context, string) (declined, error) {
			runs++
			return declined{"insufficient_funds"}, ichido.Final(errors.New("the card was declined"))
		})
		if dies {
			dies = false
			panic("died")
		}
		if final := new(ichido.FinalError); errors.As(err, &final) {
			w.WriteHeader(http.StatusPaymentRequired)
			fmt.Fprintf(w, "%s: %s (%s)", final.Step, final.Reason, d.Code)
		}
	}))
	send(h, post("k", "{}"))
	const want = "charge: the card was declined (insufficient_funds)"
	if a := send(h, post("k", "{}")); a.status != 402 || a.body != want || a.replayed() {
		t.Errorf("answered %d %s", a.status, a.body)
	}
	if a := send(h, post("k", "{}")); a.status != 402 || a.body != want || !a.replayed() {
		t.Errorf("then answered %d %s, replayed: %v", a.status, a.body, a.replayed())
	}
	if runs != 1 {
		t.Errorf("the step ran %d times", runs)
	}
}

// An error that is not final is tried again, within the attempt and by later ones.
func TestStepThatFails(t *testing.T) {
	m := newManager(t, memstore.New(nil), stepped(nil))
	runs := 0
	op := ichido.Operation{Scope: "jobs", Key: "k"}
	work := func(ctx context.Context) (int, error) {
		charge := func(context.Context, string) (int, error) {
			if runs++; runs < 5 {
				return 0, errors.New("the provider is down")
			}
			return runs, nil
		}
		if _, err := ichido.Step(ctx, "charge", charge); err == nil {
			return 0, errors.New("want an error")
		}
		return ichido.Step(ctx, "charge", charge)
	}
	for range 2 {
		if _, err := ichido.Do(t.Context(), m, op, work); err == nil || !strings.Contains(err.Error(), "the provider is down") {
			t.Errorf("Do: %v", err)
		}
	}
	r, err := ichido.Do(t.Context(), m, op, func(ctx context.Context) (int, error) {
		return ichido.Step(ctx, "charge", func(context.Context, string) (int, error) { return 7, nil })
	})
	if err != nil || r.Value != 7 {
		t.Errorf("Do: %v, %v", r, err)
	}
}

func TestWhereThereAreNoSteps(t *testing.T) {
	step := func(ctx context.Context) (int, error) {
		return ichido.Step(ctx, "a", func(context.Context, string) (int, error) { t.Error("it ran"); return 0, nil })
	}
	if _, err := step(t.Context()); !errors.Is(err, ichido.ErrNoSteps) || !strings.Contains(err.Error(), "not that of an attempt") {
		t.Errorf("outside of an attempt: %v", err)
	}
	leaser := struct {
		ichido.Settler
	}{memstore.New(nil)}
	for want, m := range map[string]*ichido.Manager{
		"transaction mode": newManager(t, memstore.New(nil), nil),
		"StepSecret":       newManager(t, memstore.New(nil), leaseMode(nil)),
		"ichido.Stepper":   newManager(t, leaser, stepped(nil)),
	} {
		_, err := ichido.Do(t.Context(), m, ichido.Operation{Scope: "jobs", Key: "k"}, step)
		if !errors.Is(err, ichido.ErrNoSteps) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want one that says %q", err, want)
		}
	}
	_, err := ichido.New(memstore.New(nil), ichido.Shared, stepped(func(c *ichido.Config) { c.StepSecret = []byte("short") }))
	if err == nil || !strings.Contains(err.Error(), "at least 16") {
		t.Errorf("a short secret: %v", err)
	}
}

// What steps must not do is an error of the step.
func TestStepsFollowEachOther(t *testing.T) {
	m := newManager(t, memstore.New(nil), stepped(nil))
	one := func(context.Context, string) (int, error) { return 1, nil }
	for name, c := range map[string]struct {
		do   func(ctx context.Context) error
		want string
	}{
		"within another": {func(ctx context.Context) (err error) {
			_, _ = ichido.Step(ctx, "a", func(ctx context.Context, _ string) (int, error) {
				_, err = ichido.Step(ctx, "b", one)
				return 0, nil
			})
			return err
		}, "within another step"},
		"at once": {func(ctx context.Context) (err error) {
			running, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				_, _ = ichido.Step(ctx, "a", func(context.Context, string) (int, error) {
					close(running)
					<-ctx.Done()
					return 0, nil
				})
			}()
			<-running
			_, err = ichido.Step(ctx, "b", one)
			return err
		}, "another step is running"},
		"twice the name": {func(ctx context.Context) error {
			_, _ = ichido.Step(ctx, "a", one)
			_, err := ichido.Step(ctx, "a", one)
			return err
		}, "unique"},
		"no name":  {func(ctx context.Context) error { _, err := ichido.Step(ctx, "", one); return err }, "1 to 255 bytes"},
		"bad name": {func(ctx context.Context) error { _, err := ichido.Step(ctx, "a\x00", one); return err }, "without NUL"},
		"no JSON": {func(ctx context.Context) error {
			_, err := ichido.Step(ctx, "a", func(context.Context, string) (chan int, error) { return nil, nil })
			return err
		}, "cannot be kept"},
		"too large": {func(ctx context.Context) error {
			_, err := ichido.Step(ctx, "a", func(context.Context, string) (string, error) { return strings.Repeat("x", 2<<20), nil })
			return err
		}, "Config.Stored.MaxBody"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got error
				_, _ = ichido.Do(t.Context(), m, ichido.Operation{Scope: "jobs", Key: name}, func(ctx context.Context) (int, error) {
					got = c.do(ctx)
					return 0, nil
				})
				if got == nil || !strings.Contains(got.Error(), c.want) {
					t.Errorf("%v; want one that says %q", got, c.want)
				}
			})
		})
	}
}

// A late owner keeps nothing, and hears that it lost; the operation goes on where the second attempt got.
func TestStepsAreFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		var paused atomic.Bool
		paused.Store(true)
		store.renew = func(_ int, do func() error) error {
			if paused.Load() {
				return errConnection
			}
			return do()
		}
		var late error
		owner := newManager(t, stepStore{store}, stepped(nil)).Wrap(handler(func(w http.ResponseWriter, r *http.Request) {
			_, _ = ichido.Step(r.Context(), "reserve", func(context.Context, string) (int, error) { return 1, nil })
			_, late = ichido.Step(context.WithoutCancel(r.Context()), "charge", func(context.Context, string) (int, error) {
				at(40 * time.Second) // the lease is over
				return 1, nil
			})
			w.WriteHeader(http.StatusCreated)
		}))
		first := start(owner, post("k", "{}"))
		at(35 * time.Second)
		var ran []string
		other := newManager(t, stepStore{store}, stepped(nil)).Wrap(handler(func(w http.ResponseWriter, r *http.Request) {
			for _, name := range []string{"reserve", "charge"} {
				n, err := ichido.Step(r.Context(), name, func(context.Context, string) (int, error) { ran = append(ran, name); return 2, nil })
				fmt.Fprint(w, n, err, " ")
			}
		}))
		paused.Store(false)
		if a := send(other, post("k", "{}")); a.status != 200 || a.body != "1 <nil> 2 <nil> " || len(ran) != 1 {
			t.Errorf("the second attempt answered %d %s and ran %q", a.status, a.body, ran)
		}
		if a := <-first; a.status != 200 || a.body != "1 <nil> 2 <nil> " || !a.replayed() {
			t.Errorf("the late owner answered %d %s", a.status, a.body)
		}
		if !errors.Is(late, ichido.ErrLost) {
			t.Errorf("the late step: %v, want ErrLost", late)
		}
	})
}

// stepStore lets steps through to memstore.
type stepStore struct{ *faultyStore }

func TestStepResultsAreEncrypted(t *testing.T) {
	store := &keepingStore{Store: memstore.New(nil)}
	secret := ichido.Secret{ID: "one", Key: bytes.Repeat([]byte("k"), 32)}
	config := stepped(func(c *ichido.Config) { c.Stored.Secrets = []ichido.Secret{secret} })
	dies := true
	h := newManager(t, store, config).Wrap(handler(func(w http.ResponseWriter, r *http.Request) {
		card, err := ichido.Step(r.Context(), "charge", func(context.Context, string) (string, error) { return "card 4242", nil })
		if dies {
			dies = false
			panic("died")
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, card, err)
	}))
	send(h, post("k", "{}"))
	wantFirst(t, send(h, post("k", "{}")), "card 4242<nil>")
	if len(store.kept) != 1 || bytes.Contains(store.kept[0].Result, []byte("4242")) {
		t.Errorf("kept is %q", store.kept)
	}
}

type keepingStore struct {
	*memstore.Store
	kept []ichido.KeptStep
}

func (s *keepingStore) KeepStep(ctx context.Context, h ichido.Held, number int, step ichido.KeptStep) error {
	s.kept = append(s.kept, step)
	if len(s.kept) == 1 && number == 1 {
		return s.Store.KeepStep(ctx, h, number, step)
	}
	return errors.New("kept twice")
}

// A store that does not answer when the first step begins, because it restarts, leaves no key unknown under which nothing ran.
func TestStepsBeginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &restartingStore{Store: memstore.New(nil), fails: 3}
		a := send(newManager(t, store, stepped(nil)).Wrap(newOrder()), post("k", "{}"))
		if a.status != 201 || store.fails != 0 {
			t.Errorf("answered %d %s", a.status, a.body)
		}

		// It gives up in the end, and when the context has ended no step begins.
		store.fails = 1000
		began := time.Now()
		if a := send(newManager(t, store, stepped(nil)).Wrap(newOrder()), post("k2", "{}")); a.status != 500 {
			t.Errorf("answered %d %s", a.status, a.body)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("it took %s", took)
		}
		store.fails = 6
		o := newOrder()
		m := newManager(t, store, stepped(func(c *ichido.Config) { c.AttemptTimeout = 100 * time.Millisecond }))
		if a := send(m.Wrap(o), post("k3", "{}")); a.status != 500 || len(o.effects) != 0 {
			t.Errorf("answered %d %s; the effects are %v", a.status, a.body, o.effects)
		}
	})
}

// A restartingStore fails so often to begin steps.
type restartingStore struct {
	*memstore.Store
	fails int
}

func (s *restartingStore) BeginSteps(ctx context.Context, h ichido.Held) ([]ichido.KeptStep, error) {
	if s.fails > 0 {
		s.fails--
		return nil, errors.New("it restarts")
	}
	return s.Store.BeginSteps(ctx, h)
}

// The store shows what there is of an operation that is to be resumed.
func TestStepsAreShown(t *testing.T) {
	store := memstore.New(nil)
	o := newOrder()
	o.dies = "in mail"
	send(newManager(t, store, stepped(nil)).Wrap(o), post("k", "{}"))
	e, err := store.Look(t.Context(), testScope, "k")
	if err != nil || e.State != ichido.InProgress || !e.Resumes || !slices.Equal(e.Steps, []string{"reserve", "charge"}) {
		t.Errorf("the entry is %+v, %v", e, err)
	}
	if asked, err := store.Ask(t.Context(), ichido.Question{Scope: testScope, Key: "k", Patience: time.Hour}); err != nil || len(asked) != 0 {
		t.Errorf("Ask: %v, %v; nobody is asked about what resumes", asked, err)
	}
}

// Who refuses after a step was kept has done something: the key stays with its request, unless the work says that it may go.
func TestRefusalAfterAStep(t *testing.T) {
	for _, discards := range []bool{false, true} {
		runs := 0
		h := newManager(t, memstore.New(nil), stepped(nil)).Wrap(handler(func(w http.ResponseWriter, r *http.Request) {
			_, _ = ichido.Step(r.Context(), "reserve", func(context.Context, string) (int, error) { runs++; return 1, nil })
			if discards {
				ichido.Discard(r.Context())
			}
			w.WriteHeader(http.StatusUnprocessableEntity)
		}))
		wantStatus(t, send(h, post("k", "{}")), 422)
		other := send(h, post("k", `{"other":1}`))
		if discards == (other.code() == "mismatch") {
			t.Errorf("discards: %v; another request got %d %s", discards, other.status, other.body)
		}
		wantStatus(t, send(h, post("k", "{}")), 422)
		if want := map[bool]int{false: 1, true: 3}[discards]; runs != want {
			t.Errorf("discards: %v; the step ran %d times, want %d", discards, runs, want)
		}
	}
}

// A step of which it is not known whether it is kept may be. A refusal after it does not free the key either.
func TestRefusalAfterAStepOfUnknownFate(t *testing.T) {
	step := func(ctx context.Context, run func() int) error {
		_, err := ichido.Step(ctx, "reserve", func(context.Context, string) (int, error) { return run(), nil })
		return err
	}
	// A transaction whose commit arrives after the attempt looked for it.
	late := func(store ichido.Stepper) func(context.Context, func() int) error {
		return func(ctx context.Context, run func() int) error {
			var arrives func() error
			_, err := ichido.RunStep(ctx, "reserve", func(ctx context.Context, s *ichido.StepRun) (int, error) {
				kept, err := s.Seal(run(), nil)
				arrives = func() error { return store.KeepStep(ctx, s.Held, s.Number, kept) }
				return 0, errors.Join(err, ichido.ErrCommitUnknown)
			})
			if arrives != nil {
				if err := arrives(); err != nil {
					t.Error(err)
				}
			}
			return err
		}
	}
	store := memstore.New(nil)
	for _, c := range []struct {
		name  string
		store ichido.Stepper
		step  func(context.Context, func() int) error
	}{{"Step", &mumblingStore{Store: store}, step}, {"commit unknown", store, late(store)}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs, failed := 0, 0
				h := newManager(t, c.store, stepped(nil)).Wrap(handler(func(w http.ResponseWriter, r *http.Request) {
					if err := c.step(r.Context(), func() int { runs++; return runs }); err != nil {
						failed++
					}
					w.WriteHeader(http.StatusUnprocessableEntity)
				}))
				key := strings.ReplaceAll(c.name, " ", "-")
				wantStatus(t, send(h, post(key, "{}")), 422)
				if other := send(h, post(key, `{"other":1}`)); other.code() != "mismatch" {
					t.Errorf("another request got %d %s", other.status, other.body)
				}
				wantStatus(t, send(h, post(key, "{}")), 422)
				if runs != 1 || failed != 1 {
					t.Errorf("the step ran %d times and failed %d times", runs, failed)
				}
			})
		})
	}
}

// A mumblingStore keeps steps, and cannot be heard to say so.
type mumblingStore struct{ *memstore.Store }

func (s *mumblingStore) KeepStep(ctx context.Context, h ichido.Held, number int, step ichido.KeptStep) error {
	if err := s.Store.KeepStep(ctx, h, number, step); err != nil {
		return err
	}
	return errors.New("the connection was lost")
}
