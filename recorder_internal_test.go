package ichido

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// recorded runs a handler and returns what was recorded of its answer.
func recorded(handler func(w http.ResponseWriter)) *recorder {
	rec := newRecorder(httptest.NewRecorder(), 1000)
	handler(rec)
	rec.finish()
	return rec
}

// firstAnswer is what the client gets of rec.
func firstAnswer(rec *recorder) *http.Response {
	w := httptest.NewRecorder()
	rec.fill(w.Header())
	send(w, rec.status, rec.body)
	return w.Result()
}

// laterAnswer is what the client gets from the record of rec.
func laterAnswer(rec *recorder) *http.Response {
	w := httptest.NewRecorder()
	a, err := defaults().unpack(&Claim{}, rec.response())
	if err != nil {
		panic(err)
	}
	a.fill(w.Header())
	send(w, a.status, a.body)
	return w.Result()
}

func defaults() *Stored {
	s := new(Stored)
	if err := s.fill(); err != nil {
		panic(err)
	}
	return s
}

// response returns what is stored of what was recorded, by the default rules.
func (rec *recorder) response() Response {
	r, err := defaults().pack(&Claim{}, rec.status, rec.own(), rec.body)
	if err != nil {
		panic(err)
	}
	return r
}

func TestFirstWriteHeaderWins(t *testing.T) {
	rec := recorded(func(w http.ResponseWriter) {
		w.Header().Set("X-Before", "1")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X-After", "1")
		w.Header().Set("X-Before", "2")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("body"))
		w.Header().Set("X-After", "2")
	})
	for name, res := range map[string]*http.Response{"first": firstAnswer(rec), "later": laterAnswer(rec)} {
		if res.StatusCode != http.StatusCreated || res.Header.Get("X-Before") != "1" || res.Header.Get("X-After") != "" {
			t.Errorf("%s answer: %d %v", name, res.StatusCode, res.Header)
		}
	}
}

func TestImplicitStatus(t *testing.T) {
	for name, handler := range map[string]func(http.ResponseWriter){
		"nothing":    func(http.ResponseWriter) {},
		"header":     func(w http.ResponseWriter) { w.Header().Set("X-A", "1") },
		"empty body": func(w http.ResponseWriter) { _, _ = w.Write(nil); w.WriteHeader(http.StatusTeapot) },
		"body":       func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")); w.WriteHeader(http.StatusTeapot) },
	} {
		rec := recorded(handler)
		if got := firstAnswer(rec).StatusCode; got != http.StatusOK {
			t.Errorf("%s: status %d, want 200", name, got)
		}
		if got := laterAnswer(rec).StatusCode; got != http.StatusOK {
			t.Errorf("%s: replayed status %d, want 200", name, got)
		}
	}
}

// The type that net/http guesses is guessed once, and then kept.
func TestContentType(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler func(w http.ResponseWriter)
		want    []string
	}{
		{"set", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("<html>"))
		}, []string{"application/json"}},
		{"guessed", func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }, []string{"text/html; charset=utf-8"}},
		{"guessed over two writes", func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("<ht"))
			_, _ = w.Write([]byte("ml>"))
		}, []string{"text/html; charset=utf-8"}},
		{"suppressed", func(w http.ResponseWriter) {
			w.Header()["Content-Type"] = nil
			_, _ = w.Write([]byte("<html>"))
		}, nil},
		{"no body", func(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated) }, nil},
		{"encoded", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("\x1f\x8b"))
		}, nil},
	} {
		rec := recorded(c.handler)
		for name, res := range map[string]*http.Response{"first": firstAnswer(rec), "later": laterAnswer(rec)} {
			if got := res.Header["Content-Type"]; !slices.Equal(got, c.want) {
				t.Errorf("%s: Content-Type of the %s answer %q, want %q", c.name, name, got, c.want)
			}
		}
	}
}

func TestStatusWithoutBody(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		rec := recorded(func(w http.ResponseWriter) {
			w.WriteHeader(status)
			if n, err := w.Write([]byte("x")); n != 0 || !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("%d: Write = %d, %v; want ErrBodyNotAllowed", status, n, err)
			}
		})
		if rec.err != nil {
			t.Errorf("%d: cannot be stored: %v", status, rec.err)
		}
		for name, res := range map[string]*http.Response{"first": firstAnswer(rec), "later": laterAnswer(rec)} {
			if res.StatusCode != status || res.Header["Content-Length"] != nil || res.Header["Content-Type"] != nil {
				t.Errorf("%d: the %s answer is %d %v", status, name, res.StatusCode, res.Header)
			}
		}
		if body := rec.response().Body; body == nil || len(body) != 0 {
			t.Errorf("%d: body %q, want an empty one that is not nil", status, body)
		}
	}
}

