package sqlstore

import (
	"slices"
	"strings"

	"github.com/ichido-dev/ichido"
)

// sqliteMillis is the time in a column as milliseconds since 1970, or NULL if SQLite does not understand it.
func sqliteMillis(column string) string {
	return "CAST(round((julianday(" + column + ") - 2440587.5) * 86400000) AS INTEGER)"
}

var (
	// sqliteEntry are the columns of an entry.
	sqliteEntry = `scope, idem_key, request_hash, response_status, length(response_body), ` + sqliteLive + `, ` +
		sqliteMillis("created_at") + `, ` + sqliteMillis("expires_at") + `, coalesce(route, ''), coalesce(lease_token, 0), ` +
		sqliteMillis("lease_until") + `, coalesce(attempts, 0), rerun IS TRUE, coalesce(asked, 0), steps IS NOT NULL, ` +
		sqliteAgain + `, coalesce(owner, ''), coalesce(max_attempts, 0), request IS NOT NULL`

	// sqliteAsked are those of an unknown key.
	sqliteAsked = ` RETURNING scope, idem_key, coalesce(route, ''), request_hash, coalesce(lease_token, 0),
		coalesce(attempts, 0), asked, ` + sqliteMillis("created_at") + `, ` + sqliteMillis("lease_until")
)

// sqliteGoesOn is whether a record without an answer has an attempt or may have another.
const sqliteGoesOn = "(" + sqliteLive + " OR (rerun IS TRUE OR steps IS NOT NULL) AND " + sqliteAgain + ")"

// sqliteStates says what the states of an entry are.
var sqliteStates = map[ichido.State]string{
	ichido.Completed:  "response_status IS NOT NULL",
	ichido.InProgress: "response_status IS NULL AND " + sqliteGoesOn,
	ichido.Unknown:    "response_status IS NULL AND NOT " + sqliteGoesOn,
}

// sqliteList returns the query for a page. It begins where the page before ended, in the primary key or, where only
// records without an answer are wanted, in the index of those.
func sqliteList(f ichido.Filter) (string, []any) {
	from := ""
	var where []string
	var args []any
	add := func(condition string, values ...any) {
		where, args = append(where, condition), append(args, values...)
	}
	if len(f.States) > 0 {
		var states []string
		for _, state := range f.States {
			if condition, ok := sqliteStates[state]; ok {
				states = append(states, "("+condition+")")
			}
		}
		add("(" + strings.Join(append(states, "false"), " OR ") + ")")
		if !slices.Contains(f.States, ichido.Completed) {
			from = " INDEXED BY idempotency_keys_incomplete"
			add("response_status IS NULL")
		}
	}
	if f.Key != "" {
		add("idem_key = ?", f.Key)
	}
	if f.Scope != "" {
		add("scope = ?", f.Scope)
	}
	if f.Route != "" {
		add("route = ?", f.Route)
	}
	if f.OlderThan != 0 {
		add("julianday(created_at) <= julianday('now', ?)", sqliteInterval(-f.OlderThan))
	}
	if f.NewerThan != 0 {
		add("julianday(created_at) >= julianday('now', ?)", sqliteInterval(-f.NewerThan))
	}
	// One lower bound only, the higher one: SQLite would search by either.
	if f.After != nil {
		add("(idem_key, scope) > (?, ?)", f.After.Key, f.After.Scope)
	}
	if f.After == nil || f.After.Key < f.KeyPrefix {
		add("idem_key >= ?", f.KeyPrefix)
	}
	if end := afterPrefix(f.KeyPrefix); end != "" {
		add("idem_key < ?", end)
	}
	return "SELECT " + sqliteEntry + " FROM idempotency_keys" + from + " WHERE " + strings.Join(where, " AND ") +
		" ORDER BY idem_key, scope LIMIT ?", append(args, f.Limit)
}

// afterPrefix returns the first string, by bytes, after all that have the prefix, or "" if there is none.
func afterPrefix(prefix string) string {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return string(end[:i+1])
		}
	}
	return ""
}
