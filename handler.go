package ichido

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
)

// errNoPrincipal refuses a request whose ScopeFunc named no principal.
var errNoPrincipal = errors.New("the scope function returned no principal")

// Wrap returns a handler that lets next take effect once for each key.
//
// It applies to Config.Methods, POST and PATCH by default; other methods pass through, with a key or without. next runs
// with the attempt's context: a transaction store offers its open transaction there, and the rows that next writes in it
// are committed together with the key and the answer, or not at all. An answer below 400 is committed, stored, and then
// sent; 400 and above rolls back, is sent, and frees the key, unless Config.Keep, [Keep] or [Discard] say otherwise. A
// panic of next rolls back and is answered 500 (http.ErrAbortHandler is passed on).
//
// In lease mode there is no transaction. 4xx frees the key all the same: next refused, and did nothing. 5xx and a panic do
// not say so, and what Config.OnLapse says happens, unless next called Discard. The context ends early, with ErrLeaseLost
// as its context.Cause, when the lease could not be renewed: next should stop then, because its answer is refused.
//
// next must not send anything by other ways than its ResponseWriter, and must not end the transaction. It may be
// called again for one request, when the database aborted the transaction to keep order between transactions.
//
// Responses are buffered, so a flush does nothing. What cannot be buffered fails: a handler that hijacks, sends trailers
// or server-sent events, or writes more than Config.Stored.MaxBody gets an error from that call where it can return one,
// nothing is committed, and the client gets 500. Informational responses (103) are sent at once, by first requests only.
//
// Put Wrap around the whole router, or around one handler. Between a router and its handlers it works where a router
// can be asked twice: package internal/routertest shows how for chi, gin and echo. A handler in next that turns panics
// into answers must do so before it writes, or half an answer is kept.
//
// Wrap panics if next is nil.
func (m *Manager) Wrap(next http.Handler) http.Handler {
	if next == nil {
		panic("ichido: Wrap: the handler is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(m.config.Methods, r.Method) {
			next.ServeHTTP(w, r)
			return
		}
		if m.config.KeyFrom == nil && len(r.Header[m.config.Header]) == 0 {
			m.withoutKey(w, r, next)
			return
		}
		m.serve(w, r, next)
	})
}

func (m *Manager) withoutKey(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.config.Optional {
		next.ServeHTTP(w, r)
		return
	}
	m.refuse(w, r, keyRequired, "", nil)
}

// serve handles a request that may carry a key.
func (m *Manager) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	var body []byte
	var err error
	if m.config.KeyFrom != nil {
		if body, err = m.readBody(w, r); err != nil {
			m.refuseBody(w, r, err)
			return
		}
	}
	key, err := m.keyOf(r, body)
	switch {
	case err != nil:
		m.refuse(w, r, keyInvalid, m.detailOf(r, err), nil)
		return
	case key == "": // only KeyFrom may find none
		r.Body = newBufferedBody(body)
		m.withoutKey(w, r, next)
		return
	}
	if outer := workOf(r.Context()); outer != nil && outer.flights == m.flights && outer.key == key {
		next.ServeHTTP(w, r) // within an attempt of this very request: Wrap was applied twice
		return
	}
	scope, principal, err := m.scopeOf(r)
	if err != nil {
		m.log.WarnContext(r.Context(), "ichido: a request has no principal", slog.Any("error", err))
		m.refuse(w, r, noPrincipal, "", nil)
		return
	}
	if m.config.KeyFrom == nil {
		if body, err = m.readBody(w, r); err != nil {
			m.refuseBody(w, r, err)
			return
		}
	}
	fingerprint, err := m.config.Fingerprint.of(r, body)
	if err != nil {
		m.refuse(w, r, fingerprintFailed, err.Error(), nil)
		return
	}
	c := call{m: m, w: w, r: r, body: body, next: next,
		claim: Claim{Scope: scope, Key: key, Fingerprint: fingerprint, Retention: m.config.Retention}}
	if m.config.Finish {
		if c.claim.request, err = m.keepRequest(&c.claim, r, body, principal); err != nil {
			m.refuse(w, r, unstorable, "", err)
			return
		}
	}
	record, err := m.execute(r.Context(), c.claim, &c)
	switch {
	case errors.Is(err, context.Canceled) && r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client left before anything began; there is nobody to answer
	case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() != nil:
		m.refuse(w, r, inProgress, "", nil) // a deadline that was set around; nothing is wrong with the store
	case err != nil && c.mayHaveActed(err):
		m.refuse(w, r, c.failure(unstorable), "", err)
	case err != nil:
		m.refuse(w, r, kindOf(err), "", err)
	case record != nil:
		c.replay(record)
	default:
		c.answer()
	}
}

