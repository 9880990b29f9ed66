package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ichido-dev/ichido"
)

// A Dialect is how one database engine says what a Store needs. Use [SQLite].
type Dialect struct {
	name string

	read          string // of (key, scope): fingerprint, status, headers, body, whether past its retention
	insert        string // of (scope, key, fingerprint, status, headers, body, interval); fails if the key has a record
	deleteExpired string // of (key, scope)
	purge         string // of (limit)
	ping          string // fails if the table is missing

	migrations     []ichido.Migration
	migrationTable string // whether the table of applied migrations exists
	beginExclusive string // begins a transaction that only one process can be in

	interval        func(time.Duration) any // a duration as insert takes it
	isUnique        func(error) bool        // the key has a record already
	isSerialization func(error) bool        // the transaction was aborted to keep order
	isBusy          func(error) bool        // a lock was waited for in vain
	isCommitUnknown func(error) bool        // a failed commit may have taken effect
	// wasAborted reports whether the transaction can no longer be committed because of what others committed.
	wasAborted func(context.Context, *sql.Tx) bool
}

// classify gives an error of the database the class that a Store's caller looks for.
func (d *Dialect) classify(doing string, err error) error {
	switch {
	case d.isSerialization(err):
		return fmt.Errorf("%w: %w", ichido.ErrSerialization, err)
	case d.isBusy(err):
		return fmt.Errorf("%w: sqlstore: %s: %w", ichido.ErrUnavailable, doing, err)
	}
	return fmt.Errorf("sqlstore: %s: %w", doing, err)
}
