package conformance_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/conformance"
)

// A customers server takes forms and bare, optional keys, keeps failures too, and lists by cursor, as Stripe's API does.
type customers struct {
	mu   sync.Mutex
	rows []map[string]string
	keys map[string]*kept
}

type kept struct {
	body   string
	done   bool
	status int
	answer []byte
}

func (c *customers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		c.list(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		c.fail(w, http.StatusRequestEntityTooLarge, "too large")
		return
	}
	key := strings.Join(r.Header.Values("Idempotency-Key"), ", ")
	if len(key) > 255 {
		c.fail(w, http.StatusBadRequest, "the key is too long")
		return
	}
	c.mu.Lock()
	k := c.keys[key]
	if key == "" || k == nil {
		k = &kept{body: string(body)}
		c.keys[key] = k
		c.mu.Unlock()
		c.create(k)
		c.answer(w, k)
		return
	}
	defer c.mu.Unlock()
	switch {
	case !k.done:
		c.fail(w, http.StatusConflict, "in use")
	case k.body != string(body):
		c.fail(w, http.StatusBadRequest, "another request")
	default:
		w.Header().Set("Idempotent-Replayed", "true")
		c.answer(w, k)
	}
}

func (c *customers) create(k *kept) {
	time.Sleep(30 * time.Millisecond) // the work: others come meanwhile
	c.mu.Lock()
	defer c.mu.Unlock()
	k.done = true
	email, rest, _ := strings.Cut(strings.TrimPrefix(k.body, "email="), "&")
	if _, err := strconv.Atoi(strings.SplitN(strings.TrimPrefix(rest, "balance="), "&", 2)[0]); err != nil && strings.HasPrefix(k.body, "email=") {
		k.status, k.answer = http.StatusBadRequest, []byte(`{"error":{"message":"no number"}}`)
		return
	}
	row := map[string]string{"id": fmt.Sprintf("cus_%d", len(c.rows)), "email": email}
	c.rows = append(c.rows, row)
	k.status = http.StatusOK
	k.answer, _ = json.Marshal(row)
}

func (c *customers) answer(w http.ResponseWriter, k *kept) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(k.status)
	_, _ = w.Write(k.answer)
}

func (c *customers) fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"message":%q,"doc_url":"https://docs.example/keys"}}`, message)
}

// list shows four of those of an email after a cursor.
func (c *customers) list(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rows := []map[string]string{}
	after := r.FormValue("starting_after")
	for _, row := range slices.Backward(c.rows) {
		if row["email"] != r.FormValue("email") {
			continue
		}
		if after != "" {
			if row["id"] == after {
				after = ""
			}
			continue
		}
		if rows = append(rows, row); len(rows) == 4 {
			break
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": rows})
}

// TestStripeLike: what such an API chooses is no fault, and no more than that is not.
func TestStripeLike(t *testing.T) {
	api, _ := conformance.Preset("stripe")
	listening := httptest.NewServer(&customers{keys: map[string]*kept{}})
	defer listening.Close()
	report, err := conformance.Run(t.Context(), listening.URL, &conformance.Options{API: &api,
		Levels: []conformance.Level{conformance.Core, conformance.Robust, conformance.Published}})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "broken", withVerdict(report, conformance.Broken), nil)
	equal(t, "differs", withVerdict(report, conformance.Differs), []string{"no-key", "other-quantity", "member-order",
		"failure-then-same-key", "mismatch-in-flight", "quoted-and-bare", "two-field-lines", "problem-documents", "retry-after"})
	equal(t, "not testable", withVerdict(report, conformance.NotTestable), []string{"binary-answer", "gzip-answer",
		"credentials-not-replayed", "other-principal", "replay-needs-credentials", "server-error-then-retry", "policy-document"})
	if t.Failed() {
		var table strings.Builder
		_ = report.WriteTable(&table, false)
		t.Log(table.String())
	}
}

// TestPromiseOfAnother: what is promised must come, also where the source asks for something else, and a server that keeps to
// the source instead breaks it.
func TestPromiseOfAnother(t *testing.T) {
	for promised, want := range map[string]conformance.Verdict{"422": conformance.Held, "400": conformance.Broken, replays: conformance.Broken} {
		api, _ := conformance.Preset("ichido")
		api.Expect.Mismatch = conformance.Replies{promised}
		report := grade(t, &server{}, &conformance.Options{API: &api, Scenarios: []string{"other-quantity"}})
		if r := report.Results[0]; r.Verdict != want {
			t.Errorf("promised is %s: %s, want %s: %s", promised, r.Verdict, want, r.Got)
		}
	}
	api, _ := conformance.Preset("ichido")
	api.Expect.Mismatch = conformance.Replies{replays}
	report := grade(t, &server{flaws: flaws{noFingerprint: true}}, &conformance.Options{API: &api, Scenarios: []string{"other-quantity"}})
	if r := report.Results[0]; r.Verdict != conformance.Differs {
		t.Errorf("a replay that is promised: %s: %s", r.Verdict, r.Got)
	}
}

const replays = "replay"
