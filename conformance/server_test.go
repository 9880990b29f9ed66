package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// concurrency is how many requests are "at once" in these tests.
const concurrency = 10

// flaws are ways to get it wrong.
type flaws struct {
	wait bool   // no flaw: duplicates wait for the first one's answer; else they get 409
	list string // what the list does

	keyOptional     bool // a request without a key is executed
	noRecords       bool // keys are ignored
	keyIsBody       bool // equal requests are taken for one operation, whatever their keys
	unmarked        bool // replays carry no marker
	alwaysMarked    bool // first answers carry it, too
	noFingerprint   bool // another request gets the replay
	rawFingerprint  bool // requests are compared byte by byte
	reencodes       bool // what is replayed was decoded and encoded in between
	noLocation      bool // replays lack the Location
	replayStatus    int  // replays have this status, if not 0
	race            bool // whether there is a record is looked up before the work, and not looked at again
	keepsFailures   bool // failures are stored and replayed
	failureLeaves   bool // a failed attempt leaves its reservation
	mismatchDamages bool // a mismatch deletes the record
	neverCompletes  bool // the key stays in progress after the work
	noRetryAfter    bool
	plainErrors     bool // failures are plain text
	resets          bool // duplicates in progress get their connection reset
	forgets         bool // answers 201 without having kept the reservation
	status          int  // answers every POST, if not 0
}

// A server is a small reservations server in memory. Without flaws it treats keys as it should.
type server struct {
	flaws

	mu      sync.Mutex
	rows    []row // ids ascending
	records map[string]*record
	pages   int // of the list, that were read
	meeting map[string]*meeting
}

type row struct {
	ID       any    `json:"id"`
	ItemCode string `json:"item_code"`
	Quantity int    `json:"quantity"`
	By       string `json:"reserved_by"`
}

type record struct {
	fingerprint string
	done        chan struct{} // closed when the response is there
	response    *response
}

type response struct {
	status   int
	location string
	body     []byte
}

// A meeting is where requests that are to be simultaneous wait for each other, instead of sleeping.
type meeting struct {
	arrived int
	all     chan struct{}
}

// arrive counts one request of a key that takes part in a race; s.mu is held.
func (s *server) arrive(key, item string) chan struct{} {
	m := s.meeting[key]
	if m == nil {
		m = &meeting{all: make(chan struct{})}
		s.meeting[key] = m
		if !strings.HasSuffix(item, "-ten-at-once-one-key") {
			m.arrived = concurrency
			close(m.all) // all others come alone
		}
	}
	if m.arrived++; m.arrived == concurrency {
		close(m.all)
	}
	return m.all
}

func (s *server) handler() http.Handler {
	s.records, s.meeting = map[string]*record{}, map[string]*meeting{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reservations", s.post)
	mux.HandleFunc("GET /reservations", s.get)
	return mux
}

func (s *server) post(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var in row
	if s.status != 0 || json.Unmarshal(body, &in) != nil {
		http.Error(w, "", max(s.status, http.StatusBadRequest))
		return
	}
	key := r.Header.Get("Idempotency-Key")
	switch {
	case key == "" && !s.keyOptional:
		s.fail(w, http.StatusBadRequest, "a key is required")
		return
	case key == "" || s.noRecords:
		s.send(w, s.execute(in), false)
		return
	case s.keyIsBody:
		key = string(body)
	}

	s.mu.Lock()
	rec := s.records[key]
	if rec == nil {
		rec = &record{fingerprint: s.fingerprint(body), done: make(chan struct{})}
		if !s.race {
			s.records[key] = rec
		}
		all := s.arrive(key, in.ItemCode)
		s.mu.Unlock()
		<-all
		s.send(w, s.attempt(key, rec, in), false)
		return
	}
	if !s.noFingerprint && rec.fingerprint != s.fingerprint(body) {
		if s.mismatchDamages {
			delete(s.records, key)
		}
		s.mu.Unlock()
		s.fail(w, http.StatusUnprocessableEntity, "the key was used with another request")
		return
	}
	inProgress := rec.response == nil
	if inProgress {
		s.arrive(key, in.ItemCode)
	}
	s.mu.Unlock()
	if inProgress && !s.wait {
		s.conflict(w)
		return
	}
	<-rec.done
	s.send(w, rec.response, true)
}

// attempt executes a request and completes its record, or removes it if the attempt failed.
func (s *server) attempt(key string, rec *record, in row) *response {
	response := s.execute(in)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.neverCompletes:
		return response
	case response.status < 400 || s.keepsFailures:
		rec.response = response
		s.records[key] = rec
		close(rec.done)
	default:
		delete(s.records, key)
	}
	return response
}

