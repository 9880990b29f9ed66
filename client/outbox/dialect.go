package outbox

import (
	"embed"
	"regexp"
	"strings"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/migration"
)

//go:embed sqlite/*.sql postgres/*.sql
var migrationFiles embed.FS

// A Dialect is how one database engine says what an [Outbox] needs: [SQLite] or [Postgres]. Any driver for it will do.
type Dialect struct {
	name  string
	now   string                     // the time
	after func(at, ms string) string // a time that is so many milliseconds later
	ms    func(at string) string     // a time in milliseconds since 1970
	skip  string                     // passes rows over that another worker is about to claim
	place func(query string) string  // writes the parameters $1, $2, … as the engine does
	begin string                     // begins a transaction that only one process can be in
	table string                     // whether the table of applied migrations exists
	all   []ichido.Migration

	insert, byName, byID, list, claim, claimOne, record, reported, retry, drop, purge, ping string
}

var parameter = regexp.MustCompile(`\$(\d+)`)

// SQLite is the dialect of SQLite 3.35 or later. Open the database in WAL mode, with synchronous=FULL and a busy timeout.
var SQLite = (&Dialect{
	name:  "sqlite",
	now:   "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
	after: func(at, ms string) string { return "(" + at + " + " + ms + ")" },
	ms:    func(at string) string { return at },
	place: func(query string) string { return parameter.ReplaceAllString(query, "?$1") },
	begin: "BEGIN IMMEDIATE",
	table: "SELECT count(*) FROM sqlite_master WHERE name = 'idempotency_outbox_migrations'",
	all:   migration.Read(migrationFiles, "sqlite"),
}).write()

// Postgres is the dialect of PostgreSQL 12 or later.
var Postgres = (&Dialect{
	name:  "postgres",
	now:   "statement_timestamp()",
	after: func(at, ms string) string { return "(" + at + " + " + ms + " * interval '1 millisecond')" },
	ms:    func(at string) string { return "(extract(epoch FROM " + at + ") * 1000)::bigint" },
	skip:  "FOR UPDATE SKIP LOCKED",
	place: func(query string) string { return query },
	begin: "BEGIN; SELECT pg_advisory_xact_lock(4410312705)",
	// Not by to_regclass: it may remember from before it had the lock that there was no such table.
	table: "SELECT count(*) FROM pg_class WHERE relname = 'idempotency_outbox_migrations' AND pg_table_is_visible(oid)",
	all:   migration.Read(migrationFiles, "postgres"),
}).write()