// readBody reads the whole body, up to the limit.
func (m *Manager) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	limit := m.config.MaxRequestBody
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	// The length is a hint: a handler around that decompresses leaves another body, and who announces much may send
	// nothing.
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), 64<<10)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	return body.Bytes(), err
}

const drained = 8 << 20 // bytes read of a body that is refused

func (m *Manager) refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		// A client that still writes when its connection is closed may not get to read why: take in what is not much.
		if r.Header.Get("Expect") == "" && r.ContentLength < drained {
			_, _ = io.CopyN(io.Discard, r.Body, drained)
		}
		m.refuse(w, r, bodyTooLarge, m.detailOf(r, wrong("At most %d bytes are accepted.", "%d バイトまで受け付けます。", tooLarge.Limit)), nil)
		return
	}
	m.refuse(w, r, bodyUnreadable, "", nil)
}

// kindOf names the problem that an error of execute is to the client.
func kindOf(err error) *kind {
	switch {
	case errors.Is(err, ErrInProgress):
		return inProgress
	case errors.Is(err, ErrMismatch):
		return mismatch
	case errors.Is(err, ErrCommitUnknown):
		return commitUnknown
	case errors.Is(err, ErrUnknown):
		return outcomeUnknown
	case errors.Is(err, ErrSerialization):
		return contention
	case errors.Is(err, ErrNotCommitted):
		return notCommitted
	case errors.Is(err, ErrUnreadable):
		return unreadable
	}
	return storeUnavailable
}

// A call is one request on its way through its handler, which may run more than once.
type call struct {
	m     *Manager
	w     http.ResponseWriter
	r     *http.Request
	body  []byte
	next  http.Handler
	claim Claim

	rec       *recorder // of the last run
	failed    error     // the panic of the last run
	abort     bool      // the last run wants the connection closed without an answer
	discarded bool      // the last run said Discard
	resumes   bool      // another attempt would go on where the last run ended
	kept      bool      // the last run asked for its answer to be kept
}

// run calls the handler once, from the start.
func (c *call) run(ctx context.Context) outcome {
	c.rec, c.failed, c.abort, c.kept = newRecorder(c.w, c.m.config.Stored.limit()), nil, false, false
	r := c.request(ctx)
	c.failed = c.protect(r)
	c.rec.finish()
	work := workOf(ctx)
	c.discarded, c.resumes = work.verdict.said.Load() == discard, work.resumes()
	if err := work.unfinished(); err != nil && c.rec.err == nil {
		c.rec.err = err
	}
	if c.failed != nil {
		return outcome{err: c.failed}
	}
	switch {
	case c.rec.err != nil:
		return outcome{err: c.rec.err}
	case workOf(ctx).verdict.keeps(c.m.config.Keep(c.rec.status)):
		response, err := c.m.config.Stored.pack(&c.claim, c.rec.status, c.rec.own(), c.rec.body)
		if err != nil {
			c.rec.err = err
			return outcome{err: err}
		}
		c.kept = true
		return outcome{keep: true, response: response}
	case c.rec.status >= 500:
		return outcome{err: ErrServerError}
	}
	return outcome{}
}

