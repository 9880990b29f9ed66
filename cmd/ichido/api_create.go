package main

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/ichido-dev/ichido/internal/problem"
)

// create makes a reservation, in the transaction of its attempt. It may run again for the same request.
func (a *api) create(w http.ResponseWriter, r *http.Request) {
	f, ok := a.readBody(w, r, reservationMembers)
	if !ok {
		return
	}
	if id, ok := a.reserve(a.refuser, w, r, f); ok {
		w.Header().Set("Location", "/reservations/"+strconv.FormatInt(id, 10))
		sendJSON(w, http.StatusCreated, f.answer(id))
	}
}

// reserve writes a reservation, and returns its id. If there is none, it answers why.
func (a *api) reserve(f refuser, w http.ResponseWriter, r *http.Request, sent *fields) (id int64, ok bool) {
	err := a.work(r.Context())
	if err == nil {
		id, err = a.office.insert(r.Context(), reservation{sent.texts["item_code"], int32(sent.numbers["quantity"]), sent.texts["reserved_by"]})
	}
	switch {
	case errors.Is(err, errQuantity):
		f.refuse(w, r, memberInvalid, notPositive)
	case err != nil:
		f.fail(w, r, err, problem.Text{})
	}
	return id, err == nil
}

var notPositive = problem.Text{EN: `"quantity" must be greater than 0.`, JA: `"quantity" は 1 以上でなければなりません。`}

// readBody returns the members of a request's body, or answers what is wrong with it.
func (f refuser) readBody(w http.ResponseWriter, r *http.Request, members []member) (read *fields, ok bool) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		w.Header().Set("Accept-Post", "application/json")
		f.refuse(w, r, mediaTypeUnsupported, problem.Text{})
		return nil, false
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		read, err = parseBody(body, members)
	} else { // not where the Manager has read it before
		err = &badBody{notJSON, text("The body is too large, or broke off.", "本文が大きすぎるか、途中で切れています。")}
	}
	if bad := new(badBody); errors.As(err, &bad) {
		f.refuse(w, r, bad.kind, bad.detail)
	} else if err != nil {
		f.fail(w, r, err, problem.Text{})
	}
	return read, err == nil
}

// fail answers a fault of ours, without saying more of it than whether it may pass. The log has the rest. detail, if it
// is not empty, says what the client can do.
func (f refuser) fail(w http.ResponseWriter, r *http.Request, err error, detail problem.Text) {
	blame(r.Context(), err)
	k := internalFault
	if errors.Is(err, errUnreachable) {
		k = databaseUnreachable
	}
	f.refuse(w, r, k, detail)
}
