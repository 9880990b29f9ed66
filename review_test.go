package ichido_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// The record of another process counts, whatever an earlier run of this one ended with.
func TestDoAfterAnAbortedRunFindsTheRecord(t *testing.T) {
	store := newScript(t, aborted, has("7"))
	got, err := ichido.Do(t.Context(), newManager(t, store, nil), message, func(context.Context) (int, error) {
		return 0, errors.New("the database aborted the transaction")
	})
	if err != nil || got.Value != 7 || !got.Replayed {
		t.Errorf("Do = %+v, %v; want the stored 7", got, err)
	}
}

func TestDoUnderLocationOnly(t *testing.T) {
	m := newManager(t, memstore.New(nil), &ichido.Config{Stored: ichido.Stored{LocationOnly: true}})
	for range 2 {
		if got, err := ichido.Do(t.Context(), m, message, func(context.Context) (int, error) { return 5, nil }); err != nil || got.Value != 5 {
			t.Errorf("Do = %+v, %v", got, err)
		}
	}
}

// A pointer that names nothing must not make all requests one.
func TestOnlyThatNamesNothing(t *testing.T) {
	h := newManager(t, memstore.New(nil), &ichido.Config{Fingerprint: ichido.Fingerprint{Only: []string{"/order/id"}}}).Wrap(created("1"))
	wantFirst(t, send(h, post("k", `{"orderId":1}`)), "1")
	wantProblem(t, send(h, post("k", `{"orderId":2}`)), http.StatusUnprocessableEntity, "mismatch")
	wantFirst(t, send(h, post("j", `{"order":{"id":1},"sent_at":1}`)), "1")
	wantReplay(t, send(h, post("j", `{"sent_at":2,"order":{"id":1}}`)), "1")
	wantProblem(t, send(h, post("j", `{"order":{"id":2}}`)), http.StatusUnprocessableEntity, "mismatch")
}

func TestKeyFromJSON(t *testing.T) {
	m := newManager(t, memstore.New(nil), &ichido.Config{KeyFrom: ichido.KeyFromJSON("/event/id"), Optional: true})
	h := m.Wrap(counting())
	wantFirst(t, send(h, post("", `{"event":{"id":"e1"},"try":1}`)), "1")
	wantProblem(t, send(h, post("", `{"event":{"id":"e1"},"try":2}`)), http.StatusUnprocessableEntity, "mismatch")
	wantReplay(t, send(h, post("", `{"try":1,"event":{"id":"e1"}}`)), "1")
	wantProblem(t, send(h, post("", `{"event":{"id":7}}`)), http.StatusBadRequest, "key-invalid")
	wantFirst(t, send(h, post("", `{"event":{}}`)), "2") // without a key it runs each time
	wantFirst(t, send(h, post("", `{"event":{}}`)), "3")
	defer func() {
		if recover() == nil {
			t.Error("a pointer without a slash was accepted")
		}
	}()
	ichido.KeyFromJSON("event_id")
}

// What the caller does with its Config afterwards does not count.
func TestConfigIsCopiedWhole(t *testing.T) {
	secret := make([]byte, 32)
	secret[0] = 1
	config := ichido.Config{Methods: []string{"POST"}, Fingerprint: ichido.Fingerprint{Ignore: []string{"/a"}}, Stored: ichido.Stored{Secrets: []ichido.Secret{{ID: "s", Key: secret}}}}
	m := newManager(t, memstore.New(nil), &config)
	config.Methods[0], config.Fingerprint.Ignore[0] = "PUT", "/x"
	clear(secret)
	got := m.Settings()
	if got.Methods[0] != "POST" || got.Fingerprint.Ignore[0] != "/a" || got.Stored.Secrets[0].Key[0] != 1 {
		t.Errorf("the Manager's Config follows its caller's: %+v", got)
	}
}

// An answer for one origin says nothing to another.
func TestOriginsFieldsAreNotReplayed(t *testing.T) {
	h := newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		w.WriteHeader(http.StatusCreated)
	}))
	send(h, post("k", "{}"))
	if got := send(h, post("k", "{}")).header["Access-Control-Allow-Origin"]; got != nil {
		t.Errorf("replayed: %q", got)
	}
}