// request returns the request for one run: what the handler does to it is not there in the next.
func (c *call) request(ctx context.Context) *http.Request {
	own := new(struct {
		body bytes.Reader
		url  url.URL
	})
	own.body.Reset(c.body)
	own.url = *c.r.URL
	r := c.r.WithContext(ctx)
	r.Header, r.URL, r.Body = c.r.Header.Clone(), &own.url, bufferedBody{&own.body}
	return r
}

// same compares the request with a record whose fingerprint has another form.
func (c *call) same(stored []byte) (bool, error) {
	again, err := c.m.config.Fingerprint.again(stored, c.r, c.body)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return bytes.Equal(again, stored), nil
}

// A bufferedBody is a request body that was read already.
type bufferedBody struct{ *bytes.Reader }

func newBufferedBody(body []byte) io.ReadCloser { return bufferedBody{bytes.NewReader(body)} }

func (bufferedBody) Close() error { return nil }

// protect turns a panic of the handler into an error.
func (c *call) protect(r *http.Request) (err error) {
	defer func() {
		if r.MultipartForm != nil && c.r.MultipartForm == nil {
			_ = r.MultipartForm.RemoveAll() // net/http removes the files of its own request only
		}
		p := recover()
		if p == nil {
			return // or runtime.Goexit, which goes on its way
		}
		if p == http.ErrAbortHandler {
			c.abort = true
		}
		err = panicked{p, debug.Stack()}
	}()
	c.next.ServeHTTP(c.rec, r)
	return nil
}

// answer sends what the last run, whose attempt has ended, has to say.
func (c *call) answer() {
	switch {
	case c.abort:
		panic(http.ErrAbortHandler)
	case c.failed != nil:
		c.m.refuse(c.w, c.r, c.failure(handlerFailed), "", c.failed)
	case c.rec.err != nil:
		c.m.refuse(c.w, c.r, c.failure(unstorable), "", c.rec.err)
	default:
		c.rec.fill(c.w.Header())
		c.m.expose(c.w, c.r)
		send(c.w, c.rec.status, c.rec.body)
	}
}

// mayHaveActed reports whether an error leaves open what the handler, which has run in this request, did: what the texts of
// other problems say of the request would not be true.
func (c *call) mayHaveActed(err error) bool {
	return c.m.config.Mode == LeaseMode && c.rec != nil && !c.discarded &&
		!errors.Is(err, ErrInProgress) && !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrCommitUnknown)
}

// failure names the problem of work that failed, in transaction mode k. In lease mode it may have left something.
func (c *call) failure(k *kind) *kind {
	switch {
	case c.m.config.Mode == TransactionMode || c.discarded:
		return k
	case c.m.config.OnLapse == Rerun || c.resumes:
		return attemptRepeatable
	}
	return attemptFailed
}

// replay answers from the record.
func (c *call) replay(record *Record) {
	m := c.m
	if m.config.BeforeReplay != nil {
		if err := m.config.BeforeReplay(c.r); err != nil {
			m.log.InfoContext(c.r.Context(), "ichido: a replay was refused", slog.Any("error", err))
			m.refuse(c.w, c.r, replayRefused, "", nil)
			return
		}
	}
	a, err := m.config.Stored.unpack(&c.claim, record.Response)
	switch {
	case err != nil:
		m.refuse(c.w, c.r, unreadable, "", err)
	case a.tombstone:
		if location := a.header.Get("Location"); location != "" {
			c.w.Header().Set("Location", location)
		}
		c.w.Header().Set(replayedHeader, "true")
		m.refuse(c.w, c.r, answerNotKept, "", nil)
	default:
		a.fill(c.w.Header())
		m.expose(c.w, c.r)
		send(c.w, a.status, a.body)
	}
}

// expose lets scripts of other origins read the fields that a client needs (Fetch, CORS protocol).
func (m *Manager) expose(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "" {
		w.Header().Add("Access-Control-Expose-Headers", replayedHeader+", Location, Retry-After")
	}
}

// panicked is the panic of a handler as an error.
type panicked struct {
	value any
	stack []byte
}

func (p panicked) Error() string {
	return fmt.Sprintf("it panicked: %v\n%s", p.value, p.stack)
}

func (p panicked) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
