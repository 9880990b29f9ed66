// Package migration reads the numbered steps of a schema.
package migration

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/ichido-dev/ichido"
)

// Read returns the migrations in the files dir/NNNN_name.sql, in order. It panics if they are not numbered 0001, 0002
// and so on, because they are embedded in the program.
func Read(files fs.FS, dir string) []ichido.Migration {
	names, err := fs.Glob(files, dir+"/*.sql") // sorted
	if err != nil {
		panic(err)
	}
	all := make([]ichido.Migration, len(names))
	for i, file := range names {
		sql, err := fs.ReadFile(files, file)
		if err != nil {
			panic(err)
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(file, dir+"/"), ".sql"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			panic("migration: not numbered 0001, 0002, …: " + file)
		}
		all[i] = ichido.Migration{Version: i + 1, Name: strings.ReplaceAll(name, "_", " "), SQL: string(sql)}
	}
	return all
}

// After returns the migrations that a schema of the version does not have.
func After(all []ichido.Migration, version int) ([]ichido.Migration, error) {
	if version > len(all) {
		return nil, fmt.Errorf("ichido: the database's schema is version %d, made by a later release; this one knows %d", version, len(all))
	}
	return all[version:], nil
}
