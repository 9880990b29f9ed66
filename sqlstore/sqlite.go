package sqlstore

import (
	"embed"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/ichido-dev/ichido/internal/migration"
)

//go:embed sqlite/*.sql
var sqliteMigrations embed.FS

const (
	// now in the form in which times are stored.
	sqliteNow = "strftime('%Y-%m-%d %H:%M:%f', 'now')"

	// sqliteExpired is whether a record is past its retention. People set expires_at by hand, in any form that SQLite
	// understands: with a T, with an offset; what it does not understand is not in the future. The index has the same
	// expression.
	sqliteExpired = "(julianday(expires_at) <= julianday('now') OR julianday(expires_at) IS NULL)"
)

// SQLite is the dialect of SQLite 3.35 or later, with any driver whose errors carry SQLite's result codes
// (modernc.org/sqlite, ncruces/go-sqlite3, mattn/go-sqlite3).
var SQLite = &Dialect{
	name: "sqlite",

	read: `SELECT request_hash, response_status, response_headers, response_body, ` + sqliteExpired + `
		FROM idempotency_keys WHERE idem_key = ? AND scope = ?`,
	written:     `SELECT total_changes()`,
	lockToWrite: `DELETE FROM idempotency_keys WHERE false`,
	insert: `INSERT INTO idempotency_keys
		(scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ` + sqliteNow + `, strftime('%Y-%m-%d %H:%M:%f', 'now', ?))`,
	deleteExpired: `DELETE FROM idempotency_keys WHERE idem_key = ? AND scope = ? AND ` + sqliteExpired,
	purge: `DELETE FROM idempotency_keys WHERE (idem_key, scope) IN
		(SELECT idem_key, scope FROM idempotency_keys WHERE ` + sqliteExpired + ` LIMIT ?)`,
	ping: `SELECT 1 FROM idempotency_keys LIMIT 0`,

	migrations:     migration.Read(sqliteMigrations, "sqlite"),
	migrationTable: `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'idempotency_migrations'`,
	beginExclusive: `BEGIN IMMEDIATE`,

	interval: func(d time.Duration) any {
		return "+" + strconv.FormatFloat(d.Seconds(), 'f', 3, 64) + " seconds"
	},
	isUnique: func(err error) bool {
		code := sqliteCode(err)
		return (code == sqliteConstraintPrimaryKey || code == sqliteConstraintUnique) &&
			strings.Contains(err.Error(), "idempotency_keys.")
	},
	isBusy:          func(err error) bool { return sqliteCode(err)&0xff == sqliteBusy },
	isCommitUnknown: func(err error) bool { return sqliteCode(err)&0xff == sqliteIOErr },
}

// Result codes of SQLite (https://sqlite.org/rescode.html).
const (
	sqliteBusy                 = 5
	sqliteIOErr                = 10
	sqliteConstraintPrimaryKey = 19 | 6<<8
	sqliteConstraintUnique     = 19 | 8<<8
)

// sqliteCode returns the extended result code that an error of any of the drivers carries, or 0. Each driver has its
// own type for it: a method ExtendedCode or Code, or a field ExtendedCode, of some integer kind.
func sqliteCode(err error) int {
	for ; err != nil; err = unwrap(err) {
		v := reflect.ValueOf(err)
		for _, name := range []string{"ExtendedCode", "Code"} {
			if m := v.MethodByName(name); m.IsValid() && m.Type().NumIn() == 0 && m.Type().NumOut() == 1 {
				if code, ok := integer(m.Call(nil)[0]); ok {
					return code
				}
			}
		}
		if v.Kind() == reflect.Struct {
			if code, ok := integer(v.FieldByName("ExtendedCode")); ok {
				return code
			}
		}
	}
	return 0
}

func unwrap(err error) error {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return e.Unwrap()
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if sqliteCode(inner) != 0 {
				return inner
			}
		}
	}
	return nil
}

func integer(v reflect.Value) (int, bool) {
	switch {
	case !v.IsValid():
		return 0, false
	case v.CanInt():
		return int(v.Int()), true
	case v.CanUint():
		return int(v.Uint()), true
	}
	return 0, false
}
