package crashtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/pgtest"
)

// orderUnknown reports whether the key of an order is unknown whose process ended at a point: under Hold, if it had
// claimed the key and not begun its steps. From there on the operation resumes.
func orderUnknown(policy, point string) bool {
	return policy == "hold" && (point == "claim after" || point == "begin before")
}

// orderResumes reports whether an attempt that ended at a point is followed by another without its client.
func orderResumes(policy, point string) bool {
	return !orderUnknown(policy, point) && point != "claim before" && point != "complete after"
}

// onEngines runs the n-th of some tests to which the policy makes no difference on both databases, with one policy each.
func onEngines(t *testing.T, n int, test func(w *world)) {
	for i, engine := range engines {
		policy := policies[(n+i)%len(policies)]
		t.Run(engine+"/"+policy, func(t *testing.T) {
			t.Parallel()
			test(newWorldOn(t, engine, policy))
		})
	}
}

// The process is killed at every point. The client comes back with its key, to another process; or it never does, and
// Finish of another process completes the order. What that makes of every point is the table in docs/steps.md.
func TestStepsKilled(t *testing.T) {
	t.Parallel()
	table := new(crashTable)
	t.Run("at", func(t *testing.T) {
		for _, point := range orderPoints {
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				on(t, func(w *world) {
					// Two orders, so that their leases run out at the same time.
					o := newOrders(w)
					wasOne, wasOther := o.killAt(point, "one"), o.killAt(point, "other")
					table.note(t, point, w.policy, o.completeByClient(point, "one", wasOne))
					table.note(t, point, w.policy, o.completeByFinish(point, "other", wasOther))
				})
			})
		}
	})
	table.compare(t)
}

// killAt kills the server of an order at a point, and returns what is left.
func (o *ordersWorld) killAt(point, order string) remains {
	o.Helper()
	p := o.startAt(point, first(point, (*process).kill))
	if a := o.sendWhileAlive(p, order); a.status != 0 {
		o.Fatalf("a process that was killed answered %+v", a)
	}
	return o.remains(order)
}

// completeByFinish has Finish complete an order whose process died at a point. What it does not find waits for its client.
func (o *ordersWorld) completeByFinish(point, order string, was remains) crashed {
	o.Helper()
	if !orderResumes(o.policy, point) {
		if found, finished := o.finish(o.start(nil), order); found != 0 || finished != 0 {
			o.Errorf("Finish found %d orders and completed %d, want none", found, finished)
		}
		return o.completeByClient(point, order, was)
	}
	seen := new(watch)
	p := o.startWatched(seen)
	if found, finished := o.finish(p, order); found != 1 || finished != 1 {
		o.Errorf("Finish found %d orders and completed %d, want one", found, finished)
	}
	ran := seen.steps()
	if r := o.remains(order); r.state != "completed" {
		o.Errorf("Finish left %+v", r)
	}
	o.wantOneOfEach(p, order, o.sendUntilDefinite(p, order))
	return crashed{was, nextAttempt(was, ran, seen)}
}

// completeByClient has a client complete an order whose process died at a point.
func (o *ordersWorld) completeByClient(point, order string, was remains) crashed {
	o.Helper()
	seen := new(watch)
	p := o.startWatched(seen)
	a := o.sendUntilDefinite(p, order)
	ran := seen.steps()
	if unknown := a.code == "outcome-unknown"; unknown != orderUnknown(o.policy, point) {
		o.Errorf("answered %+v", a)
	} else if unknown {
		if r := o.remains(order); r != (remains{state: "unknown"}) {
			o.Errorf("of an order whose key is unknown there is %+v", r)
		}
		if err := o.store.Settle(o.Context(), ichido.Settlement{Scope: o.scope(), Key: order, How: ichido.SettledNotDone, By: "test"}); err != nil {
			o.Fatal(err)
		}
		a = o.sendUntilDefinite(p, order)
	}
	o.wantOneOfEach(p, order, a)
	return crashed{was, nextAttempt(was, ran, seen)}
}

// nextAttempt is what the next attempt did with what was there.
func nextAttempt(was remains, ran []string, seen *watch) string {
	did := slices.Clone(ran)
	for i, step := range did {
		switch {
		case step == "charge" && was.charges > 0:
			did[i] = chargedAgain
		case step == "mail" && was.mails > 0 && seen.count("mail looked") == 0:
			did[i] = mailFound
		}
	}
	return strings.Join(did, ", ")
}

