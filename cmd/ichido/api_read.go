package main

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// list answers with a page of the reservations, of all or of one name.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	listReservations(a.refuser, w, r, a.office.list)
}

func listReservations(f refuser, w http.ResponseWriter, r *http.Request,
	list func(ctx context.Context, by string, before int64, limit int) ([]entry, error)) {
	by := r.URL.Query().Get("reserved_by")
	if !isName(by) {
		f.refuse(w, r, parameterInvalid, text(`"reserved_by" must be text of %d characters at most.`, `"reserved_by" は %d 文字以内の文字列でなければなりません。`, maxText))
		return
	}
	entries, next, ok := readPage(f, w, r, func(ctx context.Context, before int64, limit int) ([]entry, error) {
		return list(ctx, by, before, limit)
	}, func(e entry) int64 { return e.ID })
	if ok {
		writeJSON(w, http.StatusOK, page{entries, next})
	}
}

// readPage returns the newest entries of a list, or those before the cursor, which is the last id of the page before, and
// where the next page is. If there are none to be had, it answers why.
func readPage[T any](f refuser, w http.ResponseWriter, r *http.Request,
	list func(ctx context.Context, before int64, limit int) ([]T, error), id func(T) int64) (entries []T, next string, ok bool) {
	query := r.URL.Query()
	limit, ok := parameter(query, "limit", defaultLimit, maxLimit)
	if !ok {
		f.refuse(w, r, parameterInvalid, text(`"limit" must be a number from 1 to %d.`, `"limit" は 1 以上 %d 以下の数でなければなりません。`, maxLimit))
		return nil, "", false
	}
	before, ok := parameter(query, "cursor", math.MaxInt64, math.MaxInt64)
	if !ok {
		f.refuse(w, r, parameterInvalid, text(`"cursor" is not one of ours; follow "next" from page to page.`, `"cursor" が正しくありません。各ページの "next" をたどってください。`))
		return nil, "", false
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	entries, err := list(ctx, before, int(limit)+1) // one more tells whether there is a next page
	if err != nil {
		f.failReading(w, r, err)
		return nil, "", false
	}
	if len(entries) > int(limit) {
		entries = entries[:limit]
		values := url.Values{"cursor": {strconv.FormatInt(id(entries[limit-1]), 10)}}
		for _, name := range []string{"limit", "reserved_by"} {
			if query.Has(name) {
				values.Set(name, query.Get(name))
			}
		}
		next = r.URL.Path + "?" + values.Encode()
	}
	if entries == nil {
		entries = []T{} // not null
	}
	w.Header().Set("Link", serviceDesc)
	return entries, next, true
}

// isName reports whether a name can be one that a reservation has: the databases fail at others.
func isName(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, 0) && utf8.RuneCountInString(s) <= maxText
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
	readOne(a.refuser, w, r, a.office.get, noReservation)
}

// readOne answers with what the path names by its id, or with the problem that there is none.
func readOne[T any](f refuser, w http.ResponseWriter, r *http.Request, get func(ctx context.Context, id int64) (T, error), none *kind) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != r.PathValue("id") { // +1 and 01 are not other names of 1
		f.refuse(w, r, none, problem.Text{})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	e, err := get(ctx, id)
	switch {
	case errors.Is(err, errNoEntry):
		f.refuse(w, r, none, problem.Text{})
	case err != nil:
		f.failReading(w, r, err)
	default:
		writeJSON(w, http.StatusOK, e)
	}
}

// failReading is fail for an answer that was only to be read.
func (f refuser) failReading(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // it failed because the client left; there is nobody to answer
	}
	f.fail(w, r, err, text("Send the request again later.", "しばらくしてから、もう一度送ってください。"))
}
