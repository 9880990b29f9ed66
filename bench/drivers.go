package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
)

// driverRows is how many rows the point reads choose from.
const driverRows = 10_000

// measureDrivers compares the drivers for SQLite that need no C compiler: commits, point reads, and first requests.
func measureDrivers(ctx context.Context, o *options) (*Drivers, error) {
	d := &Drivers{Versions: make(map[string]string)}
	var kinds [3][]series
	for _, driver := range []sqliteDriver{modernc, ncruces} {
		db, err := newSQLite(ctx, driver)
		if err != nil {
			return nil, err
		}
		defer db.close()
		facts, err := db.facts(ctx)
		if err != nil {
			return nil, err
		}
		d.Versions[driver.title] = facts["version"]
		pool, err := db.connect(poolSize, nil)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		if err := fillRows(ctx, pool); err != nil {
			return nil, fmt.Errorf("%s: %w", driver.title, err)
		}
		a, err := serve(ctx, db, poolSize, nil)
		if err != nil {
			return nil, err
		}
		defer a.close()
		kinds[0] = append(kinds[0], on(ctx, pool, driver.title+" commit", commit))
		kinds[1] = append(kinds[1], on(ctx, pool, driver.title+" read", pointRead))
		kinds[2] = append(kinds[2], a.series(driver.title+" first", "/ichido", false, newKey))
	}
	for _, clients := range o.clients {
		for _, pair := range kinds {
			got, err := alternate(ctx, o, clients, pair)
			if err != nil {
				return nil, err
			}
			d.Loads = append(d.Loads, got.load(clients, pair, aim{of: pair[0].name, to: pair[1].name}))
		}
	}
	return d, nil
}

func fillRows(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO things SELECT i, 'thing ' || i FROM n`, driverRows))
	return err
}

// on is a series of calls of do on a pool.
func on(ctx context.Context, db *sql.DB, name string, do func(context.Context, *sql.DB) error) series {
	return series{name: name, worker: func() (func() error, func(), error) {
		return func() error { return do(ctx, db) }, func() {}, nil
	}}
}

func commit(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "INSERT INTO things (name) VALUES (?)", "thing")
	return err
}

func pointRead(ctx context.Context, db *sql.DB) error {
	var name string
	return db.QueryRowContext(ctx, "SELECT name FROM things WHERE id = ?", 1+rand.IntN(driverRows)).Scan(&name)
}