// The provider charges and loses its answer, at the first call or a later one, while processes are killed around it.
func TestProviderLosesAnswers(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		name  string
		loses []int
		point string // where the process is killed; "" is nowhere
		time  int64  // at the how-maniest time
		calls int    // of the provider, in all
	}{
		{"first", []int{1}, "", 0, 2},
		{"first and second", []int{1, 2}, "", 0, 3},
		{"first, killed before it", []int{1}, "charge before", 1, 2},
		{"first, killed before the second", []int{1}, "charge before", 2, 2},
		{"first, killed after the second", []int{1}, "charge after", 1, 3},
		{"first, killed when the second is kept", []int{1}, "charge kept", 1, 2},
		{"second, killed after the first", []int{2}, "charge after", 1, 3},
		{"first and second, killed after the third", []int{1, 2}, "charge after", 1, 4},
		{"first and second, killed before the third", []int{1, 2}, "charge before", 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onEngines(t, i, func(w *world) {
				o := newOrders(w, c.loses...)
				p := o.startAt(c.point, nth(c.point, c.time, (*process).kill))
				a := o.sendWhileAlive(p, "k")
				if c.point != "" {
					if a.status != 0 {
						o.Fatalf("a process that was killed answered %+v", a)
					}
					p = o.start(nil)
					a = o.sendUntilDefinite(p, "k")
				}
				o.wantOneOfEach(p, "k", a)
				if _, _, calls := o.shop.of("k"); calls != c.calls {
					o.Errorf("the provider was called %d times, want %d", calls, c.calls)
				}
			})
		})
	}
}

// Finish, too, meets a provider that loses its answer. The order is due for it again later; its client need not wait.
func TestProviderLosesAnswerToFinish(t *testing.T) {
	t.Parallel()
	onEngines(t, 0, func(w *world) {
		o := newOrders(w, 2)
		o.killAt("charge after", "k")
		o.waitForLapse(o.store, "k")
		p := o.start(nil)
		for found, finished := 0, 0; found == 0; {
			if found, finished = o.finishOnce(p); finished != 0 {
				o.Fatal("Finish completed an order whose charge was not answered")
			}
		}
		o.wantOneOfEach(p, "k", o.sendUntilDefinite(p, "k"))
		if _, _, calls := o.shop.of("k"); calls != 3 {
			o.Errorf("the provider was called %d times, want 3", calls)
		}
	})
}

// Two processes finish the same abandoned orders, while their clients come back: each order gets one more attempt.
func TestRacingFinishers(t *testing.T) {
	t.Parallel()
	const orders = 6
	for _, point := range []string{"claim after", "begin after", "reserve kept", "charge after", "mail looked", "mail after", "complete before"} {
		for _, engine := range engines {
			t.Run(point+"/"+engine, func(t *testing.T) {
				t.Parallel()
				o := newOrders(newWorldOn(t, engine, "rerun")) // which lets the claim alone be followed by another
				came := make(chan struct{}, orders)            // to the point
				dies := o.startAt(point, func(p *process, at string) {
					if at == point {
						came <- struct{}{}
						<-p.done
					}
				})
				for i := range orders {
					go o.sendWhileAlive(dies, fmt.Sprint("k", i))
				}
				for i := range orders {
					select {
					case <-came:
					case <-time.After(patience):
						t.Fatalf("%d of %d orders came to the point", i, orders)
					}
				}
				dies.kill()
				was := o.remains("k0")
				attempts := make([]int, orders)
				for i := range orders {
					attempts[i] = o.entry(fmt.Sprint("k", i)).Attempts
				}

				seen := new(watch)
				both := []*process{o.startWatched(seen), o.startWatched(seen)}
				for i := range orders {
					o.waitForLapse(o.store, fmt.Sprint("k", i))
				}
				var wg sync.WaitGroup
				var mu sync.Mutex
				finished := 0
				for _, p := range both {
					wg.Go(func() {
						for i := range orders {
							_, n := o.finish(p, fmt.Sprint("k", i))
							mu.Lock()
							finished += n
							mu.Unlock()
						}
					})
				}
				answers := make([]answer, orders)
				for i := range orders {
					wg.Go(func() {
						answers[i] = o.sendUntilDefinite(both[i%2], fmt.Sprint("k", i))
					})
				}
				wg.Wait()
				for i, a := range answers {
					order := fmt.Sprint("k", i)
					o.wantOneOfEach(both[0], order, a)
					if n := o.entry(order).Attempts - attempts[i]; n != 1 {
						o.Errorf("%s had %d more attempts, want one", order, n)
					}
				}
				for _, step := range orderSteps {
					want := orders
					if strings.Contains(was.kept, step) {
						want = 0
					}
					if n := seen.count(step + " before"); n != want {
						o.Errorf("%s ran %d times, want %d", step, n, want)
					}
				}
				if n := seen.count("complete after"); n != orders {
					o.Errorf("%d orders were completed, want %d", n, orders)
				}
				o.Logf("of %d orders Finish completed %d", orders, finished)
			})
		}
	}
}

// The owner of an order is paused until its lease was over and another process, by Finish or for the client, went on where
// that may be. Then it goes on, and keeps nothing more.
func TestStepsPausedOwner(t *testing.T) {
	t.Parallel()
	for i, point := range orderPoints {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			test := func(w *world) { newOrders(w).pauseAndGoOn(point) }
			if orderUnknown("hold", point) {
				on(t, test)
				return
			}
			onEngines(t, i, test)
		})
	}
}

