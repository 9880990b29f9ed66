package ichido_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/memstore"
)

func TestHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ProtoMajor != 2 {
			t.Errorf("HTTP/%d: %v", r.ProtoMajor, err)
		}
		w.Header().Set("Location", "/1")
		created(string(body)).ServeHTTP(w, r)
	})))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	content := strings.Repeat("content", 50_000)
	for i, body := range []io.Reader{strings.NewReader(content), io.MultiReader(strings.NewReader(content))} { // with its length, and without
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "k")
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusCreated || string(got) != content || res.Header.Get("Location") != "/1" {
			t.Errorf("sending %d: %d, %d bytes, %v", i+1, res.StatusCode, len(got), err)
		}
		if replayed := res.Header.Get("Idempotent-Replayed") == "true"; replayed != (i > 0) {
			t.Errorf("sending %d: replayed: %v", i+1, replayed)
		}
	}
}
