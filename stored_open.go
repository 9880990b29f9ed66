package ichido

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// ErrNotKept is what [Stored.Open] returns for an answer that was too large to be kept, see [Tombstone].
var ErrNotKept = errors.New("ichido: the answer was too large to be kept")

// Open returns the answer that a store has under scope and key, as r, for those who look at it. Of s it uses Secrets only.
//
// If the body cannot be had, because it was not kept, was encrypted with a secret that s does not have, or was changed,
// Open returns the status and the header with the error.
func (s *Stored) Open(scope, key string, fingerprint []byte, r Response) (status int, header http.Header, body []byte, err error) {
	claim := Claim{Scope: scope, Key: key, Fingerprint: fingerprint}
	a, err := s.unpack(&claim, r)
	header = make(http.Header, len(a.header))
	for name, values := range a.header {
		name = strings.TrimPrefix(name, "+")
		header[name] = append(header[name], values...)
	}
	if err == nil && a.tombstone {
		err = ErrNotKept
	}
	if err != nil {
		return r.Status, header, nil, err
	}
	return a.status, header, a.body, nil
}

// Seal returns an answer in the form in which an attempt under the rules s would have stored it, for a [Settlement]. Fields
// that are never stored are left out. It is an error if the rules would have refused the answer.
func (s *Stored) Seal(scope, key string, fingerprint []byte, status int, header http.Header, body []byte) (Response, error) {
	rules := *s
	if err := rules.fill(); err != nil {
		return Response{}, fmt.Errorf("ichido: Seal: %w", err)
	}
	switch {
	case status < 200 || status > 999:
		return Response{}, fmt.Errorf("ichido: Seal: the status is %d; it must be from 200 to 999", status)
	case len(body) > rules.limit():
		return Response{}, fmt.Errorf("ichido: Seal: the body has %d bytes; at most %d can be stored", len(body), rules.limit())
	}
	claim := Claim{Scope: scope, Key: key, Fingerprint: fingerprint}
	return rules.pack(&claim, status, snapshot(header), body)
}
