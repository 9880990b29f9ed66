package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ichido-dev/ichido/internal/problem"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A misbehaviour says how the provider misbehaves. Its JSON is that of /switches.
type misbehaviour struct {
	Slow        slowness `json:"slow"`         // how long a charge takes
	LoseAnswers share    `json:"lose_answers"` // of the charges: the connection is cut instead of an answer
	FailAfter   share    `json:"fail_after"`   // of the charges: the answer is 500
	Decline     share    `json:"decline"`      // of the keys: the card is declined
	Down        share    `json:"down"`         // of the requests: 503, and nothing is charged
}

func addSwitchFlags(cmd *cobra.Command, m *misbehaviour) {
	for _, f := range []struct {
		value                 pflag.Value
		name, variable, usage string
	}{
		{&m.Slow, "slow", "ICHIDO_FAKEPAY_SLOW", "how long a charge takes"},
		{&m.LoseAnswers, "lose-answers", "ICHIDO_FAKEPAY_LOSE_ANSWERS", "share of the charges behind which the connection is cut instead of an answer"},
		{&m.FailAfter, "fail-after", "ICHIDO_FAKEPAY_FAIL_AFTER", "share of the charges behind which the answer is 500"},
		{&m.Decline, "decline", "ICHIDO_FAKEPAY_DECLINE", "share of the keys whose card is declined"},
		{&m.Down, "down", "ICHIDO_FAKEPAY_DOWN", "share of the requests that get 503, and charge nothing"},
	} {
		cmd.Flags().Var(f.value, f.name, f.usage)
		bindVariable(cmd, f.name, f.variable)
	}
}

// A share is a part of all requests, from 0 to 1.
type share float64

var errShare = errors.New("it must be a number from 0 to 1")

func (s *share) String() string { return strconv.FormatFloat(float64(*s), 'f', -1, 64) }
func (s *share) Type() string   { return "share" }

func (s *share) Set(text string) error {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0 && value <= 1) {
		return errShare
	}
	*s = share(value)
	return nil
}

// hits draws whether a request is among the share.
func (s share) hits() bool { return rand.Float64() < float64(s) }

// A slowness is how long a charge takes.
type slowness time.Duration

// longestSlow bounds it.
const longestSlow = 10 * time.Minute

var errSlowness = errors.New("it must be a length of time from 0 to " + short(longestSlow) + ", like 500ms or 10s")

func (s *slowness) String() string { return short(time.Duration(*s)) }
func (s *slowness) Type() string   { return "duration" }

func (s *slowness) Set(text string) error {
	d, err := parseDuration(text)
	if err != nil || d < 0 || d > longestSlow {
		return errSlowness
	}
	*s = slowness(d)
	return nil
}

func (s slowness) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// switches hold the misbehaviour, which may change at any time.
type switches struct {
	mu  sync.Mutex
	now misbehaviour
}

func (s *switches) get() misbehaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// change changes the members that a JSON object has, or none if one of them is no good.
func (s *switches) change(body []byte) (misbehaviour, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return s.now, badSwitch("The body must be one JSON object.", "本文は 1 つの JSON オブジェクトでなければなりません。")
	}
	changed := s.now
	shares := map[string]*share{"lose_answers": &changed.LoseAnswers, "fail_after": &changed.FailAfter, "decline": &changed.Decline, "down": &changed.Down}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var slow string
		switch value := members[name]; {
		case name == "slow":
			if json.Unmarshal(value, &slow) != nil || changed.Slow.Set(slow) != nil {
				return s.now, badSwitch(`"slow" must be a length of time in quotes, from "0s" to "%s".`, `"slow" は引用符で囲んだ "0s" 以上 "%s" 以下の時間でなければなりません。`, short(longestSlow))
			}
		case shares[name] == nil:
			return s.now, badSwitch(`There is no switch "%s".`, `"%s" というスイッチはありません。`, name)
		case shares[name].Set(string(value)) != nil:
			return s.now, badSwitch(`"%s" must be a number from 0 to 1.`, `"%s" は 0 以上 1 以下の数でなければなりません。`, name)
		}
	}
	s.now = changed
	return changed, nil
}

func badSwitch(en, ja string, args ...any) error {
	detail := text(en, ja, args...)
	detail.EN += " Nothing was changed. GET /switches shows all of them."
	detail.JA += "何も変更していません。GET /switches で一覧を確認できます。"
	return &badBody{switchInvalid, detail}
}

func (f *fakeProvider) showSwitches(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, f.switches.get())
}

func (f *fakeProvider) setSwitches(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	var now misbehaviour
	if err == nil {
		now, err = f.switches.change(body)
	}
	bad := new(badBody)
	switch {
	case errors.As(err, &bad):
		f.refuse(w, r, bad.kind, bad.detail)
	case err != nil:
		f.refuse(w, r, notJSON, problem.Text{}) // cut off, or no end in sight
	default:
		writeJSON(w, http.StatusOK, now)
	}
}

// misbehaving makes what requests for charges meet before and behind what is idempotent.
func (f *fakeProvider) misbehaving(charges http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := f.switches.get()
		if m.Down.hits() {
			f.refuse(w, r, providerDown, problem.Text{})
			return
		}
		lose, fail := m.LoseAnswers.hits(), m.FailAfter.hits()
		if !lose && !fail {
			charges.ServeHTTP(w, r)
			return
		}
		held := &heldAnswer{header: make(http.Header)}
		charges.ServeHTTP(held, r)
		switch {
		case held.status != http.StatusCreated: // there is no charge to hide
			held.send(w)
		case lose:
			panic(http.ErrAbortHandler)
		default:
			f.refuse(w, r, providerFailed, problem.Text{})
		}
	})
}

// A heldAnswer is an answer that is perhaps not sent.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *heldAnswer) Header() http.Header { return h.header }

func (h *heldAnswer) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

func (h *heldAnswer) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(p)
}

func (h *heldAnswer) send(w http.ResponseWriter) {
	for name, values := range h.header {
		w.Header()[name] = values
	}
	w.WriteHeader(h.status)
	_, _ = w.Write(h.body.Bytes()) // the client has gone if this fails
}
