package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
)

// withDatabase runs a function on a database as a service would, beside the program.
func withDatabase(location string, do func(ctx context.Context, db *database) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	db, err := openPresent(ctx, location)
	if err != nil {
		return err
	}
	defer db.shut()
	return do(ctx, db)
}

// pay sends a payment in lease mode, and returns its answer. fails, if it is not nil, is how its work ends.
func pay(location, user, key string, fails error) (answer string, err error) {
	err = withDatabase(location, func(ctx context.Context, db *database) error {
		payments, err := ichido.New(db.store, func(*http.Request) (string, error) { return user, nil },
			&ichido.Config{Mode: ichido.LeaseMode, Route: "pay"})
		if err != nil {
			return err
		}
		handler := payments.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if fails != nil {
				panic(fails)
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "/payments/private-location")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"card":"private-body"}`)
		}))
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/payments", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", `"`+key+`"`)
		handler.ServeHTTP(w, r)
		var b bytes.Buffer
		fmt.Fprintln(&b, w.Code)
		if err := w.Result().Header.Write(&b); err != nil {
			return err
		}
		answer = b.String() + "\n" + w.Body.String() + "\n"
		return nil
	})
	return answer, err
}

// begin claims a key in lease mode.
func begin(ctx context.Context, db *database, scope, key string, lease ichido.Lease) (ichido.Attempt, error) {
	lease.Duration, lease.UnknownRetention, lease.Route = time.Hour, time.Hour, "pay"
	attempt, _, err := db.store.Begin(ctx, ichido.Claim{Scope: scope, Key: key, Fingerprint: []byte("f"), Retention: time.Hour, Lease: &lease})
	if err == nil && attempt == nil {
		err = errors.New("the key has a record")
	}
	return attempt, err
}

// hold claims a key, and leaves it in progress.
func hold(location, scope, key string) error {
	return withDatabase(location, func(ctx context.Context, db *database) error {
		_, err := begin(ctx, db, scope, key, ichido.Lease{Token: 7})
		return err
	})
}

// lose claims a key, and leaves it unknown.
func lose(t *testing.T, location, scope, key string) {
	t.Helper()
	err := withDatabase(location, func(ctx context.Context, db *database) error {
		attempt, err := begin(ctx, db, scope, key, ichido.Lease{Token: 7})
		if err != nil {
			return err
		}
		return attempt.Abandon(ctx, errors.New("the connection was lost"))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// complete stores an answer under a key.
func complete(t *testing.T, location, scope, key string, rules ichido.Stored, header http.Header, body []byte) {
	t.Helper()
	err := withDatabase(location, func(ctx context.Context, db *database) error {
		attempt, _, err := db.store.Begin(ctx, ichido.Claim{Scope: scope, Key: key, Fingerprint: []byte("f"), Retention: time.Hour})
		if err != nil {
			return err
		}
		r, err := rules.Seal(scope, key, []byte("f"), 200, header, body)
		if err != nil {
			return err
		}
		return attempt.Complete(ctx, r)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A ran is how the program ended.
type ran struct {
	code           int
	stdout, stderr string
}

// keysCommand runs ichido keys on a database.
func keysCommand(t *testing.T, location string, args ...string) ran {
	t.Helper()
	t.Setenv("DATABASE_URL", location)
	t.Setenv("USER", "taro")
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"keys"}, args...), &stdout, &stderr)
	return ran{code, stdout.String(), stderr.String()}
}

// keysJSON is keysCommand that reads the JSON that is printed.
func keysJSON(t *testing.T, location string, into any, args ...string) {
	t.Helper()
	r := keysCommand(t, location, append([]string{args[0], "--json"}, args[1:]...)...)
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil || r.code != 0 || r.stderr != "" {
		t.Fatalf("%q: code %d, %v\n%s%s", args, r.code, err, r.stdout, r.stderr)
	}
}

type pageJSON struct {
	Keys []entryJSON
	Next string
}

func TestPagesHaveEachKeyOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		open(t, location)
		var want []string
		for i := range 23 {
			key := fmt.Sprintf("k%02d", i)
			want = append(want, key)
			lose(t, location, "shop", key)
			if i == 10 {
				lose(t, location, "desk", key) // pages are told apart by the scope too
				want = append(want, key)
			}
		}
		for _, limit := range []string{"1", "5", "11", "24", "100"} {
			var got []string
			for next := ""; ; {
				args := []string{"list", "--limit", limit}
				if next != "" {
					args = append(args, "--after", next)
				}
				var page pageJSON
				keysJSON(t, location, &page, args...)
				for _, k := range page.Keys {
					got = append(got, k.Key)
				}
				if next = page.Next; next == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("pages of %s: %q", limit, got)
			}
		}

		r := keysCommand(t, location, "list", "--limit", "5", "--route", "pay", "--state", "unknown")
		_, line, _ := strings.Cut(r.stderr, "Next page: ichido keys ")
		var keys []string
		for pages := 1; ; pages++ {
			for row := range strings.Lines(r.stdout) {
				if fields := strings.Fields(row); fields[0] == "unknown" {
					keys = append(keys, fields[1])
				}
			}
			if line == "" {
				break
			}
			r = keysCommand(t, location, strings.Fields(line)...) // as an operator who copies it
			if _, line, _ = strings.Cut(r.stderr, "Next page: ichido keys "); pages > 5 {
				t.Fatal("there is always a next page")
			}
		}
		if !slices.Equal(keys, want) {
			t.Errorf("followed to %q", keys)
		}
	})
}

// All pages at once, more than one query returns.
func TestAllPages(t *testing.T) {
	location := t.TempDir() + "/office.db"
	open(t, location)
	const n = 2*maxPage + 7
	if err := execSQL(location, fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO idempotency_keys (scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
		SELECT 's', 'k' || i, x'00', 200, x'', x'', '2026-01-01 00:00:00', '2126-01-01 00:00:00' FROM n`, n)); err != nil {
		t.Fatal(err)
	}
	r := keysCommand(t, location, "list", "--all")
	if lines := strings.Count(r.stdout, "\n"); lines != n+1 || strings.Count(r.stdout, "STATE") != 1 || r.stderr != "" || r.code != 0 {
		t.Errorf("%d lines, code %d: %s", lines, r.code, r.stderr)
	}
	r = keysCommand(t, location, "list", "--all", "--json")
	seen := make(map[string]bool)
	for line := range strings.Lines(r.stdout) {
		var k entryJSON
		if err := json.Unmarshal([]byte(line), &k); err != nil || k.State != "completed" || k.Status != 200 {
			t.Fatalf("%s: %v", line, err)
		}
		seen[k.Key] = true
	}
	if len(seen) != n {
		t.Errorf("%d keys", len(seen))
	}
}

