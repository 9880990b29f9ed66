package ichido_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// Handlers around Wrap and inside it should notice nothing of it: these tests compare with what net/http does.

// around sets fields before next runs, as handlers do that know nothing of ichido.
func around(next http.Handler, set func(h http.Header)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		set(w.Header())
		next.ServeHTTP(w, r)
	})
}

// A handler that allows other origins sets Vary before; what the inner one adds must not take that away, or a cache
// gives one origin's answer to another.
func TestFieldsAddedInsideDoNotReplaceThoseAround(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		w.Header().Add("Set-Cookie", "inner=1")
	})
	h := around(newManager(t, memstore.New(nil), nil).Wrap(next), func(h http.Header) {
		h.Add("Vary", "Origin")
		h.Add("Set-Cookie", "outer=1")
	})
	a := send(h, post("k", "{}"))
	for name, want := range map[string][]string{"Vary": {"Origin", "Accept"}, "Set-Cookie": {"outer=1", "inner=1"}} {
		if got := a.header[name]; !slices.Equal(got, want) {
			t.Errorf("%s of the first answer is %q, want %q", name, got, want)
		}
	}
	a = send(h, post("k", "{}"))
	for name, want := range map[string][]string{"Vary": {"Origin", "Accept"}, "Set-Cookie": {"outer=1"}} {
		if got := a.header[name]; !slices.Equal(got, want) {
			t.Errorf("%s of the replay is %q, want %q", name, got, want)
		}
	}
}

// Routers set the content type of a whole API around its handlers.
func TestContentTypeSetAroundIsKept(t *testing.T) {
	h := around(newManager(t, memstore.New(nil), nil).Wrap(created(`{"id":1}`)), func(h http.Header) {
		h.Set("Content-Type", "application/json")
	})
	for range 2 {
		if got := send(h, post("k", "{}")).header.Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type is %q, want application/json", got)
		}
	}
}

// Fields of this one request that are set around, such as its id, stay those of this request.
func TestFieldsSetAroundAreNotStored(t *testing.T) {
	requests := 0
	h := around(newManager(t, memstore.New(nil), nil).Wrap(created("x")), func(h http.Header) {
		requests++
		h.Set("X-Request-Id", fmt.Sprint(requests))
	})
	for _, want := range []string{"1", "2"} {
		if got := send(h, post("k", "{}")).header["X-Request-Id"]; !slices.Equal(got, []string{want}) {
			t.Errorf("X-Request-Id is %q, want %s", got, want)
		}
	}
}

func TestEarlyHintsPassThrough(t *testing.T) {
	h := around(newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusCreated)
	})), func(h http.Header) { h.Set("X-Around", "1") })
	w := &hints{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, post("k", "{}"))
	if len(w.early) != 1 || w.early[0].Get("Link") == "" {
		t.Errorf("early hints: %v, want one", w.early)
	}
	if w.Code != http.StatusCreated || w.Header().Get("Link") != "" || w.Header().Get("X-Around") != "1" {
		t.Errorf("the answer is %d %v", w.Code, w.Header())
	}
}

// hints takes note of informational responses.
type hints struct {
	*httptest.ResponseRecorder
	early []http.Header
}

func (h *hints) WriteHeader(status int) {
	if status < 200 {
		h.early = append(h.early, h.Header().Clone())
		return
	}
	h.ResponseRecorder.WriteHeader(status)
}

func TestEarlyHintsLeaveFieldsAroundAlone(t *testing.T) {
	h := around(newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	})), func(h http.Header) { h.Set("Vary", "Origin") })
	w := &hints{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, post("k", "{}"))
	if got := w.Header().Get("Vary"); got != "Origin" {
		t.Errorf("Vary is %q, want what the handler around has set", got)
	}
}

// net/http panics on a status that is none. Here it must happen before the commit: afterwards the client would never
// get an answer, neither now nor from the record.
func TestStatusThatIsNoneIsNotCommitted(t *testing.T) {
	for _, status := range []int{-1, 0, 1, 42, 99, 1000} {
		store := newScript(t, grants(nil))
		h := newManager(t, store, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
		}))
		wantProblem(t, sendHere(h, post("k", "{}")), http.StatusInternalServerError, "handler-failed")
		store.wantEnds(0, 1)
	}
}

