package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/ichido-dev/ichido/client"
)

// flaky fails once, then does what it is asked.
func flaky() *httptest.Server {
	failed := false
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !failed {
			failed = true
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"id":1}`)
	}))
}

// One line is enough: the host honours keys, so a POST that fails is sent again under the same key.
func ExampleNew() {
	server := flaky()
	defer server.Close()

	c := client.New(client.Targets{"127.0.0.1": client.Ichido})
	res, err := c.Post(server.URL+"/orders", "application/json", strings.NewReader(`{"item":"desk"}`))
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	fmt.Println(res.Status, string(body))
	// Output: 201 Created {"id":1}
}

// A caller that names its operation can go on with it later, after a restart too.
func ExampleWithOperation() {
	c := client.New(client.Targets{"127.0.0.1": client.Ichido})
	op := client.OperationFromKey("order-4711")
	send := func(url string) error {
		ctx, cancel := context.WithTimeout(client.WithOperation(context.Background(), op), 5*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"item":"desk"}`))
		if err != nil {
			return err
		}
		res, err := c.Do(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		result, _ := client.ResultOf(res)
		return result.Err
	}

	down := httptest.NewServer(nil)
	down.Close()
	err := send(down.URL)
	var notDone *client.NotDoneError
	var unknown *client.UnknownError
	switch {
	case err == nil:
		fmt.Println("done")
	case errors.As(err, &notDone):
		fmt.Println("not done")
	case errors.As(err, &unknown):
		fmt.Println("unknown; later again as", unknown.Operation.Key)
	}

	server := flaky()
	defer server.Close()
	fmt.Println(send(server.URL))
	// Output:
	// not done
	// <nil>
}

// Send tells how an operation ended, for callers that keep operations and go on with them.
func ExampleTransport_Send() {
	accepted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Line-Accepted-Request-Id", "abc") // the message was accepted before, and its answer lost
		w.WriteHeader(http.StatusConflict)
	}))
	defer accepted.Close()

	t, err := client.NewTransport(&client.Config{Targets: client.Targets{"127.0.0.1": client.LINE}})
	if err != nil {
		panic(err)
	}
	r, _ := http.NewRequest(http.MethodPost, accepted.URL+"/v2/bot/message/push", strings.NewReader("{}"))
	result := t.Send(r, client.NewOperation())
	defer result.Response.Body.Close()
	fmt.Println(result.Response.StatusCode, result.Outcome, result.Resource, result.Err)
	// Output: 409 done abc <nil>
}

// An observer that logs attempts. The operation is written without its key.
func ExampleConfig_observe() {
	server := flaky()
	defer server.Close()
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	t, err := client.NewTransport(&client.Config{
		Targets:   client.Targets{"127.0.0.1": client.Ichido},
		BaseDelay: time.Millisecond,
		Observe: func(ctx context.Context, a client.Attempt) {
			log.InfoContext(ctx, "attempt", "operation", a.Operation, "number", a.Number, "status", a.Status, "verdict", a.Verdict)
		},
	})
	if err != nil {
		panic(err)
	}
	r, _ := http.NewRequest(http.MethodPost, server.URL, nil)
	ctx := client.WithOperation(r.Context(), client.OperationFromKey("order-4711"))
	res, err := (&http.Client{Transport: t}).Do(r.WithContext(ctx))
	if err != nil {
		panic(err)
	}
	res.Body.Close()
	// Output:
	// level=INFO msg=attempt operation="operation 173d0ddb" number=1 status=503 verdict=uncertain
	// level=INFO msg=attempt operation="operation 173d0ddb" number=2 status=201 verdict=succeeded
}
