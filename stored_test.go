package ichido_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// A spy is a store that shows what another one is given, and may change what it returns.
type spy struct {
	ichido.Store
	completing func()                                     // called when an attempt has completed, before its answer is sent
	reading    func(claim ichido.Claim, r *ichido.Record) // may change a copy of a record that is read

	mu     sync.Mutex
	stored []ichido.Response
}

func (s *spy) Begin(ctx context.Context, claim ichido.Claim) (ichido.Attempt, *ichido.Record, error) {
	attempt, record, err := s.Store.Begin(ctx, claim)
	if attempt != nil {
		attempt = spied{attempt, s}
	}
	if record != nil && s.reading != nil {
		changed := *record
		s.reading(claim, &changed)
		record = &changed
	}
	return attempt, record, err
}

type spied struct {
	ichido.Attempt
	s *spy
}

func (a spied) Complete(ctx context.Context, r ichido.Response) error {
	a.s.mu.Lock()
	a.s.stored = append(a.s.stored, r)
	a.s.mu.Unlock()
	err := a.Attempt.Complete(ctx, r)
	if a.s.completing != nil {
		a.s.completing()
	}
	return err
}

// last returns what was stored last.
func (s *spy) last() ichido.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored[len(s.stored)-1]
}

// answering is a handler with this answer. Fields are names and values in turn.
func answering(status int, body string, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func noise(n int) string {
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(b)
	return string(b)
}

func zipped(s string) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = io.WriteString(z, s)
	_ = z.Close()
	return out.String()
}

var secretA, secretB = ichido.Secret{ID: "2026-a", Key: bytes.Repeat([]byte("a"), 32)}, ichido.Secret{ID: "b", Key: bytes.Repeat([]byte("b"), 32)}

// Whatever the rules are, a replay carries status, header and body of the first answer, to the byte.
func TestReplayIsTheFirstAnswerToTheByte(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"text":         answering(200, "desk\r\n\x00予約"),
		"json":         answering(201, `{"b": 1, "a": 1.0}`+"\n", "Content-Type", "application/json", "Location", "/1", "ETag", `W/"1"`),
		"empty":        answering(202, ""),
		"no content":   answering(204, "", "Location", "/1"),
		"not modified": answering(304, "", "ETag", `"1"`),
		"see other":    answering(303, "", "Location", "/1?a=b&c=%E4"),
		"gzip":         answering(200, zipped(strings.Repeat("oak ", 10_000)), "Content-Encoding", "gzip", "Content-Type", "text/plain"),
		"binary":       answering(200, noise(1<<20)),
		"long":         answering(200, strings.Repeat("oak ", 1<<14)),
		"4095":         answering(200, strings.Repeat("o", 4095)),
		"4096":         answering(200, strings.Repeat("o", 4096)),
		"repeated":     answering(200, "x", "X-Many", "one", "X-Many", "two, three", "X-Many", "", "x-many", "four", "Link", "</1>", "Link", "</2>"),
		"not ASCII":    answering(200, "x", "X-Name", "予約", "X-Latin", "caf\xe9", "X-Tab", "a\tb", "X-Colon", ": a: b"),
		"odd status":   answering(299, "x"),
	}
	for rules, stored := range map[string]ichido.Stored{
		"default":             {},
		"compressed":          {CompressFrom: 1},
		"not compressed":      {CompressFrom: -1},
		"encrypted":           {Secrets: []ichido.Secret{secretA}, CompressFrom: -1},
		"both":                {Secrets: []ichido.Secret{secretA, secretB}, CompressFrom: 1},
		"tombstone":           {TooLarge: ichido.Tombstone},
		"nothing denied":      {Deny: []string{}},
		"something else is":   {Deny: []string{"X-Trace"}},
		"a bit larger bodies": {MaxBody: 1<<20 + 1},
	} {
		t.Run(rules, func(t *testing.T) {
			m := newManager(t, memstore.New(nil), &ichido.Config{Stored: stored})
			mux := http.NewServeMux()
			for name, h := range answers {
				mux.Handle("/"+strings.ReplaceAll(name, " ", "_"), m.Wrap(h))
				mux.Handle("/alone/"+strings.ReplaceAll(name, " ", "_"), h)
			}
			server := newServer(t, mux)
			for name := range answers {
				request := func(prefix string) *http.Request {
					r := post("k", "{}")
					r.URL.Path = prefix + strings.ReplaceAll(name, " ", "_")
					return r
				}
				alone, first, again := over(t, server, request("/alone/")), over(t, server, request("/")), over(t, server, request("/"))
				wantSame(t, name+", first answer", first, alone)
				if first.replayed() || !again.replayed() {
					t.Errorf("%s: replayed: %v, then %v", name, first.replayed(), again.replayed())
				}
				again.header.Del("Idempotent-Replayed")
				wantSame(t, name+", replay", again, alone)
			}
		})
	}
}

