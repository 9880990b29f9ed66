package modernc_test

import (
	"testing"

	"github.com/ichido-dev/ichido/sqlstore/internal/drivertest"

	_ "modernc.org/sqlite"
)

func TestSQLite(t *testing.T) {
	drivertest.Run(t, drivertest.Driver{Name: "sqlite", DSN: drivertest.Pragmas})
}
