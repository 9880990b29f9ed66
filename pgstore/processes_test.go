package pgstore_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/pgtest"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/ichido-dev/ichido/storetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// P4 across processes: the fingerprint of an open transaction cannot be read, but its lock can be seen.
func TestP4_MismatchSeenFromAnotherProcess(t *testing.T) {
	url := newDatabase(t)
	running, finish := make(chan struct{}), make(chan struct{})
	one := serve(t, open(t, url), nil, func(*http.Request) { close(running); <-finish })
	other := serve(t, open(t, url), nil, nil)
	patient := serve(t, open(t, url), &ichido.Config{InProgress: ichido.Wait, WaitLimit: patience}, nil)

	first := make(chan reply)
	go func() { first <- post(t, one, "k", "chair") }()
	<-running
	for range 5 {
		if r := post(t, other, "k", "chair"); r.status != 409 {
			t.Errorf("the same request at another process: %d, want 409", r.status)
		}
		if r := post(t, other, "k", "table"); r.status != 422 {
			t.Errorf("another request at another process: %d, want 422", r.status)
		}
		if r := post(t, patient, "k", "table"); r.status != 422 {
			t.Errorf("another request at a process that lets wait: %d, want 422", r.status)
		}
	}
	waiting := make(chan reply)
	go func() { waiting <- post(t, patient, "k", "chair") }()
	close(finish)
	if r := <-first; r.status != 201 || r.replayed {
		t.Errorf("the first request: %+v", r)
	}
	if r := <-waiting; r.status != 201 || !r.replayed {
		t.Errorf("the one that waited: %+v", r)
	}
	wantThings(t, open(t, url), "chair", 1)
}

// Many keys in progress in one process, each with a duplicate waiting in another: that one's few connections stay free.
func TestWaitersForAnotherProcessLeaveThePoolToOthers(t *testing.T) {
	const keys = 60
	url := newDatabase(t)
	finish := make(chan struct{})
	var running sync.WaitGroup
	running.Add(keys)
	busy := open(t, url, func(c *pgxpool.Config) { c.MaxConns = keys })
	config := &ichido.Config{InProgress: ichido.Wait, WaitLimit: patience, AttemptTimeout: patience, StoreTimeout: patience}
	one := serve(t, busy, config, func(*http.Request) { running.Done(); <-finish })
	other := serve(t, open(t, url, func(c *pgxpool.Config) { c.MaxConns = 2 }), config, nil)

	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			if r := post(t, one, fmt.Sprint("k", i), "chair"); r.status != 201 || r.replayed {
				t.Errorf("first: %+v", r)
			}
		})
	}
	running.Wait()
	for i := range keys {
		wg.Go(func() {
			if r := post(t, other, fmt.Sprint("k", i), "chair"); r.status != 201 || !r.replayed {
				t.Errorf("duplicate: %+v", r)
			}
		})
	}
	for i := range 50 {
		if r := post(t, other, fmt.Sprint("other", i), "table"); r.status != 201 {
			t.Errorf("another key, while duplicates wait: %+v", r)
		}
	}
	close(finish)
	wg.Wait()
	pool := open(t, url)
	wantThings(t, pool, "chair", keys)
	wantThings(t, pool, "table", 50)
}

// Requests with different keys have nothing to do with each other, also where the database looks at what they read.
func TestSerializableKeysDoNotMeet(t *testing.T) {
	const clients, each = 8, 40
	url := newDatabase(t)
	var runs atomic.Int64
	service := serve(t, open(t, url, func(c *pgxpool.Config) { c.MaxConns = clients }), nil,
		func(*http.Request) { runs.Add(1) }, pgstore.WithIsolation(pgx.Serializable))
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				if r := post(t, service, fmt.Sprint(c, "-", i), "chair"); r.status != 201 {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	wg.Wait()
	// A page of an index that two inserts share may still make the database abort one of them, now and then.
	if n := runs.Load(); n > clients*each*11/10 {
		t.Errorf("%d requests took %d runs", clients*each, n)
	}
}

// PgBouncer in transaction mode gives each transaction any server connection: no session state survives.
func TestStoreBehindPgBouncer(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec} {
		t.Run(mode.String(), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Database {
				url := newDatabase(t)
				direct, err := pgx.ParseConfig(url)
				if err != nil {
					t.Fatal(err)
				}
				bouncer := pgtest.PgBouncer(t, pgtest.Shared(t), direct.Database)
				d := suiteDatabase(t, bouncer, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
				d.Connections = 2 // two stores share the bouncer's four
				return d
			})
		})
	}
}
