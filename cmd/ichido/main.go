// Command ichido serves an API on the ichido library, grades how any server treats idempotency keys, shows operators what
// happened to each key, and keeps the library's tables in order.
//
// Data goes to standard output, talk to standard error. The exit code is 0 if all went well, 1 if it did not, and 2 if
// the command was not understood; a command that has more says so in its help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the program and returns its exit code. It prints an error once, here and nowhere else.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	code := exitCode(err)
	fmt.Fprintf(stderr, "ichido: %v\n", err)
	if code == exitUsage {
		fmt.Fprintf(stderr, "Run '%s --help' for how to use it.\n", cmd.CommandPath())
	}
	return code
}

// The exit codes that every command has.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks an error as one of how the program was called.
func usageError(err error) error { return &exitError{exitUsage, err} }

// exitCode returns the code of an error of a command. Errors that carry none come from cobra, which did not understand
// the command line: what the commands themselves return was marked by failing.
func exitCode(err error) int {
	if e := new(exitError); errors.As(err, &e) {
		return e.code
	}
	return exitUsage
}

// failing marks the errors of a command, and of those below it, as failures, unless they say what they are.
func failing(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if e := new(exitError); err != nil && !errors.As(err, &e) {
				return &exitError{exitFailed, err}
			}
			return err
		}
	}
	for _, sub := range cmd.Commands() {
		failing(sub)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "ichido",
		Short: "Make a request that is sent twice take effect once",
		Long: `ichido serves an API in which a POST that is sent twice takes effect once, grades how any server treats
idempotency keys, shows what happened to each key, and keeps the tables of the library in order.

Each flag that names a variable, as in [$DATABASE_URL], may be set by it instead.

` + exitCodes,
		Version:       version(),
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return readVariables(cmd.Flags())
		},
	}
	root.AddCommand(newServeCommand(), newFakepayCommand(), newOpenAPICommand(), newVerifyCommand(), newKeysCommand(), newPurgeCommand(), newMigrateCommand(), newLabCommand(), newLabServerCommand(),
		newSendCommand(), newOutboxCommand(), newVersionCommand())
	failing(root)
	return root
}

// exitCodes is the part of each command's help that says how it ends.
const exitCodes = `Exit codes: 0 all went well, 1 it failed, 2 the command was not understood.`

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "ichido", version())
			return err
		},
	}
}

// version is that of the module the program was built from, "(devel)" for one that was built in a checkout.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
