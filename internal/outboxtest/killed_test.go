package outboxtest

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/client"
	"github.com/ichido-dev/ichido/client/outbox"
)

// points are where a worker can die: before it sends, with the request on its way, with an answer that is not recorded, with a
// record that is not reported, and after all.
var points = []string{"authorize", "sending", "answer", "report", "end"}

// worker is the process that is killed: it kills itself at the point.
func worker() {
	dialect := outbox.SQLite
	if os.Getenv("OUTBOX_DIALECT") == "postgres" {
		dialect = outbox.Postgres
	}
	db, err := openDB(dialect, os.Getenv("OUTBOX_DB"))
	if err != nil {
		panic(err)
	}
	die := func(point string) {
		if point == os.Getenv("OUTBOX_WORKER") {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		}
	}
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		res, err := http.DefaultTransport.RoundTrip(r)
		die("answer")
		return res, err
	})
	o, err := outbox.New(db, dialect, newTransport(base), &outbox.Config{
		Authorize: func(context.Context, *http.Request) error { die("authorize"); return nil },
		Report:    func(context.Context, *outbox.Entry) error { die("report"); return nil },
	})
	if err != nil {
		panic(err)
	}
	_, err = o.Work(context.Background())
	if err != nil {
		panic(err)
	}
	die("end")
}

// A worker is killed at every point, and another one goes on. The operation takes effect once.
func TestKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			on(t, func(w *world) {
				reported := 0
				o := w.box(&outbox.Config{Report: func(context.Context, *outbox.Entry) error { reported++; return nil }})
				e := w.put(o, "a", "")
				cmd := exec.Command(self)
				kind := "sqlite"
				if w.dialect == outbox.Postgres {
					kind = "postgres"
				}
				cmd.Env = append(os.Environ(), "OUTBOX_WORKER="+point, "OUTBOX_DIALECT="+kind, "OUTBOX_DB="+w.location)
				hold := make(chan struct{})
				if point == "sending" { // it is killed from outside, while the server works
					w.mu.Lock()
					w.within = hold
					w.mu.Unlock()
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if point == "sending" {
					w.until("the sending", func() bool { return w.begun == 1 })
					_ = cmd.Process.Kill()
				}
				if err := cmd.Wait(); err == nil {
					t.Fatal("the worker was not killed")
				}
				close(hold)
				if point == "sending" { // the server, which knows nothing of that, goes on
					w.until("the effect", func() bool { return len(w.bodies) == 1 })
				}

				recorded := point == "report" || point == "end"
				state := outbox.Sending
				if recorded {
					state = outbox.Done
				}
				w.want("a", state)
				w.work(o, 0) // the lease is running
				w.elapse(2 * time.Minute)
				due := 1
				if point == "end" {
					due = 0
				}
				w.work(o, due)
				after := w.want("a", outbox.Done)
				sendings := map[string]int{"authorize": 1, "sending": 2, "answer": 2, "report": 1, "end": 1}[point]
				w.effects(sendings, "a")
				if after.Key != e.Key || reported != due || !after.Sent || after.Outcome() != client.Done {
					t.Errorf("%+v, reported %d times", after, reported)
				}
			})
		})
	}
}

// A worker that died may have sent: what is given up after that is unknown, although nothing says that it was sent.
func TestKilledAndGivenUp(t *testing.T) {
	on(t, func(w *world) {
		o := w.box(nil)
		w.put(o, "a", "")
		if _, err := w.db.Exec("UPDATE idempotency_outbox SET state = 'sending', first_sent_at = created_at, attempts = 1"); err != nil {
			t.Fatal(err)
		}
		w.elapse(24 * time.Hour)
		w.work(o, 1)
		w.want("a", outbox.Unknown)
		w.effects(0)
	})
}
