package main

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ichido-dev/ichido/internal/problem"
)

// The page shows what happens without keys, too. For that it needs a server that knows none.

// demoPath takes reservations like /reservations, but once for each request.
const demoPath = "/demo/unprotected"

// unprotected is a ledger for the page's experiments, in memory: nothing of it counts.
type unprotected struct {
	mu      sync.Mutex
	last    int64
	entries []entry // the newest last
}

// demoKept is how many entries are kept.
const demoKept = 500

func (u *unprotected) insert(f *fields) (id int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last++
	u.entries = append(u.entries, entry{u.last, f.texts["item_code"], int32(f.numbers["quantity"]), f.texts["reserved_by"], time.Now().UTC()})
	if n := len(u.entries) - demoKept; n > 0 {
		u.entries = slices.Delete(u.entries, 0, n)
	}
	return u.last
}

// list is like that of an office.
func (u *unprotected) list(_ context.Context, by string, before int64, limit int) (entries []entry, _ error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, e := range slices.Backward(u.entries) {
		if e.ID < before && (by == "" || e.ReservedBy == by) && len(entries) < limit {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// createUnprotected does what create does, as often as it is asked.
func (a *api) createUnprotected(w http.ResponseWriter, r *http.Request, u *unprotected) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	f, ok := a.readBody(w, r, reservationMembers)
	if !ok {
		return
	}
	if f.numbers["quantity"] < 1 {
		a.refuse(w, r, memberInvalid, notPositive)
		return
	}
	if err := a.work(context.WithoutCancel(r.Context())); err != nil { // a server that works on does not see the client go
		a.fail(w, r, err, problem.Text{})
		return
	}
	sendJSON(w, http.StatusCreated, f.answer(u.insert(f)))
}
