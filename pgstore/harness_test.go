package pgstore_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/jackc/pgx/v5/pgxpool"
)

// patience bounds every wait of these tests; it is far from what a wait takes.
const patience = 2 * time.Minute

// serve starts a process's HTTP server on a pool. POST /things inserts the thing that the body names; before, if not
// nil, runs first.
func serve(t *testing.T, pool *pgxpool.Pool, config *ichido.Config, before func(*http.Request), options ...pgstore.Option) string {
	t.Helper()
	manager, err := ichido.New(pgstore.New(pool, options...), ichido.Shared, config)
	if err != nil {
		t.Fatal(err)
	}
	return serveHandler(t, manager.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before != nil {
			before(r)
		}
		name, err := io.ReadAll(r.Body)
		if err == nil {
			err = insertThing(r.Context(), string(name))
		}
		if err != nil {
			http.Error(w, "the work failed", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "made %s", name)
	})))
}

func serveHandler(t *testing.T, handler http.Handler) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("POST /things", handler)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/things"
}

type reply struct {
	status   int
	body     string
	replayed bool
}

func post(t *testing.T, url, key, body string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return reply{}
	}
	req.Header.Set("Idempotency-Key", `"`+key+`"`)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return reply{}
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return reply{res.StatusCode, string(got), res.Header.Get("Idempotent-Replayed") == "true"}
}

func wantThings(t *testing.T, pool *pgxpool.Pool, name string, want int) {
	t.Helper()
	if got := count(t, pool, "SELECT count(*) FROM things WHERE name = $1", name); got != want {
		t.Errorf("%d things named %q, want %d", got, name, want)
	}
}
