package ichido_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

var sealed = struct {
	scope, key  string
	fingerprint []byte
}{"shop", "order-7", []byte("f")}

func TestStoredOpenReturnsWhatSealWasGiven(t *testing.T) {
	header := http.Header{"Content-Type": {"application/json"}, "X-Many": {"one", "two"}}
	for name, s := range map[string]ichido.Stored{
		"default":   {},
		"encrypted": {Secrets: []ichido.Secret{secretA, secretB}},
		"both":      {Secrets: []ichido.Secret{secretA}, CompressFrom: 1},
	} {
		for _, body := range []string{"", "{}", strings.Repeat("oak ", 1<<12)} {
			r, err := s.Seal(sealed.scope, sealed.key, sealed.fingerprint, 201, header, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			status, h, got, err := s.Open(sealed.scope, sealed.key, sealed.fingerprint, r)
			if err != nil || status != 201 || !reflect.DeepEqual(h, header) || string(got) != body {
				t.Errorf("%s: %d %v, %d bytes, want %d: %v", name, status, h, len(got), len(body), err)
			}
		}
	}
}

func TestStoredOpenWithoutTheSecretShowsAllButTheBody(t *testing.T) {
	s := ichido.Stored{Secrets: []ichido.Secret{secretA}}
	r, err := s.Seal(sealed.scope, sealed.key, sealed.fingerprint, 201, http.Header{"Location": {"/7"}}, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		s    ichido.Stored
		key  string
		says string
	}{
		"no secret":      {ichido.Stored{}, sealed.key, `"2026-a"`},
		"another secret": {ichido.Stored{Secrets: []ichido.Secret{secretB}}, sealed.key, `"2026-a"`},
		"another key":    {s, "order-8", "does not belong to this record"},
	} {
		status, header, body, err := c.s.Open(sealed.scope, c.key, sealed.fingerprint, r)
		if err == nil || !strings.Contains(err.Error(), c.says) || status != 201 || header.Get("Location") != "/7" || body != nil {
			t.Errorf("%s: %d %v %q: %v", name, status, header, body, err)
		}
	}
}

func TestStoredOpenOfAnAnswerThatWasNotKept(t *testing.T) {
	s := ichido.Stored{MaxBody: 3, TooLarge: ichido.Tombstone}
	r, err := s.Seal(sealed.scope, sealed.key, sealed.fingerprint, 201, http.Header{"Location": {"/7"}, "Etag": {`"1"`}}, []byte("four"))
	if err != nil {
		t.Fatal(err)
	}
	status, header, body, err := new(ichido.Stored).Open(sealed.scope, sealed.key, sealed.fingerprint, r)
	if !errors.Is(err, ichido.ErrNotKept) || status != 201 || !reflect.DeepEqual(header, http.Header{"Location": {"/7"}}) || body != nil {
		t.Errorf("%d %v %q: %v", status, header, body, err)
	}
}

// What a handler added to a field that was set around it is a field like others.
func TestStoredOpenOfAnAddedField(t *testing.T) {
	store := &spy{Store: memstore.New(nil)}
	h := newManager(t, store, nil).Wrap(answering(200, "x", "Vary", "Cookie"))
	send(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Origin")
		h.ServeHTTP(w, r)
	}), post("k", "{}"))
	_, header, _, err := new(ichido.Stored).Open("", "k", nil, store.last())
	if err != nil || !reflect.DeepEqual(header["Vary"], []string{"Cookie"}) || strings.Contains(fmt.Sprint(header), "+") {
		t.Errorf("%v: %v", header, err)
	}
}

func TestStoredSealRefusesWhatAnAttemptCouldNotStore(t *testing.T) {
	for name, c := range map[string]struct {
		s      ichido.Stored
		status int
		header http.Header
		body   int
	}{
		"no final status": {ichido.Stored{}, 103, nil, 0},
		"long body":       {ichido.Stored{MaxBody: 3}, 200, nil, 4},
		"long header":     {ichido.Stored{}, 200, http.Header{"X": {strings.Repeat("x", 1<<19)}}, 0},
		"wrong rules":     {ichido.Stored{MaxBody: -1}, 200, nil, 0},
	} {
		if r, err := c.s.Seal(sealed.scope, sealed.key, sealed.fingerprint, c.status, c.header, make([]byte, c.body)); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestStoredSealLeavesOutWhatIsNeverStored(t *testing.T) {
	s := ichido.Stored{Deny: []string{"x-trace"}}
	r, err := s.Seal(sealed.scope, sealed.key, sealed.fingerprint, 200, http.Header{"Set-Cookie": {"a=b"}, "X-Trace": {"1"}, "X-Kept": {"1"}}, nil)
	if err != nil || string(r.Header) != "X-Kept: 1\n" || r.Body == nil {
		t.Errorf("%q %v: %v", r.Header, r.Body, err)
	}
	if !reflect.DeepEqual(s, ichido.Stored{Deny: []string{"x-trace"}}) {
		t.Errorf("the rules were changed: %+v", s)
	}
}

// A sealed answer is replayed as one of an attempt.
func TestStoredSealedAnswersAreReplayed(t *testing.T) {
	store := memstore.New(nil)
	m := newManager(t, store, &ichido.Config{Mode: ichido.LeaseMode})
	lost := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("lost") }))
	if a := send(lost, post("k", "{}")); a.code() != "attempt-failed" {
		t.Fatal(a)
	}
	entries, err := store.List(context.Background(), ichido.Filter{Key: "k", Limit: 1})
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	e := entries[0]
	body := bytes.Repeat([]byte("oak "), 1<<12)
	r, err := new(ichido.Stored).Seal(e.Scope, e.Key, e.Fingerprint, 201, http.Header{"Location": {"/7"}}, body)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Settle(context.Background(), ichido.Settlement{Scope: e.Scope, Key: e.Key, Token: e.Token, How: ichido.SettledDone,
		Response: r, Retention: ichido.SettlementRetention, By: "taro"}); err != nil {
		t.Fatal(err)
	}
	if a := send(lost, post("k", "{}")); a.status != 201 || !a.replayed() || a.header.Get("Location") != "/7" || a.body != string(body) {
		t.Errorf("%d %v, %d bytes", a.status, a.header, len(a.body))
	}
}
