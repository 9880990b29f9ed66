package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ichido-dev/ichido"
	"github.com/spf13/cobra"
)

type migrateOptions struct {
	location string
	dryRun   bool
	asJSON   bool
}

func newMigrateCommand() *cobra.Command {
	var o migrateOptions
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the schema",
		Long: `migrate creates the tables of the keys ("store") and of the reservations ("office"), or brings them up to date, and
prints what it did. It may run twice, and from two processes at once. ichido serve does the same on an empty database.

With --dry-run it prints the SQL that is pending and changes nothing. The SQL is for reading: applied by hand it would
not be recorded as applied.

With --json it prints {"dry_run":false,"migrations":[{"schema":"store","version":1,"name":"…","sql":"…"}]}: those that
it applied, or with --dry-run those that are pending.

` + exitCodes,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return migrate(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addDatabaseFlag(cmd, &o.location)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the pending SQL and change nothing")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

// A step is a migration as --json prints it.
type step struct {
	Schema  string `json:"schema"`
	Version int    `json:"version"`
	Name    string `json:"name"`
	SQL     string `json:"sql"`
}

func migrate(ctx context.Context, o migrateOptions, stdout, stderr io.Writer) error {
	mode := sqliteCreate
	if o.dryRun {
		mode = sqliteLook
	}
	db, err := openDatabase(ctx, o.location, mode)
	if err != nil {
		return err
	}
	defer db.shut()

	steps := []step{} // not null in JSON
	for _, s := range db.schemas() {
		act := s.Migrate
		if o.dryRun {
			act = s.Pending
		}
		migrations, err := act(ctx)
		if err != nil {
			if len(steps) > 0 && !o.asJSON { // what was applied stays applied
				return errors.Join(printSteps(steps, o, stdout, stderr), err)
			}
			return err
		}
		steps = append(steps, stepsOf(s.name, migrations)...)
	}
	return printSteps(steps, o, stdout, stderr)
}

func stepsOf(schema string, migrations []ichido.Migration) []step {
	var steps []step
	for _, m := range migrations {
		steps = append(steps, step{schema, m.Version, m.Name, m.SQL})
	}
	return steps
}

func printSteps(steps []step, o migrateOptions, stdout, stderr io.Writer) error {
	if o.asJSON {
		return printJSON(stdout, map[string]any{"dry_run": o.dryRun, "migrations": steps})
	}
	if len(steps) == 0 {
		_, err := fmt.Fprintln(stderr, "The schema is up to date.")
		return err
	}
	for _, s := range steps {
		format := "applied %[1]s %[2]d: %[3]s\n"
		if o.dryRun {
			format = "-- %[1]s %[2]d: %[3]s\n%[4]s\n"
		}
		if _, err := fmt.Fprintf(stdout, format, s.Schema, s.Version, s.Name, strings.TrimSpace(s.SQL)+"\n"); err != nil {
			return err
		}
	}
	return nil
}
