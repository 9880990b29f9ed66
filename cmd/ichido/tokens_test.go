package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	secretA = "aaaaaaaaaaaaaaaa"
	secretB = "bbbbbbbbbbbbbbbb"
)

func authorized(secret string) string { return "Authorization: Bearer " + secret }

func TestTokenIsNeeded(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{token: []string{"a=" + secretA, "b=" + secretB}}, nil)
		for field, challenge := range map[string]string{
			"X-None: x":                                "Bearer",
			"Authorization: ":                          "Bearer",
			"Authorization: Basic YTphYWFh":            "Bearer",
			"Authorization: Bearer":                    "Bearer",
			"Authorization: " + secretA:                "Bearer",
			"Authorization: Bearer a=" + secretA:       `Bearer error="invalid_token"`,
			"Authorization: Bearer " + secretA + "a":   `Bearer error="invalid_token"`,
			"Authorization: Bearer " + secretA[1:]:     `Bearer error="invalid_token"`,
			"Authorization: Bearer a":                  `Bearer error="invalid_token"`,
			"Authorization: Bearer " + secretA + ", x": `Bearer error="invalid_token"`,
		} {
			for _, a := range []answer{s.reserve("k", projector, field), s.do("GET", "/reservations", "", field), s.do("GET", "/reservations/1", "", field)} {
				wantProblem(t, a, 401, "token-required")
				if got := a.header.Get("WWW-Authenticate"); got != challenge {
					t.Errorf("%s: WWW-Authenticate %q, want %q", field, got, challenge)
				}
			}
		}
		wantProblem(t, s.reserve("k", projector, authorized(secretA), authorized(secretB)), 401, "token-required")
		for _, path := range []string{"/healthz", "/problems/", "/problems/mismatch", "/openapi.json", "/.well-known/idempotency"} {
			if a := s.do("GET", path, ""); a.status != 200 {
				t.Errorf("%s: %d", path, a.status)
			}
		}
		wantCreated(t, s.reserve("k", projector, "Authorization: bearer  "+secretA), first) // and nothing ran before
		if a := s.do("GET", "/reservations", "", authorized(secretB)); a.status != 200 {
			t.Errorf("the list: %d %s", a.status, a.body)
		}
		if log := s.logs.String(); strings.Contains(log, secretA) || strings.Contains(log, secretB) {
			t.Errorf("log: %s", log)
		}
	})
}

func TestAKeyBelongsToItsPrincipal(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{token: []string{"a=" + secretA, "b=" + secretB}}, nil)
		mine := wantCreated(t, s.reserve("k", projector, authorized(secretA)), first)
		// Not the first one's answer, and not a mismatch either, which would tell that the key is there.
		theirs := wantCreated(t, s.reserve("k", `{"item_code":"PJ-002","quantity":2,"reserved_by":"hanako"}`, authorized(secretB)),
			`{"id":2,"item_code":"PJ-002","quantity":2,"reserved_by":"hanako"}`)
		wantReplay(t, s.reserve("k", projector, authorized(secretA)), mine)
		wantReplay(t, s.reserve("k", `{"item_code":"PJ-002","quantity":2,"reserved_by":"hanako"}`, authorized(secretB)), theirs)
	})
}

func TestANewSecretKeepsTheReplay(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		before := serveAPI(t, open(t, location), serveOptions{token: []string{"a=" + secretA}}, nil)
		one := wantCreated(t, before.reserve("k", projector, authorized(secretA)), first)
		after := serveAPI(t, open(t, location), serveOptions{token: []string{"a=" + secretB}}, nil)
		wantReplay(t, after.reserve("k", projector, authorized(secretB)), one)
		// The old one is revoked: it gets no replay.
		wantProblem(t, after.reserve("k", projector, authorized(secretA)), 401, "token-required")
	})
}

// Without a principal nothing runs, even if a route forgot to ask for the token.
func TestScopeFailsClosed(t *testing.T) {
	known, err := parseTokens([]string{"a=" + secretA})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/reservations", nil)
	if name, err := known.scope()(r); err == nil {
		t.Errorf("the principal is %q", name)
	}
	r = r.WithContext(context.WithValue(r.Context(), principalKey{}, "a"))
	if name, err := known.scope()(r); name != "a" || err != nil {
		t.Errorf("the principal is %q: %v", name, err)
	}
}

func TestTokensAreParsed(t *testing.T) {
	for pairs, want := range map[string]string{
		"a=" + secretA:                   "",
		"a=" + secretA + ",b=" + secretB: "",
		"a=" + secretA + "==":            "",
		"a.b_c@d-1=" + secretA:           "",
		"":                               "number 1 is not name=secret",
		secretA:                          "number 1 is not name=secret",
		"a=" + secretA + ",":             "number 2 is not name=secret",
		"=" + secretA:                    "number 1 has a name",
		"a b=" + secretA:                 "number 1 has a name",
		"*=" + secretA:                   "number 1 has a name",
		"a=" + secretA[1:]:               "number 1 has a secret of 15 characters",
		"a=":                             "number 1 has a secret of 0 characters",
		"a=aaaaaaaa aaaaaaaa":            "number 1 has a secret that cannot be sent",
		"a=aaaaaaaa=aaaaaaaa":            "number 1 has a secret that cannot be sent",
		"a=" + secretA + ",a=" + secretB: "number 2 has the name of number 1",
		"a=" + secretA + ",b=" + secretA: "number 2 has the secret of number 1",
		"a=" + secretA + ",c=" + secretB + ",b=" + secretA: "number 3 has the secret of number 1",
		strings.Repeat("n", 65) + "=" + secretA:            "number 1 has a name",
	} {
		var given []string
		if err := (tokensFlag{&given}).Set(pairs); err != nil {
			t.Fatal(err)
		}
		_, err := parseTokens(given)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", pairs, err, want)
		case err != nil && (exitCode(err) != exitUsage || strings.Contains(err.Error(), secretA[1:])):
			t.Errorf("%q: code %d, %v", pairs, exitCode(err), err)
		}
	}
}
