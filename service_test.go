package ichido_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// service is the service of the transcripts. Each route counts its runs.
func service(m *ichido.Manager) http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, handler func(w http.ResponseWriter, run int64)) {
		var runs atomic.Int64
		mux.Handle(pattern, m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler(w, runs.Add(1))
		})))
	}
	create := func(w http.ResponseWriter, run int64) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", fmt.Sprint("/reservations/", run))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "{\"id\":%d}\n", run)
	}
	route("/reservations", create)
	route("/refunds", create)
	route("/refuses-first", func(w http.ResponseWriter, run int64) {
		if run == 1 {
			http.Error(w, "quantity must be positive", http.StatusBadRequest)
			return
		}
		create(w, run)
	})
	route("/fails-first", func(w http.ResponseWriter, run int64) {
		if run == 1 {
			http.Error(w, "out of paper", http.StatusInternalServerError)
			return
		}
		create(w, run)
	})
	route("/panics-first", func(w http.ResponseWriter, run int64) {
		w.Header().Set("X-Half", "done")
		if run == 1 {
			panic("boom")
		}
		create(w, run)
	})
	route("/aborts", func(http.ResponseWriter, int64) { panic(http.ErrAbortHandler) })
	route("/flushes", func(w http.ResponseWriter, _ int64) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
	})
	route("/large", func(w http.ResponseWriter, _ int64) { fmt.Fprint(w, strings.Repeat("x", 100)) })
	route("/nothing", func(w http.ResponseWriter, _ int64) { w.WriteHeader(http.StatusNoContent) })
	route("/page", func(w http.ResponseWriter, _ int64) { fmt.Fprintln(w, "<html>") })
	route("/login", func(w http.ResponseWriter, run int64) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: fmt.Sprint(run)})
		w.Header().Add("X-Many", "one")
		w.Header().Add("X-Many", "two, three")
		fmt.Fprintln(w, "welcome")
	})
	return mux
}

// situations is a store in memory in which certain keys meet certain situations.
type situations struct{ *memstore.Store }

func newSituations() situations { return situations{memstore.New(nil)} }

func (s situations) Begin(ctx context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	switch claim.Key {
	case "busy":
		return nil, nil, ichido.ErrInProgress
	case "down":
		return nil, nil, errors.New("connection refused")
	}
	attempt, record, err := s.Store.Begin(ctx, claim)
	if failure := map[string]error{
		"commit-unknown": ichido.ErrCommitUnknown,
		"contention":     ichido.ErrLost, // and no record to be seen
		"not-committed":  errors.New("deferred constraint violated"),
	}[claim.Key]; attempt != nil && failure != nil {
		attempt = failing{attempt, failure}
	}
	return attempt, record, err
}

// A failing attempt cannot be completed.
type failing struct {
	ichido.Attempt
	failure error
}

func (a failing) Complete(ctx context.Context, _ ichido.Response) error {
	return errors.Join(a.failure, a.Abandon(ctx, a.failure))
}
