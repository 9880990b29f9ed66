package ichido

import (
	"context"
	"errors"
	"time"
)

// A Store keeps one record per (scope, key) in a database. It is the one seam between the [Manager], which
// knows HTTP and policy, and a database: the Manager calls Begin, lets the work run, and ends the [Attempt].
//
// Implementations are memstore, sqlstore (database/sql) and pgstore (pgx); package storetest is the suite that
// each of them passes and that a store of your own should. What a store can do beyond this interface it says by
// implementing [Purger], [Migrator] or [Pinger].
//
// A Store is safe for concurrent use by any number of goroutines and processes that share its database.
type Store interface {
	// Begin claims a key. Exactly one of its three results is not nil:
	//
	//   - an Attempt: the key was unregistered, or its record was past its retention. The caller may run the
	//     operation, and must end the attempt by Complete or Abandon, once;
	//   - a Record: the key is completed. Its fingerprint may differ from the claim's: comparing them is the
	//     caller's part, so that it happens in one place;
	//   - an error: ErrInProgress when another attempt holds the key; ErrMismatch when the store can tell that
	//     the attempt that holds it has another fingerprint; ErrSerialization when the database asks to try
	//     again; anything else means that the store could not answer, and then nothing is claimed.
	//
	// Reporting an attempt in progress is a courtesy: a store that cannot see it returns an Attempt to both, and
	// the loser's Complete returns ErrLost. ctx bounds Begin alone; the attempt outlives it.
	Begin(ctx context.Context, claim Claim) (Attempt, *Record, error)
}

// An Attempt is one try at executing an operation, and the right to complete its key. One goroutine at a time may
// use it.
type Attempt interface {
	// Context returns a child of parent that carries what the work needs from the store: in transaction mode the
	// open transaction (pgstore.Tx, sqlstore.Tx). Once the attempt has ended, the transaction is no longer usable.
	Context(parent context.Context) context.Context

	// Complete stores the response and, in transaction mode, commits it together with the work. When it returns
	// nil both are durable. Whatever it returns, the attempt has ended and holds no resource any more.
	//
	// Errors, all of which mean that nothing was committed, except ErrCommitUnknown: ErrLost when another
	// attempt completed the key first; ErrSerialization when the database aborted the transaction to keep order
	// and the work may be run again; ErrCommitUnknown when the connection was lost between sending the commit
	// and hearing of it.
	Complete(ctx context.Context, response Response) error

	// Abandon ends the attempt and leaves nothing: no record and, in transaction mode, no business row. cause is why
	// the work failed: the error that it returned, ErrServerError if it answered with one, nil if it refused on
	// purpose. A store uses it only to recognise that the database aborted the transaction to keep order; then it
	// returns ErrSerialization, and the work is run again. It returns ErrLost if the key is completed by now, because
	// the work may have refused just because of what the winner did; then the winner's answer counts. The attempt has
	// ended whatever Abandon returns.
	Abandon(ctx context.Context, cause error) error
}

// A Claim says which operation an attempt is for.
type Claim struct {
	// Scope is what Key is unique within, for instance a principal and a route.
	Scope string
	// Key is the client's idempotency key, without quotes.
	Key string
	// Fingerprint is the digest of the request, stored with the record.
	Fingerprint []byte
	// Retention is how long the record is kept once it is completed, by the store's clock. It is positive.
	Retention time.Duration
	// Reruns is how often this request ran already and was aborted by the database to keep order. A store may take
	// stronger locks when it is not zero.
	Reruns int
}

// A Record is what is stored of a completed key. Records are shared between goroutines: do not modify one.
type Record struct {
	// Fingerprint is that of the request that was executed.
	Fingerprint []byte
	// Response is the answer to repeat.
	Response Response
}

// A Response is a stored answer. To a store all of it is opaque.
type Response struct {
	// Status is the HTTP status; 200 for a result of [Do].
	Status int
	// Header holds the stored header fields, one "Name: value\n" a line.
	Header []byte
	// Body is the body, to the byte. It is never nil in a response that a store returns.
	Body []byte
}

// The answers of a Store that are not failures. Stores wrap them; compare with [errors.Is].
var (
	// ErrInProgress says that another attempt with this key is running. The same request may be sent again later.
	ErrInProgress = errors.New("ichido: an attempt with this key is in progress")

	// ErrMismatch says that the key belongs to a request with another fingerprint. Sending it again cannot help:
	// a different request needs a key of its own.
	ErrMismatch = errors.New("ichido: the key was used with a different request")

	// ErrLost says that another attempt with this key committed first and that this one left nothing.
	ErrLost = errors.New("ichido: another attempt with this key committed first")

	// ErrSerialization says that the database aborted the transaction to keep order between transactions
	// (PostgreSQL 40001 and 40P01, SQLITE_BUSY_SNAPSHOT) and that running it again may succeed.
	ErrSerialization = errors.New("ichido: the database aborted the transaction to keep order; run it again")

	// ErrCommitUnknown says that the connection was lost while the transaction was being committed. The
	// operation took effect wholly or not at all; the next attempt with the same key finds out which.
	ErrCommitUnknown = errors.New("ichido: the connection was lost during commit; whether it took effect is unknown")
)

// ErrServerError is the cause that [Attempt.Abandon] gets when a handler answered 5xx. The handler may have met an error
// of the database that it did not pass on.
var ErrServerError = errors.New("ichido: the handler answered with a server error")

// A Purger is a Store that can delete records which are past their retention.
type Purger interface {
	// Purge deletes at most limit expired records in one short transaction and returns how many it deleted.
	// Fewer than limit means that there were no more that other purgers had not taken already.
	Purge(ctx context.Context, limit int) (int, error)
}

// A Migration is one numbered step of a store's schema.
type Migration struct {
	Version int    // 1 for the first
	Name    string // what it does, in a few words
	SQL     string // the statements, as they are sent
}

// A Migrator is a Store that creates and upgrades its own schema.
type Migrator interface {
	// Pending lists the migrations that the database does not have yet, without changing anything.
	Pending(ctx context.Context) ([]Migration, error)
	// Migrate applies the pending migrations and returns those that it applied. It may be called twice and from
	// several processes at once.
	Migrate(ctx context.Context) ([]Migration, error)
}

// A Pinger is a Store that can tell whether its database answers and has the schema.
type Pinger interface {
	Ping(ctx context.Context) error
}
