package ichido_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

type receipt struct {
	ID    int      `json:"id"`
	Items []string `json:"items"`
}

var message = ichido.Operation{Scope: "queue", Key: "message-1", Input: []byte("desk")}

func TestDo(t *testing.T) {
	m := newManager(t, memstore.New(nil), nil)
	runs := 0
	work := func(context.Context) (receipt, error) {
		runs++
		return receipt{ID: runs, Items: []string{"desk"}}, nil
	}
	for i := range 3 {
		got, err := ichido.Do(t.Context(), m, message, work)
		want := ichido.Result[receipt]{Value: receipt{1, []string{"desk"}}, Replayed: i > 0}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("call %d: %+v, %v; want %+v", i+1, got, err, want)
		}
	}
	other := message
	other.Scope = "other queue"
	if got, err := ichido.Do(t.Context(), m, other, work); err != nil || got.Value.ID != 2 || got.Replayed {
		t.Errorf("the key in another scope: %+v, %v", got, err)
	}
}

func TestDoWithoutValueAndInput(t *testing.T) {
	m := newManager(t, memstore.New(nil), nil)
	op := ichido.Operation{Scope: "queue", Key: strings.Repeat("k", 255)}
	for i := range 2 {
		got, err := ichido.Do(t.Context(), m, op, func(context.Context) (struct{}, error) { return struct{}{}, nil })
		if err != nil || got.Replayed != (i > 0) {
			t.Errorf("call %d: %+v, %v", i+1, got, err)
		}
	}
	// A nil input and an empty one are the same.
	op.Input = []byte{}
	if _, err := ichido.Do(t.Context(), m, op, func(context.Context) (struct{}, error) { return struct{}{}, nil }); err != nil {
		t.Error(err)
	}
}

// The value of the first call went through JSON as that of the later ones did: no field is there once and then gone.
func TestDoReturnsTheSameFirstAndLater(t *testing.T) {
	type value struct {
		Kept   string
		hidden string
		Empty  []int `json:",omitempty"`
	}
	m := newManager(t, memstore.New(nil), nil)
	for i := range 2 {
		got, err := ichido.Do(t.Context(), m, message, func(context.Context) (value, error) {
			return value{"kept", "hidden", []int{}}, nil
		})
		if err != nil || !reflect.DeepEqual(got.Value, value{Kept: "kept"}) {
			t.Errorf("call %d: %+v, %v", i+1, got, err)
		}
	}
}

func TestDoReturnsTheErrorOfTheWork(t *testing.T) {
	store := newScript(t, grants(nil), grants(nil))
	m := newManager(t, store, nil)
	refused := errors.New("no such item")
	if got, err := ichido.Do(t.Context(), m, message, func(context.Context) (int, error) { return 7, refused }); err != refused || got.Value != 0 {
		t.Errorf("Do = %+v, %v; want the work's own error", got, err)
	}
	if store.attempts[0].cause != refused {
		t.Errorf("the store is told %v, want the work's error", store.attempts[0].cause)
	}
	if got, err := ichido.Do(t.Context(), m, message, func(context.Context) (int, error) { return 7, nil }); err != nil || got.Value != 7 || got.Replayed {
		t.Errorf("the key does not work again: %+v, %v", got, err)
	}
	store.wantEnds(1, 1)
}

func TestDoErrors(t *testing.T) {
	work := func(context.Context) (int, error) { return 7, nil }
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		step step
		want []error
	}{
		"mismatch":       {hasOther("7"), []error{ichido.ErrMismatch}},
		"in progress":    {busy, []error{ichido.ErrInProgress}},
		"unavailable":    {fails(down), []error{ichido.ErrUnavailable, down}},
		"commit unknown": {grants(ichido.ErrCommitUnknown), []error{ichido.ErrCommitUnknown}},
		"not committed":  {grants(down), []error{ichido.ErrNotCommitted, down}},
	} {
		got, err := ichido.Do(t.Context(), newManager(t, newScript(t, c.step), nil), message, work)
		for _, want := range c.want {
			if !errors.Is(err, want) || got != (ichido.Result[int]{}) {
				t.Errorf("%s: Do = %+v, %v; want %v", name, got, err, want)
			}
		}
	}
}

