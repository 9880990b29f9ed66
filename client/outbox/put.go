package outbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ichido-dev/ichido/client"
)

// An Operation is what is put into an [Outbox].
type Operation struct {
	// Name names it: the same name with the same request is the same operation, whoever puts it and however often. ""
	// makes every Put a new operation.
	Name string
	// Subject is what its order is kept within: operations of a subject are sent one after the other. "" for none.
	Subject string
	// Key is its key. "" makes one.
	Key string
	// Within is as in [Config], which holds if it is zero.
	Within time.Duration
	// Request is what is sent. Its context counts for nothing.
	Request *http.Request
}

// A Row is one row of an answer of the database.
type Row interface{ Scan(dest ...any) error }

// A Tx executes a statement that returns one row, in a transaction or outside of one: see [SQL] and [Pgx].
type Tx interface {
	QueryRow(ctx context.Context, query string, args ...any) Row
}

type queryRow func(ctx context.Context, query string, args ...any) Row

func (q queryRow) QueryRow(ctx context.Context, query string, args ...any) Row {
	return q(ctx, query, args...)
}

// SQL lets [Outbox.Put] use a transaction of database/sql: an *sql.Tx, or an *sql.Conn with one.
func SQL(tx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) Tx {
	return queryRow(func(ctx context.Context, query string, args ...any) Row {
		return tx.QueryRowContext(ctx, query, args...)
	})
}

// Pgx lets [Outbox.Put] use a transaction of jackc/pgx: a pgx.Tx, such as that of [pgstore.Tx].
//
// [pgstore.Tx]: https://pkg.go.dev/github.com/ichido-dev/ichido/pgstore#Tx
func Pgx[R Row](tx interface {
	QueryRow(ctx context.Context, query string, args ...any) R
}) Tx {
	return queryRow(func(ctx context.Context, query string, args ...any) Row { return tx.QueryRow(ctx, query, args...) })
}

var (
	// ErrRefused: the operation cannot be kept as it is; nothing is wrong with the database.
	ErrRefused = errors.New("outbox: the operation is refused")
	// ErrMismatch: the name belongs to another request.
	ErrMismatch = errors.New("outbox: the name belongs to another request")
	// ErrNotFound: there is no such operation.
	ErrNotFound = errors.New("outbox: there is no such operation")
)

// Put keeps an operation, in tx, or in a transaction of its own if tx is nil. It is sent once that is committed, by a
// worker: see [Outbox.Run] and [Outbox.Send]. If there is an operation of the name already it returns that one with what has
// become of it, or ErrMismatch if its request is another. ErrRefused is for requests that cannot be sent, or not be kept. The
// body of the request is read and closed.
func (o *Outbox) Put(ctx context.Context, tx Tx, op Operation) (*Entry, error) {
	e, err := o.entry(op)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRefused, cmp.Or(op.Name, "without a name"), err)
	}
	own := tx == nil
	if own {
		tx = SQL(o.db)
	}
	within := cmp.Or(op.Within, o.config.Within)
	header, err := json.Marshal(e.entry.Header)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	for range 3 { // the one that has the name may be gone when it is looked for
		put, err := scan(tx.QueryRow(ctx, o.dialect.insert, null(op.Name), null(op.Subject), e.entry.Key, e.entry.hash, e.entry.Target,
			e.entry.Method, e.entry.URL, string(header), e.entry.Body, e.memory.Milliseconds(), within.Milliseconds()))
		if err != nil {
			return nil, fmt.Errorf("outbox: putting %s: %w", named(0, op.Name), err)
		}
		if put != nil {
			if own {
				o.Wake()
			}
			return put, nil
		}
		there, err := scan(tx.QueryRow(ctx, o.dialect.byName, op.Name))
		switch {
		case err != nil:
			return nil, fmt.Errorf("outbox: looking for %s: %w", named(0, op.Name), err)
		case there == nil || there.State == Dropped:
			continue
		case !bytes.Equal(there.hash, e.entry.hash) || op.Key != "" && op.Key != there.Key || op.Subject != there.Subject:
			return nil, fmt.Errorf("%w than that of %s, put at %s, and %s: give the new operation another name", ErrMismatch, there,
				there.CreatedAt.UTC().Format(time.RFC3339), there.State)
		}
		return there, nil
	}
	return nil, fmt.Errorf("outbox: %s comes and goes; put it again", named(0, op.Name))
}

// null is NULL for the empty string.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Wake makes the workers of this Outbox look for work at once. It is for after the commit of a transaction that was given
// to Put.
func (o *Outbox) Wake() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

type newEntry struct {
	entry  Entry
	memory time.Duration
}

// entry checks an operation and returns what is stored of it.
func (o *Outbox) entry(op Operation) (*newEntry, error) {
	if o.transport == nil {
		return nil, errNoTransport
	}
	r := op.Request
	if r == nil {
		return nil, errors.New("it has no Request")
	}
	target, err := o.transport.Check(r, client.OperationFromKey(op.Key))
	if err != nil {
		return nil, err
	}
	switch {
	case r.URL.User != nil:
		return nil, errors.New("its URL has a user or a password, which are not stored; let Config.Authorize set Authorization")
	case op.Within < 0:
		return nil, fmt.Errorf("the field Within is %s; it must not be negative", op.Within)
	case r.Host != "" && r.Host != r.URL.Host:
		return nil, fmt.Errorf("its Host is %s, another than that of its URL, %s", r.Host, r.URL.Host)
	}
	n := &newEntry{entry: Entry{Key: op.Key, Target: target.Name, Method: r.Method, Header: make(http.Header)}}
	if n.memory, err = o.memory(target); err != nil {
		return nil, err
	}
	if n.entry.Key == "" {
		n.entry.Key = target.NewOperation().Key
	}
	u := *r.URL
	u.Fragment, u.RawFragment = "", ""
	n.entry.URL = u.String()
	for name, lines := range r.Header {
		switch {
		case name == target.Header:
			return nil, fmt.Errorf("its request has the field %s; give the key as Operation.Key", name)
		case !o.Stores(name):
			return nil, fmt.Errorf("its request has the field %s, which is not stored: add it to Config.Header, or, if it carries credentials, let Config.Authorize set it", name)
		}
		n.entry.Header[name] = lines
	}
	for _, text := range append([]string{op.Name, op.Subject, n.entry.URL, n.entry.Key}, slices.Concat(slices.Collect(maps.Values(n.entry.Header))...)...) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return nil, errors.New("its name, subject, URL and header must be UTF-8 without NUL")
		}
	}
	if r.Body != nil {
		n.entry.Body, err = io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			return nil, fmt.Errorf("the body of its request cannot be read: %w", err)
		}
	}
	n.entry.hash = n.entry.fingerprint()
	return n, nil
}

// fingerprint is the digest of all that is sent, and of how the key is: under another target the server may see another key.
func (e *Entry) fingerprint() []byte {
	h := sha256.New()
	part := func(s string) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(s))) // a hash never fails
		_, _ = io.WriteString(h, s)
	}
	for _, s := range []string{e.Target, e.Method, e.URL} {
		part(s)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Header)) {
		part(name)
		for _, line := range e.Header[name] {
			part(line)
		}
		part("")
	}
	part("body")
	_, _ = h.Write(e.Body)
	return h.Sum(nil)
}
