package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/ichido-dev/ichido"
)

// A database is an engine with the tables of all variants.
type database interface {
	name() string
	// facts are the version and the settings that decide how fast it is.
	facts(context.Context) (map[string]string, error)
	// open connects a pool and puts the handlers on it. count, if not nil, counts what they send.
	open(ctx context.Context, connections int, count *counter) (*handlers, error)
	// logged is how many bytes the write-ahead log has got so far.
	logged(context.Context) (int64, error)
	close()
}

// A counter counts what is sent to a database. SQLite has no round trips.
type counter struct{ roundTrips, statements atomic.Int64 }

// handlers are the ways in which one API makes reservations.
type handlers struct {
	plain  http.Handler // a transaction, no idempotency
	ichido http.Handler
	waits  http.Handler   // ichido with the policy Wait
	usual  http.Handler   // see usual_postgres.go
	writes http.Handler   // see writes_postgres.go
	floor  http.Handler   // see floor.go
	lease  http.Handler   // ichido in lease mode
	steps  *http.ServeMux // and with steps, see steps.go
	purger ichido.Purger
	close  func()
}

// poolSize is that of the program `ichido serve`.
const poolSize = 16

// wrap puts ichido before the handlers of both modes.
func (h *handlers) wrap(store ichido.Store, insert insertFunc, txStep stepFunc) error {
	manager, err := ichido.New(store, ichido.Shared, nil)
	if err != nil {
		return err
	}
	leases, err := manager.With(func(c *ichido.Config) { c.Mode = ichido.LeaseMode })
	if err != nil {
		return err
	}
	waiting, err := manager.With(func(c *ichido.Config) { c.InProgress = ichido.Wait })
	if err != nil {
		return err
	}
	h.waits = waiting.Wrap(handle(insert))
	h.ichido, h.lease = manager.Wrap(handle(insert)), leases.Wrap(handle(insertNothing))
	stepping, err := leases.With(func(c *ichido.Config) { c.StepSecret = []byte("a secret of sixteen bytes") })
	if err != nil {
		return err
	}
	h.steps = http.NewServeMux()
	for _, n := range []int{0, 1, 5, 20} {
		h.steps.Handle(fmt.Sprint("POST /steps/", n), stepping.Wrap(handle(inSteps(n, stepOutside))))
	}
	h.steps.Handle("POST /txstep", stepping.Wrap(handle(inSteps(1, txStep))))
	h.steps.Handle("POST /resumed", stepping.Wrap(handle(failsOnce(20))))
	return nil
}

// An api is handlers behind a net/http server on the loopback interface.
type api struct {
	address  string
	handlers *handlers
	close    func()
}

// serve opens a database and serves its handlers: see database.open.
func serve(ctx context.Context, db database, connections int, count *counter) (*api, error) {
	h, err := db.open(ctx, connections, count)
	if err != nil {
		return nil, err
	}
	address, end, err := listen(h.mux())
	if err != nil {
		h.close()
		return nil, err
	}
	return &api{address, h, func() { end(); h.close() }}, nil
}

func (h *handlers) mux() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /plain", h.plain)
	mux.Handle("POST /ichido", h.ichido)
	mux.Handle("POST /usual", h.usual)
	mux.Handle("POST /writes", h.writes)
	mux.Handle("POST /lease", h.lease)
	mux.Handle("POST /floor", h.floor)
	mux.Handle("POST /wait", h.waits)
	mux.Handle("POST /", h.steps)
	return mux
}

// listen serves by a handler on the loopback interface.
func listen(h http.Handler) (address string, close func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h}
	go server.Serve(listener)
	return listener.Addr().String(), func() { server.Close() }, nil
}

// series returns a series of requests to a path, each with the key that key returns.
func (a *api) series(name, path string, replay bool, key func() string) series {
	return series{name: name, worker: func() (func() error, func(), error) {
		c, err := dial(a.address)
		if err != nil {
			return nil, nil, err
		}
		return func() error { return c.post(path, key(), replay) }, func() { c.conn.Close() }, nil
	}}
}

// variants are the series that are compared in transaction mode.
func (a *api) variants() ([]series, error) {
	replay, err := a.replays("/ichido")
	return []series{
		a.series("plain", "/plain", false, newKey),
		a.series("first", "/ichido", false, newKey),
		replay,
		a.series("usual", "/usual", false, newKey),
		a.series("floor", "/floor", false, newKey),
	}, err
}

// leaseVariants are the three series that are compared in lease mode.
func (a *api) leaseVariants() ([]series, error) {
	replay, err := a.replays("/lease")
	return []series{
		a.series("writes", "/writes", false, newKey),
		a.series("first", "/lease", false, newKey),
		replay,
	}, err
}

// replays is the series of requests to a path whose keys are stored here.
func (a *api) replays(path string) (series, error) {
	stored, err := a.store(path, storedKeys)
	var turn atomic.Int64
	return a.series("replay", path, true, func() string { return stored[int(turn.Add(1))%len(stored)] }), err
}

// storedKeys is enough for 16 clients never to meet at one key.
const storedKeys = 1000

func (a *api) store(path string, n int) ([]string, error) {
	c, err := dial(a.address)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = newKey()
		if err := c.post(path, keys[i], false); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// newKey returns a random UUID, which is what clients use.
func newKey() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
