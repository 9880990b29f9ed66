package pgstore_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/jackc/pgx/v5"
)

// One idempotent request makes no more round trips than BEGIN + the work + COMMIT: 3 with one statement of work. A
// replay makes 2, and 1 in a process that knows that the key is completed.
func TestRoundTrips(t *testing.T) {
	url := newDatabase(t)
	proxy := pgtest.NewProxy(t, url)
	pool := open(t, proxy.URL(url))
	api := serve(t, pool, nil, nil)

	plain := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(r.Context(), "INSERT INTO things (name) VALUES ($1)", "plain")
			return err
		})
		if err != nil {
			http.Error(w, err.Error(), 500)
		}
	}))

	// Each statement is prepared once on a connection; that is not what a request costs.
	pool.Reset()
	conn, err := pool.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	conn.Release()
	for i := range 2 {
		post(t, plain, "", "")
		post(t, api, fmt.Sprint("warm", i), "chair")
		post(t, api, fmt.Sprint("warm", i), "chair")
	}
	measure := func(send func()) (int, []string) {
		proxy.Reset()
		send()
		return proxy.RoundTrips(), proxy.Statements()
	}
	base, statements := measure(func() { post(t, plain, "", "") })
	if base != 3 {
		t.Fatalf("the plain transaction makes %d round trips, want 3: %q", base, statements)
	}
	first, statements := measure(func() {
		if r := post(t, api, "k", "chair"); r.status != 201 || r.replayed {
			t.Errorf("%+v", r)
		}
	})
	if first > base {
		t.Errorf("a first request makes %d round trips, the plain transaction %d: %q", first, base, statements)
	}
	if len(statements) != 5 || !strings.EqualFold(statements[0], "begin") || !strings.EqualFold(statements[4], "commit") {
		t.Errorf("want BEGIN, claim, work, record, COMMIT; got %q", statements)
	}
	for _, c := range []struct {
		where string
		api   string
		want  int
	}{
		{"the process that completed the key", api, 1},
		{"a process that does not know the key", serve(t, pool, nil, nil), 2},
	} {
		got, statements := measure(func() {
			if r := post(t, c.api, "k", "chair"); r.status != 201 || !r.replayed {
				t.Errorf("%+v", r)
			}
		})
		if got != c.want {
			t.Errorf("a replay by %s makes %d round trips, want %d: %q", c.where, got, c.want, statements)
		}
	}
}
