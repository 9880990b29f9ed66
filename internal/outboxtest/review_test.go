package outboxtest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/client/outbox"
)

// An operation that is tried again is not sent while a later one of its subject is.
func TestARetriedOneIsSentAlone(t *testing.T) {
	on(t, func(w *world) {
		w.faults(always(fault{status: 404}))
		o := w.box(nil)
		w.put(o, "a1", "a")
		w.work(o, 1)
		w.want("a1", outbox.NotDone)
		hold := make(chan struct{})
		w.faults(always(fault{hold: hold}))
		w.put(o, "a2", "a")
		w.put(o, "b1", "b")
		var all sync.WaitGroup
		all.Go(func() { w.work(o, 2) })
		w.until("two sendings", func() bool { return len(w.keys) == 3 })
		if _, err := o.Retry(t.Context(), outbox.Settlement{ID: 1}); err != nil {
			t.Fatal(err)
		}
		n, err := o.Work(t.Context())
		close(hold)
		all.Wait()
		if err != nil || n != 0 {
			t.Errorf("%d are sent beside a2, error %v", n, err)
		}
		w.work(o, 1)
		w.want("a1", outbox.Done)

		// One whose worker died holds nobody up when its lease is over, and is sent after it.
		w.put(o, "c1", "c")
		w.put(o, "c2", "c")
		w.db.Exec("UPDATE idempotency_outbox SET state = 'not_done', due_at = NULL WHERE operation = 'c1'")
		w.db.Exec("UPDATE idempotency_outbox SET state = 'sending', first_sent_at = created_at WHERE operation = 'c2'")
		w.elapse(2 * time.Minute)
		if _, err := o.Retry(t.Context(), outbox.Settlement{ID: w.want("c1", outbox.NotDone).ID}); err != nil {
			t.Fatal(err)
		}
		w.work(o, 1)
		w.want("c1", outbox.Done)
		w.work(o, 1)
		w.want("c2", outbox.Done)
	})
}

// A row that cannot be read, because somebody changed it, does not hold the others up.
func TestAPoisonedRow(t *testing.T) {
	on(t, func(w *world) {
		var failed []string
		o := w.box(&outbox.Config{OnError: func(_ context.Context, err error) { failed = append(failed, err.Error()) }})
		w.put(o, "a", "")
		w.put(o, "b", "")
		w.put(o, "c", "")
		if _, err := w.db.Exec("UPDATE idempotency_outbox SET headers = 'nonsense' WHERE operation = 'b'"); err != nil {
			t.Fatal(err)
		}
		n, err := o.Work(t.Context())
		if n != 2 || err == nil || !strings.Contains(err.Error(), "operation b") {
			t.Errorf("%d, %v", n, err)
		}
		w.want("a", outbox.Done)
		w.want("c", outbox.Done)
		if entries, err := o.List(t.Context(), outbox.Filter{}); len(entries) != 2 || err == nil {
			t.Errorf("listed %d, %v", len(entries), err)
		}
	})
}

// A server that asks for an endless wait is not sent to until the time is over, and then not any more.
func TestAnEndlessRetryAfter(t *testing.T) {
	on(t, func(w *world) {
		w.faults(always(fault{status: 503, after: "99999999999999999999"}))
		o := w.box(nil)
		w.put(o, "a", "")
		w.work(o, 1)
		w.elapse(20 * time.Hour)
		w.work(o, 0)
		w.elapse(2 * time.Hour)
		w.work(o, 1)
		w.want("a", outbox.Unknown)
		w.effects(1)
	})
}
