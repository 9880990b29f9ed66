package conformance

import (
	"fmt"
	"strings"
)

// A script writes the shell commands that send a scenario's requests. They take a new key each time they are pasted, or
// nothing would be executed again; a POSIX shell and curl are all that they need.
type script struct {
	url string // quoted
	key string // the first 19 characters of a UUID
}

func (t *trial) script() script {
	return script{
		url: quote(t.base.JoinPath("reservations").Redacted()),
		key: newKey()[:len("xxxxxxxx-xxxx-4xxx-")],
	}
}

// once sends one request with further arguments for curl.
func (s script) once(body, arguments string) string {
	return s.curl("-isS") + arguments + " -d " + quote(body)
}

// inTurn sends the bodies one after the other under one key.
func (s script) inTurn(bodies ...string) string {
	quoted := make([]string, len(bodies))
	for i, body := range bodies {
		quoted[i] = quote(body)
	}
	return fmt.Sprintf(`%s; for B in %s; do %s -d "$B"; echo; done`, s.newKey(), strings.Join(quoted, " "),
		s.curl("-isS")+withKey)
}

// atOnce sends the body n times at once under one key and prints each status.
func (s script) atOnce(body string, n int) string {
	return fmt.Sprintf(`%s; for I in $(seq %d); do %s & done; wait`, s.newKey(), n, s.status(body))
}

// atOnceAndAgain does what atOnce does, and then sends the body once more.
func (s script) atOnceAndAgain(body string, n int) string {
	return s.atOnce(body, n) + "; " + s.once(body, withKey)
}

// atOnceOwnKeys sends the body n times at once, each time under another key, and prints each status.
func (s script) atOnceOwnKeys(body string, n int) string {
	return fmt.Sprintf(`for I in $(seq %d); do %s; %s & done; wait`, n, s.newKeyOfI(), s.status(body))
}

// newKey sets K to a UUID made of the random beginning and the seconds since 1970.
func (s script) newKey() string {
	return fmt.Sprintf(`K=$(printf '%s8000-%%012d' $(date +%%s))`, s.key)
}

// newKeyOfI does what newKey does, for each I below 1000.
func (s script) newKeyOfI() string {
	return fmt.Sprintf(`K=$(printf '%s8%%03d-%%012d' $I $(date +%%s))`, s.key)
}

const withKey = ` -H "Idempotency-Key: \"$K\""`

func (s script) status(body string) string {
	return s.curl(`-sS -o /dev/null -w '%{http_code}\n'`) + withKey + " -d " + quote(body)
}

func (s script) curl(options string) string {
	return fmt.Sprintf("curl %s %s -H 'Content-Type: application/json'", options, s.url)
}

// quote returns s as one word of a shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
