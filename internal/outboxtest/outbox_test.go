package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/client"
	"github.com/ichido-dev/ichido/client/outbox"
	"github.com/jackc/pgx/v5"
)

func TestPutTwiceIsOneOperation(t *testing.T) {
	on(t, func(w *world) {
		o := w.box(nil)
		e := w.put(o, "a", "")
		if again := w.put(w.box(nil), "a", ""); again.ID != e.ID || again.Key != e.Key {
			t.Errorf("put again: %+v, first: %+v", again, e)
		}
		w.work(o, 1)
		w.work(o, 0)
		done := w.put(o, "a", "")
		if done.State != outbox.Done || done.Answer == nil || done.Answer.Status != 201 || string(done.Answer.Body) != "number 1" ||
			done.Attempts != 1 || done.Outcome() != client.Done || done.PurgeAt.IsZero() || !done.DueAt.IsZero() {
			t.Errorf("%+v, answer %+v", done, done.Answer)
		}
		w.effects(1, "a")

		_, err := o.Put(t.Context(), nil, outbox.Operation{Name: "a", Request: w.request("another")})
		w.wantError(err, outbox.ErrMismatch)
		_, err = o.Put(t.Context(), nil, outbox.Operation{Name: "a", Key: "another", Request: w.request("a")})
		w.wantError(err, outbox.ErrMismatch)
		_, err = o.Put(t.Context(), nil, outbox.Operation{Name: "a", Subject: "another", Request: w.request("a")})
		w.wantError(err, outbox.ErrMismatch)
		// Under another target the key would be sent in another way.
		stripe, err := client.NewTransport(&client.Config{Targets: client.Targets{"*": client.Stripe}})
		if err != nil {
			t.Fatal(err)
		}
		other, err := outbox.New(w.db, w.dialect, stripe, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = other.Put(t.Context(), nil, outbox.Operation{Name: "a", Request: w.request("a")})
		w.wantError(err, outbox.ErrMismatch)
		w.put(o, "b", "")
		w.work(other, 1)
		if e := w.want("b", outbox.Waiting); e.Sent || !strings.Contains(e.Err, "target") {
			t.Errorf("sent as for another target: %+v", e)
		}
		w.effects(1, "a")

		for range 2 { // without a name
			if _, err := o.Put(t.Context(), nil, outbox.Operation{Request: w.request("c")}); err != nil {
				t.Fatal(err)
			}
		}
		w.work(o, 2)
		w.effects(3, "a", "c", "c")
	})
}

func TestPutAtTheSameTime(t *testing.T) {
	on(t, func(w *world) {
		ids := make(chan int64, 20)
		var all sync.WaitGroup
		for range cap(ids) {
			o := w.box(nil)
			all.Go(func() {
				e, err := o.Put(context.Background(), nil, outbox.Operation{Name: "a", Request: w.request("a")})
				if err != nil {
					t.Error(err)
					e = &outbox.Entry{}
				}
				ids <- e.ID
			})
		}
		all.Wait()
		id := <-ids
		for range cap(ids) - 1 {
			if other := <-ids; other != id {
				t.Errorf("the ids are %d and %d", id, other)
			}
		}
	})
}

// What the caller's transaction rolls back is never sent.
func TestCallersTransaction(t *testing.T) {
	on(t, func(w *world) {
		o := w.box(nil)
		put := func(tx outbox.Tx, name string) {
			t.Helper()
			if _, err := o.Put(t.Context(), tx, outbox.Operation{Name: name, Request: w.request(name)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"a", "rolled-back"} {
			tx, err := w.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			put(outbox.SQL(tx), name)
			end := tx.Commit
			if name != "a" {
				end = tx.Rollback
			}
			if w.dialect == outbox.Postgres { // on SQLite a worker would wait
				w.work(o, 0)
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			w.work(o, map[string]int{"a": 1}[name])
		}
		w.effects(1, "a")
		if w.dialect != outbox.Postgres {
			return
		}
		conn, err := pgx.Connect(t.Context(), w.location)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		for _, name := range []string{"b", "rolled-back-too"} {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			put(outbox.Pgx(tx), name)
			put(outbox.Pgx(tx), name) // found again, in the same transaction
			end := tx.Commit
			if name != "b" {
				end = tx.Rollback
			}
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.work(o, 1)
		w.effects(2, "a", "b")
	})
}

func TestLostAnswerIsSentAgainUnderItsKey(t *testing.T) {
	on(t, func(w *world) {
		w.faults(first(fault{lost: true}))
		o := w.box(nil)
		w.put(o, "a", "")
		w.work(o, 1)
		e := w.want("a", outbox.Waiting)
		if !e.Sent || e.FirstSentAt.IsZero() || e.Err == "" || e.Outcome() != client.Unknown {
			t.Errorf("%+v", e)
		}
		w.elapse(time.Minute)
		w.work(w.box(nil), 1)
		e = w.want("a", outbox.Done)
		if e.Answer.Header.Get("Idempotent-Replayed") != "true" || e.Attempts != 2 || e.Err != "" {
			t.Errorf("%+v, answer %+v", e, e.Answer)
		}
		w.effects(2, "a")
		if w.keys[0] != w.keys[1] || w.keys[0] == "" {
			t.Errorf("keys %q", w.keys)
		}
	})
}

func TestRefusedIsNotDone(t *testing.T) {
	on(t, func(w *world) {
		w.faults(always(fault{status: 404}))
		o := w.box(nil)
		w.put(o, "a", "")
		w.work(o, 1)
		if e := w.want("a", outbox.NotDone); e.Sent || !e.FirstSentAt.IsZero() || e.Answer.Status != 404 || !strings.Contains(e.Err, "404") {
			t.Errorf("%+v", e)
		}
	})
}

// A refusal after a lost answer says nothing of what was sent before.
func TestRefusedAfterALostAnswer(t *testing.T) {
	on(t, func(w *world) {
		w.faults(func(n int) fault {
			return []fault{{lost: true}, {status: 401}, {}}[n-1]
		})
		o := w.box(nil)
		w.put(o, "a", "")
		w.work(o, 1)
		w.elapse(time.Minute)
		w.work(o, 1)
		if e := w.want("a", outbox.Waiting); !e.Sent || e.Answer.Status != 401 {
			t.Errorf("%+v", e)
		}
		w.elapse(time.Minute)
		w.work(o, 1)
		w.want("a", outbox.Done)
		w.effects(3, "a")
	})
}

// What could never be sent is not done when its time is over.
func TestServerDown(t *testing.T) {
	on(t, func(w *world) {
		w.server.Close()
		o := w.box(nil)
		w.put(o, "a", "")
		w.work(o, 1)
		if e := w.want("a", outbox.Waiting); e.Sent || !e.FirstSentAt.IsZero() || e.Outcome() != client.NotDone {
			t.Errorf("%+v", e)
		}
		w.elapse(23 * time.Hour)
		w.work(o, 1)
		w.want("a", outbox.Waiting)
		w.elapse(2 * time.Hour)
		w.work(o, 1)
		if e := w.want("a", outbox.NotDone); e.Attempts != 2 || e.PurgeAt.IsZero() {
			t.Errorf("%+v", e)
		}
		// A person has it tried again, for as long as at first.
		if _, err := o.Retry(t.Context(), outbox.Settlement{ID: 1}); err != nil {
			t.Fatal(err)
		}
		w.work(o, 1)
		if e := w.want("a", outbox.Waiting); e.SendUntil.Before(time.Now().Add(20 * time.Hour)) {
			t.Errorf("%+v", e)
		}
	})
}

// Nothing is sent when the server may have forgotten the key.
func TestServerForgets(t *testing.T) {
	on(t, func(w *world) {
		w.faults(always(fault{lost: true}))
		o := w.box(nil)
		e := w.put(o, "a", "")
		w.work(o, 1)
		w.elapse(21 * time.Hour) // it remembers for 24 h, of which a tenth is the margin
		w.work(o, 1)
		w.want("a", outbox.Waiting)
		w.elapse(time.Hour)
		w.work(o, 1)
		if e := w.want("a", outbox.Unknown); !strings.Contains(e.Err, "forgotten") || !e.PurgeAt.IsZero() || !e.DueAt.IsZero() {
			t.Errorf("%+v", e)
		}
		w.effects(2, "a")
		w.work(o, 0)
		_, err := o.Retry(t.Context(), outbox.Settlement{ID: e.ID})
		w.wantError(err, outbox.ErrForgotten)

		// Dropped, its name is free.
		if _, err := o.Drop(t.Context(), outbox.Settlement{ID: e.ID}); err == nil {
			t.Error("dropped without a reason")
		}
		d, err := o.Drop(t.Context(), outbox.Settlement{ID: e.ID, By: "taro", Reason: "seen in the shop"})
		if err != nil || d.State != outbox.Dropped || d.By != "taro" || d.Reason != "seen in the shop" || d.Outcome() != client.Unknown {
			t.Fatalf("%+v, %v", d, err)
		}
		_, err = o.Drop(t.Context(), outbox.Settlement{ID: e.ID, By: "taro", Reason: "again"})
		w.wantError(err, outbox.ErrState)
		w.faults(nil)
		if e := w.put(o, "a", ""); e.ID == d.ID || e.Key == d.Key {
			t.Errorf("put again: %+v", e)
		}
		w.work(o, 1)
		w.want("a", outbox.Done)
	})
}

// Two workers never send an operation at once, and none twice.
func TestWorkersShareTheWork(t *testing.T) {
	on(t, func(w *world) {
		const operations, workers = 60, 3
		for i := range operations {
			w.put(w.box(nil), fmt.Sprintf("o%d", i), "")
		}
		var sending sync.Map
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			key := r.Header.Get("Idempotency-Key")
			if _, there := sending.LoadOrStore(key, true); there {
				t.Error("two workers send an operation at once")
			}
			defer sending.Delete(key)
			return http.DefaultTransport.RoundTrip(r)
		})
		ctx, stop := context.WithCancel(t.Context())
		var done atomic.Int64
		var all sync.WaitGroup
		for range workers {
			db := w.open()
			o, err := outbox.New(db, w.dialect, newTransport(base), &outbox.Config{Poll: 20 * time.Millisecond,
				OnError: func(_ context.Context, err error) { t.Error(err) },
				Report: func(_ context.Context, e *outbox.Entry) error {
					if done.Add(1) == operations {
						stop()
					}
					return nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				if err := o.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		giveUp := time.AfterFunc(patience, stop)
		defer giveUp.Stop()
		all.Wait()
		if n := done.Load(); n != operations || len(w.keys) != operations || len(w.bodies) != operations {
			t.Errorf("%d reports, %d sendings, %d effects; want %d of each", n, len(w.keys), len(w.bodies), operations)
		}
	})
}

// A worker whose lease is over changes nothing any more, whether another one has the operation or is through with it.
func TestLateWorkerIsFenced(t *testing.T) {
	for _, through := range []bool{false, true} {
		t.Run(fmt.Sprintf("through=%v", through), func(t *testing.T) {
			on(t, func(w *world) { lateWorker(t, w, through) })
		})
	}
}

func lateWorker(t *testing.T, w *world, through bool) {
	// It learns nothing good: that must not overwrite what the other one learns.
	late, other := make(chan struct{}), make(chan struct{})
	w.faults(func(n int) fault {
		if n == 1 {
			return fault{status: 404, hold: late}
		}
		return fault{hold: other}
	})
	errs := make(chan error, 2)
	o := w.box(&outbox.Config{OnError: func(_ context.Context, err error) { errs <- err }})
	w.put(o, "a", "")
	var all sync.WaitGroup
	lateEnded := make(chan struct{})
	all.Go(func() {
		defer close(lateEnded)
		w.work(o, 1)
	})
	w.until("the first sending", func() bool { return len(w.keys) == 1 })
	w.work(w.box(nil), 0) // the lease is running
	_, err := o.Retry(t.Context(), outbox.Settlement{ID: 1})
	w.wantError(err, outbox.ErrState)
	_, err = o.Drop(t.Context(), outbox.Settlement{ID: 1, By: "taro", Reason: "late"})
	w.wantError(err, outbox.ErrState)
	w.elapse(2 * time.Minute)
	ended := make(chan struct{})
	all.Go(func() {
		defer close(ended)
		w.work(w.box(nil), 1)
	})
	w.until("the second sending", func() bool { return len(w.keys) == 2 })
	state := outbox.Sending
	if through {
		state = outbox.Done
		close(other)
		<-ended
	}
	close(late)
	<-lateEnded
	now, err := o.Look(t.Context(), 1)
	if !through {
		close(other)
	}
	all.Wait()
	if err != nil || now.State != state {
		t.Errorf("when the late worker has ended the operation is %+v, %v; want %s", now, err, state)
	}
	select {
	case err := <-errs:
		if !strings.Contains(err.Error(), "lease was over") {
			t.Error(err)
		}
	default:
		t.Error("the late worker did not notice")
	}
	w.want("a", outbox.Done)
	w.effects(2, "a")
}

// until waits until a condition holds, under the server's mutex.
func (w *world) until(what string, holds func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		ok := holds()
		w.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("waited %s in vain for %s", patience, what)
		}
	}
}

// A sending ends before its lease does.
func TestSendingEndsBeforeTheLease(t *testing.T) {
	on(t, func(w *world) {
		lease := 2 * time.Second
		cut := make(chan time.Duration, 1)
		begun := time.Now()
		o := w.boxOn(roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			cut <- time.Since(begun)
			return nil, r.Context().Err()
		}), &outbox.Config{Lease: lease, Margin: 4 * time.Second})
		w.put(o, "a", "")
		begun = time.Now()
		w.work(o, 1)
		if d := <-cut; d >= lease {
			t.Errorf("cut off after %s", d)
		}
		if e := w.want("a", outbox.Waiting); !e.Sent {
			t.Errorf("%+v", e)
		}
	})
}

func TestOrderOfASubject(t *testing.T) {
	on(t, func(w *world) {
		w.faults(first(fault{status: 503, after: "30"}))
		o := w.box(nil)
		for _, name := range []string{"a1", "a2", "a3"} {
			w.put(o, name, "a")
		}
		w.work(o, 1) // a1 waits now
		w.put(o, "b1", "b")
		w.work(o, 1)
		w.work(o, 0)
		w.effects(2, "b1")
		w.elapse(time.Minute)
		for range 3 {
			w.work(o, 1)
		}
		w.effects(5, "b1", "a1", "a2", "a3")

		// One that is unknown holds the others up until a person has decided.
		w.faults(always(fault{lost: true}))
		w.put(o, "c1", "c")
		w.put(o, "c2", "c")
		w.put(o, "c3", "c")
		w.work(o, 1)
		w.elapse(22 * time.Hour)
		w.work(o, 1)
		id := w.want("c1", outbox.Unknown).ID
		w.faults(nil)
		w.work(o, 0)
		w.work(w.box(&outbox.Config{PassUnknown: true}), 1)
		w.want("c2", outbox.Done)
		if _, err := o.Drop(t.Context(), outbox.Settlement{ID: id, By: "taro", Reason: "seen"}); err != nil {
			t.Fatal(err)
		}
		w.work(o, 1)
		w.want("c3", outbox.Done)
	})
}

func TestReportedAtLeastOnce(t *testing.T) {
	on(t, func(w *world) {
		var told []string
		config := &outbox.Config{Report: func(_ context.Context, e *outbox.Entry) error {
			told = append(told, e.Name+" "+string(e.State))
			if len(told) == 1 {
				return errors.New("not now")
			}
			return nil
		}}
		o := w.box(config)
		w.put(o, "a", "")
		w.work(o, 1)
		w.elapse(8 * 24 * time.Hour)
		if n, err := o.Purge(t.Context(), 1); err != nil || n != 0 { // it has not been reported
			t.Errorf("purged %d, %v", n, err)
		}
		w.work(o, 1)
		w.elapse(10 * time.Minute)
		w.work(o, 0)
		if !slices.Equal(told, []string{"a done", "a done"}) {
			t.Errorf("told %q", told)
		}
		w.effects(1, "a")
	})
}

func TestCredentialsAreNotStored(t *testing.T) {
	on(t, func(w *world) {
		refused := errors.New("no credentials now")
		o := w.box(&outbox.Config{Authorize: func(_ context.Context, r *http.Request) error {
			if refused != nil {
				return refused
			}
			r.Header.Set("Authorization", "Bearer secret")
			return nil
		}})
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Other", "Idempotency-Key"} {
			r := w.request("a")
			r.Header.Set(name, "secret")
			if _, err := o.Put(t.Context(), nil, outbox.Operation{Request: r}); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: error %v", name, err)
			}
		}
		r := w.request("a")
		r.URL.User = url.UserPassword("taro", "secret")
		if _, err := o.Put(t.Context(), nil, outbox.Operation{Request: r}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("a password in the URL: error %v", err)
		}
		w.put(o, "a", "")
		w.work(o, 1)
		if e := w.want("a", outbox.Waiting); e.Sent {
			t.Errorf("%+v", e)
		}
		refused = nil
		w.elapse(time.Minute)
		w.work(o, 1)
		w.effects(1, "a")
		if w.auth[0] != "Bearer secret" {
			t.Errorf("Authorization: %q", w.auth)
		}
		var leaks int
		text := "CAST(headers AS text) || url || coalesce(answer_headers, '')"
		if err := w.db.QueryRow("SELECT count(*) FROM idempotency_outbox WHERE " + text + " LIKE '%secret%'").Scan(&leaks); err != nil || leaks > 0 {
			t.Errorf("%d leaks, %v", leaks, err)
		}
		if _, err := outbox.New(w.db, w.dialect, newTransport(nil), &outbox.Config{Header: []string{"authorization"}}); err == nil {
			t.Error("Authorization may be stored")
		}
	})
}

func TestAnswerIsBounded(t *testing.T) {
	on(t, func(w *world) {
		o := w.boxOn(roundTripper(func(r *http.Request) (*http.Response, error) {
			h := http.Header{"Set-Cookie": {"session=1"}, "Location": {"/orders/1"}}
			return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(strings.NewReader("123456")), Request: r}, nil
		}), &outbox.Config{MaxAnswer: 5})
		w.put(o, "a", "")
		w.work(o, 1)
		a := w.want("a", outbox.Done).Answer
		if string(a.Body) != "12345" || !a.Cut || a.Header.Get("Location") != "/orders/1" || a.Header["Set-Cookie"] != nil {
			t.Errorf("%+v", a)
		}
	})
}

