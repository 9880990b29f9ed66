package main

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// inFlight is how many attempts, and for how long a lease; the Manager renews it three times as often.
func inFlight(o *options) (attempts int, lease time.Duration) {
	if o.quick {
		return 500, 2 * time.Second
	}
	return 10_000, 9 * time.Second
}

// measureHeartbeats has many attempts in flight and looks at the renewals of their leases.
func measureHeartbeats(ctx context.Context, o *options) (*Heartbeats, error) {
	server, err := startPostgres(o)
	if err != nil {
		return nil, err
	}
	defer server.close()
	db, err := newPostgres(ctx, server, "heartbeats")
	if err != nil {
		return nil, err
	}
	defer db.close()
	store, err := openBeating(ctx, db)
	if err != nil {
		return nil, err
	}
	defer store.pool.Close()
	attempts, lease := inFlight(o)
	out := &Heartbeats{Attempts: attempts, Aim: 1}
	if out.Facts, err = db.facts(ctx); err != nil {
		return nil, err
	}
	o.talk.say("starting %d attempts", attempts)
	stop, err := startAttempts(ctx, store, attempts, lease)
	if err != nil {
		return nil, err
	}
	err = out.watch(ctx, o, db, store)
	o.talk.say("ending %d attempts", attempts)
	return out, errors.Join(err, stop())
}

// A beatingStore tells of each renewal.
type beatingStore struct {
	*pgstore.Store
	pool  *pgxpool.Pool
	db    *postgres
	count *counter
	beats chan beat
}

// A beat is one renewal.
type beat struct {
	leases     int
	took       time.Duration
	logBytes   int64
	statements int64 // since the renewal before it
	err        error
}

func openBeating(ctx context.Context, db *postgres) (*beatingStore, error) {
	s := &beatingStore{db: db, count: new(counter), beats: make(chan beat)}
	config := db.config.Copy()
	config.MaxConns, config.MinConns = poolSize, poolSize
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // the pool's own statements
	config.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return &countedConn{Conn: conn, counter: s.count}, nil
	}
	var err error
	s.pool, err = pgxpool.NewWithConfig(ctx, config)
	s.Store = pgstore.New(s.pool)
	return s, err
}

// Renew implements [ichido.Leaser].
func (s *beatingStore) Renew(ctx context.Context, leases []ichido.Held) ([]bool, error) {
	before, err := s.db.logged(ctx)
	began := time.Now()
	held, renewErr := s.Store.Renew(ctx, leases)
	b := beat{leases: len(leases), took: time.Since(began), statements: s.count.statements.Swap(0)}
	after, logErr := s.db.logged(ctx)
	b.logBytes, b.err = after-before, errors.Join(err, renewErr, logErr)
	if b.err == nil && slices.Contains(held, false) {
		b.err = errors.New("a lease was lost")
	}
	select {
	case s.beats <- b:
	default: // nobody looks
	}
	return held, renewErr
}

// startAttempts returns when all attempts are in flight. stop ends them.
func startAttempts(ctx context.Context, store ichido.Store, n int, lease time.Duration) (stop func() error, err error) {
	manager, err := ichido.New(store, ichido.Shared, &ichido.Config{
		Mode: ichido.LeaseMode, Lease: lease, AttemptTimeout: time.Hour, StoreTimeout: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	release := make(chan struct{})
	starting := make(chan struct{}, poolSize)
	var attempts sync.WaitGroup
	for range n {
		starting <- struct{}{}
		attempts.Go(func() {
			started := sync.OnceFunc(func() { <-starting })
			defer started()
			_, err := ichido.Do(ctx, manager, ichido.Operation{Scope: "bench", Key: newKey()}, func(ctx context.Context) (int, error) {
				started()
				select {
				case <-release:
				case <-ctx.Done():
				}
				return 1, context.Cause(ctx)
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	for range poolSize { // of those that are starting none is left
		starting <- struct{}{}
	}
	return func() error {
		close(release)
		attempts.Wait()
		defer cancel(nil)
		return context.Cause(ctx)
	}, nil
}

// watch looks at as many renewals as there are rounds. The first one that it sees does not count, because claims were
// counted with it.
func (h *Heartbeats) watch(ctx context.Context, o *options, db *postgres, store *beatingStore) error {
	if _, err := store.next(ctx); err != nil {
		return err
	}
	updatedBefore, hotBefore, err := db.updates(ctx)
	if err != nil {
		return err
	}
	var beats []beat
	o.talk.begin(o.rounds, "%d attempts in flight, renewals", h.Attempts)
	for len(beats) < o.rounds {
		b, err := store.next(ctx)
		if err != nil {
			return err
		}
		beats = append(beats, b)
		o.talk.step()
	}
	h.Statements = spreadOf(beats, func(b beat) float64 { return float64(b.statements) * float64(h.Attempts) / float64(b.leases) })
	h.Met = h.Statements.Min == h.Aim && h.Statements.Max == h.Aim
	h.Millis = spreadOf(beats, func(b beat) float64 { return millis(b.took) })
	h.LogBytes = spreadOf(beats, func(b beat) float64 { return float64(b.logBytes) / float64(b.leases) })

	// PostgreSQL counts updates a little later than it makes them.
	o.talk.say("%d attempts in flight, waiting for the statistics", h.Attempts)
	for range lateBeats {
		updated, hot, err := db.updates(ctx)
		if err != nil {
			return err
		}
		if updated -= updatedBefore; updated >= int64(h.Attempts*len(beats)) {
			h.HotUpdates = float64(hot-hotBefore) / float64(updated)
			return nil
		}
		if _, err := store.next(ctx); err != nil {
			return err
		}
	}
	return errors.New("PostgreSQL has not counted the updates")
}

const lateBeats = 20

func (s *beatingStore) next(ctx context.Context) (beat, error) {
	select {
	case b := <-s.beats:
		return b, b.err
	case <-ctx.Done():
		return beat{}, ctx.Err()
	}
}

// updates returns how many rows of keys were updated so far, and how many of those updates touched no index.
func (p *postgres) updates(ctx context.Context) (all, hot int64, err error) {
	err = p.admin.QueryRow(ctx, `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
		WHERE relid = 'idempotency_keys'::regclass`).Scan(&all, &hot)
	return all, hot, err
}
