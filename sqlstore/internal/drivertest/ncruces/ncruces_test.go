package ncruces_test

import (
	"testing"

	"github.com/ichido-dev/ichido/sqlstore/internal/drivertest"

	_ "github.com/ncruces/go-sqlite3/driver"
)

func TestSQLite(t *testing.T) {
	drivertest.Run(t, drivertest.Driver{Name: "sqlite3", DSN: func(file string) string {
		return drivertest.Pragmas(file) + "&_txlock=deferred" // its default is immediate
	}})
}
