package ichido

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// A Store keeps one record per (scope, key) in a database. It is the one seam between the [Manager], which
// knows HTTP and policy, and a database: the Manager calls Begin, lets the work run, and ends the [Attempt].
//
// Implementations are memstore, sqlstore (database/sql) and pgstore (pgx); package storetest is the suite that
// each of them passes and that a store of your own should. What a store can do beyond this interface it says by
// implementing [Leaser], [Settler], [Inspector], [Purger], [Migrator] or [Pinger].
//
// A Store is safe for concurrent use by any number of goroutines and processes that share its database.
type Store interface {
	// Begin claims a key. Exactly one of its three results is not nil:
	//
	//   - an Attempt: the key was unregistered, or its record was past its retention. The caller may run the
	//     operation, and must end the attempt by Complete or Abandon, once;
	//   - a Record: the key is completed, or unknown. Its fingerprint may differ from the claim's: comparing them is
	//     the caller's part, so that it happens in one place;
	//   - an error: ErrInProgress when another attempt holds the key; ErrMismatch when the store can tell that
	//     the attempt that holds it has another fingerprint; ErrSerialization when the database asks to try
	//     again; anything else means that the store could not answer, and then nothing is claimed.
	//
	// Reporting an attempt in progress is a courtesy: a store that cannot see it returns an Attempt to both, and
	// the loser's Complete returns ErrLost. ctx bounds Begin alone; the attempt outlives it.
	//
	// A claim with a Lease is for a [Leaser]; what it does then is written there.
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
	// Lease makes the attempt one of lease mode. nil means transaction mode.
	Lease *Lease

	request []byte // Lease.Request of the attempt to come
	follows bool   // its Lease.Follows
}

// A Lease is what a claim in lease mode asks for.
type Lease struct {
	// Token is the fencing token: it names the attempt, no other attempt has it, and it is never zero. A store accepts
	// what an attempt says only while the record carries its token.
	Token int64
	// Duration is how long the attempt may go unheard, by the store's clock. It is positive.
	Duration time.Duration
	// Rerun says that an attempt whose lease ran out may be followed by another. It is stored: only where both the
	// attempt that went and the claim that finds it say so does the work run again.
	Rerun bool
	// UnknownRetention is how long the record is kept if no attempt ever completes it. It is positive.
	UnknownRetention time.Duration
	// Route names the kind of work, for those who settle it later. It may be empty.
	Route string
	// Owner names the process whose attempt it is, for people who look. It may be empty.
	Owner string
	// MaxAttempts is how many attempts there may be, if not zero: a record that had so many is Unknown when the lease of the
	// last one has run out, whatever else says that it runs again. It is stored.
	MaxAttempts int
	// Request is what [Finisher].Abandoned returns, opaque to the store; nil if the operation cannot be finished without
	// its client. It is stored with a new record, stays while attempts follow each other, and goes with the completion.
	Request []byte
	// Follows says that the attempt must follow another: if the key has no record, or one past its retention, Begin stores
	// nothing and returns ErrNoRecord.
	Follows bool
}

// A State is what is known of an operation. A key without a record is unregistered, which is no State.
type State int

const (
	// Completed means that the answer is stored.
	Completed State = iota
	// InProgress means that an attempt holds a lease on the key. In transaction mode an attempt in progress has no
	// record: it is the open transaction.
	InProgress
	// Unknown means that an attempt ended without saying how: its lease ran out, or it failed after it may have had an
	// effect. Nothing runs under the key until it is settled, see [Resolver].
	Unknown
)