var hostile = []string{
	"two\nlines", "\x1b[2J\x1b[31mred", "tab\tkey", "\rover", "right\u202eleft", "zero\u200bwidth", "bell\a", "\u009b31mred", "\x7f", "\U000e0041",
	"予約 7", "予約", "'; DROP TABLE idempotency_keys; --", `"quoted"`, "-", "--all", "-x", "$(reboot)", "`reboot`", "a  unknown  b",
	" leading", "\u00a0", "%s%d", strings.Repeat("長", 80),
}

// What is shown of a key cannot play tricks on a terminal, and the commands that are shown name that key and no other.
func TestHostileKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		open(t, location)
		for _, key := range hostile {
			lose(t, location, "scope of "+key, key)
		}
		outputs := []ran{keysCommand(t, location, "list"), keysCommand(t, location, "list", "--all"), keysCommand(t, location, "list", "--json"),
			keysCommand(t, location, "list", "--json", "--all")}
		if lines := strings.Count(outputs[0].stdout, "\n"); lines != len(hostile)+1 {
			t.Errorf("%d lines:\n%s", lines, outputs[0].stdout)
		}
		var page pageJSON
		keysJSON(t, location, &page, "list")
		var listed []string
		for _, k := range page.Keys {
			listed = append(listed, k.Key)
		}
		if !slices.Equal(listed, slices.Sorted(slices.Values(hostile))) {
			t.Errorf("listed %q", listed)
		}
		for _, key := range hostile {
			outputs = append(outputs, keysCommand(t, location, "show", "--", key))
			lose(t, location, "another", key)
			several := keysCommand(t, location, "show", "--", key)
			if several.code != 1 || strings.Count(several.stderr, "\n  ichido keys show ") != 2 {
				t.Errorf("%q in two scopes: %+v", key, several)
			}
			shown := keysCommand(t, location, "release", "--scope", "scope of "+key, "--reason", "why "+key, "--by", "by "+key, "--", key)
			_, line, _ := strings.Cut(shown.stderr, "To do it:\n  ichido keys ")
			line, _, _ = strings.Cut(line, "\n")
			released := keysCommand(t, location, shellWords(t, line)...)
			if released.code != 0 {
				t.Errorf("%q: %s: %+v", key, line, released)
			}
			var gone shownJSON
			keysJSON(t, location, &gone, "show", "--scope", "scope of "+key, "--", key)
			if s := gone.Settlements; gone.Key != key || len(s) != 1 || s[0].Reason != "why "+key || s[0].By != "by "+key || s[0].How != "not_done" {
				t.Errorf("%q is shown as %+v", key, gone)
			}
			outputs = append(outputs, several, shown, released, keysCommand(t, location, "show", "--scope", "scope of "+key, "--", key))
		}
		for _, r := range outputs {
			if !isPrintable(strings.ReplaceAll(r.stdout+r.stderr, "\n", "")) {
				t.Errorf("%q %q", r.stdout, r.stderr)
			}
		}
	})
}

