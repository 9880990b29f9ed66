module github.com/ichido-dev/ichido/sqlstore/internal/drivertest

go 1.26.0

require (
	github.com/ichido-dev/ichido v0.1.0
	github.com/mattn/go-sqlite3 v1.14.53
	github.com/ncruces/go-sqlite3 v0.37.0
	modernc.org/sqlite v1.62.0
)
