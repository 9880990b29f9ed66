package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// undeclaredField carries the key of an operation to a host that is not declared. Written like this the field is the
// same to the server (RFC 9110, section 5.1), and net/http does not take the request for one that it may send again by
// itself: it looks for Idempotency-Key.
const undeclaredField = "idempotency-key"

// planKey finds the key of the request: in the request, in the context, in the request that was redirected; or makes one.
func (c *call) planKey(now time.Time) error {
	op, given := OperationFrom(c.Context)
	target := c.t.directory.find(c.r.URL)
	if target == nil {
		return c.undeclared(op, given)
	}
	if !target.carries(c.method()) {
		return nil
	}
	key, found, err := c.callersKey(target)
	switch {
	case err != nil:
		c.op = op
		return c.refuse(NotDone, err)
	case found && key == "": // the caller wants none
		if given {
			c.op = op
			return c.refuse(NotDone, fmt.Errorf("the request has the field %s without a value, and the context has an operation", target.Header))
		}
		return nil
	case found && given && op.Key != key:
		c.op = op
		return c.refuse(NotDone, errors.New("the request has another key than the operation in its context"))
	case found && !given:
		op = Operation{Key: key}
	case !found && target.CallerSets:
		if given {
			c.op = op
			return c.refuse(NotDone, fmt.Errorf("the request has no %s, which %s needs before it is signed; put the key of the operation there", target.Members[0], target.name()))
		}
		return nil
	case !found && !given:
		if from := redirected(c.r); from != nil && target.check(from.op.Key) == nil { // else it was made for another target
			op, given = from.op, true
		}
		switch {
		case given:
		case target.Quoted && target.NewKey == nil && target.Header != "": // one string for the key and the value
			c.value[0] = newQuotedUUID()
			op = Operation{Key: c.value[0][1:37], Started: now}
		default:
			op = Operation{Key: target.newKey(), Started: now}
		}
	}
	c.op = op
	if found || given {
		if err := target.check(op.Key); err != nil {
			return c.refuse(NotDone, err)
		}
	}
	if c.op.Started.IsZero() && target.FirstSent != "" {
		c.op.Started = now
	}
	c.target, c.made = target, !found
	if c.made && target.Header != "" {
		c.field = target.Header
		switch {
		case c.value[0] != "":
		case target.Quoted:
			c.value[0] = quote(c.op.Key)
		default:
			c.value[0] = c.op.Key
		}
	}
	return nil
}

// undeclared sends the key of an operation to a host that may not honour it. That changes nothing about how it is sent.
func (c *call) undeclared(op Operation, given bool) error {
	if !given || c.idempotent {
		return nil
	}
	c.op = op
	plain := Target{Name: "the field Idempotency-Key"}
	if err := plain.check(op.Key); err != nil {
		return c.refuse(NotDone, err)
	}
	if _, set := c.r.Header["Idempotency-Key"]; !set {
		c.made, c.field, c.value[0] = true, undeclaredField, quote(op.Key)
	}
	return nil
}

// callersKey returns the key that the caller put into the request, where the target wants it.
func (c *call) callersKey(t *Target) (key string, found bool, err error) {
	if t.Header == "" {
		return c.body.key(c, t)
	}
	lines, found := c.r.Header[t.Header]
	if !found {
		for name := range c.r.Header {
			if len(name) == len(t.Header) && strings.EqualFold(name, t.Header) {
				return "", false, fmt.Errorf("the field %s is written %q in the map of fields; Header.Set writes it right", t.Header, name)
			}
		}
	}
	switch {
	case !found:
		return "", false, nil
	case len(lines) == 0:
		return "", true, nil
	case len(lines) > 1:
		return "", false, fmt.Errorf("the request has %d lines of %s; it must have one key", len(lines), t.Header)
	case lines[0] == "":
		return "", false, fmt.Errorf("the field %s is empty; without it a key is made", t.Header)
	case !t.Quoted:
		return lines[0], true, nil
	}
	if key, err = unquote(lines[0]); err != nil {
		return "", false, fmt.Errorf("the field %s is no String of RFC 9651: %w", t.Header, err)
	}
	if key == "" {
		return "", false, fmt.Errorf("the field %s has an empty key; without it a key is made", t.Header)
	}
	return key, true, nil
}

// redirected returns the call of the request that was redirected to r with 307 or 308, which mean the same operation at
// another place; nil if there is none.
func redirected(r *http.Request) *call {
	if r.Response == nil || r.Response.StatusCode != http.StatusTemporaryRedirect && r.Response.StatusCode != http.StatusPermanentRedirect {
		return nil
	}
	return callOf(r.Response.Request)
}

// callOf returns the call that a request belongs to, or nil.
func callOf(r *http.Request) *call {
	if r == nil {
		return nil
	}
	var ctx context.Context = r.Context()
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}
