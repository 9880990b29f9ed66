package client

import (
	"errors"
	"fmt"
	"net/http"
)

// Check returns the target of a request's host, and says why [Transport.Send] would refuse to send the request as op. It is
// for callers that keep operations, to find mistakes before they do. Of an operation without a key it checks the rest.
func (t *Transport) Check(r *http.Request, op Operation) (Target, error) {
	target, err := t.check(r, op)
	if err != nil {
		return Target{}, fmt.Errorf("client: %w", err)
	}
	return *target, nil
}

func (t *Transport) check(r *http.Request, op Operation) (*Target, error) {
	if r.URL == nil {
		return nil, errors.New("the request has no URL; http.NewRequest makes one")
	}
	if err := malformed(r); err != nil {
		return nil, fmt.Errorf("the request cannot be sent: %w", err)
	}
	target := t.directory.find(r.URL)
	if target == nil {
		return nil, fmt.Errorf("the host %s is not declared; add it to Config.Targets, as in client.Targets{%q: client.Draft07}", r.URL.Host, r.URL.Host)
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	if !target.carries(method) {
		return nil, fmt.Errorf("%s takes no key with %s; see Target.Methods", target.name(), method)
	}
	if op.Key != "" {
		if err := target.check(op.Key); err != nil {
			return nil, err
		}
	}
	return target, nil
}
