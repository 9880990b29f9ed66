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
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		w.Header().Set("Accept-Post", "application/json")
		a.refuse(w, r, mediaTypeUnsupported, problem.Text{})
		return
	}
	body, err := io.ReadAll(r.Body) // bounded by the Manager, which has read it before
	if err != nil {
		a.fail(w, r, err, problem.Text{})
		return
	}
	order, err := parseOrder(body)
	if err != nil {
		a.refuseOrder(w, r, err)
		return
	}
	if err := a.work(r.Context()); err != nil {
		a.fail(w, r, err, problem.Text{})
		return
	}
	id, err := a.office.insert(r.Context(), order.reservation)
	switch {
	case errors.Is(err, errQuantity):
		a.refuse(w, r, memberInvalid, text(`"quantity" must be greater than 0.`, `"quantity" は 1 以上でなければなりません。`))
	case err != nil:
		a.fail(w, r, err, problem.Text{})
	default:
		w.Header().Set("Location", "/reservations/"+strconv.FormatInt(id, 10))
		sendJSON(w, http.StatusCreated, order.answer(id))
	}
}

// refuseOrder answers a body that is none of ours.
func (a *api) refuseOrder(w http.ResponseWriter, r *http.Request, err error) {
	bad := new(badOrder)
	if !errors.As(err, &bad) {
		a.fail(w, r, err, problem.Text{})
		return
	}
	a.refuse(w, r, bad.kind, bad.detail)
}

// fail answers a fault of ours, without saying more of it than whether it may pass. The log has the rest. detail, if it
// is not empty, says what the client can do.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error, detail problem.Text) {
	blame(r.Context(), err)
	k := internalFault
	if errors.Is(err, errUnreachable) {
		k = databaseUnreachable
	}
	a.refuse(w, r, k, detail)
}
