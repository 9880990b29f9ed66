package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/ichido-dev/ichido/client/outbox"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/spf13/cobra"
)

func newOutboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Show operations that are to be sent, and decide about those that are unknown",
		Long: `outbox is about operations that are kept before they are sent: by ichido send, or by a service that uses client/outbox.

An operation is waiting, being sent, done, not done, unknown, or dropped. One that is unknown may have taken effect, and is
not sent any more: the server may have forgotten its key, or does not tell. Find out, then say so: retry has it sent again
under its key, drop says that it is not to be sent any more.

` + outboxExitCodes,
		Example: `  ichido outbox list --state unknown
  ichido outbox show order-42
  ichido outbox retry order-42
  ichido outbox drop order-42 --reason 'seen in the shop' --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newOutboxListCommand(), newOutboxShowCommand(), newOutboxRetryCommand(), newOutboxDropCommand())
	return cmd
}

const outboxExitCodes = `Exit codes: 0 done, 1 it failed, 2 the command was not understood, or --yes is missing, 3 there is no such operation,
4 the operation is in another state than the command needs.`

// addOutboxFlag adds --outbox, which names the database of the outbox.
func addOutboxFlag(cmd *cobra.Command, location *string) {
	cmd.Flags().StringVar(location, "outbox", "", "where operations are kept: postgres://… or the `path` of a SQLite file; if it is not given, "+
		"ichido/outbox.db in $XDG_STATE_HOME or ~/.local/state")
	bindVariable(cmd, "outbox", "ICHIDO_OUTBOX")
}

// defaultOutbox is the file of the user's own operations.
func defaultOutbox() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification says to ignore it then
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("--outbox is needed: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "ichido", "outbox.db"), nil
}

// An outboxDatabase is where operations are kept.
type outboxDatabase struct {
	*sql.DB
	dialect *outbox.Dialect
	where   string // for people; without a password
}

// openOutbox connects to what --outbox names. Its file is made, readable by the user only, if create is set.
func openOutbox(ctx context.Context, location string, create bool) (*outboxDatabase, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var db *outboxDatabase
	var err error
	if isPostgres(location) {
		db, err = openPostgresOutbox(location)
	} else {
		db, err = openSQLiteOutbox(location, create)
	}
	if err != nil {
		return nil, err
	}
	if db.dialect == outbox.SQLite {
		err = reachSQLite(ctx, db.DB)
	} else {
		err = db.PingContext(ctx)
	}
	var box *outbox.Outbox
	if err == nil {
		box, err = outbox.New(db.DB, db.dialect, nil, nil)
	}
	if err == nil {
		_, err = box.Migrate(ctx)
	}
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot open the outbox, %s: %s", db.where, reason(err))
	}
	return db, nil
}

func openPostgresOutbox(location string) (*outboxDatabase, error) {
	config, err := pgx.ParseConfig(location)
	if err != nil { // its message has the password blotted out
		return nil, usageError(fmt.Errorf("--outbox: %w", err))
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	return &outboxDatabase{stdlib.OpenDB(*config), outbox.Postgres, "PostgreSQL, " + postgresURL(config.Config)}, nil
}

func openSQLiteOutbox(location string, create bool) (*outboxDatabase, error) {
	var err error
	if location == "" {
		if location, err = defaultOutbox(); err != nil {
			return nil, err
		}
	}
	path, err := sqlitePath("--outbox", location)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("--outbox: %w", err)
	}
	switch _, err := os.Stat(path); {
	case !errors.Is(err, fs.ErrNotExist):
	case !create:
		return nil, fmt.Errorf("there is no outbox %s; ichido send makes it, or correct --outbox (ICHIDO_OUTBOX)", path)
	default:
		if err := makePrivate(path); err != nil {
			return nil, fmt.Errorf("cannot make the outbox: %w; correct --outbox (ICHIDO_OUTBOX)", err)
		}
	}
	db, err := sql.Open(sqliteDriver, sqliteDSN(path, sqliteExisting))
	if err != nil {
		return nil, fmt.Errorf("cannot open the outbox %s: %w", path, err)
	}
	return &outboxDatabase{db, outbox.SQLite, "SQLite, " + path}, nil
}

// makePrivate makes an empty file, and its directory. SQLite gives the files beside it the same mode.
func makePrivate(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// An outboxCommand is a command about one operation.
type outboxCommand struct {
	cmd      *cobra.Command
	name     string // or the id
	location string
	asJSON   bool
	db       *outboxDatabase
	box      *outbox.Outbox
}

// newOutboxOneCommand makes cmd a command about the operation that is its argument.
func newOutboxOneCommand(cmd *cobra.Command, check func() error, run func(ctx context.Context, c *outboxCommand, e *outbox.Entry) error) *cobra.Command {
	c := &outboxCommand{cmd: cmd}
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.name = args[0]; c.name == "" || !utf8.ValidString(c.name) {
			return usageError(errors.New("the name of the operation must be UTF-8, and not empty"))
		}
		if err := check(); err != nil {
			return usageError(err)
		}
		var err error
		if c.db, err = openOutbox(cmd.Context(), c.location, false); err != nil {
			return err
		}
		defer c.db.Close()
		if c.box, err = outbox.New(c.db.DB, c.db.dialect, nil, nil); err != nil {
			return err
		}
		e, err := find(cmd.Context(), c.box, c.name)
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, e)
	}
	addOutboxFlag(cmd, &c.location)
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	return cmd
}

// find finds an operation by its name, or else by its id.
func find(ctx context.Context, box *outbox.Outbox, name string) (*outbox.Entry, error) {
	e, err := box.LookName(ctx, name)
	if id, bad := strconv.ParseInt(name, 10, 64); errors.Is(err, outbox.ErrNotFound) && bad == nil {
		e, err = box.Look(ctx, id)
	}
	if errors.Is(err, outbox.ErrNotFound) {
		return nil, &exitError{exitNoKey, errors.New("there is no operation " + display(name))}
	}
	return e, err
}

// ref is what commands call an operation by.
func ref(e *outbox.Entry) string {
	if e.Name != "" {
		return e.Name
	}
	return strconv.FormatInt(e.ID, 10)
}

// outboxLine returns the command line of a command of ichido for an operation.
func outboxLine(cmd *cobra.Command, command string, e *outbox.Entry, more ...string) string {
	return assemble("ichido "+command, ref(e), append(more, databaseWords(cmd)...))
}

// An operationJSON is an operation as --json prints it. Members that do not apply are left out.
type operationJSON struct {
	ID          int64     `json:"id"`
	Operation   string    `json:"operation,omitempty"`
	Subject     string    `json:"subject,omitempty"`
	State       string    `json:"state"`
	Sent        bool      `json:"sent"`
	Key         string    `json:"key"`
	Target      string    `json:"target"`
	Method      string    `json:"method"`
	URL         string    `json:"url"`
	BodySize    int       `json:"body_size"`
	Attempts    int       `json:"attempts"`
	Status      int       `json:"status,omitempty"`
	Error       string    `json:"error,omitempty"`
	Resource    string    `json:"resource,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
	FirstSentAt time.Time `json:"first_sent_at,omitzero"`
	DueAt       time.Time `json:"due_at,omitzero"`
	SendUntil   time.Time `json:"send_until"`
	DecidedAt   time.Time `json:"decided_at,omitzero"`
	By          string    `json:"by,omitempty"`
	Reason      string    `json:"reason,omitempty"`
}

func newOperationJSON(e *outbox.Entry) operationJSON {
	j := operationJSON{ID: e.ID, Operation: e.Name, Subject: e.Subject, State: string(e.State), Sent: e.Sent, Key: e.Key, Target: e.Target,
		Method: e.Method, URL: e.URL, BodySize: e.BodySize, Attempts: e.Attempts, Error: e.Err, Resource: e.Resource,
		CreatedAt: e.CreatedAt.UTC(), FirstSentAt: e.FirstSentAt.UTC(), DueAt: e.DueAt.UTC(), SendUntil: e.SendUntil.UTC(), DecidedAt: e.DecidedAt.UTC(),
		By: e.By, Reason: e.Reason}
	if e.Answer != nil {
		j.Status = e.Answer.Status
	}
	return j
}
