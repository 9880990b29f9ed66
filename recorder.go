package ichido

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A recorder is the http.ResponseWriter that a handler gets. It holds the response back until the attempt has ended,
// because what was sent cannot be rolled back. What cannot be held back fails, and the failure sticks.
type recorder struct {
	w      http.ResponseWriter // for 1xx responses and deadlines only
	limit  int                 // largest body, in bytes
	header http.Header
	mu     sync.Mutex // a goroutine that the handler left behind may still write
	over   bool       // the handler has returned
	sent   []field    // header as it was at the first WriteHeader; later changes do not count
	status int        // 0 until the first WriteHeader
	body   []byte
	err    error // why the response cannot be stored
}

// newRecorder begins with the fields that handlers around have set, as the handler would find them without us.
func newRecorder(w http.ResponseWriter, limit int) *recorder {
	rec := &recorder{w: w, limit: limit, header: make(http.Header, 4)}
	for name, values := range w.Header() {
		rec.header[name] = slices.Clip(values)
	}
	return rec
}

func (rec *recorder) Header() http.Header { return rec.header }

// WriteHeader keeps the first final status. Informational ones (103 Early Hints) go out at once.
func (rec *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("ichido: WriteHeader(%d): no such status", status)) // as net/http does, but before the commit
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.writeHeader(status)
}

// writeHeader is WriteHeader with rec.mu held.
func (rec *recorder) writeHeader(status int) {
	if rec.over || rec.status != 0 {
		return
	}
	if status >= 100 && status < 200 {
		if status == http.StatusSwitchingProtocols {
			rec.fail("a response that switches protocols")
			return
		}
		rec.inform(status)
		return
	}
	rec.status = status
	rec.sent = snapshot(rec.header)
	switch media, _ := mediaTypeOf(rec.header.Get("Content-Type")); {
	case media == "text/event-stream":
		rec.fail("a stream of server-sent events")
	case !slices.Equal(rec.header["Trailer"], rec.w.Header()["Trailer"]):
		rec.fail("a response with trailers")
	}
}

// inform sends an informational response, with the header as it is now, and leaves that of the final one as it was.
func (rec *recorder) inform(status int) {
	h := rec.w.Header()
	before := maps.Clone(h)
	clear(h)
	maps.Copy(h, rec.header)
	rec.w.WriteHeader(status)
	clear(h)
	maps.Copy(h, before)
}

// A field is one header field with the values of all its lines.
type field struct {
	name   string
	values []string
}

