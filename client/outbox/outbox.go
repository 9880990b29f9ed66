// Package outbox keeps operations in SQLite or PostgreSQL before their first byte is sent, and sends them until their
// outcome is known: after a crash of the program too, and always under the same key.
//
//	box, err := outbox.New(db, outbox.Postgres, transport, nil)
//	…
//	tx, err := db.BeginTx(ctx, nil)
//	… // your own rows
//	_, err = box.Put(ctx, outbox.SQL(tx), outbox.Operation{Name: "order-42", Request: req})
//	err = tx.Commit()
//
// and, in as many processes as you like:
//
//	err = box.Run(ctx)
//
// What was put into a transaction that is rolled back is never sent. What was committed ends in one of three states: done,
// not done, or unknown; Config.Report is told. An operation is unknown if it may have taken effect and the server may have
// forgotten its key by now, or cannot say. It is not sent any more then, until a person decides: see [Outbox.Retry] and
// [Outbox.Drop], and ichido outbox.
//
// # What it promises
//
// The request, with its key, is committed before it is sent, and the fact that it is about to be sent too: it is never sent
// under another key, and a crash is never taken for "not sent". At the server it takes effect once as far as the server
// honours keys: the host must be declared as a [client.Target]. While a worker's lease runs no other one sends the operation,
// and a worker stops before its lease ends; one that was stopped by its machine for longer is fenced: what it learned late
// changes nothing in the table, and what it sent late carries the same key.
//
// # What is stored
//
// Method, URL, body, and the header fields that Config.Header allows. Credentials are not: Config.Authorize puts them into
// each sending. A body or a URL may be confidential; the table is as confidential as they are.
//
// # Order
//
// Operations with the same Subject are sent one after the other, in the order of their ids: each when the one before it is
// decided. One that is retried after later ones were sent is the next. One that is unknown holds its subject up until a person has decided, unless Config.PassUnknown is set. The ids
// follow the order of the Puts; of two transactions at the same time the later one may commit first, and its operation be
// sent before the other is visible. Where that matters, lock what they have in common before Put.
package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/textproto"
	"slices"
	"time"

	"github.com/ichido-dev/ichido/client"
)

// An Outbox is safe for concurrent use.
type Outbox struct {
	db        *sql.DB
	dialect   *Dialect
	transport *client.Transport
	config    Config
	wake      chan struct{}
}

// A Config has the settings of an [Outbox]. The zero value, and nil, are the defaults.
type Config struct {
	// Header names the fields of requests that are stored besides Accept, Accept-Language, Content-Encoding,
	// Content-Language, Content-Type and Prefer. A request with another field is refused. Fields that carry credentials
	// cannot be named.
	Header []string
	// Authorize, if not nil, puts credentials into a request that is about to be sent, or signs it. If it fails the
	// operation is not sent now, but later. It must be safe for concurrent use.
	Authorize func(context.Context, *http.Request) error
	// Concurrency is how many operations a worker sends at once. Default: 4.
	Concurrency int
	// Lease is how long a worker may have an operation. A sending, with all the attempts of its Transport, is cut off at
	// seven eighths of it. After a crash it is another worker's turn when the lease is over. Default: 1 min.
	Lease time.Duration
	// Poll is how long a worker waits for work before it looks again. Operations that are put by Put without a
	// transaction, or followed by [Outbox.Wake], are seen at once by the workers of the same Outbox. Default: 1 s.
	Poll time.Duration
	// BaseDelay and MaxDelay give the wait after the n-th sending that did not decide: a random time of up to
	// BaseDelay·2ⁿ⁻¹ and MaxDelay (full jitter), on top of what Retry-After asks for. Defaults: 1 s and 5 min.
	BaseDelay, MaxDelay time.Duration
	// Within is how long an operation may wait for its first sending before it is given up as not done, unless it says so
	// itself. Default: 24 h.
	Within time.Duration
	// Retention is how long a server remembers a key if its target does not say. Default: 24 h.
	Retention time.Duration
	// Margin is how much earlier than the end of the server's memory the last sending begins. It must be longer than the
	// lease. Default: a tenth of the server's memory, and at least twice the lease.
	Margin time.Duration
	// PassUnknown sends the later operations of a subject although one before them is unknown.
	PassUnknown bool
	// MaxAnswer is how many bytes of an answer's body are kept. Default: 64 KiB; negative keeps none.
	MaxAnswer int
	// Report, if not nil, is told of each operation that is done, not done or unknown. It is told at least once: again if
	// it fails, or if the process dies meanwhile. So it must be idempotent; Entry.ID tells what was reported before. Its
	// context ends with the lease. It must be safe for concurrent use. What was decided by an Outbox without it is not
	// reported later.
	Report func(context.Context, *Entry) error
	// Observe, if not nil, is told of each sending once it is recorded, whatever came of it. It may miss some, and must be
	// safe for concurrent use.
	Observe func(context.Context, *Entry)
	// OnError, if not nil, is told what fails while a worker runs: statements, and Report.
	OnError func(context.Context, error)
	// Keep is how long operations that are done, not done or dropped are kept; a name can be put again after that, as a new
	// operation. Default: 7 days. Those that are unknown are kept until somebody decides.
	Keep time.Duration
	// Grace is how long Run lets sendings end that are under way when it is to stop. Default: 10 s; negative is none.
	Grace time.Duration
}

