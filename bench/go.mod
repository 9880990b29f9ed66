module github.com/ichido-dev/ichido/bench

go 1.26.0

require (
	github.com/ichido-dev/ichido v0.1.0
	github.com/ichido-dev/ichido/pgstore v0.1.0
	github.com/jackc/pgx/v5 v5.13.0
	modernc.org/sqlite v1.62.0
)
