package ichido_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// newServer serves h until the test ends. Its client decompresses nothing.
func newServer(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	server.Client().Transport.(*http.Transport).DisableCompression = true
	t.Cleanup(server.Close)
	return server
}

// over sends a request over the network and returns what came back, without following redirects.
func over(t *testing.T, server *httptest.Server, r *http.Request) answer {
	t.Helper()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Scheme, r.URL.Host, r.RequestURI = u.Scheme, u.Host, ""
	res, err := server.Client().Transport.RoundTrip(r)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{body: err.Error()}
	}
	if res.ContentLength >= 0 && r.Method != http.MethodHead && res.StatusCode != 204 && res.StatusCode != 304 && res.ContentLength != int64(len(body)) {
		t.Errorf("Content-Length is %d, the body has %d bytes", res.ContentLength, len(body))
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

// A usual is a handler as there are many, and a request for it.
type usual struct {
	name    string
	handler http.HandlerFunc
	change  func(r *http.Request) // of the usual request; may be nil
}

func field(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func body(contentType, content string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Content-Type", contentType)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(content)), int64(len(content))
	}
}

// usuals are handlers that write in every way that there is. dir has a file desk.json.
func usuals(dir, upstream string) []usual {
	content := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "desk.txt", time.Unix(1e9, 0), strings.NewReader("a desk of oak"))
	}
	file := filepath.Join(dir, "desk.json")
	long := strings.Repeat("oak ", 10_000)
	target, _ := url.Parse(upstream)
	return []usual{
		{name: "nothing", handler: func(http.ResponseWriter, *http.Request) {}},
		{name: "text", handler: func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "created") }},
		{name: "html, in parts", handler: func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "<ht"); fmt.Fprint(w, "ml>") }},
		{name: "binary", handler: func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte{0, 0xff, 0x80, '\n'}) }},
		{name: "long", handler: func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, long) }},
		{name: "json", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]any{"id": 1, "name": "<desk>"})
		}},
		{name: "error", handler: func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no desks", http.StatusConflict) }},
		{name: "not found", handler: http.NotFound},
		{name: "redirect", handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "../orders/1?a=b", http.StatusSeeOther)
		}},
		{name: "no content", handler: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }},
		{name: "body not allowed", handler: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := io.WriteString(w, "x"); err != http.ErrBodyNotAllowed {
				panic(fmt.Sprint("Write returned ", err))
			}
		}},
		{name: "not modified", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			w.WriteHeader(http.StatusNotModified)
		}},
		{name: "superfluous", handler: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			w.Header().Set("X-Late", "1")
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, "accepted")
		}},
		{name: "length", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "3")
			fmt.Fprint(w, "oak")
		}},
		{name: "no type", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = nil
			fmt.Fprint(w, "<html>")
		}},
		{name: "copy", handler: func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, strings.NewReader(long)) }},
		{name: "copy of the request", handler: func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }},
		{name: "copy of a file", handler: func(w http.ResponseWriter, r *http.Request) {
			f, err := os.Open(file)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			_, _ = io.Copy(w, f)
		}},
		{name: "ReadFrom", handler: func(w http.ResponseWriter, r *http.Request) {
			if rf, ok := w.(io.ReaderFrom); ok {
				_, _ = rf.ReadFrom(strings.NewReader(long))
			} else {
				_, _ = io.Copy(w, strings.NewReader(long))
			}
		}},
		{name: "content", handler: content},
		{name: "content, range", handler: content, change: field("Range", "bytes=2-5")},
		{name: "content, range beyond", handler: content, change: field("Range", "bytes=99-")},
		{name: "content, not wanted", handler: content, change: field("If-None-Match", `"1"`)},
		{name: "file", handler: func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }},
		{name: "file, range", handler: func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }, change: field("Range", "bytes=-4")},
		{name: "no file", handler: func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file+"5") }},
		{name: "proxy", handler: httputil.NewSingleHostReverseProxy(target).ServeHTTP},
		{name: "buffered", handler: http.TimeoutHandler(http.HandlerFunc(content), time.Hour, "").ServeHTTP},
		{name: "body twice", handler: func(w http.ResponseWriter, r *http.Request) {
			for range 2 {
				b, err := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%q %v\n", b, err)
			}
		}},
		{name: "half the body", handler: func(w http.ResponseWriter, r *http.Request) {
			b := make([]byte, 3)
			_, err := io.ReadFull(r.Body, b)
			fmt.Fprintln(w, string(b), err, r.Body.Close())
		}},
		{name: "chunked", change: func(r *http.Request) { r.ContentLength = -1 }, handler: func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			fmt.Fprintln(w, r.ContentLength, r.TransferEncoding, string(b), err)
		}},
		{name: "form", change: body("application/x-www-form-urlencoded", "item=desk&item=chair"), handler: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, r.ParseForm(), r.Form, r.PostForm, r.ParseForm())
		}},
		{name: "parts", change: multipartBody, handler: func(w http.ResponseWriter, r *http.Request) {
			parts, err := r.MultipartReader()
			for err == nil {
				var p *multipart.Part
				if p, err = parts.NextPart(); err == nil {
					b, _ := io.ReadAll(p)
					fmt.Fprintln(w, p.FormName(), p.FileName(), p.Header, string(b))
				}
			}
			fmt.Fprintln(w, err)
		}},
		{name: "form file", change: multipartBody, handler: func(w http.ResponseWriter, r *http.Request) {
			f, header, err := r.FormFile("plan")
			if err != nil {
				panic(err)
			}
			b, err := io.ReadAll(f)
			fmt.Fprintln(w, header.Filename, header.Size, string(b), err, r.FormValue("item"))
		}},
		{name: "context", handler: func(w http.ResponseWriter, r *http.Request) {
			_, server := r.Context().Value(http.ServerContextKey).(*http.Server)
			fmt.Fprintln(w, server, r.Context().Value(http.LocalAddrContextKey) != nil, r.Context().Err(), r.Proto, r.RemoteAddr != "", r.RequestURI)
		}},
	}
}

