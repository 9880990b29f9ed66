package ichido

import (
	"context"
	"time"
)

// An Inspector is a Store that shows what it has stored, to operators.
type Inspector interface {
	// List returns at most filter.Limit entries, in the order of key and scope by their bytes, without the bodies and
	// headers of answers. Entries past their retention are listed until they are purged.
	List(ctx context.Context, filter Filter) ([]Entry, error)

	// Look returns the entry of a key with all there is, or ErrNoRecord.
	Look(ctx context.Context, scope, key string) (*Entry, error)

	// Settlements returns how a key was settled, the oldest first, also when its record is gone. They are kept for
	// SettlementRetention.
	Settlements(ctx context.Context, scope, key string) ([]Settlement, error)
}

// A Filter chooses entries. Fields that are zero do not.
type Filter struct {
	States    []State
	Scope     string        // exactly
	Route     string        // exactly
	Key       string        // exactly
	KeyPrefix string        // by bytes
	OlderThan time.Duration // made at least so long ago, by the store's clock
	NewerThan time.Duration // made at most so long ago

	// After is the last entry of the page before; nil begins at the first.
	After *EntryID
	// Limit is the length of a page. It must be positive.
	Limit int
}

// An EntryID names an entry.
type EntryID struct{ Scope, Key string }

// An Entry is what is stored of a key.
type Entry struct {
	EntryID
	State       State
	Fingerprint []byte
	Status      int // of the answer; 0 if there is none
	BodySize    int // in bytes, as it is stored
	// Response is the answer, if there is one and the entry is from Look.
	Response  *Response
	CreatedAt time.Time // of a completed record its completion, in lease mode the first claim
	ExpiresAt time.Time // when its retention is over

	// The rest is of lease mode, and zero for a record of transaction mode.

	Route      string
	Token      int64     // of the last attempt
	LeaseUntil time.Time // of the last attempt; zero if the record is completed
	Attempts   int       // how many there were
	// Owner names the process that holds the lease, or that held it last. It is empty if the attempt did not say.
	Owner string
	// Rerun says that the next request with the key runs the work again once the lease has run out. Such an entry is
	// InProgress as long as no attempt has completed it and there may be more of them.
	Rerun bool
	Asked int // how often a Resolver was asked, or [Manager.Finish] took it up

	// Resumes says that the operation has steps: the next request with the key goes on after the last that is kept. Such
	// an entry is InProgress as long as no attempt has completed it and there may be more of them.
	Resumes bool
	// MaxAttempts is how many attempts there may be; zero sets no bound. It is Lease.MaxAttempts of the last attempt.
	MaxAttempts int
	// Finishes says that the request is kept, so that [Manager.Finish] can go on without the client.
	Finishes bool
	// Steps are the names of the steps that are kept, if the entry is from Look.
	Steps []string
}