// snapshot copies a header, sorted by name, with room for one field more.
func snapshot(h http.Header) []field {
	n := 0
	for _, values := range h {
		n += len(values)
	}
	fields := make([]field, 0, len(h)+1)
	all := make([]string, 0, n)
	for name, values := range h {
		from := len(all)
		all = append(all, values...)
		fields = append(fields, field{name, all[from:len(all):len(all)]})
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return fields
}

// get returns the values of a field that was set, possibly to none.
func (rec *recorder) get(name string) (values []string, set bool) {
	i := slices.IndexFunc(rec.sent, func(f field) bool { return f.name == name })
	if i < 0 {
		return nil, false
	}
	return rec.sent[i].values, true
}

// errOver is what those get who write after the handler has returned.
var errOver = errors.New("ichido: the handler has returned; its answer is complete")

func (rec *recorder) Write(p []byte) (int, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.over {
		return 0, errOver
	}
	if rec.status == 0 {
		rec.writeHeader(http.StatusOK)
	}
	if rec.err != nil {
		return 0, rec.err
	}
	if !bodyAllowed(rec.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if len(p) > rec.limit-len(rec.body) {
		return 0, rec.fail(fmt.Sprintf("a response body of more than %d bytes (Config.Stored.MaxBody)", rec.limit))
	}
	rec.body = append(rec.body, p...)
	return len(p), nil
}

// FlushError does nothing, because the response is sent in one piece when the attempt has ended, except for server-sent
// events: they are made to be seen while they are made, and never end, so they fail. There is no Unwrap, through which
// http.ResponseController would reach the connection past the recorder.
func (rec *recorder) FlushError() error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.over {
		return errOver
	}
	if rec.status == 0 {
		rec.writeHeader(http.StatusOK)
	}
	return rec.err
}

// Flush is FlushError for handlers that ask for a http.Flusher.
func (rec *recorder) Flush() { _ = rec.FlushError() }

// Hijack refuses: what goes over a connection of the handler's own cannot be stored.
func (rec *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.over {
		return nil, nil, errOver
	}
	return nil, nil, rec.fail("a response over a hijacked connection")
}

// SetReadDeadline sets the connection's deadline, for http.ResponseController.
func (rec *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(rec.w).SetReadDeadline(t)
}

// SetWriteDeadline sets the connection's deadline, for http.ResponseController.
func (rec *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(rec.w).SetWriteDeadline(t)
}

func (rec *recorder) fail(what string) error {
	if rec.err == nil {
		rec.err = fmt.Errorf("ichido: %s cannot be stored: %w", what, http.ErrNotSupported)
	}
	return rec.err
}

// finish settles what the handler left open, as net/http would when a handler returns. Nothing is recorded afterwards.
func (rec *recorder) finish() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.status == 0 {
		rec.writeHeader(http.StatusOK)
	}
	rec.over = true
	for name := range rec.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			_ = rec.fail("a response with trailers")
		}
	}
	if length, set := rec.get("Content-Length"); set && bodyAllowed(rec.status) {
		if n, err := strconv.Atoi(strings.Join(length, ",")); err == nil && len(rec.body) < n {
			_ = rec.fail(fmt.Sprintf("a body that ended after %d of the %d bytes that its Content-Length announced", len(rec.body), n))
		}
	}
	_, typed := rec.get("Content-Type")
	if coding, _ := rec.get("Content-Encoding"); !typed && len(rec.body) > 0 && len(coding) == 0 {
		rec.sent = append(rec.sent, field{"Content-Type", []string{http.DetectContentType(rec.body)}})
	}
}

// fill makes h the header of what was recorded.
func (rec *recorder) fill(h http.Header) {
	clear(h) // it is all in sent, unless the handler deleted it
	for _, f := range rec.sent {
		h[f.name] = f.values
	}
}

// own returns the fields that are the handler's own: not those that were set around it, which the handlers around set
// anew for each request. What it added to one of those has a plus before its name.
func (rec *recorder) own() []field {
	around := rec.w.Header()
	if len(around) == 0 {
		return rec.sent
	}
	var own []field
	for _, f := range rec.sent {
		before := around[f.name]
		switch {
		case len(before) == 0 || describesBody(f.name):
			own = append(own, f)
		case len(f.values) < len(before) || !slices.Equal(f.values[:len(before)], before):
			own = append(own, f)
		case len(f.values) > len(before):
			own = append(own, field{"+" + f.name, f.values[len(before):]})
		}
	}
	return own
}

// send sends the end of a response, with the body's length, unless a handler around will change the body or adds trailers.
func send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	if bodyAllowed(status) {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	if len(h["Content-Encoding"]) > 0 || len(h["Trailer"]) > 0 {
		delete(h, "Content-Length")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // if this fails the client has gone; it will ask again with its key
}

// describesBody reports whether a field belongs to the body, whoever has set it: a stored body without it, or with that
// of another moment, would be another answer.
func describesBody(name string) bool {
	switch name {
	case "Content-Type", "Content-Language", "Content-Location", "Content-Disposition", "Etag", "Last-Modified":
		return true
	}
	return false
}

// fill adds the header of a stored answer, and the mark of a replay, to what handlers around have set.
func (a *answer) fill(h http.Header) {
	for name, values := range a.header {
		if more, ok := strings.CutPrefix(name, "+"); ok {
			h[more] = append(slices.Clip(h[more]), values...)
		} else {
			h[name] = values
		}
	}
	h[replayedHeader] = []string{"true"}
	if _, set := h["Content-Type"]; !set {
		h["Content-Type"] = nil // the first answer had none; do not let net/http guess one
	}
}

// replayedHeader marks an answer from the record.
const replayedHeader = "Idempotent-Replayed"

// bodyAllowed reports whether a response with the status may have a body (RFC 9110, section 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
