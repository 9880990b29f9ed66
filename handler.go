package ichido

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
)

// errNoPrincipal refuses a request whose ScopeFunc named no principal.
var errNoPrincipal = errors.New("the scope function returned no principal")

// Wrap returns a handler that lets next take effect once for each key.
//
// It applies to POST and PATCH; other methods are idempotent by themselves (RFC 9110, section 9.2.2) and pass
// through, with a key or without. next runs with the attempt's context: a transaction store offers its open
// transaction there, and the rows that next writes in it are committed together with the key and the answer, or not
// at all. An answer below 400 is committed, stored, and then sent; 400 and above rolls back, is sent, and frees the
// key. A panic of next rolls back and is answered 500 (http.ErrAbortHandler is passed on).
//
// next must not send anything by other ways than its ResponseWriter, and must not end the transaction. It may be
// called again for one request, when the database aborted the transaction to keep order between transactions.
//
// Responses are buffered: a handler that flushes, hijacks or writes more than Config.MaxResponseBody gets an error
// from that call, nothing is committed, and the client gets 500.
func (m *Manager) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost && r.Method != http.MethodPatch {
			next.ServeHTTP(w, r)
			return
		}
		lines := r.Header[KeyHeader]
		if len(lines) == 0 {
			if m.config.Optional {
				next.ServeHTTP(w, r)
			} else {
				m.refuse(w, r, keyRequired, "", nil)
			}
			return
		}
		m.serve(w, r, lines, next)
	})
}

// serve handles a request that carries a key.
func (m *Manager) serve(w http.ResponseWriter, r *http.Request, lines []string, next http.Handler) {
	key, err := parseKey(lines)
	if err != nil {
		m.refuse(w, r, keyInvalid, err.Error(), nil)
		return
	}
	scope, err := m.scopeOf(r)
	if err != nil {
		m.refuse(w, r, noPrincipal, "", err)
		return
	}
	body, err := m.readBody(w, r)
	if err != nil {
		m.refuseBody(w, r, err)
		return
	}
	claim := Claim{Scope: scope, Key: key, Fingerprint: fingerprintOf(r, body), Retention: m.config.Retention}

	call := call{m: m, w: w, r: r, body: body, next: next}
	record, err := m.execute(r.Context(), claim, call.run)
	switch {
	case errors.Is(err, context.Canceled) && r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client left before anything began; there is nobody to answer
	case err != nil:
		m.refuse(w, r, kindOf(err), "", err)
	case record != nil:
		replay(w, record.Response)
	default:
		call.answer()
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
	if r.ContentLength <= 0 {
		return io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	}
	body := make([]byte, r.ContentLength) // which net/http does not let the body exceed
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

func (m *Manager) refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		m.refuse(w, r, bodyTooLarge, fmt.Sprintf("At most %d bytes are accepted.", tooLarge.Limit), nil)
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
	case errors.Is(err, ErrSerialization), errors.Is(err, ErrLost):
		return contention
	case errors.Is(err, ErrNotCommitted):
		return notCommitted
	}
	return storeUnavailable
}

// A call is one request on its way through its handler, which may run more than once.
type call struct {
	m    *Manager
	w    http.ResponseWriter
	r    *http.Request
	body []byte
	next http.Handler

	reader bytes.Reader // over body
	rec    *recorder    // of the last run
	failed error        // the panic of the last run
	abort  bool         // the last run wants the connection closed without an answer
}

// run calls the handler once, from the start, and asks to keep what it answered if that is a success.
func (c *call) run(ctx context.Context) outcome {
	c.rec, c.failed, c.abort = newRecorder(c.w, c.m.config.MaxResponseBody), nil, false
	r := c.r.WithContext(ctx)
	c.reader.Reset(c.body)
	r.Body = bufferedBody{&c.reader}
	c.failed = c.protect(r)
	if c.failed != nil {
		return outcome{err: c.failed}
	}
	c.rec.finish()
	switch {
	case c.rec.err != nil:
		return outcome{err: c.rec.err}
	case c.rec.status >= 500:
		return outcome{err: ErrServerError}
	case c.rec.status >= 400:
		return outcome{}
	}
	return outcome{keep: true, response: c.rec.response()}
}

// A bufferedBody is a request body that was read already.
type bufferedBody struct{ *bytes.Reader }

func (bufferedBody) Close() error { return nil }

// protect turns a panic of the handler into an error.
func (c *call) protect(r *http.Request) (err error) {
	defer func() {
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
		c.m.refuse(c.w, c.r, handlerFailed, "", c.failed)
	case c.rec.err != nil:
		c.m.refuse(c.w, c.r, unstorable, "", c.rec.err)
	default:
		c.rec.sendTo(c.w)
	}
}

// panicked is the panic of a handler as an error.
type panicked struct {
	value any
	stack []byte
}

func (p panicked) Error() string {
	return fmt.Sprintf("the handler panicked: %v\n%s", p.value, p.stack)
}

func (p panicked) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
