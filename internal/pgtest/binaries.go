package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// missingError says that a program is not installed, which skips a test. Any other error fails it.
type missingError struct{ what string }

func (e *missingError) Error() string {
	return "pgtest: " + e.what + " not found. `make test` installs what is missing on Debian and Ubuntu; " +
		"or install it yourself, or set ICHIDO_PG_BIN to the directory of initdb and postgres"
}

// giveUp ends the test: a skip when a program is missing and may be, else a failure.
func giveUp(t testing.TB, err error) {
	t.Helper()
	var missing *missingError
	if errors.As(err, &missing) && os.Getenv("ICHIDO_TEST_REQUIRE") != "1" {
		t.Skip(err)
	}
	t.Fatal(err)
}

// findBinaries returns the directory that holds initdb and postgres.
func findBinaries() (string, error) {
	if dir := os.Getenv("ICHIDO_PG_BIN"); dir != "" {
		if !hasServer(dir) {
			// Whoever names a directory wants that one, not a silent skip.
			return "", fmt.Errorf("pgtest: ICHIDO_PG_BIN=%s holds no initdb and postgres", dir)
		}
		return filepath.Abs(dir)
	}
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if dir := newest(dirs); dir != "" {
		return dir, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		// A package manager often links the programs one by one; the neighbours of the link's target
		// are the ones that belong together.
		for _, candidate := range []string{path, resolve(path)} {
			if dir := filepath.Dir(candidate); hasServer(dir) {
				return dir, nil
			}
		}
	}
	return "", &missingError{"PostgreSQL (initdb, postgres)"}
}

// newest picks the highest major version out of paths like /usr/lib/postgresql/15/bin. It compares
// numbers: as text, 9.6 would be newer than 15.
func newest(dirs []string) string {
	best, bestVersion := "", -1.0
	for _, dir := range dirs {
		version, err := strconv.ParseFloat(filepath.Base(filepath.Dir(dir)), 64)
		if err == nil && version > bestVersion && hasServer(dir) {
			best, bestVersion = dir, version
		}
	}
	return best
}

func hasServer(dir string) bool {
	return isProgram(filepath.Join(dir, "postgres")) && isProgram(filepath.Join(dir, "initdb"))
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func resolve(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

// findPgBouncer also looks into /usr/sbin, which an ordinary user's PATH leaves out.
func findPgBouncer() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	if path := "/usr/sbin/pgbouncer"; isProgram(path) {
		return path, nil
	}
	return "", &missingError{"PgBouncer"}
}

// cleanEnv is our environment without what would change where PostgreSQL programs look (PGHOST,
// PGDATA, PGOPTIONS, ...), and with messages in English, because some of them are read here.
func cleanEnv() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PG") && !strings.HasPrefix(entry, "LC_") && !strings.HasPrefix(entry, "LANG") {
			env = append(env, entry)
		}
	}
	return append(env, "LC_ALL=C")
}
