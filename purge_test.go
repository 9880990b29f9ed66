package ichido_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
)

// A heap is a Purger with so many expired records, which fails after the last.
type heap struct {
	records int
	calls   []int // the limit of each
	err     error
}

func (h *heap) Purge(_ context.Context, limit int) (int, error) {
	h.calls = append(h.calls, limit)
	n := min(limit, h.records)
	h.records -= n
	if n < limit {
		return n, h.err
	}
	return n, nil
}

func TestPurge(t *testing.T) {
	failure := errors.New("down")
	for _, c := range []struct {
		heap  heap
		calls int
	}{{heap{}, 1}, {heap{records: 99}, 1}, {heap{records: 100}, 2}, {heap{records: 250}, 3}, {heap{records: 250, err: failure}, 3}} {
		h := c.heap
		n, err := ichido.Purge(t.Context(), &h)
		if n != c.heap.records || !errors.Is(err, c.heap.err) || len(h.calls) != c.calls {
			t.Errorf("Purge of %d = %d, %v in %d batches; want %d batches", c.heap.records, n, err, len(h.calls), c.calls)
		}
		for _, limit := range h.calls {
			if limit != 100 {
				t.Errorf("a batch of %d, want 100", limit)
			}
		}
	}
}

// Between batches a purge leaves nine times as long to others as a batch took, and at most a second.
func TestPurgeLeavesTimeToOthers(t *testing.T) {
	for batch, want := range map[time.Duration]time.Duration{
		10 * time.Millisecond: 2*(10+90)*time.Millisecond + 10*time.Millisecond,
		time.Second:           2*(1+1)*time.Second + time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			if n, err := ichido.Purge(t.Context(), slowHeap{&heap{records: 250}, batch}); n != 250 || err != nil {
				t.Errorf("Purge = %d, %v", n, err)
			}
			wantTime(t, want)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
		defer cancel()
		if n, err := ichido.Purge(ctx, slowHeap{&heap{records: 250}, 10 * time.Millisecond}); n != 100 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Purge whose context ended = %d, %v", n, err)
		}
	})
}

// In the background it leaves more.
func TestPurgeEveryLeavesMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ichido.PurgeEvery(ctx, slowHeap{&heap{records: 250}, time.Millisecond}, time.Hour, func(n int, err error) {
			if n != 250 || err != nil {
				t.Errorf("purged %d, %v", n, err)
			}
			wantTime(t, 2*201*time.Millisecond+time.Millisecond)
			cancel()
		})
	})
}

// A slowHeap is a heap whose batches take a time.
type slowHeap struct {
	*heap
	batch time.Duration
}

func (h slowHeap) Purge(ctx context.Context, limit int) (int, error) {
	time.Sleep(h.batch)
	return h.heap.Purge(ctx, limit)
}

func TestPurgeEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		h := &heap{records: 1500, err: errors.New("down")}
		var times []time.Duration
		var deleted []int
		ichido.PurgeEvery(ctx, h, time.Second, func(n int, err error) {
			times, deleted = append(times, now()), append(deleted, n)
			if err != h.err {
				t.Errorf("done is told %v", err)
			}
		})
		wantTime(t, 3500*time.Millisecond)
		if len(times) != 4 || times[0] != 0 || times[3] != 3*time.Second || deleted[0] != 1500 || deleted[1] != 0 {
			t.Errorf("purged at %v: %v", times, deleted)
		}
		ichido.PurgeEvery(ctx, h, time.Second, nil) // returns, because ctx has ended
	})
}
