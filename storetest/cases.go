package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ichido-dev/ichido"
)

func sameAnswer(s *suite) {
	store := s.Open(s.T)
	for name, want := range answers() {
		s.run(store, claim(name, "x"), want)
		s.wantRecord(s.Open(s.T), claim(name, "x"), "x", want)
		s.wantRows(name, 1)
	}
}

// answers are those that a careless store changes.
func answers() map[string]ichido.Response {
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	return map[string]ichido.Response{
		"text":      answer("hello\n"),
		"empty":     {Status: 204, Header: []byte{}, Body: []byte{}},
		"binary":    {Status: 200, Header: append([]byte("X: "), binary...), Body: binary},
		"large":     {Status: 299, Header: []byte("A: b\n"), Body: bytes.Repeat(binary, 4096)},
		"untouched": {Status: 201, Header: []byte("A: 1\nA: 2\n"), Body: []byte(`{"b":1, "a":2, "n":9007199254740993}`)},
	}
}

// wantRecord asks for a key that must be completed, by a request with the content, with an answer.
func (s *suite) wantRecord(store ichido.Store, c ichido.Claim, content string, want ichido.Response) {
	s.Helper()
	got := s.record(store, c)
	if got.State != ichido.Completed {
		s.Errorf("%s: the record is %v, want completed", c.Key, got.State)
	}
	s.wantResponse(c.Key, got.Response, want)
	if string(got.Fingerprint) != "v:"+content {
		s.Errorf("%s: fingerprint %q, want %q", c.Key, got.Fingerprint, "v:"+content)
	}
}

func (s *suite) wantResponse(key string, got, want ichido.Response) {
	s.Helper()
	if got.Status != want.Status || !bytes.Equal(got.Header, want.Header) || !bytes.Equal(got.Body, want.Body) {
		s.Errorf("%s: the stored response differs: %s, want %s", key, brief(got), brief(want))
	}
	if got.Body == nil {
		s.Errorf("%s: the body is nil", key)
	}
}

// brief shows a response without all of a large body.
func brief(r ichido.Response) string {
	return fmt.Sprintf("%d %.80q %.80q of %d bytes", r.Status, r.Header, r.Body, len(r.Body))
}

func abandonLeavesNothing(s *suite) {
	store := s.Open(s.T)
	for range 3 {
		attempt := s.begin(store, claim("k", "x"))
		if err := s.work(attempt, "k"); err != nil {
			s.Fatal(err)
		}
		s.abandon(attempt, nil)
		s.wantRows("k", 0)
	}
	s.run(store, claim("k", "other content"), answer("done"))
	s.wantRows("k", 1)
}

func failedWorkLeavesNothing(s *suite) {
	if s.Work == nil {
		s.Skip("attempts have no transaction")
	}
	store := s.Open(s.T)
	attempt := s.begin(store, claim("k", "x"))
	if err := s.work(attempt, "before"); err != nil {
		s.Fatal(err)
	}
	err := s.work(attempt, "refused")
	if err == nil {
		s.Fatal("the table accepted a row named refused; give it a constraint")
	}
	s.abandon(attempt, err)
	s.wantRows("before", 0)
	s.run(store, claim("k", "x"), answer("done"))
}

func recordKeepsItsFingerprint(s *suite) {
	store := s.Open(s.T)
	s.run(store, claim("k", "first"), answer("first"))
	for range 2 {
		got := s.record(store, claim("k", "second"))
		if string(got.Fingerprint) != "v:first" || string(got.Response.Body) != "first" {
			s.Fatalf("the record is %q %q", got.Fingerprint, got.Response.Body)
		}
	}
	s.wantRows("k", 1)
}

// secondAttemptNeverCommits begins a second attempt while the first runs. Stores that see the first refuse it.
func secondAttemptNeverCommits(s *suite) {
	one, other := s.Open(s.T), s.Open(s.T)
	for _, content := range []string{"same", "different"} {
		key := "k-" + content
		first := s.begin(one, claim(key, "same"))
		second, record, err := other.Begin(s.context(), claim(key, content))
		if record != nil {
			s.Fatalf("%s: there is a record while the attempt runs", content)
		}
		if err := s.work(first, key); err != nil {
			s.Fatal(err)
		}
		s.complete(first, answer("first"))
		switch {
		case second != nil:
			if err := s.work(second, key); err != nil {
				s.Fatal(err)
			}
			if err := second.Complete(s.context(), answer("second")); !errors.Is(err, ichido.ErrLost) && !errors.Is(err, ichido.ErrSerialization) {
				s.Errorf("%s: the second Complete returned %v, want ErrLost", content, err)
			}
		case errors.Is(err, ichido.ErrInProgress):
		case errors.Is(err, ichido.ErrMismatch) && content == "different":
		default:
			s.Errorf("%s: Begin during an attempt returned %v", content, err)
		}
		s.wantRows(key, 1)
		if got := s.record(other, claim(key, "same")); string(got.Response.Body) != "first" {
			s.Errorf("%s: the record says %q, want the first answer", content, got.Response.Body)
		}
	}
}