// write writes the statements. Parameters have a type by a column or a CAST: PostgreSQL must know it.
func (d *Dialect) write() *Dialect {
	in := func(parameter string) string { return d.after(d.now, "CAST("+parameter+" AS bigint)") }
	whole := d.columns("body", "answer_body")
	const undecided = "state IN ('waiting', 'sending')"

	d.insert = `INSERT INTO idempotency_outbox (operation, subject, idem_key, request_hash, target, method, url, headers, body,
			memory, created_at, expires_at, state, sent, attempts, due_at, lease_token, answer_cut)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ` + d.now + `, ` + in("$11") + `, 'waiting', false, 0, ` + d.now + `, 0, false)
		ON CONFLICT (operation) WHERE operation IS NOT NULL AND state <> 'dropped' DO NOTHING RETURNING ` + whole
	d.byName = `SELECT ` + whole + ` FROM idempotency_outbox WHERE operation = $1 ORDER BY state = 'dropped', id DESC LIMIT 1`
	d.byID = `SELECT ` + whole + ` FROM idempotency_outbox WHERE id = $1`
	d.list = `SELECT ` + d.columns("NULL", "NULL") + ` FROM idempotency_outbox WHERE id > $1` // and more, see List

	// An operation whose time is over is decided by its claim: unknown, unless it certainly was not sent. One that is
	// decided is claimed to be reported.
	over := `CASE WHEN first_sent_at IS NULL THEN expires_at ELSE ` + d.after("first_sent_at", "memory") + ` END <= ` + d.now
	ends := undecided + ` AND ` + over
	begins := undecided + ` AND NOT ` + over
	maySent := `(sent OR state = 'sending')`
	claim := func(which string) string {
		return `WITH due AS MATERIALIZED (` + which + `) UPDATE idempotency_outbox SET
			state = CASE WHEN NOT (` + undecided + `) THEN state WHEN ` + begins + ` THEN 'sending' WHEN ` + maySent + ` THEN 'unknown' ELSE 'not_done' END,
			sent = ` + maySent + `,
			attempts = CASE WHEN ` + begins + ` THEN attempts + 1 ELSE attempts END,
			first_sent_at = CASE WHEN ` + begins + ` THEN coalesce(first_sent_at, ` + d.now + `) ELSE first_sent_at END,
			last_error = CASE WHEN ` + ends + ` AND ` + maySent + ` THEN 'the server may have forgotten the key' || coalesce('; last: ' || last_error, '')
				WHEN ` + ends + ` THEN 'it could not be sent in time' || coalesce('; last: ' || last_error, '') ELSE last_error END,
			decided_at = CASE WHEN ` + ends + ` THEN ` + d.now + ` ELSE decided_at END,
			purge_at = CASE WHEN ` + ends + ` AND NOT ` + maySent + ` THEN ` + in("$2") + ` ELSE purge_at END,
			lease_token = lease_token + 1,
			due_at = ` + in("$1") + `
		WHERE id IN (SELECT id FROM due) RETURNING ` + whole
	}
	// Only the oldest undecided operation of a subject is sent, and not while a later one still is: it may have been retried.
	first := `(state NOT IN ('waiting', 'sending') OR NOT EXISTS (SELECT 1 FROM idempotency_outbox e WHERE e.subject = r.subject AND e.id < r.id
		AND e.state IN ('waiting', 'sending', 'unknown') AND (e.state <> 'unknown' OR CAST($3 AS boolean)))
		AND NOT EXISTS (SELECT 1 FROM idempotency_outbox l WHERE l.subject = r.subject AND l.id > r.id AND l.state = 'sending' AND l.due_at > ` + d.now + `))`
	d.claim = claim(`SELECT id FROM idempotency_outbox r WHERE due_at <= ` + d.now + ` AND ` + first + ` ORDER BY due_at LIMIT CAST($4 AS bigint) ` + d.skip)
	d.claimOne = claim(`SELECT id FROM idempotency_outbox r WHERE id = CAST($4 AS bigint) AND (due_at <= ` + d.now + ` OR state = 'waiting' AND CAST($5 AS boolean)) AND ` + first + ` ` + d.skip)

	d.record = `UPDATE idempotency_outbox SET state = $3, sent = $4,
			first_sent_at = CASE WHEN $4 THEN first_sent_at END,
			due_at = ` + in("$5") + `,
			last_error = $6, answer_status = $7, answer_headers = $8, answer_body = $9, answer_cut = $10, resource = $11,
			decided_at = CASE WHEN CAST($12 AS boolean) THEN ` + d.now + ` END,
			purge_at = ` + in("$13") + `
		WHERE id = $1 AND lease_token = $2 AND state IN ('sending', $3) RETURNING ` + whole
	d.reported = `UPDATE idempotency_outbox SET due_at = ` + in("$3") + ` WHERE id = $1 AND lease_token = $2 AND NOT (` + undecided + `) RETURNING ` + whole

	free := `(state <> 'sending' OR due_at <= ` + d.now + `)`
	d.retry = `UPDATE idempotency_outbox SET state = 'waiting', sent = ` + maySent + `, due_at = ` + d.now + `, lease_token = lease_token + 1,
			expires_at = CASE WHEN first_sent_at IS NULL THEN ` + d.now + ` + (expires_at - created_at) ELSE expires_at END,
			decided_at = NULL, purge_at = NULL, settled_by = $2, reason = $3
		WHERE id = $1 AND state IN ('waiting', 'sending', 'unknown', 'not_done') AND ` + free + `
			AND (first_sent_at IS NULL OR ` + d.after("first_sent_at", "memory") + ` > ` + d.now + `) RETURNING ` + whole
	d.drop = `UPDATE idempotency_outbox SET state = 'dropped', sent = ` + maySent + `, due_at = NULL, lease_token = lease_token + 1,
			decided_at = ` + d.now + `, purge_at = ` + in("$4") + `, settled_by = $2, reason = $3
		WHERE id = $1 AND state IN ('waiting', 'sending', 'unknown', 'not_done') AND ` + free + ` RETURNING ` + whole
	d.purge = `DELETE FROM idempotency_outbox WHERE id IN
		(SELECT id FROM idempotency_outbox WHERE purge_at <= ` + d.now + ` AND due_at IS NULL ORDER BY purge_at LIMIT CAST($1 AS bigint) ` + d.skip + `)`
	d.ping = `SELECT id FROM idempotency_outbox LIMIT 0`

	for _, statement := range []*string{&d.insert, &d.byName, &d.byID, &d.list, &d.claim, &d.claimOne, &d.record, &d.reported, &d.retry, &d.drop, &d.purge} {
		*statement = strings.ReplaceAll(d.place(*statement), "\t", "")
	}
	return d
}
