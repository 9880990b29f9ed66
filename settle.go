package ichido

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// A Settler is a [Leaser] whose unknown keys can be settled.
type Settler interface {
	Leaser

	// Ask reserves keys without an answer, whose lease has run out, for being asked about: for question.Patience, by the
	// store's clock, nobody else gets them from Ask. It counts the question in Asked. Of several, those that wait longest
	// come first. It does not matter whether a record says Rerun: who asks has another policy by now.
	Ask(ctx context.Context, question Question) ([]UnknownKey, error)

	// Settle ends what is unknown about a key, in one transaction with the settlement's own record, which Settlements
	// shows; StillUnknown is not recorded, and only ends the reservation.
	//
	//   - SettledDone stores the answer, as if an attempt had completed the key now; the record loses its token, so that
	//     the attempt that went, should it come back, hears that it lost;
	//   - SettledNotDone deletes the record: the key is free;
	//   - SettledDeleted deletes the record, whether unknown or completed: the key is free.
	//
	// Errors: one that names the field if By is empty; ErrNoRecord if the key has none; ErrInProgress if an attempt holds a running lease; ErrNotUnknown if it is
	// completed, unless it shall be deleted, or if the record does not carry settlement.Token.
	Settle(ctx context.Context, settlement Settlement) error
}

// A Question chooses the unknown keys to ask about: one if Key is set, else those of a Route that are due.
//
// A key is due for its n-th question 10 s after the (n-1)-th ended, or the attempt that followed it, doubling with each
// question, and at most an hour. One that is asked for by its name is due at once.
type Question struct {
	Scope, Key string
	Route      string
	Limit      int // of keys of a Route
	Patience   time.Duration
}

// An UnknownKey is a key of which it is not known whether its operation took effect.
type UnknownKey struct {
	Scope, Key  string
	Route       string    // Config.Route of the attempt
	Fingerprint []byte    // of the request
	Token       int64     // of the attempt that went
	Attempts    int       // how many there were, at least one
	Asked       int       // how often this was asked, this time included
	CreatedAt   time.Time // when the first attempt claimed the key
	Since       time.Time // when its lease ended
}

// A Settlement is how, by whom and why a key was settled.
type Settlement struct {
	Scope, Key string
	// Token is that of the attempt whose outcome is settled, to be sure that it is still the same. Zero settles
	// whatever is there.
	Token int64
	How   SettledHow
	// Response and Retention are those of the answer, for SettledDone.
	Response  Response
	Retention time.Duration
	// By names who settled it. Required.
	By string
	// Reason says why, for those who read it later.
	Reason string
	// At is when, by the store's clock. The store sets it.
	At time.Time
}

// SettledHow says what became of a key.
type SettledHow int

const (
	StillUnknown   SettledHow = iota // it was asked, and nobody knows
	SettledDone                      // the operation took effect, with this answer
	SettledNotDone                   // it took none; the key is free
	SettledDeleted                   // the record was deleted, whatever happened
)

func (h SettledHow) String() string {
	switch h {
	case StillUnknown:
		return "still unknown"
	case SettledDone:
		return "done"
	case SettledNotDone:
		return "not done"
	case SettledDeleted:
		return "deleted"
	}
	return "SettledHow(" + strconv.Itoa(int(h)) + ")"
}

// The errors of settling and looking.
var (
	// ErrNoRecord says that a key has no record.
	ErrNoRecord = errors.New("ichido: the key has no record")

	// ErrNotUnknown says that there is nothing to settle: the key is completed, or another attempt has taken it since.
	ErrNotUnknown = errors.New("ichido: the key is not unknown, or not any more")
)

// SettlementRetention is how long a store keeps who settled what and why.
const SettlementRetention = 400 * 24 * time.Hour
