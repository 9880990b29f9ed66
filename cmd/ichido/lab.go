package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ichido-dev/ichido/cmd/ichido/internal/lab"
	"github.com/spf13/cobra"
)

type labOptions struct {
	location string
	only     []string
	language string
	explain  bool
	asJSON   bool
	markdown bool
	html     string
}

func newLabCommand() *cobra.Command {
	var o labOptions
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Try four ways against double registration, and none, on a database",
		Long: `lab lets the same things happen to servers that do nothing, have a unique constraint, use UPSERT, an optimistic lock or
idempotency keys: a request is sent twice, ten times at once, again after its answer was lost or its server was killed;
two equal orders are meant; two people edit one row. It sends real requests, counts what was made, lost, answered and
sent to the database, and prints a table, some surprises, and what to choose when.

It works on a temporary SQLite file, or with --db in a schema of its own, ichido_lab_…, on PostgreSQL, whose user must be
allowed to create one. Both are removed at the end, also by SIGINT.

With --json it prints {"database":"…","runs":5,"schemas":[…],"results":[…],"surprises":[…]}; with --explain too, each result has the
requests and statements of a run as "log".

` + exitCodes,
		Example: `  ichido lab
  ichido lab --db postgres://app@localhost/app --explain | less
  ichido lab --only twice,lost --html lab.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLab(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.location, "db", "", "database: postgres://… or the `path` of a SQLite file that is not there yet (default a temporary one)")
	f.StringSliceVar(&o.only, "only", nil, "`names` of the ways and scenarios to try: "+strings.Join(lab.Names(), ", "))
	addChoice(cmd, &o.language, "lang", "ICHIDO_LANG", "language of the texts", "en", "ja")
	f.BoolVar(&o.explain, "explain", false, "show the SQL and the answers of each step, to be followed with psql or sqlite3")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.BoolVar(&o.markdown, "markdown", false, "print Markdown")
	f.StringVar(&o.html, "html", "", "also write a page with charts to `file`")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown")
	cmd.MarkFlagsMutuallyExclusive("explain", "markdown")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(lab.Names(), cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that is not there
	return cmd
}

// newLabServerCommand is the server that lab kills.
func newLabServerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "lab-server",
		Short:  "The server that lab kills",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return lab.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func runLab(ctx context.Context, o labOptions, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	options, clean, err := o.lab()
	if err != nil {
		return err
	}
	defer clean()
	if isTerminal(stderr) {
		options.Progress = func(way, scenario string) { fmt.Fprintf(stderr, "%s: %s\n", way, scenario) }
	}
	if o.html != "" {
		if err := writable(o.html); err != nil { // before the work is done
			return err
		}
	}
	report, err := lab.Run(ctx, options)
	switch {
	case errors.Is(err, lab.ErrLeft):
		return err
	case err != nil && ctx.Err() != nil:
		return errors.New("stopped; what the lab made is removed")
	case err != nil:
		return err
	}
	if o.html != "" {
		if err := writePage(o.html, report, o.language); err != nil {
			return err
		}
	}
	switch {
	case o.asJSON:
		if !o.explain {
			report.Forget()
		}
		return printJSON(stdout, report)
	case o.markdown:
		return report.WriteMarkdown(stdout, o.language)
	}
	return report.WriteText(stdout, o.language, o.explain)
}

// lab returns the options of the lab, and a function that removes the directory of a temporary file.
func (o labOptions) lab() (options lab.Options, clean func(), err error) {
	options = lab.Options{Only: o.only, Program: labServer}
	for _, name := range o.only {
		if err := lab.Check(name); err != nil {
			return options, nil, usageError(fmt.Errorf("--only: %w", err))
		}
	}
	if isPostgres(o.location) {
		options.Postgres = o.location
		return options, func() {}, nil
	}
	clean = func() {}
	if o.location == "" {
		dir, err := os.MkdirTemp("", "ichido-lab-")
		if err != nil {
			return options, nil, err
		}
		clean = func() { _ = os.RemoveAll(dir) }
		options.SQLitePath = filepath.Join(dir, "lab.db")
	} else {
		path, err := sqlitePath("--db", o.location)
		if err != nil {
			return options, nil, err
		}
		if options.SQLitePath, err = filepath.Abs(path); err != nil {
			return options, nil, err
		}
		if _, err := os.Stat(options.SQLitePath); !errors.Is(err, fs.ErrNotExist) {
			return options, nil, usageError(fmt.Errorf("--db: %s is there already; the lab makes a file and removes it, so name another", options.SQLitePath))
		}
	}
	options.SQLiteDSN = sqliteDSN(options.SQLitePath, sqliteCreate)
	return options, clean, nil
}

// labServer runs this program again, as the server that is killed.
func labServer(ctx context.Context) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	cmd := exec.CommandContext(ctx, self, "lab-server")
	cmd.Args[0] = "ichido"
	return cmd
}

// writable returns an error if a file cannot be written. It leaves it as it is.
func writable(path string) error {
	_, missing := os.Stat(path)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	if err := file.Close(); err != nil || missing == nil {
		return err
	}
	return os.Remove(path)
}

func writePage(path string, report *lab.Report, language string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(report.WriteHTML(file, language), file.Close())
}