// shellWords has a shell split a command line.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	words := strings.Split(bash(t, `printf '%s\0' `+line), "\x00")
	return words[:len(words)-1]
}

func TestKeysAreChosen(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		open(t, location)
		complete(t, location, "shop", "a-done", ichido.Stored{}, nil, nil)
		lose(t, location, "shop", "a-lost")
		lose(t, location, "desk", "b-lost")
		if err := hold(location, "shop", "b-held"); err != nil {
			t.Fatal(err)
		}
		old := "datetime('now', '-3 days')"
		if isPostgres(location) {
			old = "now() - interval '3 days'"
		}
		if err := execSQL(location, "UPDATE idempotency_keys SET created_at = "+old+" WHERE idem_key = 'a-lost'"); err != nil {
			t.Fatal(err)
		}
		for args, want := range map[string]string{
			"":                                    "a-done a-lost b-held b-lost",
			"--state unknown":                     "a-lost b-lost",
			"--state completed":                   "a-done",
			"--state in-progress":                 "b-held",
			"--state in_progress":                 "b-held",
			"--state unknown,completed":           "a-done a-lost b-lost",
			"--state unknown --state in-progress": "a-lost b-held b-lost",
			"--scope desk":                        "b-lost",
			"--route pay":                         "a-lost b-held b-lost",
			"--route other":                       "",
			"--key-prefix a":                      "a-done a-lost",
			"--older-than 2d":                     "a-lost",
			"--older-than 2d23h":                  "a-lost",
			"--older-than 4d":                     "",
			"--newer-than 2d":                     "a-done b-held b-lost",
			"--older-than 2d --newer-than 4d":     "a-lost",
			"--state unknown --scope shop":        "a-lost",
		} {
			var page pageJSON
			keysJSON(t, location, &page, append([]string{"list"}, strings.Fields(args)...)...)
			got := make([]string, 0, 4)
			for _, k := range page.Keys {
				got = append(got, k.Key)
			}
			if strings.Join(got, " ") != want || page.Keys == nil {
				t.Errorf("%s: %q, want %s", args, got, want)
			}
		}
	})
}

func TestBodiesThatCannotBeShown(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		open(t, location)
		secret := ichido.Secret{ID: "2026-a", Key: bytes.Repeat([]byte("a"), 32)}
		header := http.Header{"Location": {"/7"}}
		complete(t, location, "s", "encrypted", ichido.Stored{Secrets: []ichido.Secret{secret}}, header, []byte("private"))
		complete(t, location, "s", "large", ichido.Stored{MaxBody: 3, TooLarge: ichido.Tombstone}, header, []byte("private"))
		complete(t, location, "s", "binary", ichido.Stored{}, nil, []byte("\xff\x1b[2J"))
		complete(t, location, "s", "escapes", ichido.Stored{}, http.Header{"X": {"\x1b[2J"}}, []byte("予約\n\x1b[2Jx\n"))
		complete(t, location, "s", "compressed", ichido.Stored{CompressFrom: 1}, nil, bytes.Repeat([]byte("oak "), 1000))
		complete(t, location, "s", "empty", ichido.Stored{}, nil, nil)

		for key, c := range map[string]struct {
			code           int
			stdout, stderr string
		}{
			"encrypted":  {1, `encrypted with the secret "2026-a"`, `cannot be revealed: .*`},
			"large":      {0, "too large to be kept", ""},
			"binary":     {0, "5 bytes that are no text", ""},
			"escapes":    {0, "\n\n予約\n\\x1b[2Jx\n", ""},
			"compressed": {0, "4000 bytes\n\noak oak ", ""},
			"empty":      {0, "0 bytes", ""},
		} {
			r := keysCommand(t, location, "show", key, "--reveal")
			if r.code != c.code || !strings.Contains(r.stdout, c.stdout) || (r.stderr == "") != (c.stderr == "") {
				t.Errorf("%s: %+v", key, r)
			}
			if !isPrintable(strings.ReplaceAll(r.stdout, "\n", "")) {
				t.Errorf("%s: %q", key, r.stdout)
			}
			if r := keysCommand(t, location, "show", key); r.code != 0 || r.stderr != "" || strings.Contains(r.stdout, "oak") ||
				strings.Contains(r.stdout, "予約") || strings.Contains(r.stdout, "/7") {
				t.Errorf("%s: %+v", key, r)
			}
		}
		var s shownJSON
		if keysJSON(t, location, &s, "show", "binary", "--reveal"); string(s.BodyBase64) != "\xff\x1b[2J" || s.Body != nil {
			t.Errorf("%+v", s)
		}
		if keysJSON(t, location, &s, "show", "escapes", "--reveal"); s.Body == nil || *s.Body != "予約\n\x1b[2Jx\n" {
			t.Errorf("%+v", s)
		}
		if keysJSON(t, location, &s, "show", "empty", "--reveal"); s.Body == nil || *s.Body != "" {
			t.Errorf("%+v", s)
		}
	})
}

