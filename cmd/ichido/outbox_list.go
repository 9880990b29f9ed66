package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ichido-dev/ichido/client/outbox"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type outboxListOptions struct {
	location string
	filter   outbox.Filter
	asJSON   bool
}

func newOutboxListCommand() *cobra.Command {
	var o outboxListOptions
	f := &o.filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List operations",
		Long: `list prints the operations that fit all of the filters, in the order in which they were put, a page at a time; on standard
error it says how to go on.

With --json it prints a page as {"operations":[…],"next":N}: next is for --after, and not there on the last page. An operation
is {"id","operation","subject","state","sent","key","target","method","url","body_size","attempts","status","error","resource",
"created_at","first_sent_at","due_at","send_until","decided_at","by","reason"}; state is waiting, sending, done, not_done,
unknown or dropped, sent is whether it may have taken effect, and what does not apply is left out.

` + exitCodes,
		Example: `  ichido outbox list --state unknown,waiting
  ichido outbox list --subject customer-7 --json | jq -r '.operations[].operation'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 1 || f.Limit > maxPage || f.After < 0 {
				return usageError(fmt.Errorf("--limit must be from 1 to %d, and --after not negative", maxPage))
			}
			db, err := openOutbox(cmd.Context(), o.location, false)
			if err != nil {
				return err
			}
			defer db.Close()
			box, err := outbox.New(db.DB, db.dialect, nil, nil)
			if err != nil {
				return err
			}
			return o.list(cmd.Context(), box, cmd)
		},
	}
	addOutboxFlag(cmd, &o.location)
	cmd.Flags().Var(outboxStatesFlag{&f.States}, "state", "`state` of the operations: "+strings.Join(outboxStates, ", ")+". Repeat it for more, or separate by commas")
	cmd.Flags().StringVar(&f.Subject, "subject", "", "`subject` of the operations, exactly")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "how many operations are on a page, at most 1000")
	cmd.Flags().Int64Var(&f.After, "after", 0, "`id` behind which the page begins, from the page before")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(outboxStates, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (o *outboxListOptions) list(ctx context.Context, box *outbox.Outbox, cmd *cobra.Command) error {
	filter := o.filter
	filter.Limit++ // one more tells whether there is a next page
	entries, err := box.List(ctx, filter)
	if err != nil {
		return err
	}
	next := int64(0)
	if len(entries) > o.filter.Limit {
		entries = entries[:o.filter.Limit]
		next = entries[len(entries)-1].ID
	}
	if o.asJSON {
		page := struct {
			Operations []operationJSON `json:"operations"`
			Next       int64           `json:"next,omitempty"`
		}{make([]operationJSON, len(entries)), next}
		for i, e := range entries {
			page.Operations[i] = newOperationJSON(e)
		}
		return printTerminalJSON(cmd.OutOrStdout(), page)
	}
	var rows [][]string
	if len(entries) > 0 {
		rows = [][]string{{"STATE", "ID", "OPERATION", "SUBJECT", "REQUEST", "AGE", "ATTEMPTS", "NEXT", "ANSWER"}}
	}
	unknown := slices.IndexFunc(entries, func(e *outbox.Entry) bool { return e.State == outbox.Unknown })
	for _, e := range entries {
		rows = append(rows, outboxRow(e))
	}
	var table table
	if _, err := io.WriteString(cmd.OutOrStdout(), table.format(rows)); err != nil {
		return err
	}
	var b strings.Builder
	if len(entries) == 0 {
		b.WriteString("There are no such operations.\n")
	}
	if table.cut {
		b.WriteString("Some texts were cut; --json has them whole.\n")
	}
	if unknown >= 0 {
		fmt.Fprintf(&b, "Whether those that are unknown took effect must be found out. Begin with:\n  %s\n", outboxLine(cmd, "outbox show", entries[unknown]))
	}
	if next != 0 {
		fmt.Fprintf(&b, "Next page: %s\n", commandLine(cmd, "", setFlag{"after", strconv.FormatInt(next, 10)}))
	}
	_, err = io.WriteString(cmd.ErrOrStderr(), b.String())
	return err
}

func outboxRow(e *outbox.Entry) []string {
	orNone := func(text string) string {
		if text == "" {
			return "-"
		}
		return display(text)
	}
	next, status := "-", "-"
	switch until := time.Until(e.DueAt); {
	case e.DueAt.IsZero():
	case e.State == outbox.Sending:
		next = span(until) + " left"
	case until > 0:
		next = "in " + span(until)
	default:
		next = "now"
	}
	if e.Answer != nil {
		status = strconv.Itoa(e.Answer.Status)
	}
	return []string{e.State.String(), strconv.FormatInt(e.ID, 10), orNone(e.Name), orNone(e.Subject), display(e.Method + " " + e.URL),
		span(time.Since(e.CreatedAt)), strconv.Itoa(e.Attempts), next, status}
}

// outboxStatesFlag is the value of --state.
type outboxStatesFlag struct{ states *[]outbox.State }

var _ pflag.SliceValue = outboxStatesFlag{}

var outboxStates = []string{"waiting", "sending", "done", "not-done", "unknown", "dropped"}

func (f outboxStatesFlag) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		if err := f.Append(word); err != nil {
			return err
		}
	}
	return nil
}

func (f outboxStatesFlag) Append(word string) error {
	if !slices.Contains(outboxStates, strings.ReplaceAll(word, "_", "-")) {
		return fmt.Errorf("it must be %s", strings.Join(outboxStates, ", "))
	}
	*f.states = append(*f.states, outbox.State(strings.ReplaceAll(word, "-", "_")))
	return nil
}

func (f outboxStatesFlag) Replace(words []string) error {
	*f.states = nil
	return f.Set(strings.Join(words, ","))
}

func (f outboxStatesFlag) GetSlice() (words []string) {
	for _, state := range *f.states {
		words = append(words, strings.ReplaceAll(string(state), "_", "-"))
	}
	return words
}

func (f outboxStatesFlag) String() string {
	if f.states == nil {
		return ""
	}
	return strings.Join(f.GetSlice(), ",")
}

func (f outboxStatesFlag) Type() string { return "state" }
