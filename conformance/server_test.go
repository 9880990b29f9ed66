package conformance_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ichido-dev/ichido/conformance"
)

// atOnce is how many requests of each scenario are sent at once in these tests. The server makes them meet.
var atOnce = map[string]int{"ten-at-once-one-key": 10, "in-progress": 10, "mismatch-in-flight": 10, "retry-after": 10,
	"fifty-at-once": 50}

// flaws are ways to get it wrong.
type flaws struct {
	wait  bool   // no flaw: duplicates wait for the first one's answer; else they get 409
	quick bool   // no flaw: its work takes no time
	list  string // what the list does

	keyOptional       bool // a request without a key is executed
	noRecords         bool // keys are ignored
	keyIsBody         bool // equal requests are taken for one operation, whatever their keys
	unmarked          bool // replays carry no marker
	alwaysMarked      bool // first answers carry it, too
	noFingerprint     bool // another request gets the replay
	rawFingerprint    bool // requests are compared byte by byte
	lateFingerprint   bool // of a running request nothing is known: another one gets 409 meanwhile
	reencodes         bool // what is replayed was decoded and encoded in between
	noLocation        bool // replays lack the Location
	noHeaders         bool // replays have Location and Content-Type only
	replayStatus      int  // replays have this status, if not 0
	race              bool // whether there is a record is looked up before the work, and not looked at again
	keepsFailures     bool // failures of clients are stored and replayed
	keepsServerErrors bool // failures of the server are
	failureLeaves     bool // a failed attempt leaves its reservation
	mismatchDamages   bool // a mismatch deletes the record
	neverCompletes    bool // the key stays in progress after the work
	noRetryAfter      bool
	oddRetryAfter     bool // Retry-After is no number
	plainErrors       bool // failures are plain text
	noLinks           bool // failures link to nothing
	deadLinks         bool // or to what is not there
	noPolicy          bool // the policy does not say how long keys are kept
	resets            bool // duplicates in progress get their connection reset
	forgets           bool // answers 201 without having kept the reservation
	getReplays        bool // a GET with a key is recorded, too
	formsDiffer       bool // "k" and k are two keys
	quotedOnly        bool // no flaw: k is refused
	firstLine         bool // of two keys the first counts
	foldsCase         bool // K and k are one key
	cutsKeys          int  // keys are cut to so many characters, if not 0
	globalKeys        bool // a key is the same for all principals
	replayFirst       bool // a replay comes before the question who asks
	keepsCookies      bool // Set-Cookie is stored and replayed
	compressInside    bool // no flaw: what is stored is compressed, and sent so to those who do not accept it
	losesEncoding     bool // the same, and Content-Encoding is not stored
	textBodies        bool // bodies are stored as text
	hangsUpToo        bool // the work of a client that hung up counts, but its record is dropped
	claimsEarly       bool // the key is claimed before the body is there, and stays so if that breaks off
	crashed           string
	status            int // answers every POST, if not 0
}

// A server is a small reservations server in memory. Without flaws it treats keys as it should.
type server struct {
	flaws
	auth bool // principals are asked for

	mu      sync.Mutex
	rows    []row // ids ascending
	records map[string]*record
	pages   int // of the list, that were read
	meeting map[string]*meeting
	flaky   map[string]bool // keys of which the first failure was
	crash   chan struct{}   // closed when the server crashes; nil if it does not
	dying   chan struct{}   // has one when an attempt waits for that
	epoch   int             // how often it did
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
	early       bool          // its body is not there yet
	response    *response
}

type response struct {
	status int
	header http.Header
	body   []byte
}

// A meeting is where requests that are to be simultaneous wait for each other, instead of sleeping.
type meeting struct {
	missing int
	all     chan struct{}
}

// scenarioOf returns the scenario that an item is of.
func scenarioOf(item string) string {
	_, scenario, _ := strings.Cut(strings.TrimPrefix(item, "verify-"), "-")
	return scenario
}

