package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ichido-dev/ichido"
	"github.com/spf13/cobra"
)

// The exit codes of the commands about one key, beyond those that every command has.
const (
	exitNoKey      = 3
	exitOtherState = 4
)

const keysExitCodes = `Exit codes: 0 done, 1 it failed, or several scopes have the key, 2 the command was not understood, or --yes is missing,
3 there is no such key, 4 the key is in another state than the command needs.`

func newKeysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Show keys, and settle those that are unknown",
		Long: `keys shows what is stored of each key, and settles keys that are unknown.

A key is completed, in progress or unknown. It is unknown if its attempt ended without saying how, which happens in lease
mode only: the process died, or the work failed after it may have called the outside world. Nothing runs under the key
until somebody has found out whether the operation took effect, and says so: by resolve if it did, by release if not.

` + keysExitCodes,
		Example: `  ichido keys list --state unknown
  ichido keys show order-7
  ichido keys resolve order-7 --status 201 --header 'Location: /payments/7' --reason 'charged, says the provider'
  ichido keys release order-7 --reason 'never reached the provider' --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeysListCommand(), newKeysShowCommand(), newKeysResolveCommand(), newKeysReleaseCommand(), newKeysDeleteCommand())
	return cmd
}

// A keyCommand is a command about one key.
type keyCommand struct {
	cmd      *cobra.Command
	key      string
	location string // of the database
	scope    string
	asJSON   bool
}

// newKeyCommand makes cmd a command about the key that is its argument. run gets the database, which has the present
// schema.
func newKeyCommand(cmd *cobra.Command, check func(k *keyCommand) error, run func(ctx context.Context, db *database, k *keyCommand) error) *cobra.Command {
	k := &keyCommand{cmd: cmd}
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k.key = args[0]
		if k.key == "" || !utf8.ValidString(k.key) || !utf8.ValidString(k.scope) {
			return usageError(errors.New("the key and the scope must be UTF-8, and the key not empty"))
		}
		if err := check(k); err != nil {
			return usageError(err)
		}
		db, err := openPresent(cmd.Context(), k.location)
		if err != nil {
			return err
		}
		defer db.shut()
		return run(cmd.Context(), db, k)
	}
	addDatabaseFlag(cmd, &k.location)
	cmd.Flags().StringVar(&k.scope, "scope", "", "`scope` of the key; may be left out if only one has it")
	cmd.Flags().BoolVar(&k.asJSON, "json", false, "print JSON")
	return cmd
}

// maxNamed is how many scopes are named when a key is in several.
const maxNamed = 20

// look returns the entry of the key.
func (k *keyCommand) look(ctx context.Context, store store) (*ichido.Entry, error) {
	if !k.cmd.Flags().Changed("scope") {
		entries, err := store.List(ctx, ichido.Filter{Key: k.key, Limit: maxNamed + 1})
		switch {
		case err != nil:
			return nil, err
		case len(entries) == 0:
			return nil, noKey("there is no key " + display(k.key))
		case len(entries) > 1:
			return nil, k.several(entries)
		}
		k.scope = entries[0].Scope
	}
	entry, err := store.Look(ctx, k.scope, k.key)
	if errors.Is(err, ichido.ErrNoRecord) {
		return nil, noKey("there is no key " + k.named())
	}
	return entry, err
}

// named is the key with its scope.
func (k *keyCommand) named() string { return display(k.key) + " of " + display(k.scope) }

func noKey(text string) error { return &exitError{exitNoKey, errors.New(text)} }

// several is the error of a key that more than one scope has.
func (k *keyCommand) several(entries []ichido.Entry) error {
	var b strings.Builder
	fmt.Fprintf(&b, "several scopes have the key %s; name one:", display(k.key))
	for _, e := range entries[:min(len(entries), maxNamed)] {
		fmt.Fprintf(&b, "\n  %s", commandLine(k.cmd, k.key, setFlag{"scope", e.Scope}))
	}
	if len(entries) > maxNamed {
		fmt.Fprintf(&b, "\nThere are more: ichido keys list --key-prefix %s", shellWord(k.key))
	}
	return errors.New(b.String())
}

// An entryJSON is an entry as --json prints it. Members that do not apply are left out.
type entryJSON struct {
	Key         string    `json:"key"`
	Scope       string    `json:"scope"`
	State       string    `json:"state"`
	Route       string    `json:"route,omitempty"`
	Status      int       `json:"status,omitempty"`
	BodySize    *int      `json:"body_size,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
	LeaseUntil  time.Time `json:"lease_until,omitzero"`
	Owner       string    `json:"owner,omitempty"`
	Attempts    int       `json:"attempts,omitempty"`
	MaxAttempts int       `json:"max_attempts,omitempty"`
	Rerun       bool      `json:"rerun,omitempty"`
	Asked       int       `json:"asked,omitempty"`
	Resumes     bool      `json:"resumes,omitempty"`
	Steps       []string  `json:"steps,omitempty"`
	Finishes    bool      `json:"finishes,omitempty"`
}

func newEntryJSON(e *ichido.Entry) entryJSON {
	j := entryJSON{Key: e.Key, Scope: e.Scope, State: stateName(e.State), Route: e.Route, Status: e.Status,
		Fingerprint: fmt.Sprintf("%x", e.Fingerprint), CreatedAt: e.CreatedAt.UTC(), ExpiresAt: e.ExpiresAt.UTC(),
		LeaseUntil: e.LeaseUntil.UTC(), Owner: e.Owner, Attempts: e.Attempts, MaxAttempts: e.MaxAttempts, Rerun: e.Rerun,
		Asked: e.Asked, Resumes: e.Resumes, Steps: e.Steps, Finishes: e.Finishes}
	if e.State == ichido.Completed {
		j.BodySize = &e.BodySize
	}
	return j
}

// stateName is how a state is written in JSON.
func stateName(s ichido.State) string { return strings.ReplaceAll(s.String(), " ", "_") }
