package ichido

import (
	"context"
	"time"
)

// purgeBatch is how many records one transaction of a purge deletes: few enough to hold no lock for long.
const purgeBatch = 100

// How many times the length of a batch a purge leaves to others before the next. Without a pause it keeps a core and the
// log of the database busy, and requests wait. In the background so few requests meet a batch that their p99 stays.
const (
	purgePause      = 9
	backgroundPause = 200
	longestPause    = time.Second
)

// Purge deletes all records that are past their retention, in bounded batches with pauses, and returns how many it
// deleted, also when it returns an error. Several processes may purge at once.
func Purge(ctx context.Context, p Purger) (int, error) { return purge(ctx, p, purgePause) }

func purge(ctx context.Context, p Purger, pause time.Duration) (int, error) {
	total := 0
	for {
		began := time.Now()
		n, err := p.Purge(ctx, purgeBatch)
		total += n
		if err != nil || n < purgeBatch {
			return total, err
		}
		select {
		case <-time.After(min(pause*time.Since(began), longestPause)):
		case <-ctx.Done():
			return total, ctx.Err()
		}
	}
}

// PurgeEvery does what [Purge] does at once and then every interval, which must be positive, until ctx ends, with longer
// pauses: some hundred records a second. It tells done, if that is not nil, how each purge went.
func PurgeEvery(ctx context.Context, p Purger, interval time.Duration, done func(deleted int, err error)) {
	every(ctx, interval, func() {
		n, err := purge(ctx, p, backgroundPause)
		if done != nil && ctx.Err() == nil {
			done(n, err)
		}
	})
}

// every calls do at once and then every interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}
