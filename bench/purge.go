package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ichido-dev/ichido"
)

// measurePurge compares first requests while expired keys are purged with first requests while nothing is.
func measurePurge(ctx context.Context, o *options) (*Purge, error) {
	server, err := startPostgres(o)
	if err != nil {
		return nil, err
	}
	defer server.close()
	db, err := newPostgres(ctx, server, "purge")
	if err != nil {
		return nil, err
	}
	defer db.close()
	o.talk.say("storing %d keys, a tenth of them expired", o.most())
	if err := db.storeExpired(ctx, o.most()); err != nil {
		return nil, err
	}
	out := &Purge{Stored: o.most()}
	if out.Facts, err = db.facts(ctx); err != nil {
		return nil, err
	}
	if out.Sizes, err = db.sizes(ctx, "idempotency_keys"); err != nil {
		return nil, err
	}
	if out.Expired, err = db.expired(ctx); err != nil {
		return nil, err
	}
	a, err := serve(ctx, db, poolSize, nil)
	if err != nil {
		return nil, err
	}
	defer a.close()
	p := &purging{Purger: a.handlers.purger, left: out.Expired, rounds: o.rounds * len(o.clients)}
	quiet, busy := a.series("quiet", "/ichido", false, newKey), a.series("purging", "/ichido", false, newKey)
	busy.before, busy.meanwhile = p.next, p.run
	for _, clients := range o.clients {
		got, err := alternate(ctx, o, clients, []series{quiet, busy})
		if err != nil {
			return nil, err
		}
		out.Loads = append(out.Loads, got.load(clients, []series{quiet, busy}, purgeAims...))
		out.Speeds = append(out.Speeds, p.speed(clients))
	}
	out.Idle, err = p.idle(ctx, o, db)
	return out, err
}

var purgeAims = []aim{
	{of: "purging", to: "quiet", what: p99, most: 1.25},
	{of: "purging", to: "quiet", what: p50},
	{of: "purging", to: "quiet"},
}

// forLong is over the last day as in a table that has been in use for longer than that: the oldest keys, of which a tenth
// is past its retention, are somewhere in the middle, and everywhere there were keys that have been purged since.
var forLong = storing{`CASE WHEN i % 1000 = 0 THEN now() - interval '48 hours'
	ELSE now() - interval '24 hours' * (1 - ((i + n / 2) % n)::float8 / n) END`, "21 hours 36 minutes"}

// storeExpired fills the table of keys as they are after long use.
func (p *postgres) storeExpired(ctx context.Context, n int) error {
	if err := p.storeOne(ctx); err != nil {
		return err
	}
	if err := p.fill(ctx, "idempotency_keys", n, forLong, "(idem_key, scope)"); err != nil {
		return err
	}
	for _, sql := range []string{
		"DELETE FROM idempotency_keys WHERE created_at < now() - interval '36 hours'",
		"VACUUM (ANALYZE) idempotency_keys",
		"CHECKPOINT",
	} {
		if _, err := p.admin.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

func (p *postgres) expired(ctx context.Context) (n int, err error) {
	err = p.admin.QueryRow(ctx, "SELECT count(*) FROM idempotency_keys WHERE expires_at <= now()").Scan(&n)
	return n, err
}

// A purging is the purge of the expired keys, of which each round gets its share.
type purging struct {
	ichido.Purger
	left   int // expired keys
	rounds int // to come
	share  int // left of this round

	speeds  []float64 // keys a second, of each round since the last call of speed
	purged  int       // in those rounds
	batches []time.Duration
}

// next begins a round.
func (p *purging) next(context.Context) error {
	p.share = p.left / p.rounds
	p.rounds--
	return nil
}

// run purges as `ichido serve` does, until ctx ends.
func (p *purging) run(ctx context.Context) error {
	began, before := time.Now(), p.share
	var err error
	ichido.PurgeEvery(ctx, p, time.Hour, func(_ int, e error) { err = e })
	n := before - p.share
	p.left -= n
	p.purged += n
	p.speeds = append(p.speeds, float64(n)/time.Since(began).Seconds())
	if err == nil && n == 0 {
		err = errors.New("no expired keys are left to purge; give more --keys")
	}
	return err
}

// Purge implements [ichido.Purger]. It lets a batch end that has begun, because what is interrupted is not what is
// measured. Fewer keys than limit end the purge.
func (p *purging) Purge(ctx context.Context, limit int) (int, error) {
	if ctx.Err() != nil || p.share == 0 {
		return 0, nil
	}
	began := time.Now()
	n, err := p.Purger.Purge(context.WithoutCancel(ctx), min(limit, p.share))
	p.batches = append(p.batches, time.Since(began))
	p.share -= n
	return n, err
}

// idle purges what is left, and then measures a purge that finds next to nothing, as most do that run every few minutes.
func (p *purging) idle(ctx context.Context, o *options, db *postgres) (Spread, error) {
	o.talk.say("purging the rest")
	if _, err := ichido.Purge(ctx, p.Purger); err != nil {
		return Spread{}, err
	}
	if _, err := db.admin.Exec(ctx, "VACUUM (ANALYZE) idempotency_keys"); err != nil {
		return Spread{}, err
	}
	var all []time.Duration
	o.talk.begin(o.rounds, "purging nothing")
	for range o.rounds {
		began := time.Now()
		if _, err := ichido.Purge(ctx, p.Purger); err != nil {
			return Spread{}, err
		}
		all = append(all, time.Since(began))
		o.talk.step()
	}
	return spreadOf(all, millis), nil
}

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }

// speed is how fast it went since the last call.
func (p *purging) speed(clients int) PurgeSpeed {
	slices.Sort(p.batches)
	s := PurgeSpeed{
		Clients: clients, Purged: p.purged,
		PerSecond: spreadOf(p.speeds, func(f float64) float64 { return f }),
		Batch:     spreadOf(p.batches, millis),
		BatchP99:  millis(p.batches[len(p.batches)*99/100]),
	}
	p.speeds, p.purged, p.batches = nil, 0, nil
	return s
}
