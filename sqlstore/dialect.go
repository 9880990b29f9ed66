package sqlstore

import (
	"fmt"
	"time"

	"github.com/ichido-dev/ichido"
)

// A Dialect is how one database engine says what a Store needs. Use [SQLite].
type Dialect struct {
	name string

	read          string // of (key, scope): fingerprint, status, headers, body, whether past its retention
	written       string // how much the connection has written so far, without looking at any table
	lockToWrite   string // waits until no other transaction writes, and keeps others from it
	insert        string // of (scope, key, fingerprint, status, headers, body, interval); fails if the key has a record
	deleteExpired string // of (key, scope)
	purge         string // of (limit)
	ping          string // fails if the table is missing

	migrations     []ichido.Migration
	migrationTable string // whether the table of applied migrations exists
	beginExclusive string // begins a transaction that only one process can be in

	interval        func(time.Duration) any // a duration as insert takes it
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
