package ichido_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
)

// scopeOf returns the scope that a store is told of a request.
func scopeOf(t *testing.T, pattern, path, principal string) string {
	t.Helper()
	store := newScript(t, has("x"))
	m, err := ichido.New(store, func(*http.Request) (string, error) { return principal, nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := m.Wrap(created("x"))
	if pattern != "" {
		mux := http.NewServeMux()
		mux.Handle(pattern, h)
		h = mux
	}
	r := post("k", "{}")
	r.URL.Path = path
	wantStatus(t, send(h, r), http.StatusCreated)
	return store.claims[0].Scope
}

// The scope is what operators see in the table. It may change only with a way for the stored records.
func TestScope(t *testing.T) {
	for _, c := range []struct{ pattern, path, principal, want string }{
		{"", "/orders", "taro", "taro POST /orders"},
		{"", "/orders/1 2", "taro", "taro POST /orders/1%202"},
		{"POST /orders", "/orders", "taro", "taro POST /orders"},
		{"POST  /orders", "/orders", "taro", "taro POST /orders"},
		{"/orders", "/orders", "taro", "taro POST /orders"},
		{"/orders/{id}", "/orders/1", "taro", "taro POST /orders/{id}"},
		{"POST example.com/orders", "/orders", "taro", "taro POST example.com/orders"},
		{"", "/", "山田 太郎", "%E5%B1%B1%E7%94%B0%20%E5%A4%AA%E9%83%8E POST /"},
		{"", "/", "50%", "50%25 POST /"},
		{"", "/", "a/b:c@d", "a/b:c@d POST /"},
	} {
		if got := scopeOf(t, c.pattern, c.path, c.principal); got != c.want {
			t.Errorf("%q %q %q: the scope is %q, want %q", c.pattern, c.path, c.principal, got, c.want)
		}
	}
}

// A path is as long as its sender likes. A database has a bound for what it can index (PostgreSQL: 2704 bytes for scope
// and key), which it names only when the work is done and is to be committed.
func TestScopeIsBounded(t *testing.T) {
	long := strings.Repeat("/long", 20_000)
	scopes := make(map[string]bool)
	for _, c := range [][2]string{{long, "taro"}, {long + "/other", "taro"}, {"/", long}, {"/", long + "/other"}} {
		scope := scopeOf(t, "", c[0], c[1])
		if len(scope) > 2048 {
			t.Errorf("a scope of %d bytes", len(scope))
		}
		scopes[scope] = true
	}
	if len(scopes) != 4 {
		t.Errorf("4 scopes became %d", len(scopes))
	}
}
