package sqlstore

import (
	"embed"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/ichido-dev/ichido/internal/migration"
)

//go:embed sqlite/*.sql
var sqliteMigrations embed.FS

const (
	// now in the form in which times are stored.
	sqliteNow = "strftime('%Y-%m-%d %H:%M:%f', 'now')"

	// sqliteIn is the time that is an interval from now, in that form.
	sqliteIn = "strftime('%Y-%m-%d %H:%M:%f', 'now', ?)"

	// sqliteExpired is whether a record is past its retention. People set expires_at by hand, in any form that SQLite
	// understands: with a T, with an offset; what it does not understand is not in the future. The index has the same
	// expression.
	sqliteExpired = "(julianday(expires_at) <= julianday('now') OR julianday(expires_at) IS NULL)"

	// sqliteLive is whether an attempt holds a running lease.
	sqliteLive = "(response_status IS NULL AND coalesce(julianday(lease_until) > julianday('now'), false))"

	// sqliteAbsent is whether a record is as good as none.
	sqliteAbsent = "(" + sqliteExpired + " AND NOT " + sqliteLive + ")"

	// sqliteHeld finds the record of an attempt that holds its lease.
	sqliteHeld = " WHERE idem_key = ? AND scope = ? AND lease_token = ? AND " + sqliteLive

	// sqliteSettled finds the record to settle, whose state the statement adds. A token of 0 is any.
	sqliteSettled = " WHERE idem_key = ? AND scope = ? AND ? IN (0, lease_token) AND NOT " + sqliteLive + " AND NOT " + sqliteExpired

	// sqliteAgain is whether a record has not had all its attempts.
	sqliteAgain = "coalesce(attempts < nullif(max_attempts, 0), true)"

	// sqliteWaits is whether a record has no answer and nobody is at it.
	sqliteWaits = "response_status IS NULL AND NOT " + sqliteLive + " AND NOT " + sqliteExpired

	// sqliteUnknown is whether a record can be asked about, sqliteAbandoned whether it can be finished.
	sqliteUnknown   = sqliteWaits + " AND NOT (steps IS NOT NULL AND " + sqliteAgain + ")"
	sqliteAbandoned = sqliteWaits + " AND request IS NOT NULL AND (rerun IS TRUE OR steps IS NOT NULL) AND " + sqliteAgain

	// sqliteDue is whether the next question about a key is due: 10 s after the first, or the attempt that followed it,
	// doubling, and at most an hour.
	sqliteDue   = "coalesce(julianday(asked_until" + sqlitePause + ") <= julianday('now'), true) AND coalesce(julianday(lease_until" + sqlitePause + ") <= julianday('now'), true)"
	sqlitePause = ", '+' || CASE WHEN asked > 0 THEN min(10 << min(asked - 1, 9), 3600) ELSE 0 END || ' seconds'"

	sqliteAsk = "UPDATE idempotency_keys SET asked = coalesce(asked, 0) + 1, asked_until = " + sqliteIn
)

// sqliteReserve reserves records of a route that are due.
func sqliteReserve(which string) string {
	return sqliteAsk + ` WHERE (idem_key, scope) IN
			(SELECT idem_key, scope FROM idempotency_keys INDEXED BY idempotency_keys_incomplete
			WHERE ` + which + ` AND route = ? AND ` + sqliteDue + `
			ORDER BY julianday(lease_until), idem_key, scope LIMIT ?)` + sqliteAsked
}

// sqliteSteps are the kept steps of a record, as a JSON array of [number, name, result]. JSON has no bytes.
func sqliteSteps(result string) string {
	return `(SELECT json_group_array(json_array(number, name, ` + result + `)) FROM idempotency_steps s
		WHERE s.idem_key = idempotency_keys.idem_key AND s.scope = idempotency_keys.scope AND number <= idempotency_keys.steps)`
}

