package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/conformance"
	"github.com/ichido-dev/ichido/memstore"
)

// TestOurs grades a service on this library whose answers are binary, compressed and have cookies, and whose work fails
// now and then. What a kill shows is tested with the program, in cmd/ichido.
func TestOurs(t *testing.T) {
	s := &server{auth: true} // its handlers below the key, and its list
	business := s.handler()
	scope := func(r *http.Request) (string, error) {
		if who := r.Header.Get("Authorization"); strings.HasPrefix(who, "Bearer secret-of-") {
			return who, nil
		}
		return "", errors.New("nobody")
	}
	once, err := ichido.New(memstore.New(nil), scope, &ichido.Config{ProblemBase: "/problems/"})
	if err != nil {
		t.Fatal(err)
	}
	create := once.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var in row
		if err := json.Unmarshal(body, &in); err != nil {
			s.fail(w, http.StatusBadRequest, err.Error())
			return
		}
		work(in.ItemCode)
		s.send(w, s.execute(r, r.Header.Get("Idempotency-Key"), in), false)
	}))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reservations", func(w http.ResponseWriter, r *http.Request) {
		if _, err := scope(r); err != nil {
			s.fail(w, http.StatusUnauthorized, "who are you?")
			return
		}
		create.ServeHTTP(w, r)
	})
	mux.Handle("GET /.well-known/idempotency", once.PolicyHandler())
	mux.HandleFunc("GET /problems/{name}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.PathValue("name")) })
	mux.Handle("/", business)
	listening := httptest.NewServer(compress(mux))
	defer listening.Close()

	report, err := conformance.Run(t.Context(), listening.URL, &conformance.Options{API: full(),
		Levels: []conformance.Level{conformance.Core, conformance.Robust, conformance.Published}})
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Count(conformance.Held); n != len(report.Results) {
		var table strings.Builder
		_ = report.WriteTable(&table, false)
		t.Errorf("%d of %d held\n%s", n, len(report.Results), table.String())
	}
}