func TestPurge(t *testing.T) {
	on(t, func(w *world) {
		o := w.box(nil)
		w.put(o, "a", "")
		w.put(o, "b", "")
		w.work(o, 2)
		w.faults(always(fault{lost: true}))
		w.put(o, "unknown", "")
		w.work(o, 1)
		purge := func(want int) {
			t.Helper()
			if n, err := o.Purge(t.Context(), 1); err != nil || n != want {
				t.Errorf("purged %d, %v; want %d", n, err, want)
			}
		}
		purge(0)
		w.elapse(8 * 24 * time.Hour)
		w.work(o, 1)
		w.want("unknown", outbox.Unknown)
		w.elapse(8 * 24 * time.Hour)
		purge(1)
		purge(1)
		purge(0)
		w.want("unknown", outbox.Unknown)
	})
}

// Run sees what is put at once, and lets sendings end when it is to stop.
func TestRunStops(t *testing.T) {
	on(t, func(w *world) {
		hold := make(chan struct{})
		w.faults(first(fault{hold: hold}))
		o := w.box(&outbox.Config{Poll: time.Hour, Grace: time.Hour})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- o.Run(ctx) }()
		w.put(o, "a", "")
		w.until("the sending", func() bool { return len(w.keys) == 1 })
		stop()
		close(hold)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		w.want("a", outbox.Done)
		w.put(o, "b", "")

		// Without grace a sending is cut off, and recorded as such.
		hold = make(chan struct{})
		defer close(hold)
		w.faults(always(fault{hold: hold}))
		o = w.box(&outbox.Config{Grace: -1})
		ctx, stop = context.WithCancel(t.Context())
		go func() { ended <- o.Run(ctx) }()
		w.until("the sending", func() bool { return len(w.keys) == 2 })
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if e := w.want("b", outbox.Waiting); !e.Sent {
			t.Errorf("%+v", e)
		}
	})
}

