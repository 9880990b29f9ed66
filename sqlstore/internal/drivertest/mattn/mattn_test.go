package mattn_test

import (
	"testing"

	"github.com/ichido-dev/ichido/sqlstore/internal/drivertest"

	_ "github.com/mattn/go-sqlite3"
)

func TestSQLite(t *testing.T) {
	drivertest.Run(t, drivertest.Driver{Name: "sqlite3", DSN: func(file string) string {
		return "file:" + file + "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=60000&_foreign_keys=1"
	}})
}
