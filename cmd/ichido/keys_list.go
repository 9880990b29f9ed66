package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ichido-dev/ichido"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxPage is the longest page of keys.
const maxPage = 1000

type listOptions struct {
	location string
	filter   ichido.Filter
	after    string
	all      bool
	asJSON   bool
}

func newKeysListCommand() *cobra.Command {
	var o listOptions
	f := &o.filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List keys",
		Long: `list prints the keys that fit all of the filters, in the order of the keys, a page at a time; on standard error it says
how to go on. The age of a completed key counts from its completion, else from its first attempt. Keys past their retention
are listed until they are purged.

With --json it prints a page as {"keys":[…],"next":"…"}: next is for --after, and not there on the last page. A key is
{"key","scope","state","route","status","body_size","fingerprint","created_at","expires_at","lease_until","owner",
"attempts","max_attempts","rerun","asked","resumes","finishes"}; state is completed, in_progress or unknown, and what does
not apply is left out. owner names the process that holds the lease, or held it last; finishes says that the request is kept.
With --all --json it prints each key on a line of its own, without a page around.

` + exitCodes,
		Example: `  ichido keys list --state unknown,in-progress
  ichido keys list --route pay --newer-than 24h --limit 200
  ichido keys list --state unknown --all --json | jq -r .key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return usageError(err)
			}
			db, err := openPresent(cmd.Context(), o.location)
			if err != nil {
				return err
			}
			defer db.shut()
			return o.list(cmd.Context(), db.store, cmd)
		},
	}
	addDatabaseFlag(cmd, &o.location)
	cmd.Flags().Var(statesFlag{&f.States}, "state", "`state` of the keys: completed, in-progress or unknown. Repeat it for more, or separate by commas")
	cmd.Flags().StringVar(&f.Scope, "scope", "", "`scope` of the keys, exactly")
	cmd.Flags().StringVar(&f.Route, "route", "", "`route` of the keys, exactly; keys of transaction mode have none")
	cmd.Flags().StringVar(&f.KeyPrefix, "key-prefix", "", "`text` that the keys begin with")
	cmd.Flags().Var(durationFlag{value: &f.OlderThan}, "older-than", "how old the keys are at least, such as 30s, 24h or 7d")
	cmd.Flags().Var(durationFlag{value: &f.NewerThan}, "newer-than", "how old the keys are at most")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "how many keys are on a page, at most 1000")
	cmd.Flags().StringVar(&o.after, "after", "", "`cursor` where the page begins, from the page before")
	cmd.Flags().BoolVar(&o.all, "all", false, "print all pages")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("all", "limit")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateWords, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// check completes the filter.
func (o *listOptions) check(cmd *cobra.Command) error {
	f := &o.filter
	if o.all {
		f.Limit = maxPage
	}
	switch {
	case f.Limit < 1 || f.Limit > maxPage:
		return fmt.Errorf("--limit is %d; it must be from 1 to %d", f.Limit, maxPage)
	case !utf8.ValidString(f.Scope + " " + f.Route + " " + f.KeyPrefix):
		return errors.New("--scope, --route and --key-prefix must be UTF-8")
	case o.after == "" && !cmd.Flags().Changed("after"):
		return nil
	}
	id, err := parseCursor(o.after)
	f.After = &id
	return err
}

func (o *listOptions) list(ctx context.Context, store store, cmd *cobra.Command) error {
	var out lister = &tableLister{stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), cmd: cmd}
	switch {
	case o.asJSON && o.all:
		out = &linesLister{cmd.OutOrStdout()}
	case o.asJSON:
		out = &pageLister{cmd.OutOrStdout()}
	}
	filter := o.filter
	filter.Limit++ // one more tells whether there is a next page
	for {
		entries, err := store.List(ctx, filter)
		if err != nil {
			return err
		}
		var next *ichido.EntryID
		if len(entries) > o.filter.Limit {
			entries = entries[:o.filter.Limit]
			next = &entries[len(entries)-1].EntryID
		}
		if err := out.page(entries, next, !o.all || next == nil); err != nil || !o.all || next == nil {
			return err
		}
		filter.After = next
	}
}

// A lister prints pages of keys. next is where the page after begins, nil if there is none; last says that none is printed.
type lister interface {
	page(entries []ichido.Entry, next *ichido.EntryID, last bool) error
}

// A pageLister prints a page as one JSON object.
type pageLister struct{ stdout io.Writer }

func (l *pageLister) page(entries []ichido.Entry, next *ichido.EntryID, _ bool) error {
	page := struct {
		Keys []entryJSON `json:"keys"`
		Next string      `json:"next,omitempty"`
	}{Keys: make([]entryJSON, len(entries))}
	for i := range entries {
		page.Keys[i] = newEntryJSON(&entries[i])
	}
	if next != nil {
		page.Next = cursor(*next)
	}
	return printTerminalJSON(l.stdout, page)
}

// A linesLister prints a JSON object for each key.
type linesLister struct{ stdout io.Writer }

func (l *linesLister) page(entries []ichido.Entry, _ *ichido.EntryID, _ bool) error {
	for i := range entries {
		if err := printTerminalJSON(l.stdout, newEntryJSON(&entries[i])); err != nil {
			return err
		}
	}
	return nil
}

// A tableLister prints a table, and on standard error what to do next.
type tableLister struct {
	stdout, stderr io.Writer
	cmd            *cobra.Command
	table          table
	keys, unknown  int
	first          ichido.EntryID // that is unknown
}

func (l *tableLister) page(entries []ichido.Entry, next *ichido.EntryID, last bool) error {
	var rows [][]string
	if l.keys == 0 && len(entries) > 0 {
		rows = append(rows, []string{"STATE", "KEY", "SCOPE", "ROUTE", "AGE", "ATTEMPTS", "LEASE", "STATUS"})
	}
	for i := range entries {
		e := &entries[i]
		rows = append(rows, rowOf(e))
		if e.State == ichido.Unknown {
			if l.unknown++; l.unknown == 1 {
				l.first = e.EntryID
			}
		}
	}
	l.keys += len(entries)
	if _, err := io.WriteString(l.stdout, l.table.format(rows)); err != nil || !last {
		return err
	}
	return l.talk(next)
}

func rowOf(e *ichido.Entry) []string {
	orNone := func(has bool, text string) string {
		if !has {
			return "-"
		}
		return text
	}
	lease := span(time.Until(e.LeaseUntil)) + " left"
	if over := time.Since(e.LeaseUntil); over >= 0 {
		lease = "ran out " + span(over) + " ago"
	}
	return []string{
		e.State.String(), display(e.Key), display(e.Scope), orNone(e.Route != "", display(e.Route)),
		orNone(!e.CreatedAt.IsZero(), span(time.Since(e.CreatedAt))), orNone(e.Attempts > 0, strconv.Itoa(e.Attempts)),
		orNone(!e.LeaseUntil.IsZero(), lease), orNone(e.Status != 0, strconv.Itoa(e.Status)),
	}
}

// talk says what can be done next.
func (l *tableLister) talk(next *ichido.EntryID) error {
	var b strings.Builder
	if l.keys == 0 {
		b.WriteString("There are no such keys.\n")
	}
	if l.table.cut {
		b.WriteString("Some texts were cut; --json has them whole.\n")
	}
	if l.unknown > 0 {
		count := fmt.Sprintf("%d of these keys are unknown: whether their operations took effect must", l.unknown)
		if l.unknown == 1 {
			count = "1 of these keys is unknown: whether its operation took effect must"
		}
		fmt.Fprintf(&b, "%s be found out. Begin with:\n  %s\n", count, siblingLine(l.cmd, "show", l.first))
	}
	if next != nil {
		fmt.Fprintf(&b, "Next page: %s\n", commandLine(l.cmd, "", setFlag{"after", cursor(*next)}))
	}
	talk := b.String()
	if talk != "" && l.keys > 0 {
		talk = "\n" + talk // apart from the table
	}
	_, err := io.WriteString(l.stderr, talk)
	return err
}

// cursor returns the form of an id that --after takes. No key and no scope has a NUL in it.
func cursor(id ichido.EntryID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(id.Key + "\x00" + id.Scope))
}

func parseCursor(text string) (ichido.EntryID, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	key, scope, ok := strings.Cut(string(b), "\x00")
	if err != nil || !ok || !utf8.Valid(b) || strings.Contains(scope, "\x00") {
		return ichido.EntryID{}, fmt.Errorf("--after: %q is not a cursor; take it from the page before", text)
	}
	return ichido.EntryID{Scope: scope, Key: key}, nil
}

// statesFlag is the value of --state.
type statesFlag struct{ states *[]ichido.State }

var _ pflag.Value = statesFlag{}

var stateWords = []string{"completed", "in-progress", "unknown"} // by their number

func (f statesFlag) String() string {
	if f.states == nil {
		return ""
	}
	var words []string
	for _, state := range *f.states {
		words = append(words, stateWords[state])
	}
	return strings.Join(words, ",")
}

func (f statesFlag) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		i := slices.Index(stateWords, strings.ReplaceAll(word, "_", "-"))
		if i < 0 {
			return fmt.Errorf("it must be %s", strings.Join(stateWords, ", "))
		}
		*f.states = append(*f.states, ichido.State(i))
	}
	return nil
}

func (f statesFlag) Type() string { return "state" }
