// Package drivertest runs the tests of sqlstore on real SQLite drivers, one in each folder below. It is a module of its
// own so that a user of sqlstore gains none of them as a dependency.
package drivertest

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/sqlstore"
	"github.com/ichido-dev/ichido/storetest"
)

// A Driver is a way to open a SQLite file: WAL, synchronous=FULL and a busy timeout, said in each one's own way.
type Driver struct {
	Name string // as registered with database/sql
	DSN  func(file string) string
}

// Pragmas is the DSN of drivers that take any pragma.
func Pragmas(file string) string {
	q := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(60000)", "foreign_keys(ON)"}}
	return "file:" + file + "?" + q.Encode()
}

const poolSize = 4

// Run runs all tests.
func Run(t *testing.T, d Driver) {
	t.Run("Store", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Database {
			file := newFile(t)
			db := d.open(t, file)
			return storetest.Database{
				Open: func(t *testing.T) ichido.Store { return sqlstore.New(d.open(t, file), sqlstore.SQLite) },
				Work: insertThing,
				Rows: func(t *testing.T, name string) int {
					return count(t, db, "SELECT count(*) FROM things WHERE name = ?", name)
				},
				Add: add,
				Total: func(t *testing.T) int {
					return count(t, db, "SELECT n FROM counter")
				},
				Connections: poolSize,
			}
		})
	})
	for name, test := range map[string]func(*testing.T, Driver){
		"SlowWorkBlocksNobody":  slowWorkBlocksNobody,
		"ExpiryBySQL":           expiryBySQL,
		"LockedByAnother":       lockedByAnother,
		"SpoiltTransactions":    spoiltTransactions,
		"P7_FailClosed":         failClosed,
		"TinyLeases":            tinyLeases,
		"LeaseBySQL":            leaseBySQL,
		"NoTransaction":         noTransaction,
		"WritesNothingRefused":  writesNothingWhenRefused,
		"LostAcknowledgements":  lostAcknowledgements,
		"RacingTakeovers":       racingTakeovers,
		"SettleAgainstComplete": settleAgainstComplete,
		"RenewMany":             renewMany,
		"MigrateWithRecords":    migrateWithRecords,
		"MigrateWithLeases":     migrateWithLeases,
		"QuestionsAreDue":       questionsAreDue,
		"SettlementsArePurged":  settlementsArePurged,
		"ListsByPrefix":         listsByPrefix,
		"StepsGoWithTheRecord":  stepsGoWithTheRecord,
		"Leftovers":             leftoversCountForNothing,
		"TxStepResumes":         txStepResumes,
		"TxStepFails":           txStepFails,
		"TxStepIsFenced":        txStepIsFenced,
		"TxStepRunsAgain":       txStepRunsAgain,
		"TxStepGivesUp":         txStepGivesUp,
		"TxStepWasKept":         txStepWasKept,
		"TxStepIsFinal":         txStepIsFinal,
		"NoSteps":               noSteps,
		"OperationResumes":      operationResumes,
	} {
		t.Run(name, func(t *testing.T) { test(t, d) })
	}
}

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") }

// open returns a pool of its own on the file, with the schema and the business table of the tests.
func (d Driver) open(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.Name, d.DSN(file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(poolSize)
	if _, err := sqlstore.New(db, sqlstore.SQLite).Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, `CREATE TABLE IF NOT EXISTS things (id INTEGER PRIMARY KEY, name TEXT NOT NULL CHECK (name <> 'refused'))`)
	mustExec(t, db, `CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)`)
	mustExec(t, db, `INSERT OR IGNORE INTO counter VALUES (1, 0)`)
	return db
}

// add reads and then writes, which SQLite refuses if another transaction has written in between.
func add(ctx context.Context) error {
	tx := sqlstore.Tx(ctx)
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE counter SET n = ?", n+1)
	return err
}

func mustExec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func count(t *testing.T, db *sql.DB, query string, args ...any) int {
	t.Helper()
	n := 0
	if err := db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func insertThing(ctx context.Context, name string) error {
	_, err := sqlstore.Tx(ctx).ExecContext(ctx, "INSERT INTO things (name) VALUES (?)", name)
	return err
}