func multipartBody(r *http.Request) {
	body("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=item\r\n\r\ndesk\r\n"+
		"--b\r\nContent-Disposition: form-data; name=plan; filename=plan.txt\r\nContent-Type: text/plain\r\n\r\nfour legs\r\n--b--\r\n")(r)
}

// A usual handler answers behind Wrap as it answers alone, and the replay is the first answer.
func TestHandlersAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "desk.json"), []byte(`{"item":"desk"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	upstream := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/orders/1")
		w.WriteHeader(http.StatusCreated)
		for range 3 {
			fmt.Fprintln(w, "from far away")
			_ = http.NewResponseController(w).Flush()
		}
	}))
	for _, u := range usuals(dir, upstream.URL) {
		t.Run(u.name, func(t *testing.T) {
			request := func() *http.Request {
				r := post("k", `{"item":"desk"}`)
				if u.change != nil {
					u.change(r)
				}
				return r
			}
			alone := over(t, newServer(t, u.handler), request())
			server := newServer(t, newManager(t, memstore.New(nil), nil).Wrap(u.handler))
			first, again := over(t, server, request()), over(t, server, request())
			wantSame(t, "first answer", first, alone)
			if alone.status < 400 && !again.replayed() {
				t.Errorf("the second sending is answered %d %v, want a replay", again.status, again.header)
			}
			again.header.Del("Idempotent-Replayed")
			wantSame(t, "second answer", again, alone)
		})
	}
}

// wantSame wants an answer to be as net/http gives it without us, but for the time, and the length, which is always known.
func wantSame(t *testing.T, what string, got, want answer) {
	t.Helper()
	for _, a := range []answer{got, want} {
		a.header.Del("Date")
		if want.header.Get("Content-Length") == "" {
			a.header.Del("Content-Length")
		}
	}
	if got.status != want.status || got.body != want.body || !maps.EqualFunc(got.header, want.header, slices.Equal) {
		t.Errorf("the %s is %d %v\n%.200s\nwithout us it is %d %v\n%.200s", what, got.status, got.header, got.body, want.status, want.header, want.body)
	}
}

// What a response cannot be is found out before anything was sent: nothing of it is committed, the client hears that it
// failed, and its key is free.
func TestWhatCannotBeHeldBackFailsLoudly(t *testing.T) {
	write := func(w http.ResponseWriter) error { _, err := io.WriteString(w, "data: 1\n\n"); return err }
	stream := func(contentType string) func(http.ResponseWriter) error {
		return func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", contentType)
			return write(w)
		}
	}
	for name, c := range map[string]struct {
		run   func(w http.ResponseWriter) error
		quiet bool // there is no call that could return an error
	}{
		"events":                  {run: stream("text/event-stream")},
		"events with a parameter": {run: stream("Text/Event-Stream; charset=utf-8")},
		"events, status first": {run: func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(200)
			return write(w)
		}},
		"events, flush first": {run: func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", "text/event-stream")
			return http.NewResponseController(w).Flush()
		}},
		"trailers announced": {run: func(w http.ResponseWriter) error { w.Header().Set("Trailer", "X-Sum"); return write(w) }},
		"trailers not announced": {quiet: true, run: func(w http.ResponseWriter) error {
			err := write(w)
			w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
			return err
		}},
		"header too large": {quiet: true, run: func(w http.ResponseWriter) error {
			w.Header().Set("X-Large", strings.Repeat("x", 256<<10))
			return nil
		}},
		"hijack":            {run: func(w http.ResponseWriter) error { _, _, err := http.NewResponseController(w).Hijack(); return err }},
		"hijack by the way": {run: func(w http.ResponseWriter) error { _, _, err := w.(http.Hijacker).Hijack(); return err }},
		"hijack at the end": {run: func(w http.ResponseWriter) error {
			return cmp.Or(write(w), func() error { _, _, err := w.(http.Hijacker).Hijack(); return err }())
		}},
		"switch": {run: func(w http.ResponseWriter) error { w.WriteHeader(http.StatusSwitchingProtocols); return write(w) }},
		"too large": {run: func(w http.ResponseWriter) error {
			return cmp.Or(write(w), func() error { _, err := w.Write(make([]byte, 1000)); return err }())
		}},
		"too large by steps": {run: func(w http.ResponseWriter) (err error) {
			for range 1001 {
				_, err = io.Copy(w, strings.NewReader("x"))
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			failed := false
			m := newManager(t, memstore.New(nil), &ichido.Config{Stored: ichido.Stored{MaxBody: 1000}})
			server := newServer(t, m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if failed {
					created("done").ServeHTTP(w, r)
					return
				}
				failed = true
				w.Header().Set("X-Half", "done")
				if err := c.run(w); !errors.Is(err, http.ErrNotSupported) && !c.quiet {
					t.Errorf("the call returned %v, want http.ErrNotSupported", err)
				}
				if n, err := io.WriteString(w, "more"); err == nil && !c.quiet || n > 0 && !c.quiet {
					t.Errorf("a later Write returned %d, %v", n, err)
				}
			})))
			a := over(t, server, post("k", "{}"))
			wantProblem(t, a, http.StatusInternalServerError, "response-not-storable")
			if a.header.Get("X-Half") != "" || a.header.Get("Trailer") != "" {
				t.Errorf("some of the handler's answer was sent: %v", a.header)
			}
			wantFirst(t, over(t, server, post("k", "{}")), "done")
		})
	}
}

// Trailers of handlers around Wrap are theirs: they go out on each answer anew.
func TestTrailersOfHandlersAround(t *testing.T) {
	once := newManager(t, memstore.New(nil), nil).Wrap(created("done"))
	server := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Server-Timing")
		once.ServeHTTP(w, r)
		w.Header().Set("Server-Timing", "total;dur=1")
	}))
	for i := range 2 {
		r := post("k", "{}")
		r.URL.Scheme, r.URL.Host, r.RequestURI = "http", server.Listener.Addr().String(), ""
		res, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(body) != "done" || res.Trailer.Get("Server-Timing") != "total;dur=1" {
			t.Errorf("answer %d is %d %q with the trailers %v, %v", i+1, res.StatusCode, body, res.Trailer, err)
		}
	}
}

// A body that ended before the length that its handler announced is a truncated one. net/http breaks the connection, so
// that the client knows; to store it as a success would make the truncated body the answer for ever.
func TestTruncatedBodyIsNotStored(t *testing.T) {
	for name, truncated := range map[string]http.HandlerFunc{
		"by hand": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "half of")
		},
		"nothing": func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "100") },
		"content": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.txt", time.Time{}, brokenContent{strings.NewReader("half of")})
		},
	} {
		failed := false
		h := newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if failed {
				created("done").ServeHTTP(w, r)
				return
			}
			failed = true
			truncated(w, r)
		}))
		if a := send(h, post("k", "{}")); a.status == http.StatusOK {
			t.Errorf("%s: answered 200 %q", name, a.body)
		}
		wantFirst(t, send(h, post("k", "{}")), "done")
	}
}

// brokenContent says that it is longer than what can be read of it, as a file on a failing disk.
type brokenContent struct{ *strings.Reader }

func (c brokenContent) Seek(offset int64, whence int) (int64, error) {
	n, err := c.Reader.Seek(offset, whence)
	if whence == io.SeekEnd {
		n = 100
	}
	return n, err
}

// http.ResponseController reaches the connection's deadlines; the rest it says that it cannot do, except a flush, which
// there is no need for: the answer is sent when it is complete.
func TestResponseController(t *testing.T) {
	server := newServer(t, newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := errors.Join(rc.SetReadDeadline(time.Now().Add(time.Hour)), rc.SetWriteDeadline(time.Now().Add(time.Hour))); err != nil {
			t.Error(err)
		}
		if err := rc.EnableFullDuplex(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("EnableFullDuplex returned %v, want http.ErrNotSupported", err)
		}
		created("done").ServeHTTP(w, r)
	})))
	wantFirst(t, over(t, server, post("k", "{}")), "done")
	wantReplay(t, over(t, server, post("k", "{}")), "done")
}

func TestFlushDoesNothing(t *testing.T) {
	server := newServer(t, newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		w.WriteHeader(http.StatusCreated)
		if _, err := io.WriteString(w, "in "); err != nil || rc.Flush() != nil {
			t.Error("a flush failed")
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		w.Header().Set("X-Late", "1")
		fmt.Fprint(w, "parts")
	})))
	for i, want := range []func(*testing.T, answer, string){wantFirst, wantReplay} {
		a := over(t, server, post("k", "{}"))
		want(t, a, "in parts")
		if a.header.Get("X-Late") != "" {
			t.Errorf("answer %d has a field that was set after the flush", i+1)
		}
	}
}

// A flush before anything else sends the header, in net/http; what the handler says afterwards about the status comes too late.
func TestFlushIsTheEndOfTheHeader(t *testing.T) {
	a := send(newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		w.WriteHeader(http.StatusCreated)
	})), post("k", "{}"))
	wantStatus(t, a, http.StatusOK)
}

// A write deadline that has passed keeps the answer from the client, not from the record.
func TestAnswerThatCannotBeSentIsStored(t *testing.T) {
	var past atomic.Bool
	server := newServer(t, newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		past.Store(http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) == nil)
		created("done").ServeHTTP(w, r)
	})))
	if wantStatus(t, over(t, server, post("k", "{}")), 0); !past.Load() {
		t.Error("the deadline was not set")
	}
	wantReplay(t, over(t, server, post("k", "{}")), "done")
}

// Each way in which a handler fails over a real connection: what it had written is not sent, and its key is free.
func TestFailuresOverTheNetwork(t *testing.T) {
	half := func(then func()) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Half", "done")
			created("half of").ServeHTTP(w, r)
			then()
		}
	}
	boom := func() { panic("boom") }
	abort := func() { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		run    http.HandlerFunc
		status int // 0 for a connection that breaks
	}{
		"panic":              {func(http.ResponseWriter, *http.Request) { boom() }, 500},
		"panic, half done":   {half(boom), 500},
		"panic with nil":     {half(func() { panic(nil) }), 500},
		"abort":              {func(http.ResponseWriter, *http.Request) { abort() }, 0},
		"abort, half done":   {half(abort), 0},
		"abort, wrapped":     {half(func() { panic(fmt.Errorf("%w", http.ErrAbortHandler)) }), 500}, // as net/http, which compares
		"exit":               {func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, 0},
		"exit, half done":    {half(runtime.Goexit), 0},
		"hijack, then panic": {func(w http.ResponseWriter, r *http.Request) { _, _, _ = w.(http.Hijacker).Hijack(); boom() }, 500},
	} {
		t.Run(name, func(t *testing.T) {
			failed := false
			server := newServer(t, newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !failed {
					failed = true
					c.run(w, r)
				}
				created("done").ServeHTTP(w, r)
			})))
			a := over(t, server, post("k", "{}"))
			wantStatus(t, a, c.status)
			if a.header.Get("X-Half") != "" || strings.Contains(a.body, "half") {
				t.Errorf("some of the handler's answer was sent: %v %s", a.header, a.body)
			}
			wantFirst(t, over(t, server, post("k", "{}")), "done")
		})
	}
}

// A handler may leave something behind that goes on writing. Whatever that says comes too late: for the record, for the
// answer, and for the connection, which may be another request's by then.
func TestWritesAfterTheEnd(t *testing.T) {
	for name, late := range map[string]func(w http.ResponseWriter){
		"body":   func(w http.ResponseWriter) { _, _ = io.WriteString(w, " and more") },
		"status": func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) },
		"hints":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) },
		"large":  func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 2<<20)) },
		"hijack": func(w http.ResponseWriter) { _, _, _ = http.NewResponseController(w).Hijack() },
	} {
		t.Run(name, func(t *testing.T) {
			var kept http.ResponseWriter
			store := &spy{Store: memstore.New(nil), completing: func() { late(kept) }}
			server := newServer(t, newManager(t, store, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				kept = w
				created("done").ServeHTTP(w, r)
			})))
			wantFirst(t, over(t, server, post("k", "{}")), "done")
			late(kept)
			wantReplay(t, over(t, server, post("k", "{}")), "done")
		})
	}
}

func TestWritesAfterAPanic(t *testing.T) {
	var kept http.ResponseWriter
	w := &hints{ResponseRecorder: httptest.NewRecorder()}
	newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept = w
		panic("boom")
	})).ServeHTTP(w, post("k", "{}"))
	kept.WriteHeader(http.StatusEarlyHints)
	if len(w.early) > 0 {
		t.Error("early hints were sent on a connection that may be another request's")
	}
}

// The same with the race detector: the writer that was left behind and the answer meet at no place.
func TestWritesAfterTheEndDoNotRace(t *testing.T) {
	var left sync.WaitGroup
	server := newServer(t, newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		created("done").ServeHTTP(w, r)
		returned := make(chan struct{})
		defer close(returned)
		left.Go(func() {
			<-returned
			for range 100 {
				_, _ = io.WriteString(w, "more")
				w.WriteHeader(http.StatusTeapot)
			}
		})
	})))
	for i := range 20 {
		a := over(t, server, post(fmt.Sprint(i), "{}"))
		if a.status != http.StatusCreated || !strings.HasPrefix(a.body, "done") {
			t.Errorf("answered %d %q", a.status, a.body)
		}
		wantReplay(t, over(t, server, post(fmt.Sprint(i), "{}")), a.body)
	}
	left.Wait()
}

// Early hints are sent while the first request runs, and are no part of the answer.
func TestEarlyHintsAreSentByTheFirstOnly(t *testing.T) {
	server := newServer(t, newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(hinting)))
	wantEarlyHints(t, server)
}

// Early hints carry what the handler says by then; what handlers around have set stays theirs, whatever comes of it.
func TestEarlyHintsDoNotTouchFieldsAround(t *testing.T) {
	failed := false
	requests := 0
	h := around(newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Half", "done")
		w.WriteHeader(http.StatusEarlyHints)
		if w.Header().Del("X-Half"); !failed {
			failed = true
			panic("boom")
		}
		created("done").ServeHTTP(w, r)
	})), func(h http.Header) {
		requests++
		h.Set("X-Request", fmt.Sprint(requests))
	})
	for i, status := range []int{500, 201, 201} {
		w := &hints{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, post("k", "{}"))
		if w.Code != status || w.Header().Get("X-Request") != fmt.Sprint(i+1) || w.Header().Get("X-Half") != "" {
			t.Errorf("answer %d is %d %v", i+1, w.Code, w.Header())
		}
	}
}

func hinting(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	w.Header().Del("Link")
	created("done").ServeHTTP(w, r)
}

func wantEarlyHints(t *testing.T, server *httptest.Server) {
	t.Helper()
	for i, want := range []func(*testing.T, answer, string){wantFirst, wantReplay} {
		var links []string
		trace := httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			links = append(links, fmt.Sprint(status, h["Link"]))
			return nil
		}}
		a := over(t, server, post("k", "{}").WithContext(httptrace.WithClientTrace(context.Background(), &trace)))
		want(t, a, "done")
		if a.header.Get("Link") != "" {
			t.Errorf("answer %d has a Link", i+1)
		}
		if hinted := slices.Equal(links, []string{"103 [</style.css>; rel=preload]"}); hinted != (i == 0) || i > 0 && links != nil {
			t.Errorf("before answer %d came the hints %q", i+1, links)
		}
	}
}

// wire sends a request as it stands and returns all that comes back until the connection is closed.
func wire(t *testing.T, server *httptest.Server, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	return string(got)
}

// Clients that say what they want to be told before they send the body, and clients of another age.
func TestOnTheWire(t *testing.T) {
	server := newServer(t, newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header()["Date"] = nil
		created(string(body)).ServeHTTP(w, r)
	})))
	date := regexp.MustCompile(`Date: .*\r\n`)
	const plain = "\r\nContent-Length: 4\r\nContent-Type: text/plain; charset=utf-8\r\n"
	for _, c := range []struct{ name, request, want string }{
		{"expects 100", "POST / HTTP/1.1\nHost: a\nConnection: close\nIdempotency-Key: e\nExpect: 100-continue\nContent-Length: 4\n\ndesk",
			"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created" + plain + "Connection: close\r\n\r\ndesk"},
		{"expects 100, replay", "POST / HTTP/1.1\nHost: a\nConnection: close\nIdempotency-Key: e\nExpect: 100-continue\nContent-Length: 4\n\ndesk",
			"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created" + plain + "Idempotent-Replayed: true\r\nConnection: close\r\n\r\ndesk"},
		{"1.0", "POST / HTTP/1.0\nIdempotency-Key: o\nContent-Length: 4\n\ndesk",
			"HTTP/1.0 201 Created" + plain + "\r\ndesk"},
		{"1.0, replay", "POST / HTTP/1.0\nIdempotency-Key: o\nContent-Length: 4\n\ndesk",
			"HTTP/1.0 201 Created" + plain + "Idempotent-Replayed: true\r\n\r\ndesk"},
		{"1.0 keeps alive", "POST / HTTP/1.0\nConnection: keep-alive\nIdempotency-Key: o\nContent-Length: 4\n\ndeskPOST / HTTP/1.0\nIdempotency-Key: o\nContent-Length: 4\n\ndesk",
			"HTTP/1.0 201 Created" + plain + "Idempotent-Replayed: true\r\nConnection: keep-alive\r\n\r\ndesk" +
				"HTTP/1.0 201 Created" + plain + "Idempotent-Replayed: true\r\n\r\ndesk"},
		{"chunks", "POST / HTTP/1.1\nHost: a\nConnection: close\nIdempotency-Key: c\nTransfer-Encoding: chunked\n\n2\nde\n2\nsk\n0\n\n",
			"HTTP/1.1 201 Created" + plain + "Connection: close\r\n\r\ndesk"},
		{"no chunks, replay", "POST / HTTP/1.1\nHost: a\nConnection: close\nIdempotency-Key: c\nContent-Length: 4\n\ndesk",
			"HTTP/1.1 201 Created" + plain + "Idempotent-Replayed: true\r\nConnection: close\r\n\r\ndesk"},
	} {
		if got := date.ReplaceAllString(wire(t, server, c.request), ""); got != c.want {
			t.Errorf("%s: got\n%q\nwant\n%q", c.name, got, c.want)
		}
	}
}

// Other methods get the connection's own writer, with all that it can do.
func TestOtherMethodsPassThroughUntouched(t *testing.T) {
	server := newServer(t, newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, flushes := w.(http.Flusher)
		_, reads := w.(io.ReaderFrom)
		if !flushes || !reads || http.NewResponseController(w).EnableFullDuplex() != nil {
			t.Error("the writer is not that of net/http")
		}
		fmt.Fprint(w, "data: 1\n\n")
	})))
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for range 2 {
			r := post("k", "")
			r.Method = method
			if a := over(t, server, r); a.status != http.StatusOK || a.replayed() || (a.body != "") != (method == http.MethodGet) {
				t.Errorf("%s: answered %d %v %q", method, a.status, a.header, a.body)
			}
		}
	}
}