// Bodies are stored small where that pays, and as they are elsewhere.
func TestBodiesAreCompressedWhereItPays(t *testing.T) {
	oak := strings.Repeat("oak ", 10_000)
	for _, c := range []struct {
		name   string
		from   int
		answer http.HandlerFunc
		body   string
		small  bool
	}{
		{"text", 0, answering(200, oak), oak, true},
		{"text, off", -1, answering(200, oak), oak, false},
		{"text, from more", 50_000, answering(200, oak), oak, false},
		{"short text", 0, answering(200, oak[:4095]), oak[:4095], false},
		{"short text, from less", 4095, answering(200, oak[:4095]), oak[:4095], true},
		{"noise", 0, answering(200, noise(40_000)), noise(40_000), false},
		{"gzip", 0, answering(200, oak, "Content-Encoding", "gzip"), oak, false},
		{"empty", 1, answering(200, ""), "", false},
	} {
		store := &spy{Store: memstore.New(nil)}
		send(newManager(t, store, &ichido.Config{Stored: ichido.Stored{CompressFrom: c.from}}).Wrap(c.answer), post("k", "{}"))
		if body := store.last().Body; c.small && len(body) > len(c.body)/10 || !c.small && string(body) != c.body || body == nil {
			t.Errorf("%s: %d bytes are stored for %d", c.name, len(body), len(c.body))
		}
	}
}

// What belongs to one connection, one moment or one caller is in the first answer, and never in a record.
func TestNeverStored(t *testing.T) {
	var fields []string
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "TE", "Upgrade", "Date", "Set-Cookie", "set-cookie",
		"WWW-Authenticate", "www-authenticate", "Proxy-Authenticate", "Authentication-Info", "Proxy-Authentication-Info", "Traceparent", "Tracestate",
		"Baggage", "X-Request-ID", "x-request-id", "X-Correlation-ID", "X-Amzn-Trace-Id", "X-B3-TraceId", "X-B3-SpanId", "X-B3-ParentSpanId",
		"X-B3-Sampled", "X-B3-Flags", "Via", "Age", "Server-Timing", "Alt-Svc"} {
		fields = append(fields, name, "only once")
	}
	for rules, stored := range map[string]ichido.Stored{
		"default": {}, "allowed": {Allow: []string{"Set-Cookie", "Date", "X-Request-Id"}}, "location only": {LocationOnly: true},
	} {
		store := &spy{Store: memstore.New(nil)}
		h := newManager(t, store, &ichido.Config{Stored: stored}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(fields); i += 2 {
				w.Header()[fields[i]] = []string{fields[i+1]} // in the spelling that it has
			}
			created("x").ServeHTTP(w, r)
		}))
		first, again := send(h, post("k", "{}")), send(h, post("k", "{}"))
		for i := 0; i < len(fields); i += 2 {
			if got := first.header[fields[i]]; !slices.Equal(got, []string{"only once"}) {
				t.Errorf("%s: %s of the first answer is %q", rules, fields[i], got)
			}
			if got := again.header[fields[i]]; got != nil {
				t.Errorf("%s: %s of the replay is %q", rules, fields[i], got)
			}
		}
		if header := store.last().Header; bytes.Contains(header, []byte("once")) {
			t.Errorf("%s: stored: %q", rules, header)
		}
	}
}

