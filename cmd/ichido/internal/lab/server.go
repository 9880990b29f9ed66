package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ichido-dev/ichido"
)

// A server serves one way.
type server struct {
	way  *way
	pool pool
	once *ichido.Manager // of a way with keys
	http *http.Server
	url  string

	mu        sync.Mutex
	exchanges map[int]*Exchange // those that may come, by number

	hold   func(context.Context) error // right before a commit
	read   func()                      // when the body of a request has been read; may be nil
	losing atomic.Bool                 // answers are made, and lost
}

// exchangeHeader numbers the lab's requests.
const exchangeHeader = "X-Lab-Exchange"

// serve starts a server on a free port. It has a store of its own, so that no trial knows of an earlier one's keys.
func serve(ctx context.Context, w *way, p pool) (*server, error) {
	s := &server{way: w, pool: p, exchanges: make(map[int]*Exchange), hold: func(context.Context) error { return nil }}
	if w.keys {
		var err error
		s.once, err = ichido.New(p.store(), func(r *http.Request) (string, error) { return user(r), nil },
			&ichido.Config{Methods: []string{http.MethodPost, http.MethodPut}, InProgress: ichido.Wait})
		if err != nil {
			return nil, err
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + listener.Addr().String()
	inner := s.handler()
	s.http = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serveHTTP(w, r, inner) }),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

func (s *server) close() { _ = s.http.Close() }

// expect makes a server know a request that is about to come.
func (s *server) expect(n int, e *Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exchanges[n] = e
}

func (s *server) expected(r *http.Request) *Exchange {
	n, _ := strconv.Atoi(r.Header.Get(exchangeHeader))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exchanges[n]
}

func (s *server) serveHTTP(w http.ResponseWriter, r *http.Request, inner http.Handler) {
	e := s.expected(r)
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
	if s.read != nil {
		r.Body = &watchedBody{r.Body, sync.OnceFunc(s.read)}
	}
	if !s.losing.Load() {
		inner.ServeHTTP(w, r)
		return
	}
	var lost lostAnswer
	inner.ServeHTTP(&lost, r)
	e.answer(lost.status, lost.header, lost.body.Bytes(), true)
	panic(http.ErrAbortHandler) // cuts the connection before a byte of the answer was sent
}

// A watchedBody tells when it has been read.
type watchedBody struct {
	io.ReadCloser
	end func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

// A lostAnswer is one that nobody gets.
type lostAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (l *lostAnswer) Header() http.Header {
	if l.header == nil {
		l.header = make(http.Header)
	}
	return l.header
}

func (l *lostAnswer) WriteHeader(status int) {
	if l.status == 0 {
		l.status = status
	}
}

func (l *lostAnswer) Write(b []byte) (int, error) {
	l.WriteHeader(http.StatusOK)
	return l.body.Write(b)
}

// Serve serves a way in a process of its own, which the lab kills. The first line of input says what to serve; the
// process goes on until it is killed, or input ends, as it does when the lab has died. It prints a line with its URL, and
// another with the statements that it has run when a request is right before its commit, where it stays.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	input := json.NewDecoder(in)
	var order childOrder
	if err := input.Decode(&order); err != nil {
		return err
	}
	chosen, err := wayOf(order.Way)
	if err != nil {
		return err
	}
	p, err := order.Place.open(ctx, true)
	if err != nil {
		return err
	}
	s, err := serve(ctx, chosen, p)
	if err != nil {
		return err
	}
	e := new(Exchange)
	s.expect(order.Exchange, e)
	lines := json.NewEncoder(out)
	s.hold = func(ctx context.Context) error {
		_ = lines.Encode(childLine{Statements: e.sent()})
		<-ctx.Done()
		return ctx.Err()
	}
	if err := lines.Encode(childLine{URL: s.url}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

type childOrder struct {
	Place    place  `json:"place"`
	Way      string `json:"way"`
	Exchange int    `json:"exchange"`
}

type childLine struct {
	URL        string      `json:"url,omitempty"`
	Statements []Statement `json:"statements,omitempty"`
}
