package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A script writes the shell commands that send a scenario's requests. They take a new key each time they are pasted, or
// nothing would be executed again; a POSIX shell and curl are all that they need, and the variables of the secrets.
type script struct {
	r   *runner
	key string // the first 19 characters of a UUID
}

func (t *trial) script() script {
	return script{r: t.runner, key: newKey()[:len("xxxxxxxx-xxxx-4xxx-")]}
}

// once sends one request without a key, with further arguments for curl.
func (s script) once(body, arguments string) string {
	return s.curl("-isS") + arguments + " --data-raw " + quote(body)
}

// inTurn sends the bodies one after the other under one key.
func (s script) inTurn(bodies ...string) string {
	words := make([]string, len(bodies))
	for i, body := range bodies {
		words[i] = quote(body)
	}
	return fmt.Sprintf(`%s; for B in %s; do %s --data-raw "$B"; echo; done`, s.newKey(), strings.Join(words, " "),
		s.curl("-isS")+s.withKey())
}

// aroundOthers sends a body, n times another one at once, and the first again.
func (s script) aroundOthers(body, other string, n int) string {
	send := s.once(body, s.withKey())
	return fmt.Sprintf(`%s; %s; echo; for I in $(seq %d); do %s & done; wait; %s`, s.newKey(), send, n, s.status(other), send)
}

// atOnce sends the body n times at once under one key and prints each status.
func (s script) atOnce(body string, n int) string {
	return fmt.Sprintf(`%s; for I in $(seq %d); do %s & done; wait`, s.newKey(), n, s.status(body))
}

// atOnceTwo sends n requests at once under one key, which are two bodies in turn.
func (s script) atOnceTwo(body, other string, n int) string {
	return fmt.Sprintf(`%s; for I in $(seq %d); do %s & %s & done; wait`, s.newKey(), n/2, s.status(body), s.status(other))
}

// atOnceAndAgain does what atOnce does, and then sends the body once more.
func (s script) atOnceAndAgain(body string, n int) string {
	return s.atOnce(body, n) + "; " + s.once(body, s.withKey())
}

// atOnceOwnKeys sends the body n times at once, each time under another key, and prints each status.
func (s script) atOnceOwnKeys(body string, n int) string {
	return fmt.Sprintf(`for I in $(seq %d); do %s; %s & done; wait`, n, s.newKeyOfI(), s.status(body))
}

// getAround reads a path with a key, before and after the key is used.
func (s script) getAround(path, body string) string {
	get := "curl -isS" + s.principal(0) + s.withKey() + " " + s.address(path)
	return fmt.Sprintf(`%s; %s; echo; %s; echo; %s`, s.newKey(), get, s.once(body, s.withKey()), get)
}

// bothForms sends a body with a key in the API's own form, and then in the other.
func (s script) bothForms(body string) string {
	own, other := s.field(`\"$K\"`), s.field(`$K`)
	if s.r.api.Key.Form == "bare" {
		own, other = other, own
	}
	return fmt.Sprintf("%s; %s; echo; %s", s.newKey(), s.once(body, own), s.once(body, other))
}

// twoLines sends a body with two keys.
func (s script) twoLines(body string) string {
	return s.newKey() + "; " + s.once(body, s.withKey()+s.field(s.inForm("${K}b")))
}

// keys sends a body under each key, of which it is given the patterns, twice if again.
func (s script) keys(body string, patterns []string, again bool) string {
	send := s.once(body, s.field(s.inForm("$K")))
	if again {
		send = "for I in 1 2; do " + send + "; echo; done"
	} else {
		send += "; echo"
	}
	words := make([]string, len(patterns))
	for i, key := range patterns {
		if s.r.api.Key.Form != "bare" {
			key = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key)
		}
		words[i] = strings.Replace(quote(key), fresh, `'"$N"'`, 1)
	}
	return fmt.Sprintf("N=$(date +%%s); for K in %s; do %s; done", strings.Join(words, " "), send)
}

// cut sends half of the body and closes the connection, and then sends it whole. What curl reads from a pipe it sends in
// chunks, as it comes.
func (s script) cut(body string) string {
	half := len(body) / 2
	return fmt.Sprintf(`%s; (printf %%s %s; sleep 2) | %s -m 1 -T -; sleep 1; %s`, s.newKey(), quote(body[:half]),
		s.curlAs("-isS", true, 0)+s.withKey(), s.once(body, s.withKey()))
}