// The rules about fields and bodies. All of them leave the first answer alone.
func TestWhatIsStored(t *testing.T) {
	fields := []string{"Location", "/1", "Content-Type", "text/x", "ETag", `"1"`, "X-Trace", "1", "X-Total", "2", "X-Total", "3"}
	all := http.Header{"Location": {"/1"}, "Content-Type": {"text/x"}, "Etag": {`"1"`}, "X-Trace": {"1"}, "X-Total": {"2", "3"}, "Content-Length": {"6"}}
	without := func(names ...string) http.Header {
		h := all.Clone()
		for _, name := range names {
			h.Del(name)
		}
		return h
	}
	for name, c := range map[string]struct {
		stored ichido.Stored
		want   http.Header
		body   string
	}{
		"deny":               {ichido.Stored{Deny: []string{"x-trace", "ETAG"}}, without("X-Trace", "Etag"), "secret"},
		"deny the location":  {ichido.Stored{Deny: []string{"Location"}}, without("Location"), "secret"},
		"allow":              {ichido.Stored{Allow: []string{"x-total"}}, without("X-Trace", "Etag"), "secret"},
		"allow nothing more": {ichido.Stored{Allow: []string{}}, without("X-Trace", "Etag", "X-Total"), "secret"},
		"allow and deny":     {ichido.Stored{Allow: []string{"X-Total", "Etag"}, Deny: []string{"X-Total"}}, without("X-Trace", "X-Total"), "secret"},
		"location only":      {ichido.Stored{LocationOnly: true}, http.Header{"Location": {"/1"}, "Content-Length": {"0"}}, ""},
		"location only, encrypted": {ichido.Stored{LocationOnly: true, Secrets: []ichido.Secret{secretA}},
			http.Header{"Location": {"/1"}, "Content-Length": {"0"}}, ""},
		"location only, of a larger body": {ichido.Stored{LocationOnly: true, MaxBody: 3, TooLarge: ichido.Tombstone},
			http.Header{"Location": {"/1"}, "Content-Length": {"0"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			store := &spy{Store: memstore.New(nil)}
			h := newManager(t, store, &ichido.Config{Stored: c.stored}).Wrap(answering(201, "secret", fields...))
			first, again := send(h, post("k", "{}")), send(h, post("k", "{}"))
			if first.status != 201 || first.body != "secret" || !maps.EqualFunc(first.header, all, slices.Equal) {
				t.Errorf("the first answer is %d %v %q", first.status, first.header, first.body)
			}
			c.want.Set("Idempotent-Replayed", "true")
			again.header = maps.Clone(again.header)
			maps.DeleteFunc(again.header, func(_ string, values []string) bool { return len(values) == 0 }) // as net/http does
			if again.status != 201 || again.body != c.body || !maps.EqualFunc(again.header, c.want, slices.Equal) {
				t.Errorf("the replay is %d %v %q\nwant %v %q", again.status, again.header, again.body, c.want, c.body)
			}
			if c.body == "" && bytes.Contains(store.last().Body, []byte("secret")) {
				t.Errorf("stored: %q", store.last().Body)
			}
		})
	}
}

// Fields that describe the body belong to it, even if handlers around set them for each request anew: a replay in
// another language would say that it is in one which it is not in.
func TestFieldsThatDescribeTheBodyAreStoredWithIt(t *testing.T) {
	for _, name := range []string{"Content-Language", "Content-Type", "Content-Disposition", "Etag", "Last-Modified"} {
		value := "first"
		h := around(newManager(t, memstore.New(nil), nil).Wrap(created("x")), func(h http.Header) { h.Set(name, value) })
		send(h, post("k", "{}"))
		value = "second"
		if got := send(h, post("k", "{}")).header[name]; !slices.Equal(got, []string{"first"}) {
			t.Errorf("%s of the replay is %q, of the first answer it was first", name, got)
		}
	}
}

// Scripts of other origins may read the fields that a client needs, next to those that the handler names.
func TestFieldsAreExposed(t *testing.T) {
	for i, h := range []http.Handler{
		created("x"),
		around(created("x"), func(h http.Header) { h.Add("Access-Control-Expose-Headers", "X-Total") }),
	} {
		h = newManager(t, memstore.New(nil), nil).Wrap(h)
		for range 2 {
			r := post("k", "{}")
			r.Header.Set("Origin", "https://shop.example")
			a := send(h, r)
			got := strings.Join(a.header["Access-Control-Expose-Headers"], ", ")
			if !strings.Contains(got, "Idempotent-Replayed, Location, Retry-After") || i == 1 && !strings.Contains(got, "X-Total") {
				t.Errorf("replayed: %v: Access-Control-Expose-Headers is %q", a.replayed(), got)
			}
		}
		if a := send(h, post("k", "{}")); i == 0 && a.header["Access-Control-Expose-Headers"] != nil {
			t.Errorf("exposed without need: %v", a.header)
		}
	}
}

type childKey struct{}

// Which answers are kept: by default those below 400, by Config.Keep others, and the handler has the last word.
func TestWhichAnswersAreKept(t *testing.T) {
	declined := func(status int) bool { return status == 402 || status < 300 }
	none := func(int) bool { return false }
	for _, c := range []struct {
		name   string
		keep   func(int) bool
		status int
		say    []func(context.Context)
		kept   bool
	}{
		{"below 400", nil, 399, nil, true},
		{"not modified", nil, 304, nil, true},
		{"400", nil, 400, nil, false},
		{"503", nil, 503, nil, false},
		{"declined, kept", nil, 402, []func(context.Context){ichido.Keep}, true},
		{"server error, kept", nil, 500, []func(context.Context){ichido.Keep}, true},
		{"not modified, kept", none, 304, []func(context.Context){ichido.Keep}, true},
		{"success, discarded", nil, 200, []func(context.Context){ichido.Discard}, false},
		{"discarded, then kept", nil, 409, []func(context.Context){ichido.Discard, ichido.Keep}, true},
		{"kept, then discarded", nil, 201, []func(context.Context){ichido.Keep, ichido.Discard}, false},
		{"by rule", declined, 402, nil, true},
		{"not by rule", declined, 303, nil, false},
		{"by rule, discarded", declined, 402, []func(context.Context){ichido.Discard}, false},
		{"not by rule, kept", none, 201, []func(context.Context){ichido.Keep}, true},
	} {
		runs := 0
		h := newManager(t, memstore.New(nil), &ichido.Config{Keep: c.keep}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			answering(c.status, "").ServeHTTP(w, r)
			for _, say := range c.say {
				say(context.WithValue(r.Context(), childKey{}, 1)) // any child of the context will do
			}
		}))
		for i := range 2 {
			if a := send(h, post("k", "{}")); a.status != c.status || a.replayed() != (c.kept && i == 1) {
				t.Errorf("%s: sending %d is answered %d, replayed: %v", c.name, i+1, a.status, a.replayed())
			}
		}
		if want := map[bool]int{true: 1, false: 2}[c.kept]; runs != want {
			t.Errorf("%s: the handler ran %d times, want %d", c.name, runs, want)
		}
	}
}

