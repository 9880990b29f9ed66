package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
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

func (s *share) UnmarshalJSON(text []byte) error { return s.Set(string(text)) }

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

func (s slowness) MarshalText() ([]byte, error)     { return []byte(s.String()), nil }
func (s *slowness) UnmarshalText(text []byte) error { return s.Set(string(text)) }

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

// change changes the members that a JSON object has.
func (s *switches) change(body io.Reader) (misbehaviour, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.now
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	err := d.Decode(&changed)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the object")
		}
	}
	if err != nil {
		return s.now, err
	}
	s.now = changed
	return changed, nil
}

func (f *fakeProvider) showSwitches(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, f.switches.get())
}

func (f *fakeProvider) setSwitches(w http.ResponseWriter, r *http.Request) {
	now, err := f.switches.change(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		f.refuse(w, r, switchInvalid, text("%[1]v. Nothing was changed. Send some of the members that GET /switches shows.",
			"%[1]v。何も変更していません。GET /switches にある項目を送ってください。", err))
		return
	}
	writeJSON(w, http.StatusOK, now)
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