func TestDoSerialization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, newScript(t, aborted, aborted, grants(nil)), nil)
		runs := 0
		got, err := ichido.Do(t.Context(), m, message, func(context.Context) (int, error) {
			runs++
			if runs == 1 {
				return 0, errors.New("could not serialize access")
			}
			return runs, nil
		})
		if err != nil || got.Value != 3 {
			t.Errorf("Do = %+v, %v; want the value of the third run", got, err)
		}
		m = newManager(t, newEndless(t, func(int) step { return aborted }), nil)
		if _, err := ichido.Do(t.Context(), m, message, func(context.Context) (int, error) { return 0, nil }); !errors.Is(err, ichido.ErrSerialization) {
			t.Errorf("Do = %v, want ErrSerialization", err)
		}
	})
}

func TestDoLost(t *testing.T) {
	m := newManager(t, newScript(t, grants(ichido.ErrLost), has("1")), nil)
	got, err := ichido.Do(t.Context(), m, message, func(context.Context) (int, error) { return 2, nil })
	if err != nil || got != (ichido.Result[int]{Value: 1, Replayed: true}) {
		t.Errorf("Do = %+v, %v; want the winner's value", got, err)
	}
}

func TestDoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, memstore.New(nil), waiting(time.Minute))
		work := func(context.Context) (int, error) { time.Sleep(time.Second); return 7, nil }
		first := make(chan ichido.Result[int])
		go func() {
			got, _ := ichido.Do(t.Context(), m, message, work)
			first <- got
		}()
		synctest.Wait()
		if got, err := ichido.Do(t.Context(), m, message, work); err != nil || got != (ichido.Result[int]{Value: 7, Replayed: true}) {
			t.Errorf("Do = %+v, %v", got, err)
		}
		if got := <-first; got != (ichido.Result[int]{Value: 7}) {
			t.Errorf("Do = %+v", got)
		}
		wantTime(t, time.Second)
	})
}

// A queue's worker that shuts down cancels its context: who only waits goes, and what has begun goes on.
func TestDoAndTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, memstore.New(nil), waiting(time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error), make(chan error)
		go func() {
			_, err := ichido.Do(ctx, m, message, func(ctx context.Context) (int, error) {
				time.Sleep(time.Second)
				return 7, ctx.Err()
			})
			first <- err
		}()
		synctest.Wait()
		go func() {
			_, err := ichido.Do(ctx, m, message, func(context.Context) (int, error) { return 8, nil })
			second <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) || errors.Is(err, ichido.ErrUnavailable) {
			t.Errorf("who waited got %v, want context.Canceled", err)
		}
		wantTime(t, 0)
		if err := <-first; err != nil {
			t.Errorf("the work that had begun failed: %v", err)
		}
	})
}

// The context may have ended before Do is called. Then there is no reason to begin.
func TestDoUnderAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := ichido.Do(ctx, newManager(t, memstore.New(nil), nil), message, func(context.Context) (int, error) {
		t.Error("the work runs")
		return 7, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v, want context.Canceled", err)
	}
}

// That the caller's context ended is not the store's failure.
func TestDoWhoseContextEndsWhileItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m := newManager(t, newScript(t, after(time.Hour, busy)), nil)
		_, err := ichido.Do(ctx, m, message, func(context.Context) (int, error) { return 7, nil })
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ichido.ErrUnavailable) {
			t.Errorf("Do = %v, want context.DeadlineExceeded alone", err)
		}
	})
}

func TestDoPanics(t *testing.T) {
	store := newScript(t, grants(nil), grants(nil), grants(nil))
	m := newManager(t, store, nil)
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v, want the work's panic", p)
			}
		}()
		_, _ = ichido.Do(t.Context(), m, message, func(context.Context) (int, error) { panic("boom") })
	}()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = ichido.Do(t.Context(), m, message, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
	}()
	<-gone
	if got, err := ichido.Do(t.Context(), m, message, func(context.Context) (int, error) { return 7, nil }); err != nil || got.Value != 7 {
		t.Errorf("the key does not work again: %+v, %v", got, err)
	}
	store.wantEnds(1, 2)
}

func TestDoOversize(t *testing.T) {
	store := newScript(t, grants(nil), grants(nil))
	m := newManager(t, store, &ichido.Config{Stored: ichido.Stored{MaxBody: 10}})
	_, err := ichido.Do(t.Context(), m, message, func(context.Context) (string, error) { return "123456789", nil })
	if err == nil || !strings.Contains(err.Error(), "11 bytes of JSON; Config.Stored.MaxBody is 10") {
		t.Errorf("Do = %v", err)
	}
	if _, err := ichido.Do(t.Context(), m, message, func(context.Context) (string, error) { return "12345678", nil }); err != nil {
		t.Errorf("a result of the limit's size: %v", err)
	}
	store.wantEnds(1, 1)
}