// arrive counts one request of a key that takes part in a race; s.mu is held.
func (s *server) arrive(key, item string) chan struct{} {
	m := s.meeting[key]
	if m == nil {
		m = &meeting{missing: max(1, atOnce[scenarioOf(item)]), all: make(chan struct{})}
		s.meeting[key] = m
	}
	if m.missing--; m.missing == 0 {
		close(m.all)
	}
	return m.all
}

// full describes the server with all that can be described.
func full() *conformance.API {
	a, _ := conformance.Preset("ichido")
	a.Request.Flaky = `{"item_code":"{item}","quantity":{quantity},"reserved_by":"flaky"}`
	a.Request.Binary = `{"item_code":"{item}","quantity":{quantity},"reserved_by":"binary"}`
	a.Principals = []conformance.Principal{
		{Headers: map[string]string{"Authorization": "Bearer secret-of-a"}},
		{Headers: map[string]string{"Authorization": "Bearer secret-of-b"}},
	}
	return &a
}

func (s *server) handler() http.Handler {
	s.records, s.meeting, s.flaky = map[string]*record{}, map[string]*meeting{}, map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reservations", s.post)
	mux.HandleFunc("GET /reservations", s.get)
	mux.HandleFunc("GET /help", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "help") })
	mux.HandleFunc("GET /.well-known/idempotency", func(w http.ResponseWriter, _ *http.Request) {
		if s.noPolicy {
			_, _ = io.WriteString(w, "{}")
			return
		}
		_, _ = io.WriteString(w, `{"retention":"PT24H"}`)
	})
	if s.inside() {
		return mux
	}
	return compress(mux)
}

// key returns the key of a request and whether there is one, or what is wrong with it.
func (s *server) key(h http.Header) (key, wrong string) {
	lines := h.Values("Idempotency-Key")
	if len(lines) == 0 {
		return "", ""
	}
	if len(lines) > 1 && !s.firstLine {
		return "", "two keys"
	}
	key = lines[0]
	if !s.formsDiffer {
		bare := strings.TrimSuffix(strings.TrimPrefix(key, `"`), `"`)
		if s.quotedOnly && bare == key {
			return "", "no String of RFC 9651"
		}
		key = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(bare)
	}
	if s.foldsCase {
		key = strings.ToLower(key)
	}
	if s.cutsKeys > 0 {
		key = key[:min(len(key), s.cutsKeys)]
	} else if len(key) > 255 {
		return "", "the key is too long"
	}
	return key, ""
}