// stored are the fields that are always allowed.
var stored = []string{"Accept", "Accept-Language", "Content-Encoding", "Content-Language", "Content-Type", "Prefer"}

// credentials are the fields that are never stored.
var credentials = []string{"Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key"}

func (c *Config) fill() error {
	defaults := func(name string, d *time.Duration, value time.Duration) error {
		if *d < 0 {
			return fmt.Errorf("the field Config.%s is %s; it must not be negative", name, *d)
		}
		*d = cmp.Or(*d, value)
		return nil
	}
	if err := errors.Join(
		defaults("Lease", &c.Lease, time.Minute), defaults("Poll", &c.Poll, time.Second), defaults("BaseDelay", &c.BaseDelay, time.Second),
		defaults("MaxDelay", &c.MaxDelay, max(5*time.Minute, c.BaseDelay)), defaults("Within", &c.Within, 24*time.Hour),
		defaults("Retention", &c.Retention, 24*time.Hour), defaults("Margin", &c.Margin, 0), defaults("Keep", &c.Keep, 7*24*time.Hour),
	); err != nil {
		return err
	}
	c.MaxDelay = min(c.MaxDelay, math.MaxInt64-1) // one more can be counted
	c.Concurrency, c.MaxAnswer, c.Grace = cmp.Or(c.Concurrency, 4), cmp.Or(c.MaxAnswer, 64<<10), cmp.Or(c.Grace, 10*time.Second)
	switch {
	case c.Concurrency < 1:
		return fmt.Errorf("the field Config.Concurrency is %d; it must be at least 1", c.Concurrency)
	case c.BaseDelay > c.MaxDelay:
		return fmt.Errorf("the field Config.BaseDelay is %s, more than MaxDelay, %s", c.BaseDelay, c.MaxDelay)
	case c.Margin != 0 && c.Margin <= c.Lease:
		return fmt.Errorf("the field Config.Margin is %s, not more than Lease, %s: a sending could begin before and arrive after the server has forgotten the key", c.Margin, c.Lease)
	}
	header := slices.Clone(stored)
	for _, name := range c.Header {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if slices.Contains(credentials, name) {
			return fmt.Errorf("the field Config.Header names %s, which carries credentials and is not stored; let Config.Authorize set it", name)
		}
		header = append(header, name)
	}
	c.Header = header
	return nil
}

// New returns an Outbox in a database that speaks the dialect. The config is copied; nil means the defaults. Without a
// Transport it sends and takes nothing, and is good for looking and settling.
func New(db *sql.DB, dialect *Dialect, transport *client.Transport, config *Config) (*Outbox, error) {
	o := &Outbox{db: db, dialect: dialect, transport: transport, wake: make(chan struct{}, 1)}
	if config != nil {
		o.config = *config
	}
	if err := o.config.fill(); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return o, nil
}

// Stores tells whether a field of requests is stored; Put refuses requests with others.
func (o *Outbox) Stores(field string) bool {
	return slices.Contains(o.config.Header, textproto.CanonicalMIMEHeaderKey(field))
}

var errNoTransport = errors.New("outbox: there is no Transport; give one to New")

// memory is how long after its first sending an operation may be sent.
func (o *Outbox) memory(t client.Target) (time.Duration, error) {
	retention := cmp.Or(t.Retention, o.config.Retention)
	margin := cmp.Or(o.config.Margin, max(retention/10, 2*o.config.Lease))
	if margin >= retention {
		return 0, fmt.Errorf("%s remembers a key for %s, and Config.Margin or twice Config.Lease is %s: nothing could be sent; make it shorter", t.Name, retention, margin)
	}
	return retention - margin, nil
}

// Ping fails if the database cannot be reached or the table is missing.
func (o *Outbox) Ping(ctx context.Context) error {
	if _, err := o.db.ExecContext(ctx, o.dialect.ping); err != nil {
		return fmt.Errorf("outbox: reaching the table: %w", err)
	}
	return nil
}