func TestRunWithoutATable(t *testing.T) {
	on(t, func(w *world) {
		if _, err := w.db.Exec("DROP TABLE idempotency_outbox"); err != nil {
			t.Fatal(err)
		}
		if err := w.box(nil).Run(t.Context()); err == nil {
			t.Error("no error")
		}
	})
}

func TestSend(t *testing.T) {
	on(t, func(w *world) {
		w.faults(first(fault{status: 503}))
		o := w.box(&outbox.Config{BaseDelay: time.Millisecond, MaxDelay: time.Millisecond, Poll: time.Millisecond})
		e := w.put(o, "a", "")
		if e, err := o.Send(t.Context(), e.ID); err != nil || e.State != outbox.Done || e.Attempts != 2 {
			t.Errorf("%+v, %v", e, err)
		}
		if e, err := o.Send(t.Context(), e.ID); err != nil || e.State != outbox.Done {
			t.Errorf("%+v, %v", e, err)
		}
		w.effects(2, "a")

		// It does not wait for a pause that ends after its context; the next Send does not wait for it at all.
		w.faults(always(fault{status: 503}))
		slow := w.box(&outbox.Config{BaseDelay: 1000 * time.Hour, MaxDelay: 1000 * time.Hour})
		e = w.put(slow, "b", "")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		begun := time.Now()
		if e, err := slow.Send(ctx, e.ID); !errors.Is(err, context.DeadlineExceeded) || e.State != outbox.Waiting || time.Since(begun) > patience*9/10 {
			t.Errorf("%+v, %v after %s", e, err, time.Since(begun))
		}
		w.faults(nil)
		if e, err := o.Send(t.Context(), e.ID); err != nil || e.State != outbox.Done {
			t.Errorf("%+v, %v", e, err)
		}

		// Another one has it: that one's answer is waited for.
		hold := make(chan struct{})
		w.faults(always(fault{hold: hold}))
		e = w.put(o, "c", "")
		n := len(w.keys)
		go func() { w.work(w.box(nil), 1) }()
		w.until("the sending", func() bool { return len(w.keys) > n })
		ended := make(chan *outbox.Entry, 1)
		go func() {
			e, err := o.Send(context.Background(), e.ID)
			if err != nil {
				t.Error(err)
			}
			ended <- e
		}()
		close(hold)
		if e := <-ended; e.State != outbox.Done || e.Attempts != 1 {
			t.Errorf("%+v", e)
		}
	})
}