// What a handler says does not make a panic, or an answer that cannot be stored, a success.
func TestKeepDoesNotKeepFailures(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"panic":  func(http.ResponseWriter, *http.Request) { panic("boom") },
		"events": answering(200, "data: 1\n\n", "Content-Type", "text/event-stream"),
	} {
		store := newScript(t, grants(nil))
		a := send(newManager(t, store, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ichido.Keep(r.Context())
			fail(w, r)
		})), post("k", "{}"))
		if store.wantEnds(0, 1); a.status != http.StatusInternalServerError {
			t.Errorf("%s: answered %d", name, a.status)
		}
	}
}

// An answer that is too large to be kept fails before anything is committed, or by setting is sent once.
func TestAnswerTooLarge(t *testing.T) {
	large := strings.Repeat("x", 1001)
	for name, c := range map[string]struct {
		stored   ichido.Stored
		status   int
		location string
	}{
		"fail":                    {ichido.Stored{MaxBody: 1000}, 500, ""},
		"tombstone":               {ichido.Stored{MaxBody: 1000, TooLarge: ichido.Tombstone}, 201, "/1"},
		"tombstone, encrypted":    {ichido.Stored{MaxBody: 1000, TooLarge: ichido.Tombstone, Secrets: []ichido.Secret{secretA}}, 201, "/1"},
		"tombstone, no location":  {ichido.Stored{MaxBody: 1000, TooLarge: ichido.Tombstone, Deny: []string{"Location"}}, 201, ""},
		"tombstone, few allowed":  {ichido.Stored{MaxBody: 1000, TooLarge: ichido.Tombstone, Allow: []string{}}, 201, "/1"},
		"tombstone, small enough": {ichido.Stored{MaxBody: 1001, TooLarge: ichido.Tombstone}, 201, "/1"},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			store := &spy{Store: memstore.New(nil)}
			server := newServer(t, newManager(t, store, &ichido.Config{Stored: c.stored}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				answering(201, large, "Location", "/1", "X-Total", "1").ServeHTTP(w, r)
			})))
			first := over(t, server, post("k", "{}"))
			if wantStatus(t, first, c.status); c.status == 500 {
				wantProblem(t, first, 500, "response-not-storable")
				wantProblem(t, over(t, server, post("k", "{}")), 500, "response-not-storable")
				if runs != 2 || len(store.stored) != 0 {
					t.Errorf("%d runs, %d records", runs, len(store.stored))
				}
				return
			}
			if first.body != large || first.header.Get("X-Total") != "1" || first.replayed() {
				t.Errorf("the first answer is not whole: %v %d bytes", first.header, len(first.body))
			}
			again := over(t, server, post("k", "{}"))
			if c.stored.MaxBody > 1000 {
				if !again.replayed() || again.body != large {
					t.Errorf("answered %d", again.status)
				}
				return
			}
			wantProblem(t, again, http.StatusConflict, "answer-not-kept")
			if got := again.header.Get("Location"); got != c.location || !again.replayed() || again.header.Get("Retry-After") != "" || again.header.Get("X-Total") != "" {
				t.Errorf("the retry is answered with %v, want the Location %q", again.header, c.location)
			}
			wantProblem(t, over(t, server, post("k", "other")), http.StatusUnprocessableEntity, "mismatch")
			if runs != 1 || bytes.Contains(store.last().Body, []byte("xx")) {
				t.Errorf("%d runs, stored: %q", runs, store.last().Body)
			}
		})
	}
}

