package sqlstore

import (
	"fmt"
	"time"

	"github.com/ichido-dev/ichido"
)

// A Dialect is how one database engine says what a Store needs. Use [SQLite].
type Dialect struct {
	name string

	read          string // of (key, scope): the columns of a row
	written       string // how much the connection has written so far, without looking at any table
	lockToWrite   string // waits until no other transaction writes, and keeps others from it
	insert        string // of (scope, key, fingerprint, status, headers, body, interval); fails if the key has a record
	deleteExpired string // of (key, scope)
	purge         string // of (limit); records without steps
	ping          string // fails if the schema is missing or too old

	// Lease mode. Held means that the record carries the token, has no answer, and its lease is still running. claim
	// changes a row only if the key is free, may be taken over, or is held under the token already; and if it may be new, or
	// there is a record. complete leaves an answer as it is that was stored under the token before.
	claim    string // of (scope, key, fingerprint, interval to expiry, token, interval of the lease, rerun, route, limit of attempts, owner, request, whether it may be new, key, scope)
	renew    string // of (JSON array of [scope, key, token as text, interval]): scope, key and token of those that are held
	complete string // of (status, headers, body, interval, key, scope, token) if held
	discard  string // of (key, scope, token) deletes the record if held, by the first attempt, and without steps
	lapse    string // of (interval to expiry, key, scope, token) ends the lease if held

	// Steps. beginSteps and keepStep change a row only if the record is held, keepStep only if the step is the next.
	beginSteps  string // of (key, scope, token): the kept steps, as JSON
	keepStep    string // of (number, name, result, key, scope, token, number)
	keptStep    string // of (key, scope, token, number, name): whether the step is kept, and the record held
	forget      string // of (key, scope, token) deletes the steps of a record that is held, by the first attempt
	deleteSteps string // of (key, scope)
	purgeSteps  string // of (limit); those of expired records
	probe       string // fails in a transaction, and begins one outside of it

	// Unknown keys. A token of 0 is any. settleDone takes the record's token away: by that complete knows that the answer is
	// not the attempt's own, should it be late.
	ask          string // of (interval, route, limit): the columns of an unknown key, and NULL
	askOne       string // of (interval, key, scope): the same
	abandoned    string // of (interval, route, limit): the columns of an unknown key, and its request
	stillUnknown string // of (key, scope, token) ends the reservation if unknown
	settleDone   string // of (status, headers, body, interval, key, scope, token) if unknown
	settleNot    string // of (key, scope, token) deletes the record if unknown
	settleDelete string // of (key, scope, token) deletes the record if unknown or completed
	settlement   string // of (scope, key, how, by, reason, interval)

	// Times are read as milliseconds since 1970, NULL if the database does not understand them.
	list             func(ichido.Filter) (query string, args []any) // the columns of an entry
	look             string                                         // of (key, scope): the columns of an entry, headers, body
	settlements      string                                         // of (key, scope): how, by, reason, when
	purgeSettlements string                                         // of (limit)

	migrations     []ichido.Migration
	migrationTable string // whether the table of applied migrations exists
	beginExclusive string // begins a transaction that only one process can be in

	interval        func(time.Duration) any // a duration as the statements take it
	isUnique        func(error) bool        // the key has a record already
	isBusy          func(error) bool        // refused because of another transaction
	isCommitUnknown func(error) bool        // a failed commit may have taken effect
}

// unavailable classifies an error outside of attempts, where nothing has been run that could be run again.
func (d *Dialect) unavailable(doing string, err error) error {
	if d.isBusy(err) {
		return fmt.Errorf("%w: sqlstore: %s: %w", ichido.ErrUnavailable, doing, err)
	}
	return fmt.Errorf("sqlstore: %s: %w", doing, err)
}

// aborted classifies an error of an attempt's transaction.
func (d *Dialect) aborted(doing string, err error) error {
	if d.isBusy(err) {
		return fmt.Errorf("%w: sqlstore: %s: %w", ichido.ErrSerialization, doing, err)
	}
	return fmt.Errorf("sqlstore: %s: %w", doing, err)
}
