package ichido

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A recorder is the http.ResponseWriter that a handler gets. It holds the response back until the attempt has ended,
// because what was sent cannot be rolled back. What cannot be held back fails, and the failure sticks.
type recorder struct {
	w      http.ResponseWriter // for 1xx responses and deadlines only
	limit  int                 // largest body, in bytes
	header http.Header
	sent   []field // header as it was at the first WriteHeader; later changes do not count
	status int     // 0 until the first WriteHeader
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
	if rec.status != 0 {
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
	case len(rec.header["Trailer"]) > 0:
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

func (rec *recorder) Write(p []byte) (int, error) {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
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
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	return rec.err
}

// Flush is FlushError for handlers that ask for a http.Flusher.
func (rec *recorder) Flush() { _ = rec.FlushError() }

// Hijack refuses: what goes over a connection of the handler's own cannot be stored.
func (rec *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
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

// finish settles what the handler left open, as net/http would when a handler returns.
func (rec *recorder) finish() {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	for name := range rec.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			rec.fail("a response with trailers")
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
		case len(before) == 0:
			own = append(own, f)
		case len(f.values) < len(before) || !slices.Equal(f.values[:len(before)], before):
			own = append(own, f)
		case len(f.values) > len(before):
			own = append(own, field{"+" + f.name, f.values[len(before):]})
		}
	}
	return own
}

// send sends the end of a response, with the body's length.
func send(w http.ResponseWriter, status int, body []byte) {
	if bodyAllowed(status) {
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // if this fails the client has gone; it will ask again with its key
}

// replay sends an answer from the record.
func replay(w http.ResponseWriter, a answer) {
	h := w.Header()
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
	send(w, a.status, a.body)
}

// replayedHeader marks an answer from the record.
const replayedHeader = "Idempotent-Replayed"

// bodyAllowed reports whether a response with the status may have a body (RFC 9110, section 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
