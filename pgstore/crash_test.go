package pgstore_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The connection is lost during COMMIT, before the server saw it or after it was carried out. The client gets 503
// both times, and its next sending is right both times.
func TestCommitUnknown(t *testing.T) {
	for _, committed := range []bool{false, true} {
		t.Run(fmt.Sprintf("committed=%v", committed), func(t *testing.T) {
			url := newDatabase(t)
			proxy := pgtest.NewProxy(t, url)
			api := serve(t, open(t, proxy.URL(url)), nil, nil)
			post(t, api, "warm", "warm")

			var cut <-chan struct{}
			if committed {
				cut = proxy.CutAfterCommit()
			} else {
				cut = proxy.CutBeforeCommit()
			}
			if r := post(t, api, "k", "chair"); r.status != 503 {
				t.Errorf("a commit of unknown outcome was answered %d %s, want 503", r.status, r.body)
			}
			<-cut
			direct := open(t, url)
			want := 0
			if committed {
				want = 1
			}
			wantThings(t, direct, "chair", want)
			if r := post(t, api, "k", "chair"); r.status != 201 || r.replayed != committed {
				t.Errorf("sent again: %+v, want 201 with replayed=%v", r, committed)
			}
			wantThings(t, direct, "chair", 1)
		})
	}
}

// The same behind PgBouncer, which answers for a server that it lost.
func TestCommitUnknownBehindPgBouncer(t *testing.T) {
	url := newDatabase(t)
	proxy := pgtest.NewProxy(t, url)
	bouncer := pgtest.PgBouncer(t, pgtest.Shared(t), proxy.URL(url))
	api := serve(t, open(t, bouncer, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec }), nil, nil)
	post(t, api, "warm", "warm")
	cut := proxy.CutAfterCommit()
	if r := post(t, api, "k", "chair"); r.status != 503 {
		t.Errorf("a commit of unknown outcome was answered %d %s, want 503", r.status, r.body)
	}
	<-cut
	if r := post(t, api, "k", "chair"); r.status != 201 || !r.replayed {
		t.Errorf("sent again: %+v", r)
	}
	wantThings(t, open(t, url), "chair", 1)
}

// The connection is lost while the handler runs: nothing was committed, the client gets a 5xx, the key works again.
func TestConnectionLostDuringWork(t *testing.T) {
	url := newDatabase(t)
	proxy := pgtest.NewProxy(t, url)
	cut := true
	api := serve(t, open(t, proxy.URL(url)), nil, func(*http.Request) {
		if cut {
			proxy.CutAll()
		}
	})
	if r := post(t, api, "k", "chair"); r.status < 500 {
		t.Errorf("answered %d %s", r.status, r.body)
	}
	cut = false
	// Until the server has noticed that the connection is gone, the transaction is open and the key in progress: the
	// client is told to come back, and does.
	r := post(t, api, "k", "chair")
	for end := time.Now().Add(patience); r.status == 409 && time.Now().Before(end); {
		r = post(t, api, "k", "chair")
	}
	if r.status != 201 || r.replayed {
		t.Errorf("sent again: %+v", r)
	}
	wantThings(t, open(t, url), "chair", 1)
}

func TestP7_FailClosed(t *testing.T) {
	url := newDatabase(t)
	proxy := pgtest.NewProxy(t, url)
	ran := 0
	api := serve(t, open(t, proxy.URL(url)), nil, func(*http.Request) { ran++ })
	post(t, api, "warm", "warm")

	proxy.Refuse(true)
	proxy.CutAll()
	for range 3 {
		if r := post(t, api, "k", "chair"); r.status != 503 {
			t.Errorf("without a database: answered %d %s, want 503", r.status, r.body)
		}
	}
	if ran != 1 {
		t.Errorf("the handler ran %d times without a database", ran-1)
	}
	proxy.Refuse(false)
	if r := post(t, api, "k", "chair"); r.status != 201 {
		t.Errorf("with the database back: %+v", r)
	}
}

// A client that read a success relies on it: the server is killed the moment that the answer is there.
func TestP2_AcknowledgedMeansDurable(t *testing.T) {
	server := pgtest.Start(t, pgtest.WithDurability())
	url := server.NewDatabase(t)
	prepare(t, url)
	api := serve(t, open(t, url), &ichido.Config{}, nil)
	for i := range 5 {
		key := fmt.Sprint("k", i)
		r := post(t, api, key, key)
		for tries := 0; r.status == 503 && tries < 10; tries++ { // the pool finds out about its dead connections
			r = post(t, api, key, key)
		}
		if r.status != 201 {
			t.Fatalf("%+v", r)
		}
		server.Kill()
		server.StartAgain()
		pool := open(t, url)
		wantThings(t, pool, key, 1)
		if n := count(t, pool, "SELECT count(*) FROM idempotency_keys WHERE idem_key = $1", key); n != 1 {
			t.Errorf("%d records of an acknowledged key, want 1", n)
		}
		pool.Close()
	}
}
