// Package crashtest kills real processes at every point of an attempt in lease mode, of one with steps too, on PostgreSQL and
// on SQLite, has a client send again as clients do, or Finish go on without it, and counts what took effect. It has nothing
// but tests, and is a module of its own for the drivers.
package crashtest
