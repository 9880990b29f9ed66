package ichido_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// Each fault of ours has an id, under which the operator finds its cause in the log. Keys and bodies are not there.
func TestFaultsAreLogged(t *testing.T) {
	const key, body = "secret-key", `{"card":"secret-number"}`
	boom := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(errors.New("boom")) })
	large := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("secret answer")) })
	down := errors.New("connection refused")
	for _, c := range []struct {
		code  string
		store func(t *testing.T) ichido.Store
		next  http.Handler
		cause string
	}{
		{"handler-failed", memory, boom, "boom"},
		{"response-not-storable", memory, large, "5 bytes"},
		{"store-unavailable", func(t *testing.T) ichido.Store { return newScript(t, fails(down)) }, created("1"), "connection refused"},
		{"not-committed", func(t *testing.T) ichido.Store { return newScript(t, grants(down)) }, created("1"), "connection refused"},
		{"commit-unknown", func(t *testing.T) ichido.Store { return newScript(t, grants(ichido.ErrCommitUnknown)) }, created("1"), "during commit"},
	} {
		t.Run(c.code, func(t *testing.T) {
			var log bytes.Buffer
			m := newManager(t, c.store(t), &ichido.Config{Stored: ichido.Stored{MaxBody: 5}, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			a := send(m.Wrap(c.next), post(key, body))

			var p struct{ Code, Instance string }
			if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Code != c.code {
				t.Fatalf("answered %d %s, want %s", a.status, a.body, c.code)
			}
			id, ok := strings.CutPrefix(p.Instance, "urn:ichido:fault:")
			if !ok || len(id) < 20 {
				t.Errorf("instance %q has no id", p.Instance)
			}
			var line struct{ Level, Fault, Code, Error string }
			if err := json.Unmarshal(log.Bytes(), &line); err != nil {
				t.Fatalf("want one line in the log, got %q", log.String())
			}
			if line.Level != "ERROR" || line.Fault != id || line.Code != c.code || !strings.Contains(line.Error, c.cause) {
				t.Errorf("logged %+v, want fault %s, %s, because %q", line, id, c.code, c.cause)
			}
			if strings.Contains(log.String(), "secret") {
				t.Errorf("the log has the key or the body: %s", log.String())
			}
			if strings.Contains(a.body, c.cause) {
				t.Errorf("the client is told the cause: %s", a.body)
			}
		})
	}
}

func memory(*testing.T) ichido.Store { return memstore.New(nil) }

// What the client did wrong, or what is no fault at all, does not fill the log.
func TestNoFaultIsLoggedOfClients(t *testing.T) {
	var log bytes.Buffer
	m := newManager(t, memstore.New(nil), &ichido.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("no") {
			http.Error(w, "no", http.StatusBadRequest)
		}
	}))
	refused := post("j", "{}")
	refused.URL.RawQuery = "no"
	for status, r := range map[int]*http.Request{400: refused, 200: post("k", "{}")} {
		wantStatus(t, send(h, r), status)
	}
	wantStatus(t, send(h, post("", "{}")), 400)
	wantStatus(t, send(h, post("k", "[]")), 422)
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}
}

// An attempt that could not be abandoned may hold a connection; nobody but the operator can know.
func TestFailedAbandonIsLogged(t *testing.T) {
	var log bytes.Buffer
	m := newManager(t, newScript(t, grants(errors.New("connection reset"))), &ichido.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusBadRequest) }))
	wantStatus(t, send(h, post("secret", "{}")), 400)
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "connection reset") || strings.Contains(log.String(), "secret") {
		t.Errorf("logged: %q", log.String())
	}
}

// That no principal could be found out is the service's failure, and the client is not told why: the operator must be.
func TestErrorOfTheScopeFuncIsLogged(t *testing.T) {
	var log bytes.Buffer
	broken := func(*http.Request) (string, error) { return "", errors.New("session store down") }
	m, err := ichido.New(memstore.New(nil), broken, &ichido.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	a := send(m.Wrap(created("1")), post("k", "{}"))
	wantProblem(t, a, http.StatusForbidden, "no-principal")
	if strings.Contains(a.body, "session store") {
		t.Errorf("the client is told the cause: %s", a.body)
	}
	if !strings.Contains(log.String(), "session store down") {
		t.Errorf("logged: %q", log.String())
	}
}
