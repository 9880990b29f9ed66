package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ichido-dev/ichido"
)

// A database is where the program keeps everything: keys and reservations, in one, so that one transaction holds both.
type database struct {
	store  store
	office office
	where  string       // for people; without a password
	close  func() error // gives up the connections
}

// A store is what the program needs of an ichido.Store.
type store interface {
	ichido.Settler
	ichido.Inspector
	ichido.Purger
	ichido.Migrator
	ichido.Pinger
}

// Pool sizes of the program. A library leaves them to its user; here a handful of slow requests (--work) should not
// take all the connections there are.
const poolSize = 16

// reachTimeout bounds how long the program waits for its database when it starts.
const reachTimeout = 10 * time.Second

// openDatabase connects to what --db names, and fails if it cannot be reached.
func openDatabase(ctx context.Context, location string, mode sqliteMode) (*database, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if isPostgres(location) {
		return openPostgres(ctx, location)
	}
	path, err := sqlitePath("--db", location)
	if err != nil {
		return nil, err
	}
	return openSQLite(ctx, path, mode)
}

// openPresent is openDatabase for a database that is there and has the present schema.
func openPresent(ctx context.Context, location string) (*database, error) {
	db, err := openDatabase(ctx, location, sqliteExisting)
	if err != nil {
		return nil, err
	}
	pending, err := db.store.Pending(ctx)
	if err == nil && len(pending) > 0 {
		err = errors.New("the database does not have the present schema; make it with ichido migrate")
	}
	if err != nil {
		db.shut()
		return nil, err
	}
	return db, nil
}

// schemas are the two sets of migrations of a database, in the order in which they are applied.
func (d *database) schemas() []schema {
	return []schema{{"store", d.store}, {"office", d.office}}
}

// A schema is a set of migrations, with the name that people see.
type schema struct {
	name string
	ichido.Migrator
}

// prepare makes the schema in an empty database. It leaves one of an earlier release alone: other processes may be
// using that, and when to change it is for the operator to say.
func (d *database) prepare(ctx context.Context) error {
	for _, s := range d.schemas() {
		pending, err := s.Pending(ctx)
		switch {
		case err != nil:
			return err
		case len(pending) == 0:
			continue
		case pending[0].Version > 1:
			return fmt.Errorf("the database has an earlier schema: %d migrations of the %s are pending; apply them with ichido migrate", len(pending), s.name)
		}
		if _, err := s.Migrate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// closeTimeout bounds the wait for connections that are still in use.
const closeTimeout = 5 * time.Second

// shut closes the database, for a bounded time: what still holds a connection ends with the process.
func (d *database) shut() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = d.close() // everything was committed long before; there is nothing left to lose
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
}
