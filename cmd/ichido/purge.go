package main

import (
	"context"
	"fmt"
	"io"

	"github.com/ichido-dev/ichido"
	"github.com/spf13/cobra"
)

func newPurgeCommand() *cobra.Command {
	var location string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "purge",
		Short: "Delete the keys that are past their retention",
		Long: `purge deletes the keys that are past their retention, in small batches, and prints how many they were. It may run
while servers do, and twice at once. ichido serve does the same every --purge-every.

With --json it prints {"deleted":N}.

` + exitCodes,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return purge(cmd.Context(), location, asJSON, cmd.OutOrStdout())
		},
	}
	addDatabaseFlag(cmd, &location)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func purge(ctx context.Context, location string, asJSON bool, stdout io.Writer) error {
	db, err := openPresent(ctx, location)
	if err != nil {
		return err
	}
	defer db.shut()
	n, err := ichido.Purge(ctx, db.store)
	if err != nil {
		return fmt.Errorf("after %s: %w", keys(n), err)
	}
	if asJSON {
		return printJSON(stdout, map[string]int{"deleted": n})
	}
	_, err = fmt.Fprintf(stdout, "deleted %s\n", keys(n))
	return err
}

func keys(n int) string {
	if n == 1 {
		return "1 expired key"
	}
	return fmt.Sprintf("%d expired keys", n)
}