func expiredIsAbsent(s *suite) {
	store := s.Open(s.T)
	s.run(store, expiring("k", "old"), answer("old"))
	s.run(store, claim("k", "new"), answer("new"))
	s.wantRows("k", 2)
	if got := s.record(store, claim("k", "new")); string(got.Response.Body) != "new" || string(got.Fingerprint) != "v:new" {
		s.Errorf("the record is %q %q, want the new one", got.Fingerprint, got.Response.Body)
	}
	// An attempt that fails does not bring the old one back, nor take the new one away.
	s.run(store, expiring("j", "old"), answer("old"))
	s.abandon(s.begin(store, claim("j", "new")), nil)
	s.run(store, claim("j", "new"), answer("new"))
}

func keysAndScopesAreApart(s *suite) {
	store := s.Open(s.T)
	long := strings.Repeat("k", 255)
	for i, id := range [][2]string{
		{"scope", "key"}, {"scope", "KEY"}, {"scope", "key "}, {"scope ", "key"}, {"SCOPE", "key"},
		{"scopek", "ey"}, {"scop", "ekey"}, {"scope", "k"}, {"scope", "%"}, {"scope", "_ey"}, {"scope", `'; DROP TABLE idempotency_keys; --`},
		{"scope", long}, {strings.Repeat("s", 500), long}, {"予約", "key"}, {"scope", "\\x00"},
	} {
		c := claim(id[1], "x")
		c.Scope = id[0]
		body := fmt.Sprint(i)
		attempt := s.begin(store, c)
		s.complete(attempt, answer(body))
		if got := s.record(store, c); string(got.Response.Body) != body {
			s.Errorf("scope %q key %q: answer %q, want %q", id[0], id[1], got.Response.Body, body)
		}
	}
}

func claimsFailWithTheirContext(s *suite) {
	store := s.Open(s.T)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if attempt, _, err := store.Begin(ctx, claim("k", "x")); err == nil {
		// A store that waits for nothing need not look at the context.
		s.abandon(attempt, nil)
	}
	s.run(store, claim("k", "x"), answer("done"))
}

func attemptsOutliveTheirClaim(s *suite) {
	store := s.Open(s.T)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	attempt, _, err := store.Begin(ctx, claim("k", "x"))
	if err != nil {
		s.Fatal(err)
	}
	cancel()
	if err := s.work(attempt, "k"); err != nil {
		s.Fatalf("work after the end of the claim's context: %v", err)
	}
	s.complete(attempt, answer("done"))
	s.wantRows("k", 1)
}

func nothingLeaks(s *suite) {
	store := s.Open(s.T)
	s.run(store, claim("stored", "x"), answer("done"))
	s.run(store, expiring("expired", "x"), answer("done"))
	for i := range 50 {
		key := fmt.Sprint("k", i)
		s.run(store, claim(key, "x"), answer("done"))
		s.record(store, claim("stored", "y"))
		s.abandon(s.begin(store, claim("abandoned", "x")), ichido.ErrServerError)
		s.abandon(s.begin(store, claim("expired", "x")), nil)
		attempt := s.begin(store, claim("busy", "x"))
		if s.Connections != 1 {
			if second, _, _ := store.Begin(s.context(), claim("busy", "y")); second != nil {
				s.abandon(second, nil)
			}
		}
		s.abandon(attempt, nil)
		if s.Work != nil {
			attempt := s.begin(store, claim("failing", "x"))
			s.abandon(attempt, s.work(attempt, "refused"))
		}
	}
	// All connections are free: as many attempts as there are may run at once.
	var held []ichido.Attempt
	for i := range s.Connections {
		held = append(held, s.begin(store, claim(fmt.Sprint("last", i), "x")))
	}
	for _, attempt := range held {
		s.abandon(attempt, nil)
	}
}