func TestAnswersThatAreTooLarge(t *testing.T) {
	location := t.TempDir() + "/office.db"
	open(t, location)
	lose(t, location, "s", "k")
	path := t.TempDir() + "/body"
	resolve := []string{"resolve", "k", "--status", "200", "--reason", "r", "--body-file", path}
	for _, size := range []int{1<<20 + 1, 3 << 20} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := keysCommand(t, location, resolve...); r.code != exitUsage || !strings.Contains(r.stderr, "at most 1048576 can be stored") {
			t.Errorf("%d: %+v", size, r)
		}
	}
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := keysCommand(t, location, resolve...); r.code != 0 {
		t.Errorf("%+v", r)
	}
}

// A racing store has something happen between the look and the settlement of a command.
type racing struct {
	store
	between func(context.Context) error
}

func (r racing) Settle(ctx context.Context, s ichido.Settlement) error {
	if err := r.between(ctx); err != nil {
		return err
	}
	return r.store.Settle(ctx, s)
}

// What the operator saw is what is settled: nothing that came in between.
func TestKeysThatChangeMeanwhile(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		db := open(t, location)
		settle := func(s ichido.Settlement) func(context.Context) error {
			return func(ctx context.Context) error { return db.store.Settle(ctx, s) }
		}
		again := func(fails bool) func(context.Context) error {
			return func(ctx context.Context) error {
				if err := db.store.Settle(ctx, ichido.Settlement{Scope: "s", Key: "k", How: ichido.SettledNotDone, By: "hanako"}); err != nil {
					return err
				}
				attempt, err := begin(ctx, db, "s", "k", ichido.Lease{Token: 8})
				if err == nil && fails {
					err = attempt.Abandon(ctx, errors.New("failed again"))
				}
				return err
			}
		}
		for name, c := range map[string]struct {
			between func(context.Context) error
			code    int
			says    string
		}{
			"done":     {settle(ichido.Settlement{Scope: "s", Key: "k", How: ichido.SettledDone, Response: ichido.Response{Status: 200}, Retention: time.Hour, By: "hanako"}), exitOtherState, "settled last as done, by hanako"},
			"released": {settle(ichido.Settlement{Scope: "s", Key: "k", How: ichido.SettledNotDone, By: "hanako"}), exitOtherState, "settled last as not done, by hanako"},
			"running":  {again(false), exitOtherState, "an attempt holds the key k of s"},
			"another":  {again(true), exitOtherState, "taken by another attempt"},
			"expired":  {func(context.Context) error { expireKeys(t, location); return nil }, exitNoKey, "past its retention"},
		} {
			if err := execSQL(location, "DELETE FROM idempotency_keys"); err != nil {
				t.Fatal(err)
			}
			if err := execSQL(location, "DELETE FROM idempotency_settlements"); err != nil {
				t.Fatal(err)
			}
			lose(t, location, "s", "k")
			s := settling{how: ichido.SettledNotDone, by: "taro", reason: "r", yes: true}
			cmd := newKeysReleaseCommand()
			k := &keyCommand{cmd: cmd, key: "k"}
			err := s.settle(t.Context(), &database{store: racing{db.store, c.between}}, k)
			if err == nil || exitCode(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: code %d: %v", name, exitCode(err), err)
			}
			all, err := db.store.Settlements(t.Context(), "s", "k")
			if err != nil || slices.ContainsFunc(all, func(s ichido.Settlement) bool { return s.By == "taro" }) {
				t.Errorf("%s: %+v: %v", name, all, err)
			}
		}
	})
}