func (s *server) post(w http.ResponseWriter, r *http.Request) {
	key, wrong := s.key(r.Header)
	who := r.Header.Get("Authorization")
	if wrong != "" {
		s.fail(w, http.StatusBadRequest, wrong)
		return
	}
	if !s.globalKeys && key != "" {
		key = who + " " + key
	}
	s.mu.Lock()
	early := s.claimsEarly && (r.ContentLength < 0 || s.records[key] != nil && s.records[key].early)
	s.mu.Unlock()
	if early {
		s.mu.Lock()
		if rec := s.records[key]; rec != nil && rec.early {
			s.mu.Unlock()
			s.conflict(w)
			return
		} else if rec == nil {
			s.records[key] = &record{done: make(chan struct{}), early: true}
		}
		s.mu.Unlock()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	var in row
	if err != nil {
		s.fail(w, http.StatusRequestEntityTooLarge, "too large, or cut off")
		return
	}
	if early {
		s.mu.Lock()
		if rec := s.records[key]; rec != nil && rec.early {
			delete(s.records, key) // the claim goes on below
		}
		s.mu.Unlock()
	}
	if s.status != 0 || json.Unmarshal(body, &in) != nil {
		http.Error(w, "", cmp.Or(s.status, http.StatusBadRequest))
		return
	}
	if s.auth && who != "Bearer secret-of-a" && who != "Bearer secret-of-b" {
		s.mu.Lock()
		rec := s.records["Bearer secret-of-a "+strings.TrimPrefix(key, " ")]
		s.mu.Unlock()
		if s.replayFirst && rec != nil && rec.response != nil {
			s.send(w, rec.response, true)
			return
		}
		s.fail(w, http.StatusUnauthorized, "who are you?")
		return
	}
	sent := key
	switch {
	case key == "" && !s.keyOptional:
		s.fail(w, http.StatusBadRequest, "a key is required")
		return
	case key == "" || s.noRecords:
		s.send(w, s.execute(r, key, in), false)
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
		all := s.arrive(sent, in.ItemCode)
		s.mu.Unlock()
		<-all
		if s.wait && !s.quick {
			work(in.ItemCode)
		}
		s.send(w, s.attempt(r, key, rec, in), false)
		return
	}
	inProgress := rec.response == nil
	if inProgress {
		s.arrive(sent, in.ItemCode)
	}
	if !s.noFingerprint && rec.fingerprint != s.fingerprint(body) && !(inProgress && s.lateFingerprint) {
		if s.mismatchDamages && !inProgress {
			delete(s.records, key)
		}
		s.mu.Unlock()
		s.fail(w, http.StatusUnprocessableEntity, "the key was used with another request")
		return
	}
	s.mu.Unlock()
	if inProgress && !s.wait {
		s.conflict(w)
		return
	}
	select {
	case <-rec.done:
		s.send(w, rec.response, true)
	case <-r.Context().Done():
	}
}

// work takes a while where requests are sent at once: who waits for it must be told from who came after it.
func work(item string) {
	if atOnce[scenarioOf(strings.TrimSuffix(item, "-seen"))] > 0 {
		time.Sleep(40 * time.Millisecond)
	}
}

// attempt executes a request and completes its record, or removes it if the attempt failed.
func (s *server) attempt(r *http.Request, key string, rec *record, in row) *response {
	response := s.execute(r, key, in)
	if s.hangsUpToo && strings.HasSuffix(in.ItemCode, "-reset-after-send") && s.first(key) {
		<-r.Context().Done() // the client's reset is noticed, and takes the record with it
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.records, key)
		return response
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.neverCompletes:
		return response
	case response.status < 400, s.keepsFailures && response.status < 500, s.keepsServerErrors && response.status >= 500:
		rec.response = response
		s.records[key] = rec
		close(rec.done)
	default:
		delete(s.records, key)
	}
	return response
}

// first reports whether it is asked for the first time about a key.
func (s *server) first(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.flaky[key]
	s.flaky[key] = true
	return !asked
}

// inCrash matches the items that may be in progress when the server crashes.
var inCrash = regexp.MustCompile(`-crash-[a-z-]+-0-\d+-(\d+)$`)

// execute does the work.
func (s *server) execute(r *http.Request, key string, in row) *response {
	if in.By == "flaky" && s.first(key) {
		return &response{status: http.StatusInternalServerError, body: []byte("a fault")}
	}
	s.dieIn(key, in)
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
	out := &response{http.StatusCreated, http.Header{}, append(body, '\n')}
	out.header.Set("Location", fmt.Sprintf("/reservations/%v", in.ID))
	out.header.Set("Content-Type", "application/json")
	out.header["X-Tag"] = []string{"a", "b"}
	out.header.Set("Set-Cookie", fmt.Sprintf("session=%v", in.ID))
	if in.By == "binary" {
		out.header.Set("Content-Type", "application/octet-stream")
		out.body = []byte{0xff, 0x00, 0xfe, byte(len(s.rows))}
	}
	if s.inside() && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		out.body = compressed(out.body)
		out.header.Set("Content-Encoding", "gzip")
	}
	return out
}

func (s *server) inside() bool { return s.compressInside || s.losesEncoding }

func compressed(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body)
	_ = z.Close()
	return b.Bytes()
}

// compress compresses for those who accept it.
func compress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		maps.Copy(w.Header(), rec.Header())
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Del("Content-Length")
		w.WriteHeader(rec.Code)
		_, _ = w.Write(compressed(rec.Body.Bytes()))
	})
}

