package ichido_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// A request that is sent twice takes effect once. With a database, use pgstore or sqlstore in place of memstore, and
// write rows in the transaction that they offer to the handler.
func Example() {
	once, err := ichido.New(memstore.New(nil), ichido.Shared, nil)
	if err != nil {
		panic(err)
	}
	reservations := 0
	mux := http.NewServeMux()
	mux.Handle("POST /reservations", once.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reservations++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%d}`, reservations)
	})))
	server := httptest.NewServer(mux)
	defer server.Close()

	for range 2 {
		req, err := http.NewRequest(http.MethodPost, server.URL+"/reservations", strings.NewReader(`{"item_code":"PJ-001"}`))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", `"11111111-2222-4333-8444-555555555555"`)
		res, err := server.Client().Do(req)
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		fmt.Println(res.Status, string(body), "replayed:", res.Header.Get("Idempotent-Replayed") == "true")
	}
	// Output:
	// 201 Created {"id":1} replayed: false
	// 201 Created {"id":1} replayed: true
}

// The scope says to whom a key belongs. Here it is the user that an authentication handler around Wrap has found out.
func ExampleNew() {
	user := func(r *http.Request) (string, error) {
		name, _, _ := r.BasicAuth() // checked by a handler around this one
		return name, nil
	}
	once, err := ichido.New(memstore.New(nil), user, &ichido.Config{InProgress: ichido.Wait})
	if err != nil {
		panic(err)
	}
	served := 0
	h := once.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served++
		fmt.Fprintln(w, "customer number", served)
	}))
	for _, name := range []string{"taro", "hanako", "taro"} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.SetBasicAuth(name, "secret")
		r.Header.Set("Idempotency-Key", `"same key"`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Print(name, ": ", w.Body)
	}
	// Output:
	// taro: customer number 1
	// hanako: customer number 2
	// taro: customer number 1
}

// A queue may deliver a message twice. Its id is the key.
func ExampleDo() {
	once, err := ichido.New(memstore.New(nil), ichido.Shared, nil)
	if err != nil {
		panic(err)
	}
	type receipt struct {
		Number int    `json:"number"`
		Item   string `json:"item"`
	}
	number := 0
	for _, message := range []struct{ id, item string }{{"m-1", "desk"}, {"m-2", "chair"}, {"m-1", "desk"}} {
		op := ichido.Operation{Scope: "orders", Key: message.id, Input: []byte(message.item)}
		result, err := ichido.Do(context.Background(), once, op, func(context.Context) (receipt, error) {
			number++
			return receipt{number, message.item}, nil
		})
		fmt.Println(result.Value.Number, result.Value.Item, result.Replayed, err)
	}
	// Output:
	// 1 desk false <nil>
	// 2 chair false <nil>
	// 1 desk true <nil>
}