// SQLite is the dialect of SQLite 3.35 or later, with any driver whose errors carry SQLite's result codes
// (modernc.org/sqlite, ncruces/go-sqlite3, mattn/go-sqlite3).
var SQLite = &Dialect{
	name: "sqlite",

	read: `SELECT request_hash, response_status, response_headers, response_body, ` + sqliteAbsent + `, ` + sqliteLive + `,
		coalesce(lease_token, 0), rerun IS TRUE, steps IS NOT NULL, ` + sqliteAgain + ` FROM idempotency_keys WHERE idem_key = ? AND scope = ?`,
	written:     `SELECT total_changes()`,
	lockToWrite: `DELETE FROM idempotency_keys WHERE false`,
	insert: `INSERT INTO idempotency_keys
		(scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ` + sqliteNow + `, ` + sqliteIn + `)`,
	deleteExpired: `DELETE FROM idempotency_keys WHERE idem_key = ? AND scope = ? AND ` + sqliteAbsent,
	purge: `DELETE FROM idempotency_keys WHERE (idem_key, scope) IN
		(SELECT idem_key, scope FROM idempotency_keys WHERE ` + sqliteAbsent + ` AND steps IS NULL LIMIT ?)`,
	ping: `SELECT request FROM idempotency_keys LIMIT 0`,

	claim: `INSERT INTO idempotency_keys
		(scope, idem_key, request_hash, created_at, expires_at, lease_token, lease_until, attempts, rerun, route, asked,
			max_attempts, owner, request)
		SELECT ?, ?, ?, ` + sqliteNow + `, ` + sqliteIn + `, ?, ` + sqliteIn + `, 1, ?, ?, 0, ?, ?, ?
		WHERE ? OR EXISTS (SELECT 1 FROM idempotency_keys WHERE idem_key = ? AND scope = ? AND NOT ` + sqliteAbsent + `)
		ON CONFLICT (idem_key, scope) DO UPDATE SET
			request_hash = excluded.request_hash,
			response_status = NULL, response_headers = NULL, response_body = NULL,
			created_at = CASE WHEN ` + sqliteAbsent + ` THEN excluded.created_at ELSE created_at END,
			expires_at = excluded.expires_at,
			lease_token = excluded.lease_token,
			lease_until = excluded.lease_until,
			attempts = CASE WHEN ` + sqliteAbsent + ` THEN 1 ELSE attempts + (lease_token <> excluded.lease_token) END,
			rerun = excluded.rerun,
			route = excluded.route,
			asked = CASE WHEN ` + sqliteAbsent + ` THEN 0 ELSE asked END,
			asked_until = CASE WHEN ` + sqliteAbsent + ` THEN NULL ELSE asked_until END,
			steps = CASE WHEN ` + sqliteAbsent + ` THEN NULL ELSE steps END,
			max_attempts = excluded.max_attempts,
			owner = excluded.owner,
			request = CASE WHEN ` + sqliteAbsent + ` THEN excluded.request ELSE request END
		WHERE ` + sqliteAbsent + `
			OR ` + sqliteLive + ` AND lease_token = excluded.lease_token
			OR response_status IS NULL AND NOT ` + sqliteLive + ` AND request_hash = excluded.request_hash
				AND (steps IS NOT NULL OR rerun IS TRUE AND excluded.rerun) AND ` + sqliteAgain,
	renew: `UPDATE idempotency_keys SET lease_until = strftime('%Y-%m-%d %H:%M:%f', 'now', json_extract(held.value, '$[3]'))
		FROM json_each(?) AS held
		WHERE scope = json_extract(held.value, '$[0]') AND idem_key = json_extract(held.value, '$[1]')
			AND lease_token = CAST(json_extract(held.value, '$[2]') AS INTEGER) AND ` + sqliteLive + `
		RETURNING scope, idem_key, lease_token`,
	complete: `UPDATE idempotency_keys SET
			response_status = coalesce(response_status, ?),
			response_headers = coalesce(response_headers, ?, x''),
			response_body = coalesce(response_body, ?, x''),
			created_at = CASE WHEN response_status IS NULL THEN ` + sqliteNow + ` ELSE created_at END,
			expires_at = CASE WHEN response_status IS NULL THEN ` + sqliteIn + ` ELSE expires_at END,
			lease_until = NULL,
			request = NULL
		WHERE idem_key = ? AND scope = ? AND lease_token = ? AND (response_status IS NOT NULL OR ` + sqliteLive + `)`,
	discard: `DELETE FROM idempotency_keys WHERE idem_key = ? AND scope = ? AND lease_token = ? AND attempts = 1 AND steps IS NULL AND ` + sqliteLive,
	lapse:   `UPDATE idempotency_keys SET lease_until = ` + sqliteNow + `, expires_at = ` + sqliteIn + sqliteHeld,

	beginSteps: `UPDATE idempotency_keys SET steps = coalesce(steps, 0)` + sqliteHeld + ` RETURNING ` + sqliteSteps("hex(result)"),
	keepStep: `INSERT OR REPLACE INTO idempotency_steps (scope, idem_key, number, name, result, kept_at)
		SELECT scope, idem_key, ?, ?, coalesce(?, x''), ` + sqliteNow + ` FROM idempotency_keys` + sqliteHeld + ` AND coalesce(steps, 0) + 1 = ?`,
	keptStep: `SELECT EXISTS (SELECT 1 FROM idempotency_keys k JOIN idempotency_steps s USING (idem_key, scope)` + sqliteHeld + `
			AND number = ? AND number <= steps AND name = ?)`,
	forget:      `UPDATE idempotency_keys SET steps = NULL` + sqliteHeld + ` AND attempts = 1 AND steps IS NOT NULL`,
	deleteSteps: `DELETE FROM idempotency_steps WHERE idem_key = ? AND scope = ?`,
	purgeSteps: `UPDATE idempotency_keys SET steps = NULL WHERE (idem_key, scope) IN
		(SELECT idem_key, scope FROM idempotency_keys INDEXED BY idempotency_keys_stepped
		WHERE coalesce(julianday(expires_at), 0) <= julianday('now') AND NOT ` + sqliteLive + ` AND steps IS NOT NULL LIMIT ?)`,
	probe: `BEGIN`,

	ask: sqliteReserve(sqliteUnknown) + ", NULL",
	askOne: sqliteAsk + ` WHERE idem_key = ? AND scope = ? AND ` + sqliteUnknown + `
			AND coalesce(julianday(asked_until) <= julianday('now'), true)` + sqliteAsked + ", NULL",
	abandoned:    sqliteReserve(sqliteAbandoned) + ", request",
	stillUnknown: `UPDATE idempotency_keys SET asked_until = ` + sqliteNow + sqliteSettled + ` AND response_status IS NULL`,
	settleDone: `UPDATE idempotency_keys SET response_status = ?, response_headers = coalesce(?, x''), response_body = coalesce(?, x''),
		created_at = ` + sqliteNow + `, expires_at = ` + sqliteIn + `, lease_token = NULL, lease_until = NULL, request = NULL` +
		sqliteSettled + ` AND response_status IS NULL`,
	settleNot:    `DELETE FROM idempotency_keys` + sqliteSettled + ` AND response_status IS NULL`,
	settleDelete: `DELETE FROM idempotency_keys` + sqliteSettled,
	settlement: `INSERT INTO idempotency_settlements (scope, idem_key, how, settled_by, reason, settled_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ` + sqliteNow + `, ` + sqliteIn + `)`,

	list: sqliteList,
	look: `SELECT ` + sqliteEntry + `, response_headers, response_body, ` + sqliteSteps("''") + ` FROM idempotency_keys WHERE idem_key = ? AND scope = ?`,
	settlements: `SELECT how, settled_by, reason, ` + sqliteMillis("settled_at") + `
		FROM idempotency_settlements WHERE idem_key = ? AND scope = ? ORDER BY id`,
	purgeSettlements: `DELETE FROM idempotency_settlements WHERE id IN
		(SELECT id FROM idempotency_settlements WHERE ` + sqliteExpired + ` LIMIT ?)`,

	migrations:     migration.Read(sqliteMigrations, "sqlite"),
	migrationTable: `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'idempotency_migrations'`,
	beginExclusive: `BEGIN IMMEDIATE`,

	interval: sqliteInterval,
	isUnique: func(err error) bool {
		code := sqliteCode(err)
		return (code == sqliteConstraintPrimaryKey || code == sqliteConstraintUnique) &&
			strings.Contains(err.Error(), "idempotency_keys.")
	},
	isBusy:          func(err error) bool { return sqliteCode(err)&0xff == sqliteBusy },
	isCommitUnknown: func(err error) bool { return sqliteCode(err)&0xff == sqliteIOErr },
}

// sqliteInterval is a duration as a modifier of a time: to the millisecond, as SQLite's clock is, and cut off, so that
// what is shorter is over at once.
func sqliteInterval(d time.Duration) any {
	return fmt.Sprintf("%+.3f seconds", d.Truncate(time.Millisecond).Seconds())
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
