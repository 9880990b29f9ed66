package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Target is what an API does with keys. The variables of this package, such as [Stripe], are targets; copy and change
// one, or write your own, for another API.
type Target struct {
	// Name is for people.
	Name string
	// Header is the field that carries the key. "" if Members does.
	Header string
	// Quoted writes the key with quotes, as a String of RFC 9651. Most APIs take it bare.
	Quoted bool
	// Members are the names that the member of a JSON body, the field of a form, or the parameter of the URL with the key
	// may have. A key is inserted under the first one, into a JSON body that has none.
	Members []string
	// CallerSets is for APIs whose requests are signed before they get here: the Transport finds the caller's key and
	// never writes one. A request without one is sent as to a host that is not declared.
	CallerSets bool
	// FirstSent is a field that tells when the operation was first sent, the same in every sending. "" for none.
	FirstSent string
	// Methods are those that carry a key. Nil means POST and PATCH.
	Methods []string
	// MinLength and MaxLength bound the key, in bytes. Zero is no bound.
	MinLength, MaxLength int
	// Pattern is a regular expression (RE2) for the whole key, and Format says the same to people, as in "a UUID". A key
	// must also be printable ASCII, whatever the target.
	Pattern, Format string
	// NewKey makes a key. Nil makes a UUID of version 4. It must be safe for concurrent use.
	NewKey func() string
	// Retention is how long the server surely remembers a key. Nothing is sent again later than that. Zero is unknown.
	Retention time.Duration
	// Marker is a field that is in the answer if it is a replay, with MarkerValue unless that is "".
	// "" means Idempotent-Replayed: true.
	Marker, MarkerValue string
	// Judge gives the verdict on an answer of 400 and above that is no replay. Nil leaves all to the status. It must be
	// safe for concurrent use.
	Judge func(Answer) Judgement
	// Source is where that is documented.
	Source string

	pattern *regexp.Regexp
}

// An Answer is what a [Target] judges.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // at most its first 64 KiB
	Key    string
}

// A Judgement is what an answer means.
type Judgement struct {
	Verdict Verdict
	// Resource is for [Result]. "" for none.
	Resource string
}

// NewOperation returns an operation with a new random key as the target takes it.
func (t Target) NewOperation() Operation { return Operation{Key: t.newKey(), Started: time.Now()} }

func (t *Target) newKey() string {
	if t.NewKey != nil {
		return t.NewKey()
	}
	return newUUID()
}

// carries tells whether requests of the method carry a key.
func (t *Target) carries(method string) bool {
	if t.Methods == nil {
		return method == http.MethodPost || method == http.MethodPatch
	}
	return slices.Contains(t.Methods, method)
}

func (t *Target) replayed(h http.Header) bool {
	name, value := t.Marker, t.MarkerValue
	if name == "" {
		name, value = "Idempotent-Replayed", "true"
	}
	lines := h[name]
	return len(lines) > 0 && (value == "" || strings.EqualFold(lines[0], value))
}

// fill checks a target and makes it ready.
func (t *Target) fill() error {
	switch {
	case t.Header == "" && len(t.Members) == 0:
		return fmt.Errorf("has neither Header nor Members: say where its key goes, as in Header: %q", "Idempotency-Key")
	case t.Header != "" && len(t.Members) > 0:
		return fmt.Errorf("has Header and Members: its key goes to one place")
	case t.MinLength < 0 || t.MaxLength < 0 || t.MaxLength > 0 && t.MinLength > t.MaxLength:
		return fmt.Errorf("asks for keys of %d to %d characters", t.MinLength, t.MaxLength)
	case t.Retention < 0:
		return fmt.Errorf("has the Retention %s; zero says that it is unknown", t.Retention)
	}
	for _, name := range []*string{&t.Header, &t.FirstSent, &t.Marker} {
		if *name != "" && !token(*name) {
			return fmt.Errorf("names the field %q, which is no name of a field", *name)
		}
		*name = textproto.CanonicalMIMEHeaderKey(*name)
	}
	if t.Pattern != "" {
		var err error
		if t.pattern, err = regexp.Compile("^(?:" + t.Pattern + ")$"); err != nil {
			return fmt.Errorf("has the Pattern %q: %w", t.Pattern, err)
		}
		if t.Format == "" {
			t.Format = "of the form " + t.Pattern
		}
	}
	if t.CallerSets {
		return nil
	}
	if err := t.check(t.newKey()); err != nil {
		return fmt.Errorf("makes keys that it does not take; set NewKey: %w", err)
	}
	return nil
}