// What the server would have to hold in memory has a limit under Tombstone, too.
func TestTombstoneHasALimit(t *testing.T) {
	h := newManager(t, memstore.New(nil), &ichido.Config{Stored: ichido.Stored{TooLarge: ichido.Tombstone}}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := w.Write(make([]byte, 64<<20+1)); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Write returned %v", err)
		}
	}))
	wantProblem(t, send(h, post("k", "{}")), http.StatusInternalServerError, "response-not-storable")
}

const private = "the private part of the answer, "

// encrypted returns a handler that answers with something private, and its store.
func encrypted(t *testing.T, store ichido.Store, secrets ...ichido.Secret) http.Handler {
	t.Helper()
	runs := 0
	return newManager(t, store, &ichido.Config{Stored: ichido.Stored{Secrets: secrets}}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		created(fmt.Sprint(strings.Repeat(private, 300), runs)).ServeHTTP(w, r)
	}))
}

func TestStoreSeesNoPlaintext(t *testing.T) {
	store := &spy{Store: memstore.New(nil)}
	h := encrypted(t, store, secretA)
	for _, key := range []string{"k", "l"} {
		first := send(h, post(key, "{}"))
		wantReplay(t, send(h, post(key, "{}")), first.body)
	}
	one, other := store.stored[0].Body, store.stored[1].Body
	for _, body := range [][]byte{one, other} {
		for i := range len(private) - 8 {
			if bytes.Contains(body, []byte(private[i:i+8])) {
				t.Fatalf("%q is stored", private[i:i+8])
			}
		}
	}
	if bytes.Equal(one[:12], other[:12]) {
		t.Error("two bodies have one nonce")
	}
}

// Secrets are rotated by putting the new one first. What was stored before stays readable as long as its secret is there,
// and a record that cannot be read is neither replayed nor run again.
func TestSecretsAreRotated(t *testing.T) {
	store := &spy{Store: memstore.New(nil)}
	plain := send(encrypted(t, store), post("plain", "{}"))
	old := send(encrypted(t, store, secretA), post("old", "{}"))
	rotated := encrypted(t, store, secretB, secretA)
	wantReplay(t, send(rotated, post("plain", "{}")), plain.body)
	wantReplay(t, send(rotated, post("old", "{}")), old.body)
	recent := send(rotated, post("recent", "{}"))

	alone := encrypted(t, store, secretB)
	wantReplay(t, send(alone, post("recent", "{}")), recent.body)
	wantProblem(t, send(alone, post("old", "{}")), http.StatusInternalServerError, "record-unreadable")
	wantProblem(t, send(encrypted(t, store), post("old", "{}")), http.StatusInternalServerError, "record-unreadable")
	impostor := ichido.Secret{ID: secretA.ID, Key: secretB.Key}
	wantProblem(t, send(encrypted(t, store, impostor), post("old", "{}")), http.StatusInternalServerError, "record-unreadable")
	wantReplay(t, send(rotated, post("old", "{}")), old.body)
	if len(store.stored) != 3 {
		t.Errorf("%d records were made, want 3", len(store.stored))
	}
}

