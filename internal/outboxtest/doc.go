// Package outboxtest tests package outbox on PostgreSQL and on SQLite, and kills its workers at every point. It has nothing
// but tests, and is a module of its own for the drivers.
package outboxtest