func TestContentLengthIsThatOfTheBody(t *testing.T) {
	rec := recorded(func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1")
		_, _ = w.Write([]byte("four"))
	})
	for name, res := range map[string]*http.Response{"first": firstAnswer(rec), "later": laterAnswer(rec)} {
		if got := res.Header["Content-Length"]; !slices.Equal(got, []string{"4"}) {
			t.Errorf("Content-Length of the %s answer %q, want 4", name, got)
		}
	}
}

func TestResponseTooLarge(t *testing.T) {
	rec := recorded(func(w http.ResponseWriter) {
		if n, err := w.Write(make([]byte, 1000)); n != 1000 || err != nil {
			t.Errorf("a body of the limit's size: %d, %v", n, err)
		}
		for range 2 {
			n, err := w.Write([]byte("x"))
			if n != 0 || err == nil || !strings.Contains(err.Error(), "1000 bytes (Config.Stored.MaxBody)") {
				t.Errorf("a body beyond the limit: %d, %v", n, err)
			}
		}
	})
	if rec.err == nil {
		t.Error("a response that is too large can be stored")
	}
}

func TestWhatCannotBeHeldBack(t *testing.T) {
	for name, way := range map[string]func(w http.ResponseWriter) error{
		"events": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", "text/event-stream")
			return http.NewResponseController(w).Flush()
		},
		"trailers": func(w http.ResponseWriter) error {
			w.Header().Set("Trailer", "Digest")
			_, err := w.Write(nil)
			return err
		},
		"hijack": func(w http.ResponseWriter) error { _, _, err := http.NewResponseController(w).Hijack(); return err },
	} {
		rec := recorded(func(w http.ResponseWriter) {
			if err := way(w); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("%s: %v, want http.ErrNotSupported", name, err)
			}
			if _, err := w.Write([]byte("x")); err == nil {
				t.Errorf("%s: a Write afterwards returned no error", name)
			}
		})
		if rec.err == nil {
			t.Errorf("%s: the response can be stored", name)
		}
	}
	rec := recorded(func(w http.ResponseWriter) { w.WriteHeader(http.StatusSwitchingProtocols) })
	if rec.err == nil {
		t.Error("101 can be stored")
	}
	var w http.ResponseWriter = rec
	for name, ok := range map[string]bool{
		"Unwrap":        is[interface{ Unwrap() http.ResponseWriter }](w),
		"io.ReaderFrom": is[interface{ ReadFrom() }](w),
	} {
		if ok {
			t.Errorf("the recorder has %s, which leads past it", name)
		}
	}
}

func TestFlushDoesNothing(t *testing.T) {
	rec := recorded(func(w http.ResponseWriter) {
		if _, err := w.Write([]byte("a")); err != nil {
			t.Error(err)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		w.(http.Flusher).Flush()
		if rec := w.(*recorder).w.(*httptest.ResponseRecorder); rec.Flushed || rec.Body.Len() > 0 {
			t.Error("something was sent before the commit")
		}
		if _, err := w.Write([]byte("b")); err != nil {
			t.Error(err)
		}
	})
	if rec.err != nil || string(rec.body) != "ab" {
		t.Errorf("recorded %q, %v", rec.body, rec.err)
	}
}

func is[T any](v any) bool { _, ok := v.(T); return ok }

// connDeadlines is a ResponseWriter that takes note of its connDeadlines.
type connDeadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *connDeadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *connDeadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

func TestDeadlinesReachTheConnection(t *testing.T) {
	w := &connDeadlines{ResponseRecorder: httptest.NewRecorder()}
	rc := http.NewResponseController(newRecorder(w, 1000))
	read, write := time.Unix(1, 0), time.Unix(2, 0)
	if err := errors.Join(rc.SetReadDeadline(read), rc.SetWriteDeadline(write)); err != nil {
		t.Fatal(err)
	}
	if !w.read.Equal(read) || !w.write.Equal(write) {
		t.Errorf("connDeadlines %v and %v, want %v and %v", w.read, w.write, read, write)
	}
}
