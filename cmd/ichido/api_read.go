package main

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ichido-dev/ichido/internal/problem"
)

const (
	defaultLimit = 50
	maxLimit     = 200

	readTimeout = 10 * time.Second // of one answer, waiting for a free connection included
)

// A page is one page of the list.
type page struct {
	Reservations []entry `json:"reservations"`
	Next         string  `json:"next,omitempty"` // where the next page is; absent on the last
}

// list answers with the newest reservations, or with those before the cursor, which is the last id of the page before.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, ok := parameter(query, "limit", defaultLimit, maxLimit)
	if !ok {
		a.refuse(w, r, parameterInvalid, text(`"limit" must be a number from 1 to %d.`, `"limit" は 1 以上 %d 以下の数でなければなりません。`, maxLimit))
		return
	}
	before, ok := parameter(query, "cursor", math.MaxInt64, math.MaxInt64)
	if !ok {
		a.refuse(w, r, parameterInvalid, text(`"cursor" is not one of ours; follow "next" from page to page.`, `"cursor" が正しくありません。各ページの "next" をたどってください。`))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	entries, err := a.office.list(ctx, before, int(limit)+1) // one more tells whether there is a next page
	if err != nil {
		a.failReading(w, r, err)
		return
	}
	p := page{Reservations: entries}
	if len(entries) > int(limit) {
		p.Reservations = entries[:limit]
		next := url.Values{"cursor": {strconv.FormatInt(p.Reservations[limit-1].ID, 10)}}
		if query.Has("limit") {
			next.Set("limit", strconv.FormatInt(limit, 10))
		}
		p.Next = "/reservations?" + next.Encode()
	}
	if p.Reservations == nil {
		p.Reservations = []entry{} // not null
	}
	w.Header().Set("Link", serviceDesc)
	writeJSON(w, http.StatusOK, p)
}

// parameter returns a query parameter that is a number from 1 to top.
func parameter(query url.Values, name string, fallback, top int64) (n int64, ok bool) {
	if !query.Has(name) {
		return fallback, true
	}
	n, err := strconv.ParseInt(query.Get(name), 10, 64)
	return n, err == nil && 1 <= n && n <= top
}

// get answers with one reservation.
func (a *api) get(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != r.PathValue("id") { // +1 and 01 are not other names of 1
		a.refuse(w, r, noReservation, problem.Text{})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	e, err := a.office.get(ctx, id)
	switch {
	case errors.Is(err, errNoEntry):
		a.refuse(w, r, noReservation, problem.Text{})
	case err != nil:
		a.failReading(w, r, err)
	default:
		writeJSON(w, http.StatusOK, e)
	}
}

// failReading is fail for an answer that was only to be read.
func (a *api) failReading(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // it failed because the client left; there is nobody to answer
	}
	a.fail(w, r, err, text("Send the request again later.", "しばらくしてから、もう一度送ってください。"))
}