// execute does the work.
func (s *server) execute(in row) *response {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.ID = len(s.rows) + 1
	if s.list == "text ids" {
		in.ID = fmt.Sprintf("r-%x", len(s.rows)*7919%10007)
	}
	if !s.forgets && (in.Quantity > 0 || s.failureLeaves) {
		s.rows = append(s.rows, in)
	}
	if in.Quantity <= 0 {
		return &response{status: http.StatusBadRequest, body: []byte("the quantity must be greater than 0")}
	}
	body, _ := json.Marshal(in)
	return &response{http.StatusCreated, fmt.Sprintf("/reservations/%v", in.ID), append(body, '\n')}
}

// fingerprint returns what a request is recognised by.
func (s *server) fingerprint(body []byte) string {
	if s.rawFingerprint {
		return string(body)
	}
	return string(encodeAgain(body))
}

// encodeAgain returns JSON with its members sorted and without white space.
func encodeAgain(body []byte) []byte {
	var members map[string]any
	if json.Unmarshal(body, &members) != nil {
		return body
	}
	body, _ = json.Marshal(members)
	return body
}

func (s *server) send(w http.ResponseWriter, r *response, replay bool) {
	out := *r
	if replay && s.reencodes {
		out.body = encodeAgain(out.body)
	}
	if replay && s.noLocation {
		out.location = ""
	}
	if replay && s.replayStatus != 0 {
		out.status = s.replayStatus
	}
	if replay && !s.unmarked || s.alwaysMarked {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if out.status >= 400 {
		s.fail(w, out.status, string(out.body))
		return
	}
	if out.location != "" {
		w.Header().Set("Location", out.location)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(out.status)
	_, _ = w.Write(out.body)
}

func (s *server) conflict(w http.ResponseWriter) {
	if s.resets {
		conn, _, _ := w.(http.Hijacker).Hijack()
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
		return
	}
	if !s.noRetryAfter {
		w.Header().Set("Retry-After", "1")
	}
	s.fail(w, http.StatusConflict, "a request with this key is in progress")
}

func (s *server) fail(w http.ResponseWriter, status int, title string) {
	if s.plainErrors {
		http.Error(w, title, status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": fmt.Sprintf("urn:test:%d", status), "title": title, "status": status})
}

// made returns how many reservations there are.
func (s *server) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

const perPage = 3

// get lists the reservations, newest first, as well or as badly as s.list says.
func (s *server) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages++
	rows := slices.Clone(s.rows)
	slices.Reverse(rows)
	from := 0
	_, _ = fmt.Sscan(r.FormValue("from"), &from)
	rows = rows[min(from, len(rows)):]
	out := map[string]any{"reservations": rows[:min(perPage, len(rows))]}
	if len(rows) > perPage {
		out["next"] = fmt.Sprintf("/reservations?from=%d", from+perPage)
	}
	maps.Copy(out, badLists[s.list])
	switch s.list {
	case "fails":
		s.fail(w, http.StatusInternalServerError, "the list is out of order")
		return
	case "is a page for people":
		_, _ = io.WriteString(w, "<html></html>")
		return
	case "is too long":
		_, _ = w.Write(bytes.Repeat([]byte(" "), 2<<20))
		return
	case "resets from the second on":
		if s.pages > 1 {
			panic(http.ErrAbortHandler)
		}
	case "has no reservations":
		delete(out, "reservations")
	case "has no end":
		out["next"] = fmt.Sprintf("?from=%d", from+perPage)
	}
	_ = json.NewEncoder(w).Encode(out)
}

// badLists are the members that a bad list has instead of its own.
var badLists = map[string]map[string]any{
	"never changes":  {"reservations": []row{}, "next": ""},
	"repeats a page": {"next": "/reservations"},
	"is elsewhere":   {"next": "http://other.invalid/reservations"},
	"has no ids":     {"reservations": []map[string]any{{"item_code": "x"}}},
}
