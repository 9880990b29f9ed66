package ichido_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

func TestSmoke(t *testing.T) {
	m, err := ichido.New(memstore.New(nil), ichido.Shared, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	mux := http.NewServeMux()
	mux.Handle("POST /reservations", m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Location", "/reservations/1")
		w.WriteHeader(201)
		fmt.Fprintf(w, `{"id":%d}`, n)
	})))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	for _, body := range []string{`{"a":1,"b":2}`, `{"b":2, "a":1}`, `{"a":2,"b":2}`} {
		req, _ := http.NewRequest("POST", srv.URL+"/reservations", strings.NewReader(body))
		req.Header.Set("Idempotency-Key", `"k"`)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		t.Log(res.Status, res.Header, string(b))
	}
}