func (o *ordersWorld) pauseAndGoOn(point string) {
	paused := make(chan struct{})
	owner := o.startAt(point, first(point, func(p *process) {
		if !isRenewal(point) {
			p.renewing.Lock() // as in TestPausedOwner
			defer p.renewing.Unlock()
		}
		o.pause(p)
		close(paused)
	}))
	late := make(chan answer, 1)
	go func() { late <- send(owner, "k") }()
	select {
	case <-paused:
	case a := <-late:
		o.Fatalf("the owner did not come to the point: %+v", a)
	}
	was := o.remains("k")
	if point == "reserve after" && !onPostgres(o.database) {
		// It is in the middle of a write to SQLite, and holds all others up. When it goes on its lease is over.
		o.waitForLapse(o.store, "k")
		owner.signal(syscall.SIGCONT)
	}
	other := o.start(nil)
	if o.policy == "rerun" {
		o.finish(other, "k")
	}
	a := o.sendUntilDefinite(other, "k")
	if (a.code == "outcome-unknown") != orderUnknown(o.policy, point) {
		o.Errorf("answered %+v", a)
	}
	owner.signal(syscall.SIGCONT)
	got := <-late
	if a.code == "outcome-unknown" {
		if got.code != "outcome-unknown" && got.code != "attempt-failed" {
			o.Errorf("the key is unknown, and the late owner answered %+v", got)
		}
		if r := o.remains("k"); r != (remains{state: "unknown"}) {
			o.Errorf("an owner that was late before its first step left %+v", r)
		}
		return
	}
	if got.status != 201 || got.body != a.body {
		o.Errorf("the client was told %q by the second process, and %+v by the late owner", a.body, got)
	}
	charges, mails, calls := o.shop.of("k")
	if point == "charge before" && calls != 2 {
		o.Errorf("the provider was called %d times, want twice, the second time by the late owner", calls)
	}
	if point != "mail looked" {
		o.wantOneOfEach(other, "k", a)
		return
	}
	// The gap that remains: an owner that is late between its look and its call sends a second mail. It is told that the
	// key is not its own any more when it wants to keep that.
	movements := o.movements("k")
	if len(movements) != 1 || len(charges) != 1 || len(mails) != 2 || mails[0].key != mails[1].key {
		o.Errorf("movements %v, charges %v, mails %v; before, %+v", movements, charges, mails, was)
	} else if want := orderAnswer(movements[0], charges[0].id, mails[0].id); a.body != want {
		o.Errorf("answered %q, want %q", a.body, want)
	}
	o.wantReplays(other, "k", a)
}

// The database restarts, as after a crash, at every point of an order. The process lives on, and leaves nothing unknown.
func TestStepsDatabaseRestarts(t *testing.T) {
	t.Parallel()
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Start(t, pgtest.WithDurability())
			o := newOrders(newWorld(t, server.NewDatabase(t), policy))
			for i, point := range orderPoints {
				order := fmt.Sprint("k", i)
				p := o.launch(first(point, func(*process) { server.Restart("immediate") }), restartLease, isRenewal(point))
				a := o.sendUntilDefinite(p, order)
				o.store = o.world.store() // the connections of the one before are dead
				if a.status != 201 {
					o.Fatalf("%s: answered %+v", point, a)
				}
				o.wantOneOfEach(p, order, a)
				p.kill()
			}
		})
	}
}

// The connection is cut at the COMMIT of the TxStep: before it arrives, or after, so that its answer is lost. The process
// lives on and finds out, or dies in the middle.
func TestKilledWhileCommitting(t *testing.T) {
	t.Parallel()
	for _, cut := range []string{"before", "after"} {
		for _, then := range []string{"lives", "dies"} {
			t.Run(cut+"/"+then, func(t *testing.T) {
				t.Parallel()
				direct := pgtest.Shared(t).NewDatabase(t)
				proxy := pgtest.NewProxy(t, direct)
				o := newOrders(newWorld(t, direct, "hold"))
				arm, movements := proxy.CutBeforeCommit, 0
				if cut == "after" {
					arm, movements = proxy.CutAfterCommit, 1
				}
				o.database = proxy.URL(direct)
				was := make(chan remains, 1)
				p := o.startAt("reserve after", first("reserve after", func(p *process) {
					done := arm()
					go func() {
						<-done
						if then == "dies" {
							p.kill()
						}
						was <- o.remains("k")
					}()
				}))
				a := o.sendWhileAlive(p, "k")
				if r := <-was; then == "dies" && (a.status != 0 || r.movements != movements) {
					o.Errorf("answered %+v; left %+v", a, r)
				}
				if then == "dies" {
					p = o.start(nil)
					a = o.sendUntilDefinite(p, "k")
				}
				o.wantOneOfEach(p, "k", a)
				attempts := 2
				if cut == "after" && then == "lives" { // it goes on with what it finds
					attempts = 1
				}
				if e := o.entry("k"); e.Attempts != attempts {
					o.Errorf("%d attempts, want %d", e.Attempts, attempts)
				}
			})
		}
	}
}