// sendHere is send without a goroutine, for panics.
func sendHere(h http.Handler, r *http.Request) (a answer) {
	defer func() { _ = recover() }()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Result().Header, w.Body.String()}
}

// A handler around that decompresses puts in another body, whose length is not what Content-Length says.
func TestBodyIsReadToItsEndWhateverContentLengthSays(t *testing.T) {
	content := strings.Repeat("a long text, ", 100)
	h := newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, len(body))
	}))
	decompress := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		r.Body = unzipped
		h.ServeHTTP(w, r)
	})
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, content)
	_ = z.Close()
	a := send(decompress, post("k", zipped.String()))
	if a.status != http.StatusOK || a.body != fmt.Sprint(len(content)) {
		t.Errorf("the handler got %d %s bytes, want %d", a.status, a.body, len(content))
	}
}

// The limit is what is accepted, not what is set aside for whoever announces much and sends nothing.
func TestAnnouncedLengthIsNotAllocated(t *testing.T) {
	h := newManager(t, memstore.New(nil), &ichido.Config{MaxRequestBody: 1 << 40}).Wrap(created("x"))
	r := post("k", "short")
	r.ContentLength = 1 << 28
	var before, afterwards runtime.MemStats
	runtime.ReadMemStats(&before)
	send(h, r)
	runtime.ReadMemStats(&afterwards)
	if n := afterwards.TotalAlloc - before.TotalAlloc; n > 1<<24 {
		t.Errorf("%d bytes were allocated for a body of 5", n)
	}
}

// Files of a form that do not fit into memory are on disk; net/http removes those of its own request only.
func TestFilesOfFormsAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="f"; filename="f"`}})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write(make([]byte, 100_000))
	_ = form.Close()
	server := httptest.NewServer(newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
	})))
	defer server.Close()
	req, err := http.NewRequest(http.MethodPost, server.URL, &body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("Idempotency-Key", "k")
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	server.Close() // waits for the request's end
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("%d files are left in the temporary directory", len(left))
	}
}

// What a handler does to the request in one run must not be there in the next.
func TestEachRunGetsTheRequestAsItWas(t *testing.T) {
	store := newScript(t, grants(ichido.ErrSerialization), grants(nil))
	h := newManager(t, store, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Encoding") != "gzip" || r.URL.Path != "/reservations" || r.Form != nil {
			t.Errorf("run %d gets %v %v %v", attemptOf(r.Context()), r.Header, r.URL, r.Form)
		}
		r.Header.Del("Content-Encoding") // as handlers do that decompress
		r.URL.Path = "/"
		_ = r.ParseForm()
		w.WriteHeader(http.StatusCreated)
	}))
	r := post("k", "{}")
	r.Header.Set("Content-Encoding", "gzip")
	wantFirst(t, send(h, r), "")
}

// A service may apply ichido around its router and again at a route. The inner one must not wait for, or refuse because of,
// the outer one's attempt.
func TestWrappedTwiceRunsOnce(t *testing.T) {
	for _, policy := range []ichido.InProgressPolicy{ichido.Reject, ichido.Wait} {
		m := newManager(t, memstore.New(nil), &ichido.Config{InProgress: policy, WaitLimit: 1})
		h := m.Wrap(m.Wrap(counting()))
		wantFirst(t, send(h, post("k", "{}")), "1")
		wantReplay(t, send(h, post("k", "{}")), "1")
	}
}

// A handler around that reads the form, for a token or a method in it, has used up the body. The handler inside finds
// the form in the request; the fingerprint must find it there, too.
func TestFormReadAround(t *testing.T) {
	for _, contentLength := range []bool{true, false} {
		h := newManager(t, memstore.New(nil), nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			created(r.PostFormValue("item")).ServeHTTP(w, r)
		}))
		withToken := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("token") != "t" {
				t.Error("no token")
			}
			h.ServeHTTP(w, r)
		})
		form := func(item string) *http.Request {
			r := post("k", "token=t&item="+item)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if !contentLength {
				r.ContentLength = -1
			}
			return r
		}
		wantFirst(t, send(withToken, form("desk")), "desk")
		wantReplay(t, send(withToken, form("desk")), "desk")
		wantProblem(t, send(withToken, form("chair")), http.StatusUnprocessableEntity, "mismatch")
	}
}
