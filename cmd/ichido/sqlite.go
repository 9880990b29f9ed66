package main

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// What is particular to the SQLite driver is in this file: its name, its data source names, its errors.

const sqliteDriver = "sqlite"

// sqliteMode says what may become of the file when it is opened.
type sqliteMode int

const (
	sqliteCreate   sqliteMode = iota // made if it is missing
	sqliteExisting                   // must be there
	sqliteLook                       // must be there, and is not changed
)

// sqliteDSN returns the data source name of a file. Its path may contain any character: it is an URI here.
func sqliteDSN(path string, mode sqliteMode) string {
	pragmas := []string{"busy_timeout(10000)", "foreign_keys(on)"}
	if mode == sqliteLook {
		pragmas = append(pragmas, "query_only(on)")
	} else {
		// FULL, because in WAL mode less than that forgets what was answered when the power fails.
		pragmas = append(pragmas, "journal_mode(WAL)", "synchronous(FULL)")
	}
	query := url.Values{"_pragma": pragmas, "mode": {"rw"}}
	if mode == sqliteCreate {
		query.Set("mode", "rwc")
	}
	slashed := filepath.ToSlash(path)
	if filepath.IsAbs(path) && !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:\data.db is file:/C:/data.db
	}
	return "file:" + (&url.URL{Path: slashed}).EscapedPath() + "?" + query.Encode()
}

// sqliteNowhere is the data source name of an empty database that is in memory only, one for each connection.
const sqliteNowhere = "file::memory:"

// sqliteCode returns the extended result code of an error of the driver, or 0.
func sqliteCode(err error) int {
	if e := new(sqlite.Error); errors.As(err, &e) {
		return e.Code()
	}
	return 0
}
