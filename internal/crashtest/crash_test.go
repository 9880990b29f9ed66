package crashtest

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/pgtest"
)

// first calls do the first time that a point is reached.
func first(point string, do func(p *process)) func(*process, string) { return nth(point, 1, do) }

// nth calls do the n-th time that a point is reached.
func nth(point string, n int64, do func(p *process)) func(*process, string) {
	var times atomic.Int64
	return func(p *process, at string) {
		if at == point && times.Add(1) == n {
			do(p)
		}
	}
}

// mayBeUnknown reports whether the effect may have happened, for all that the store knows, when the process dies at a
// point: it had claimed the key, and not completed it.
func mayBeUnknown(point string) bool { return point != "claim before" && point != "complete after" }

// The process is killed at every point. The client comes back with its key, to another process.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			on(t, func(w *world) {
				dies := w.start(first(point, func(p *process) { p.kill() }))
				if a := send(dies, "k"); a.status == 201 && point != "complete after" {
					w.Fatalf("a process that was killed at %q answered %+v", point, a)
				}
				<-dies.done
				if p := w.start(nil); w.policy == "hold" && mayBeUnknown(point) {
					if a := w.sendUntilDefinite(p, "k"); a.code != "outcome-unknown" {
						w.Errorf("killed at %q; then answered %+v", point, a)
					}
				}
				w.wantOneEffect(w.start(nil), "k", point, w.effects(point, false))
			})
		})
	}
}

// effects is how many effects there may be when an attempt ended at a point, under the policy. Work that may run again may
// have one for each attempt that came so far; one that merely lost its lease goes on, and may come so far late.
func (w *world) effects(point string, late bool) int {
	came := point == "effect after" || point == "complete before"
	if w.policy == "rerun" && mayBeUnknown(point) && (came || late) {
		return 2
	}
	return 1
}

// wantOneEffect has a client send until it knows, has what is unknown settled, and wants that one effect is what the
// client is told of, in the end, of so many at most.
func (w *world) wantOneEffect(p *process, key, point string, most int) {
	w.Helper()
	a := w.sendUntilDefinite(p, key)
	if a.code == "outcome-unknown" {
		if w.policy == "rerun" || !mayBeUnknown(point) {
			w.Errorf("%s: answered %s, under the policy %s", point, a.body, w.policy)
		}
		if n := len(w.provider.of(key)); n > 1 {
			w.Errorf("%s: %d effects of an unknown key", point, n)
		}
		w.sweep(p)
		a = w.sendUntilDefinite(p, key)
	}
	charges := w.provider.of(key)
	if a.status != 201 || len(charges) == 0 || a.body != "charge "+charges[len(charges)-1] {
		w.Errorf("%s: answered %+v; the charges are %q", point, a, charges)
	}
	if len(charges) > most {
		w.Errorf("%s: the charges are %q, want at most %d", point, charges, most)
	}
	for range 2 {
		if again := w.sendUntilDefinite(p, key); again.status != 201 || !again.replayed || again.body != a.body {
			w.Errorf("%s: acknowledged %q, and then %+v", point, a.body, again)
		}
	}
}

// The database restarts, as after a crash, at every point. The process lives on.
func TestDatabaseRestarts(t *testing.T) {
	t.Parallel()
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Start(t, pgtest.WithDurability())
			w := newWorld(t, server.NewDatabase(t), policy)
			for i, point := range points {
				key := fmt.Sprint("k", i)
				p := w.launch(first(point, func(*process) { server.Restart("immediate") }), restartLease, isRenewal(point))
				w.wantOneEffect(p, key, point, w.effects(point, true))
				p.kill()
			}
		})
	}
}

// The database is cut off at every point, for longer than a lease: the connections are dead, and new ones are refused.
func TestDatabaseCutOff(t *testing.T) {
	t.Parallel()
	for _, point := range points {
		for _, policy := range policies {
			t.Run(point+"/"+policy, func(t *testing.T) {
				t.Parallel()
				direct := pgtest.Shared(t).NewDatabase(t)
				proxy := pgtest.NewProxy(t, direct)
				w := newWorld(t, proxy.URL(direct), policy)
				w.database = direct
				store := w.store()
				w.database = proxy.URL(direct)
				p := w.start(first(point, func(*process) {
					proxy.Refuse(true)
					proxy.CutAll()
					go func() {
						w.waitForLapse(store, "k")
						proxy.Refuse(false)
					}()
				}))
				w.wantOneEffect(p, "k", point, w.effects(point, true))
			})
		}
	}
}

// waitForLapse waits until no lease runs on a key, by the store's clock: it has no record, is completed, or its lease has
// run out.
func (w *world) waitForLapse(store leaseStore, key string) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		// A claim of this token would wait for the lease; to look costs nothing.
		entry, err := store.Look(w.Context(), w.scope(), key)
		if err != nil || entry.State != ichido.InProgress || time.Now().After(entry.LeaseUntil) { // one host, one clock
			return
		}
	}
}

func (w *world) scope() string { return "* POST " + w.path }

// The owner is paused until its lease was over and, where that may be, its key was taken by another process. Then it goes
// on, and does no harm.
func TestPausedOwner(t *testing.T) {
	t.Parallel()
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			on(t, func(w *world) {
				paused := make(chan struct{})
				owner := w.start(first(point, func(p *process) {
					// One that is paused in the middle of a write to SQLite holds the lock of the file, and all others up.
					if !isRenewal(point) {
						p.renewing.Lock()
						defer p.renewing.Unlock()
					}
					w.pause(p)
					close(paused)
				}))
				late := make(chan answer, 1)
				go func() { late <- send(owner, "k") }()
				<-paused
				other := w.start(nil)
				a := w.sendUntilDefinite(other, "k")
				if a.code == "outcome-unknown" && (w.policy == "rerun" || !mayBeUnknown(point)) {
					w.Errorf("answered %s, under the policy %s", a.body, w.policy)
				}
				owner.signal(syscall.SIGCONT)
				got := <-late
				switch {
				case a.status == 201 && (got.status != 201 || got.body != a.body):
					w.Errorf("the client was told %q by the second process, and %+v by the late owner", a.body, got)
				case a.code == "outcome-unknown" && got.code != "outcome-unknown" && got.code != "attempt-failed":
					w.Errorf("the key is unknown, and the late owner answered %+v", got)
				}
				if again := send(other, "k"); a.status == 201 && (!again.replayed || again.body != a.body) {
					w.Errorf("acknowledged %q, and then %+v", a.body, again)
				} else if a.status != 201 && again.code != "outcome-unknown" {
					w.Errorf("the key was unknown, and then %+v", again)
				}
				if n := len(w.provider.of("k")); w.policy == "hold" && n > 1 {
					w.Errorf("%d effects", n)
				}
			})
		})
	}
}