// check says what is wrong with a key.
func (t *Target) check(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("the key is empty; client.NewOperation makes one")
	case t.MaxLength > 0 && len(key) > t.MaxLength:
		return fmt.Errorf("the key has %d characters, and %s takes at most %d; %s", len(key), t.name(), t.MaxLength, t.advice())
	case len(key) < t.MinLength:
		return fmt.Errorf("the key has %d characters, and %s asks for at least %d; %s", len(key), t.name(), t.MinLength, t.advice())
	case t.pattern != nil && !t.pattern.MatchString(key):
		return fmt.Errorf("the key is not %s, as %s asks for; %s", t.Format, t.name(), t.advice())
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return fmt.Errorf("the key has a character at %d that is not printable ASCII", i+1)
		}
	}
	if key[0] == ' ' || key[len(key)-1] == ' ' {
		return fmt.Errorf("the key begins or ends with a space, which would be lost on the way")
	}
	return nil
}

func (t *Target) name() string {
	if t.Name != "" {
		return t.Name
	}
	return "the target"
}

func (t *Target) advice() string { return "Target.NewOperation makes keys that it takes" }

// token tells whether s is a token of RFC 9110, as names of fields and methods are.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// Targets declares hosts: that they honour keys, and how. A host is written as in a URL: api.example.com for all of its
// ports, or api.example.com:8443 for one; *.example.com stands for all names that end like this, and * for all hosts. A path
// behind it limits it to that path and what is below: api.example.com/v2. The most exact entry counts: a whole name before
// a *, and of these one with a port before one without.
type Targets map[string]Target

// A declared is the target of a path and what is below.
type declared struct {
	path   string // "" for all; no slash at the end
	target *Target
}

// A directory finds targets.
type directory map[string][]declared // by host; the longest path first

func (ts Targets) directory() (directory, error) {
	d := make(directory, len(ts))
	for name, target := range ts {
		if strings.Contains(name, "://") {
			return nil, fmt.Errorf("the entry %q of Targets is a URL; write its host, and a path if there are targets for several", name)
		}
		u, err := url.Parse("//" + name)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
			strings.Contains(strings.TrimPrefix(u.Host, "*"), "*") || len(u.Host) > 1 && u.Host[0] == '*' && u.Host[1] != '.' {
			return nil, fmt.Errorf("the entry %q of Targets is no host; write it as in a URL: api.example.com, api.example.com:8443, *.example.com or *", name)
		}
		if err := target.fill(); err != nil {
			return nil, fmt.Errorf("the target of the entry %q of Targets %w", name, err)
		}
		host, path := strings.ToLower(u.Host), strings.TrimRight(u.Path, "/")
		for _, other := range d[host] {
			if other.path == path {
				return nil, fmt.Errorf("the entry %q of Targets is there twice", name)
			}
		}
		d[host] = append(d[host], declared{path, &target})
	}
	for _, paths := range d {
		slices.SortFunc(paths, func(a, b declared) int { return len(b.path) - len(a.path) })
	}
	return d, nil
}

// find returns the target for a URL, or nil.
func (d directory) find(u *url.URL) *Target {
	if len(d) == 0 {
		return nil
	}
	host, port := strings.ToLower(u.Host), ":443"
	if u.Scheme == "http" {
		port = ":80"
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i:]
	}
	for prefix, rest := "", host; ; {
		if t := d.under(prefix+rest+port, u.Path); t != nil {
			return t
		}
		if t := d.under(prefix+rest, u.Path); t != nil {
			return t
		}
		i := strings.IndexByte(rest, '.')
		if i < 0 {
			return d.under("*", u.Path)
		}
		prefix, rest = "*.", rest[i+1:]
	}
}

func (d directory) under(host, path string) *Target {
	for _, e := range d[host] {
		if rest, ok := strings.CutPrefix(path, e.path); ok && (rest == "" || e.path == "" || rest[0] == '/') {
			return e.target
		}
	}
	return nil
}

// decode reads a JSON body into v, which is left as it is if there is none.
func (a Answer) decode(v any) { _ = json.NewDecoder(bytes.NewReader(a.Body)).Decode(v) }

// code returns the code of a problem document (RFC 9457), or "".
func (a Answer) code() string {
	var p struct{ Code string }
	if kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type")); kind == "application/problem+json" {
		a.decode(&p)
	}
	return p.Code
}