// hurried sends the body, closes the connection after ms milliseconds, and sends it again.
func (s script) hurried(body string, ms int) string {
	return fmt.Sprintf(`%s; %s -m 0.%03d; sleep 1; %s`, s.newKey(), s.once(body, s.withKey()), ms, s.once(body, s.withKey()))
}

// dribbled sends one half of the body, and the other a second later; and in between the whole on another connection.
func (s script) dribbled(body string) string {
	half := len(body) / 2
	return fmt.Sprintf(`%s; (printf %%s %s; sleep 1; printf %%s %s) | %s -T - & %s; wait`, s.newKey(), quote(body[:half]),
		quote(body[half:]), s.curlAs("-isS", true, 0)+s.withKey(), s.once(body, s.withKey()))
}

// padded sends the body, with n times a character behind it, twice.
func (s script) padded(body, pad string, n int) string {
	return fmt.Sprintf(`%s; for I in 1 2; do (printf %%s %s; head -c %d /dev/zero | tr '\0' %s) | %s --data-binary @-; echo; done`, s.newKey(),
		quote(body), n, quote(pad), s.curl("-isS")+s.withKey())
}

// users sends the body as the first principal, and then as another one, or as nobody if there is none of that number.
func (s script) users(body string, second int) string {
	return fmt.Sprintf("%s; %s; echo; %s%s --data-raw %s", s.newKey(), s.once(body, s.withKey()),
		s.curlAs("-isS", false, second), s.withKey(), quote(body))
}

// get reads a path.
func (s script) get(path string) string { return "curl -isS" + s.principal(0) + " " + s.address(path) }

// newKey sets K to a UUID made of the random beginning and the seconds since 1970.
func (s script) newKey() string {
	return fmt.Sprintf(`K=$(printf '%s8000-%%012d' $(date +%%s))`, s.key)
}

// newKeyOfI does what newKey does, for each I below 1000.
func (s script) newKeyOfI() string {
	return fmt.Sprintf(`K=$(printf '%s8%%03d-%%012d' $I $(date +%%s))`, s.key)
}

func (s script) withKey() string { return s.field(s.inForm("$K")) }

// inForm returns a key as the API has it, within double quotes of the shell.
func (s script) inForm(key string) string {
	if s.r.api.Key.Form == "bare" {
		return key
	}
	return `\"` + key + `\"`
}

// field returns the argument for a field with a value that is written within double quotes of the shell.
func (s script) field(value string) string {
	return fmt.Sprintf(` -H "%s: %s"`, s.r.api.Key.Header, value)
}

func (s script) status(body string) string {
	return s.curl(`-sS -o /dev/null -w '%{http_code}\n'`) + s.withKey() + " --data-raw " + quote(body)
}

func (s script) curl(options string) string { return s.curlAs(options, false, 0) }

// curlAs returns a command as a principal. An upload says its method, which would be PUT.
func (s script) curlAs(options string, upload bool, principal int) string {
	api := &s.r.api
	if method := api.Request.Method; upload || method != http.MethodPost {
		options += " -X " + method
	}
	out := "curl " + options + " " + s.address(api.Request.Path)
	for _, name := range sortedNames(api.Request.Headers) {
		if !s.isPrincipals(name) {
			out += s.header(name, api.Request.Headers[name])
		}
	}
	return out + s.principal(principal)
}

func (s script) isPrincipals(name string) bool {
	return slices.ContainsFunc(s.r.api.Principals, func(p Principal) bool { _, ok := p.Headers[name]; return ok })
}

// principal returns the arguments for the fields of a principal.
func (s script) principal(i int) (out string) {
	if i < len(s.r.api.Principals) {
		headers := s.r.api.Principals[i].Headers
		for _, name := range sortedNames(headers) {
			out += s.header(name, headers[name])
		}
	}
	return out
}

// header returns the argument for a field; the shell puts in its secrets.
func (s script) header(name, value string) string {
	shown := s.r.redact(value)
	if shown == value {
		return " -H " + quote(name+": "+value)
	}
	return fmt.Sprintf(` -H "%s: %s"`, name, strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`").Replace(shown))
}

func (s script) address(path string) string {
	path, query, _ := strings.Cut(path, "?")
	u := s.r.base.JoinPath(path)
	u.RawQuery = query
	return quote(u.Redacted())
}

// quote returns s as one word of a shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