// A key whose work is to run again is in progress for those who look, but can be settled once its lease is over.
func TestKeysThatWouldRunAgainCanBeSettled(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		db := open(t, location)
		attempt, err := begin(t.Context(), db, "s", "k", ichido.Lease{Token: 7, Rerun: true})
		if err != nil {
			t.Fatal(err)
		}
		resolve := []string{"resolve", "k", "--status", "204", "--reason", "seen at the provider"}
		if r := keysCommand(t, location, resolve...); r.code != exitOtherState {
			t.Errorf("%+v", r)
		}
		if err := attempt.Abandon(t.Context(), errors.New("failed")); err != nil {
			t.Fatal(err)
		}
		if r := keysCommand(t, location, "show", "k"); !strings.Contains(r.stdout, "runs the work again") {
			t.Errorf("%+v", r)
		}
		if r := keysCommand(t, location, resolve...); r.code != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// Who is at a key, or was at it last, how often it may be tried, and that its request is kept, but not the request.
func TestWhoRunsAKeyIsShown(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		db := open(t, location)
		claim := func(token int64, owner string, limit int) ichido.Attempt {
			t.Helper()
			attempt, err := begin(t.Context(), db, "s", "k", ichido.Lease{Token: token, Rerun: true, Owner: owner, MaxAttempts: limit, Request: []byte("private-request")})
			if err != nil {
				t.Fatal(err)
			}
			return attempt
		}
		lines := func(want ...string) {
			t.Helper()
			r := keysCommand(t, location, "show", "k")
			for _, w := range want {
				if !slices.ContainsFunc(strings.Split(r.stdout, "\n"), func(line string) bool { return strings.Join(strings.Fields(line), " ") == w }) {
					t.Errorf("no line %q in\n%s%s", w, r.stdout, r.stderr)
				}
			}
			if all := r.stdout + keysCommand(t, location, "show", "k", "--json", "--reveal").stdout; strings.Contains(all, "private-request") {
				t.Errorf("the request is printed:\n%s", all)
			}
		}
		fail := func(attempt ichido.Attempt) {
			t.Helper()
			if err := attempt.Abandon(t.Context(), errors.New("failed")); err != nil {
				t.Fatal(err)
			}
		}
		attempt := claim(7, "blue:1", 0)
		lines("Run by blue:1", "Attempts 1", "Request kept, so that the operation can be finished without its client")
		fail(attempt)
		lines("Last run by blue:1")
		if _, err := db.store.(ichido.Finisher).Abandoned(t.Context(), ichido.Question{Route: "pay", Limit: 1, Patience: time.Minute}); err != nil {
			t.Fatal(err)
		}
		lines("Taken up once, to finish it or to ask a Resolver")
		attempt = claim(8, "green\x1b[31m:2", 2)
		lines(`Run by "green\x1b[31m:2"`, "Attempts 2 of at most 2",
			"State in progress; this is its last attempt: when its lease is over, the key is unknown")
		fail(attempt)
		lines("State unknown: nobody has said yet whether its operation took effect")
		var shown shownJSON
		keysJSON(t, location, &shown, "show", "k")
		if shown.Owner != "green\x1b[31m:2" || shown.Attempts != 2 || shown.MaxAttempts != 2 || !shown.Finishes || shown.State != "unknown" {
			t.Errorf("%+v", shown)
		}
		keysCommand(t, location, "resolve", "k", "--status", "204", "--reason", "seen")
		lines("Taken up once, to finish it or to ask a Resolver")
		shown = shownJSON{}
		if keysJSON(t, location, &shown, "show", "k"); shown.Finishes || shown.Owner == "" {
			t.Errorf("%+v", shown)
		}
	})
}

// A database's password is not repeated in a command to copy.
func TestCommandsToCopyHaveNoPassword(t *testing.T) {
	cmd := newKeysListCommand()
	if err := cmd.ParseFlags([]string{"--db", "postgres://app:hunter2@localhost/db", "--state", "unknown,completed", "--older-than", "7d", "--json=false"}); err != nil {
		t.Fatal(err)
	}
	want := `list --json=false --older-than 168h --state unknown,completed --db "$DATABASE_URL"`
	if got := commandLine(cmd, ""); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