func TestDoWhatIsNoJSON(t *testing.T) {
	store := newScript(t, grants(nil))
	_, err := ichido.Do(t.Context(), newManager(t, store, nil), message, func(context.Context) (func(), error) { return func() {}, nil })
	if err == nil || !strings.Contains(err.Error(), "unsupported type") {
		t.Errorf("Do = %v", err)
	}
	store.wantEnds(0, 1)
}

// A release that changes the type of a result meets those that were stored before.
func TestDoWithAnotherType(t *testing.T) {
	m := newManager(t, memstore.New(nil), nil)
	if _, err := ichido.Do(t.Context(), m, message, func(context.Context) (string, error) { return "seven", nil }); err != nil {
		t.Fatal(err)
	}
	_, err := ichido.Do(t.Context(), m, message, func(context.Context) (int, error) { return 7, nil })
	if err == nil || !strings.Contains(err.Error(), "the stored result does not fit int") {
		t.Errorf("Do = %v", err)
	}
}

func TestDoNeedsScopeAndKey(t *testing.T) {
	m := newManager(t, newScript(t), nil)
	for _, op := range []ichido.Operation{{}, {Scope: "s"}, {Key: "k"}, {Scope: "s", Key: strings.Repeat("k", 256)}} {
		_, err := ichido.Do(t.Context(), m, op, func(context.Context) (int, error) { return 7, nil })
		if err == nil || !strings.Contains(err.Error(), "needs a scope and a key of 1 to 255 bytes") {
			t.Errorf("%q %q: %v", op.Scope, op.Key, err)
		}
	}
}

// PostgreSQL has no text with NUL or invalid UTF-8 in it; the error of a database would say "the store cannot answer".
func TestDoRefusesKeysThatAreNoText(t *testing.T) {
	for _, op := range []ichido.Operation{{Scope: "s", Key: "a\x00"}, {Scope: "s", Key: "\xff"}, {Scope: "a\x00", Key: "k"}, {Scope: "\xff", Key: "k"}} {
		_, err := ichido.Do(t.Context(), newManager(t, memstore.New(nil), nil), op, func(context.Context) (int, error) { return 7, nil })
		if err == nil {
			t.Errorf("the scope %q and the key %q were accepted", op.Scope, op.Key)
		}
	}
}

// A caller may reuse the buffer of its message once Do has returned.
func TestDoDoesNotKeepItsInput(t *testing.T) {
	m := newManager(t, memstore.New(nil), nil)
	op := message
	op.Input = bytes.Clone(message.Input)
	work := func(context.Context) (int, error) { return 7, nil }
	if _, err := ichido.Do(t.Context(), m, op, work); err != nil {
		t.Fatal(err)
	}
	copy(op.Input, "xxxx")
	if got, err := ichido.Do(t.Context(), m, message, work); err != nil || !got.Replayed {
		t.Errorf("Do = %+v, %v", got, err)
	}
}

// The work can ask which operation it is, in the words of the store.
func TestOperationOf(t *testing.T) {
	if _, ok := ichido.OperationOf(t.Context()); ok {
		t.Error("there is an operation outside of an attempt")
	}
	var got ichido.Operation
	ask := func(ctx context.Context) { got, _ = ichido.OperationOf(context.WithValue(ctx, t, "inner")) }
	for _, mode := range []ichido.Mode{ichido.TransactionMode, ichido.LeaseMode} {
		m := newManager(t, memstore.New(nil), &ichido.Config{Mode: mode})
		if _, err := ichido.Do(t.Context(), m, ichido.Operation{Scope: "jobs", Key: "k"}, func(ctx context.Context) (int, error) { ask(ctx); return 0, nil }); err != nil {
			t.Fatal(err)
		}
		if got.Scope != "jobs" || got.Key != "k" {
			t.Errorf("in Do it is %+v", got)
		}
		for _, field := range []string{`"k-1"`, "k-1"} {
			r := post("", "{}")
			r.Header.Set("Idempotency-Key", field)
			send(m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ask(r.Context()) })), r)
			if got.Scope != "* POST /reservations" || got.Key != "k-1" {
				t.Errorf("with the field %s it is %+v", field, got)
			}
		}
	}
}