// dieIn keeps an attempt running until the server crashes, if it does and this is one of those that it cuts off.
func (s *server) dieIn(key string, in row) {
	m := inCrash.FindStringSubmatch(in.ItemCode)
	s.mu.Lock()
	crash, epoch := s.crash, s.epoch
	s.mu.Unlock()
	if m == nil || crash == nil || epoch > 0 {
		return
	}
	if n, _ := strconv.Atoi(m[1]); n < 2 {
		return
	}
	if s.crashed == "after the effect" {
		s.mu.Lock()
		in.ID = len(s.rows) + 1
		s.rows = append(s.rows, in)
		s.mu.Unlock()
	}
	select {
	case s.dying <- struct{}{}:
	default:
	}
	<-crash
	if s.crashed != "sticks" {
		s.mu.Lock()
		delete(s.records, key)
		s.mu.Unlock()
	}
	panic(http.ErrAbortHandler)
}

// kill is the crash: all that is in progress ends, and what is in the flaw is lost.
func (s *server) kill(context.Context) error {
	s.mu.Lock()
	epoch := s.epoch
	s.mu.Unlock()
	if epoch > 0 {
		return nil
	}
	<-s.dying
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	switch s.crashed {
	case "forgets effects":
		s.rows = s.rows[:len(s.rows)-3]
	case "forgets records":
		maps.DeleteFunc(s.records, func(_ string, rec *record) bool { return rec.response != nil })
	}
	close(s.crash)
	return nil
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
	out := response{r.status, r.header.Clone(), slices.Clone(r.body)}
	if replay {
		if s.reencodes {
			out.body = encodeAgain(out.body)
		}
		if s.textBodies {
			out.body = []byte(strings.ToValidUTF8(string(out.body), "\uFFFD"))
		}
		if s.noLocation {
			out.header.Del("Location")
		}
		if s.noHeaders {
			out.header.Del("X-Tag")
		}
		if !s.keepsCookies {
			out.header.Del("Set-Cookie")
		}
		if s.losesEncoding {
			out.header.Del("Content-Encoding")
		}
		if s.replayStatus != 0 {
			out.status = s.replayStatus
		}
	}
	if replay && !s.unmarked || s.alwaysMarked {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if out.status >= 400 {
		s.fail(w, out.status, string(out.body))
		return
	}
	maps.Copy(w.Header(), out.header)
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
	switch {
	case s.oddRetryAfter:
		w.Header().Set("Retry-After", "soon")
	case !s.noRetryAfter:
		w.Header().Set("Retry-After", "1")
	}
	s.fail(w, http.StatusConflict, "a request with this key is in progress")
}

func (s *server) fail(w http.ResponseWriter, status int, title string) {
	if s.plainErrors {
		http.Error(w, title, status)
		return
	}
	kind := "/help"
	switch {
	case s.noLinks:
		kind = fmt.Sprintf("urn:test:%d", status)
	case s.deadLinks:
		kind = "/nowhere"
	}
	w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "title": title, "status": status})
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
	key, _ := s.key(r.Header)
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
		_, _ = w.Write(bytes.Repeat([]byte(" "), 5<<20))
		return
	case "resets from the second on":
		if s.pages > 1 {
			panic(http.ErrAbortHandler)
		}
	case "has no reservations":
		delete(out, "reservations")
	case "overlaps": // as if somebody had made something meanwhile
		if len(rows) > perPage {
			out["next"] = fmt.Sprintf("/reservations?from=%d", from+perPage-1)
		}
	case "has no end":
		out["next"] = fmt.Sprintf("?from=%d", from+perPage)
	}
	body, _ := json.Marshal(out)
	if s.getReplays && key != "" {
		key = "GET " + key
		if s.records[key] == nil {
			s.records[key] = &record{response: &response{body: body}}
		}
		body = s.records[key].response.body
	}
	_, _ = w.Write(body)
}

// badLists are the members that a bad list has instead of its own.
var badLists = map[string]map[string]any{
	"never changes":  {"reservations": []row{}, "next": ""},
	"repeats a page": {"next": "/reservations"},
	"is elsewhere":   {"next": "http://other.invalid/reservations"},
	"has no ids":     {"reservations": []map[string]any{{"item_code": "x"}}},
}