func (s State) String() string {
	switch s {
	case Completed:
		return "completed"
	case InProgress:
		return "in progress"
	case Unknown:
		return "unknown"
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// A Record is what is stored of a key. Records are shared between goroutines: do not modify one.
type Record struct {
	// Fingerprint is that of the request that was executed.
	Fingerprint []byte
	// State is Completed, or Unknown in lease mode.
	State State
	// Response is the answer to repeat, if State is Completed.
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

	// ErrUnknown says that an attempt with this key ended without saying whether it took effect. Waiting does not help:
	// the key must be settled. Nothing was run.
	ErrUnknown = errors.New("ichido: whether an earlier attempt with this key took effect is unknown")

	// ErrSerialization says that the database aborted the transaction to keep order between transactions
	// (PostgreSQL 40001 and 40P01, SQLITE_BUSY_SNAPSHOT) and that running it again may succeed.
	ErrSerialization = errors.New("ichido: the database aborted the transaction to keep order; run it again")

	// ErrCommitUnknown says that the connection was lost while the transaction was being committed. The
	// operation took effect wholly or not at all; the next attempt with the same key finds out which.
	ErrCommitUnknown = errors.New("ichido: the connection was lost during commit; whether it took effect is unknown")
)

// A Leaser is a Store that offers lease mode too, for work that leaves the database: the claim is committed first, as a
// record with a lease and a fencing token, and the answer last. All times are by the store's clock.
//
// Begin with a Claim.Lease is atomic, costs one round trip, and does the first of these that applies:
//
//   - no record, or one past its retention whose lease, if it has one, has run out: it stores one in progress, and returns
//     an Attempt; or ErrNoRecord if the claim says Follows;
//   - completed: it returns the Record;
//   - in progress under the claim's own token: it returns the Attempt, with its lease renewed. That is how a claim whose
//     acknowledgement was lost is repeated;
//   - in progress, the lease still running: ErrInProgress, or ErrMismatch if the fingerprints differ;
//   - the lease has run out, the fingerprints are the same, and both the record and the claim say Rerun: it replaces
//     token and lease, counts one attempt more, and returns an Attempt;
//   - the lease has run out: it returns the Record with the state Unknown.
//
// A Claim without a Lease meets the records of lease mode in the same way, except that it never takes one over.
//
// The Attempt has no transaction: its Context returns parent, or a child that makes the store's Tx say why there is none.
// Its methods may be called by several goroutines, and again after an error, because each is one statement that repeats
// without harm:
//
//   - Complete stores the answer if the record carries the attempt's token and its lease is still running, or if this
//     attempt has stored it already. Otherwise it returns ErrLost, and changes nothing. An error that is not ErrLost
//     means that it may have been stored;
//   - Abandon, under the same condition, deletes the record if cause is nil and this was the first attempt: nothing has
//     happened, the key is free. Any other cause, or an attempt before, ends the lease at once and leaves the record: what
//     happened is not known. It returns ErrLost if the condition does not hold.
type Leaser interface {
	Store

	// Renew extends the leases of attempts to now plus their Duration, in one statement for all of them, and reports for
	// each whether it is still held: the record carries the token, is in progress, and its lease had not run out. A lease
	// that ran out is never renewed, even if nobody has taken it over. With an error it may return held all the same: those
	// that are true are renewed, and of the others nothing is known.
	Renew(ctx context.Context, leases []Held) (held []bool, err error)

	// GiveBack is Abandon, without a cause, of the attempt that Begin would have returned for the claim: for a claim of which
	// it is not known whether it was stored. It stores nothing. It returns ErrLost if there is nothing to give back.
	GiveBack(ctx context.Context, claim Claim) error
}

// A Finisher is a [Stepper] that hands out operations whose attempts were abandoned, so that somebody finishes them although
// their clients never come back.
type Finisher interface {
	Stepper

	// Abandoned reserves operations that have a Request and would be run again by the next claim, as Ask reserves keys that
	// are unknown: for the time of question.Patience nobody else gets them from Abandoned, they count as asked about, and
	// are due again after growing pauses. question.Key is empty.
	Abandoned(ctx context.Context, question Question) ([]AbandonedKey, error)
}

// An AbandonedKey is a key whose operation waits for another attempt.
type AbandonedKey struct {
	UnknownKey
	Request []byte // Lease.Request of its first attempt
}

// A Held is the lease of an attempt, as [Leaser].Renew takes it.
type Held struct {
	Scope, Key string
	Token      int64
	Duration   time.Duration
}

// The causes of attempts in lease mode that end early.
var (
	// ErrLeaseLost is the context.Cause of an attempt whose lease could not be renewed in time. It can complete its key no
	// more.
	ErrLeaseLost = errors.New("ichido: the attempt has lost its lease")

	// ErrStopped is the context.Cause of an attempt whose process is being stopped.
	ErrStopped = errors.New("ichido: the process is being stopped")
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