// Whoever can write to the table cannot put one answer under another key, or change what belongs to it.
func TestEncryptedRecordsCannotBeMovedOrChanged(t *testing.T) {
	for name, change := range map[string]func(r *ichido.Response, of []ichido.Response){
		"body of another key": func(r *ichido.Response, of []ichido.Response) { r.Body = of[1].Body },
		"all of another key":  func(r *ichido.Response, of []ichido.Response) { *r = of[1] },
		"status":              func(r *ichido.Response, _ []ichido.Response) { r.Status = 200 },
		"field added": func(r *ichido.Response, _ []ichido.Response) {
			r.Header = append([]byte("Location: /2\n"), r.Header...)
		},
		"field changed": func(r *ichido.Response, _ []ichido.Response) {
			r.Header = bytes.Replace(r.Header, []byte("plain"), []byte("html"), 1)
		},
		"header empty but for mark": func(r *ichido.Response, _ []ichido.Response) { r.Header = []byte(":encrypted: 2026-a\n") },
		"body cut":                  func(r *ichido.Response, _ []ichido.Response) { r.Body = r.Body[:len(r.Body)-1] },
		"body empty":                func(r *ichido.Response, _ []ichido.Response) { r.Body = []byte{} },
		"bit":                       func(r *ichido.Response, _ []ichido.Response) { r.Body = bytes.Clone(r.Body); r.Body[20] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			store := &spy{Store: memstore.New(nil)}
			h := encrypted(t, store, secretA)
			first := send(h, post("k", "{}"))
			send(h, post("l", "{}"))
			store.reading = func(_ ichido.Claim, r *ichido.Record) { change(&r.Response, store.stored) }
			wantProblem(t, send(h, post("k", "{}")), http.StatusInternalServerError, "record-unreadable")
			store.reading = nil
			wantReplay(t, send(h, post("k", "{}")), first.body)
		})
	}
}

// A record that makes no sense is told as such, and nothing runs again.
func TestDamagedRecords(t *testing.T) {
	for name, change := range map[string]func(r *ichido.Response){
		"length negative":   func(r *ichido.Response) { r.Header = []byte(":deflate: -1\n") },
		"length too small":  func(r *ichido.Response) { r.Header = []byte(":deflate: 3\n") },
		"length too large":  func(r *ichido.Response) { r.Header = []byte(":deflate: 9599999\n") },
		"length huge":       func(r *ichido.Response) { r.Header = []byte(":deflate: 99999999999999999\n") },
		"length no number":  func(r *ichido.Response) { r.Header = []byte(":deflate: many\n") },
		"body cut":          func(r *ichido.Response) { r.Body = r.Body[:len(r.Body)/2] },
		"body empty":        func(r *ichido.Response) { r.Body = []byte{} },
		"body not deflated": func(r *ichido.Response) { r.Body = []byte("plain text") },
		"status 0":          func(r *ichido.Response) { r.Status = 0 },
		"status 42":         func(r *ichido.Response) { r.Status = 42 },
		"status 103":        func(r *ichido.Response) { r.Status = 103 },
		"status 1000":       func(r *ichido.Response) { r.Status = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			store := &spy{Store: memstore.New(nil)}
			h := encrypted(t, store)
			first := send(h, post("k", "{}"))
			store.reading = func(_ ichido.Claim, r *ichido.Record) { change(&r.Response) }
			wantProblem(t, sendHere(h, post("k", "{}")), http.StatusInternalServerError, "record-unreadable")
			store.reading = nil
			wantReplay(t, send(h, post("k", "{}")), first.body)
		})
	}
}

// Whether the sender may still see the answer is asked on each replay, never on a first request.
func TestBeforeReplay(t *testing.T) {
	var asked []string
	revoked := errors.New("taro has left")
	m := newManager(t, memstore.New(nil), &ichido.Config{BeforeReplay: func(r *http.Request) error {
		asked = append(asked, r.Header.Get("X-User"))
		if r.Header.Get("X-User") == "taro" {
			return revoked
		}
		return nil
	}})
	h := m.Wrap(counting())
	as := func(user string) answer {
		r := post("k", "{}")
		r.Header.Set("X-User", user)
		return send(h, r)
	}
	if wantFirst(t, as("taro"), "1"); asked != nil {
		t.Errorf("a first request was asked about: %q", asked)
	}
	a := as("taro")
	wantProblem(t, a, http.StatusForbidden, "replay-refused")
	if strings.Contains(a.body, "taro") {
		t.Errorf("the reason is shown: %s", a.body)
	}
	wantReplay(t, as("hanako"), "1")
	if !slices.Equal(asked, []string{"taro", "hanako"}) {
		t.Errorf("asked about %q", asked)
	}
}