func TestList(t *testing.T) {
	on(t, func(w *world) {
		o := w.box(nil)
		w.put(o, "a", "s")
		w.work(o, 1)
		w.put(o, "b", "s")
		w.put(o, "c", "")
		list := func(f outbox.Filter) (names string) {
			t.Helper()
			entries, err := o.List(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				names += e.Name
				if e.Body != nil || e.BodySize != 1 {
					t.Errorf("%+v", e)
				}
			}
			return names
		}
		for _, c := range []struct {
			filter outbox.Filter
			want   string
		}{
			{outbox.Filter{}, "abc"}, {outbox.Filter{Limit: 2}, "ab"}, {outbox.Filter{After: 1, Limit: 1}, "b"},
			{outbox.Filter{Subject: "s"}, "ab"}, {outbox.Filter{States: []outbox.State{outbox.Done, outbox.Unknown}}, "a"},
			{outbox.Filter{States: []outbox.State{outbox.Waiting}, Subject: "s", Limit: 5}, "b"},
		} {
			if got := list(c.filter); got != c.want {
				t.Errorf("%+v: %q, want %q", c.filter, got, c.want)
			}
		}
		_, err := o.Look(t.Context(), 99)
		w.wantError(err, outbox.ErrNotFound)
		_, err = o.LookName(t.Context(), "none")
		w.wantError(err, outbox.ErrNotFound)
	})
}

func TestMigrateAtTheSameTime(t *testing.T) {
	on(t, func(w *world) {
		if _, err := w.db.Exec("DROP TABLE idempotency_outbox"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.db.Exec("DROP TABLE idempotency_outbox_migrations"); err != nil {
			t.Fatal(err)
		}
		var applied atomic.Int64
		var all sync.WaitGroup
		for range 5 {
			db := w.open()
			all.Go(func() {
				o, err := outbox.New(db, w.dialect, nil, nil)
				if err != nil {
					t.Error(err)
					return
				}
				migrations, err := o.Migrate(context.Background())
				if err != nil {
					t.Error(err)
				}
				applied.Add(int64(len(migrations)))
			})
		}
		all.Wait()
		if n := applied.Load(); n != 1 {
			t.Errorf("%d migrations were applied", n)
		}
		if pending, err := w.box(nil).Pending(t.Context()); err != nil || len(pending) > 0 {
			t.Errorf("%v, %v", pending, err)
		}
	})
}
