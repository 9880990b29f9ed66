package pgstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/pgstore"
)

func settlement(key string, how ichido.SettledHow) ichido.Settlement {
	return ichido.Settlement{Scope: "scope", Key: key, How: how, By: "hanako", Reason: "asked the bank",
		Response: ichido.Response{Status: 200, Header: []byte("S: t\n"), Body: []byte("settled")}, Retention: time.Hour}
}

// A lease runs out while its attempt completes and somebody settles: one of them is heard.
func TestSettleRacesWithComplete(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			url := newDatabase(t)
			store, settler := pgstore.New(way(t, url)), pgstore.New(way(t, url))
			ctx := bounded(t)
			completions := 0
			for i := range 60 {
				key := fmt.Sprint("k", i)
				how := []ichido.SettledHow{ichido.SettledDone, ichido.SettledNotDone, ichido.SettledDeleted}[i%3]
				claim := leaseClaim(key)
				claim.Lease.Duration = time.Duration(i*i) * 5 * time.Microsecond
				attempt := mustLease(t, store, claim)
				var completed, settled error
				var wg sync.WaitGroup
				wg.Go(func() { completed = attempt.Complete(ctx, paid) })
				wg.Go(func() {
					s := settlement(key, how)
					s.Token = claim.Lease.Token
					settled = ichido.ErrInProgress
					for errors.Is(settled, ichido.ErrInProgress) {
						settled = settler.Settle(ctx, s)
					}
				})
				wg.Wait()
				body := "settled"
				switch {
				case completed == nil && errors.Is(settled, ichido.ErrNotUnknown) && how != ichido.SettledDeleted:
					completions++
					body = "paid"
				case errors.Is(completed, ichido.ErrLost) && settled == nil:
				case completed == nil && settled == nil && how == ichido.SettledDeleted: // one after the other
				default:
					t.Errorf("%s: Complete returned %v and Settle(%v) %v", key, completed, how, settled)
				}
				_, record, err := store.Begin(ctx, leaseClaim(key))
				if free := how != ichido.SettledDone && settled == nil; err != nil || free != (record == nil) ||
					record != nil && string(record.Response.Body) != body {
					t.Errorf("%s: after Complete: %v and Settle(%v): %v, Begin = %v, %v", key, completed, how, settled, record, err)
				}
				if err := attempt.Complete(ctx, paid); (err == nil) != (body == "paid") {
					t.Errorf("%s: Complete again returned %v", key, err)
				}
			}
			t.Logf("%d of 60 were completed", completions)
		})
	}
}

// Several ask at once: each key is asked about by one.
func TestAskIsExclusive(t *testing.T) {
	const keys = 60
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			url := newDatabase(t)
			store := pgstore.New(way(t, url))
			ctx := bounded(t)
			for i := range keys {
				if err := mustLease(t, store, leaseClaim(fmt.Sprint("k", i))).Abandon(ctx, errors.New("gone")); err != nil {
					t.Fatal(err)
				}
			}
			mustLease(t, store, leaseClaim("running"))
			var mu sync.Mutex
			got := map[string]int{}
			var wg sync.WaitGroup
			for range 3 {
				asker := pgstore.New(way(t, url))
				wg.Go(func() {
					for range keys {
						asked, err := asker.Ask(ctx, ichido.Question{Route: "pay", Limit: 7, Patience: time.Hour})
						if err != nil && !errors.Is(err, ichido.ErrSerialization) {
							t.Errorf("Ask: %v", err)
							return
						}
						mu.Lock()
						for _, k := range asked {
							got[k.Key]++
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			for key, n := range got {
				if n != 1 {
					t.Errorf("%s was handed out %d times", key, n)
				}
			}
			if len(got) != keys {
				t.Errorf("%d keys were asked about, want %d", len(got), keys)
			}
		})
	}
}

// The n-th question comes 10 s after the one before has ended, and the time doubles, up to an hour.
func TestQuestionsAreAskedAtGrowingIntervals(t *testing.T) {
	url := newDatabase(t)
	pool := open(t, url)
	store := pgstore.New(pool)
	ctx := bounded(t)
	if err := mustLease(t, store, leaseClaim("k")).Abandon(ctx, errors.New("gone")); err != nil {
		t.Fatal(err)
	}
	ask := func() (asked int) {
		t.Helper()
		keys, err := store.Ask(ctx, ichido.Question{Route: "pay", Limit: 10, Patience: time.Minute})
		if err != nil || len(keys) > 1 {
			t.Fatal(keys, err)
		}
		if len(keys) == 0 {
			return 0
		}
		return keys[0].Asked
	}
	if got := ask(); got != 1 {
		t.Errorf("Asked is %d at the first question, want 1", got)
	}
	for i, wait := range []int{10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600} {
		for _, seconds := range []int{wait - 5, wait + 5} {
			want := 0
			if seconds > wait {
				want = i + 2
			}
			mustExec(t, pool, "UPDATE idempotency_keys SET asked_until = now() - $1::int * interval '1 second', lease_until = now() - interval '2 hours'", seconds)
			if got := ask(); got != want {
				t.Errorf("%d s after question %d: Asked is %d, want %d", seconds, i+1, got, want)
			}
		}
		if got := ask(); got != 0 {
			t.Errorf("a key that is being asked about was handed out again: %d", got)
		}
		if keys, err := store.Ask(ctx, ichido.Question{Scope: "scope", Key: "k", Patience: time.Minute}); err != nil || len(keys) != 0 {
			t.Errorf("a key that is being asked about was handed out by its name: %v, %v", keys, err)
		}
		if err := store.Settle(ctx, settlement("k", ichido.StillUnknown)); err != nil {
			t.Error(err)
		}
	}
	if keys, err := store.Ask(ctx, ichido.Question{Scope: "scope", Key: "k", Patience: time.Minute}); err != nil || len(keys) != 1 {
		t.Errorf("a key that is asked for by its name: %v, %v", keys, err)
	}
}
