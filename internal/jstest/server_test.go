package jstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// A fault is what happens to one sending.
type fault int

const (
	none   fault = iota
	cut          // it is lost before it takes effect
	lose         // it takes effect, and the answer breaks off in its body
	vanish       // it takes effect, and the connection ends without an answer, after which Chromium may send again by itself
	busy         // it is answered 503 in front of the server's keys
	login        // it is answered 401 in front of the server's keys
	hold         // its handler goes on when the test says release
)

// patience is far more than anything here takes.
const patience = 60 * time.Second

// A server serves a page with a form, and orders under ichido.
type server struct {
	t   *testing.T
	url string

	mu       sync.Mutex
	faults   []fault // of the next sendings
	keys     []string
	effects  []string // the items that were ordered
	held     int
	changed  chan struct{} // closed at the next change
	released chan struct{}
}

func newServer(t *testing.T, faults ...fault) *server {
	s := &server{t: t, faults: faults, changed: make(chan struct{}), released: make(chan struct{})}
	once, err := ichido.New(memstore.New(nil), ichido.Shared, nil)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders", s.faulty(once.Wrap(http.HandlerFunc(s.order))))
	mux.HandleFunc("POST /upload", s.upload)
	file := func(pattern, path string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			// Nothing that a strict policy forbids is needed.
			w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; connect-src 'self'; form-action 'none'")
			http.ServeFile(w, r, path)
		})
	}
	file("GET /{$}", "testdata/page.html")
	file("GET /page.js", "testdata/page.js")
	file("GET /ichido.js", "../../js/ichido.js")
	file("GET /webstore.js", "../../js/webstore.js")
	file("GET /readme/{language}/", "testdata/readme.html")
	file("GET /readme/{language}/ichido.js", "../../js/ichido.js")
	mux.HandleFunc("GET /readme/{language}/readme.js", s.readme)
	mux.HandleFunc("GET /elsewhere", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "another page") })
	web := httptest.NewServer(mux)
	s.url = web.URL
	t.Cleanup(func() {
		s.release()
		web.CloseClientConnections()
		web.Close()
	})
	return s
}

// faulty does to a sending what the test wants.
func (s *server) faulty(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := none
		s.change(func() {
			s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
			if len(s.faults) > 0 {
				f, s.faults = s.faults[0], s.faults[1:]
			}
		})
		switch f {
		case cut:
			panic(http.ErrAbortHandler)
		case busy:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case login:
			http.Error(w, "log in again", http.StatusUnauthorized)
		case lose:
			next.ServeHTTP(httptest.NewRecorder(), r)
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "order")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case vanish:
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case hold:
			r.Header.Set("X-Hold", "1")
			fallthrough
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (s *server) order(w http.ResponseWriter, r *http.Request) {
	order := struct{ Item string }{r.FormValue("item")}
	if r.Header.Get("Content-Type") == "application/json" {
		_ = json.NewDecoder(r.Body).Decode(&order)
	}
	if order.Item == "" {
		http.Error(w, "no item", http.StatusUnprocessableEntity)
		return
	}
	if r.Header.Get("X-Hold") != "" {
		s.change(func() { s.held++ })
		<-s.released
	}
	n := 0
	s.change(func() {
		s.effects = append(s.effects, order.Item)
		n = len(s.effects)
	})
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "order %d of %s", n, order.Item)
}

// readme serves the script that the README shows.
func (s *server) readme(w http.ResponseWriter, r *http.Request) {
	file := map[string]string{"en": "README.md", "ja": "README.ja.md"}[r.PathValue("language")]
	text, err := os.ReadFile("../../js/" + file)
	_, text, found := bytes.Cut(text, []byte("```js\n"))
	text, _, closed := bytes.Cut(text, []byte("```"))
	if err != nil || !found || !closed {
		s.t.Errorf("no script in %s: %v", file, err)
	}
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = w.Write(text)
}

// upload answers with what it understood of a form.
func (s *server) upload(w http.ResponseWriter, r *http.Request) {
	file, header, err := r.FormFile("file")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	content, _ := io.ReadAll(file)
	fmt.Fprintf(w, "%q %q %q %q", r.FormValue("item"), header.Filename, header.Header.Get("Content-Type"), content)
}

func (s *server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait returns when the condition holds, which is called under the lock.
func (s *server) wait(what string, condition func() bool) {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		s.mu.Lock()
		done, changed := condition(), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			s.t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func (s *server) waitSendings(n int) {
	s.t.Helper()
	s.wait(fmt.Sprintf("%d sendings", n), func() bool { return len(s.keys) >= n })
}

func (s *server) waitHeld() {
	s.t.Helper()
	s.wait("a request that is held", func() bool { return s.held > 0 })
}

// release lets the handlers that are held go on.
func (s *server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.released:
	default:
		close(s.released)
	}
}

func (s *server) sendings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// check tells what took effect, and how many keys the sendings had.
func (s *server) check(keys int, effects ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.effects, effects) {
		s.t.Errorf("took effect: %q, want %q", s.effects, effects)
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(s.keys)))); n != keys {
		s.t.Errorf("%d keys in %q, want %d", n, s.keys, keys)
	}
}
