module github.com/ichido-dev/ichido/pgstore

go 1.26.0

require (
	github.com/ichido-dev/ichido v0.1.0
	github.com/jackc/pgx/v5 v5.13.0
)
