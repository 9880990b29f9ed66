package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// A reservation is the body that every request of the comparisons sends.
type reservation struct {
	ItemCode   string `json:"item_code"`
	Quantity   int32  `json:"quantity"`
	ReservedBy string `json:"reserved_by"`
}

// requestBody is that of every request. The keys are what differs.
const requestBody = `{"item_code":"PJ-001","quantity":1,"reserved_by":"taro"}`

// An answer is what a reservation is answered with: 201, and these.
type answer struct {
	location string
	body     []byte
}

// An insertFunc inserts a reservation and returns its id.
type insertFunc func(context.Context, reservation) (int64, error)

// reserve is the work that all variants have in common: parse, insert, and say what was made.
func reserve(ctx context.Context, body []byte, insert insertFunc) (answer, error) {
	var sent reservation
	if err := json.Unmarshal(body, &sent); err != nil {
		return answer{}, err
	}
	id, err := insert(ctx, sent)
	if err != nil {
		return answer{}, err
	}
	made := struct {
		ID int64 `json:"id"`
		reservation
	}{id, sent}
	out, err := json.Marshal(made)
	return answer{"/reservations/" + strconv.FormatInt(id, 10), out}, err
}

// insertNothing is the work of a handler that writes nothing itself. Its answer has the size of the others'.
func insertNothing(context.Context, reservation) (int64, error) { return 1234567, nil }

func (a answer) send(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", a.location)
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(a.body)
}

// handle is the API's handler as a user of ichido writes it, and of nothing at all. What insert does with transactions
// is the difference.
func handle(insert insertFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			fail(w, err)
			return
		}
		made, err := reserve(r.Context(), body, insert)
		if err != nil {
			fail(w, err)
			return
		}
		made.send(w)
	})
}

var errMismatch = errors.New("the key was used with a different request")

func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if errors.Is(err, errMismatch) {
		status = http.StatusUnprocessableEntity
	}
	http.Error(w, err.Error(), status)
}
