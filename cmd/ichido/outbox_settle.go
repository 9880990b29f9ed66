package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ichido-dev/ichido/client/outbox"
	"github.com/spf13/cobra"
)

func newOutboxShowCommand() *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:   "show OPERATION",
		Short: "Show what is kept of an operation",
		Long: `show prints what is kept of an operation, which is given by its name or its id: its state, its times, and the last answer.

Values of header fields and bodies may be private. They are printed with --reveal only.

With --json it prints the members of ichido outbox list --json; with --reveal also "header", "body", "answer_header" and
"answer_body", or, where a body is not UTF-8, "body_base64" and "answer_body_base64".

` + outboxExitCodes,
		Example: `  ichido outbox show order-42 --reveal`,
	}
	return withReveal(newOutboxOneCommand(cmd, func() error { return nil },
		func(_ context.Context, c *outboxCommand, e *outbox.Entry) error { return c.show(e, reveal) }), &reveal)
}

func (c *outboxCommand) show(e *outbox.Entry, reveal bool) error {
	if c.asJSON {
		return printTerminalJSON(c.cmd.OutOrStdout(), revealedJSON(e, reveal))
	}
	var b strings.Builder
	line := func(label, text string) { fmt.Fprintf(&b, "%-13s%s\n", label, text) }
	line("Operation", display(ref(e)))
	line("Id", strconv.FormatInt(e.ID, 10))
	state := e.State.String()
	switch {
	case e.State == outbox.Unknown:
		state += ": it may have taken effect"
	case e.State == outbox.Waiting && e.Sent:
		state += "; it may have taken effect already"
	}
	line("State", state)
	if e.Subject != "" {
		line("Subject", display(e.Subject))
	}
	line("Request", display(e.Method+" "+e.URL))
	line("Key", display(e.Key)+", for "+display(e.Target))
	fieldLines(line, "Header", e.Header, reveal)
	line("Body", fmt.Sprintf("%d bytes", e.BodySize))
	line("Put", moment(e.CreatedAt))
	if !e.FirstSentAt.IsZero() {
		line("First sent", moment(e.FirstSentAt))
	}
	line("Attempts", strconv.Itoa(e.Attempts))
	if !e.DueAt.IsZero() && e.State == outbox.Sending {
		line("Lease until", moment(e.DueAt))
	} else if !e.DueAt.IsZero() && !e.State.Decided() {
		line("Due", moment(e.DueAt))
	}
	if !e.State.Decided() || e.State == outbox.Unknown {
		line("Sent until", moment(e.SendUntil))
	}
	if !e.DecidedAt.IsZero() {
		line("Decided", moment(e.DecidedAt))
	}
	if e.Err != "" {
		line("Error", display(e.Err))
	}
	if e.Answer != nil {
		line("Answer", strings.TrimSpace(fmt.Sprintf("%d %s", e.Answer.Status, http.StatusText(e.Answer.Status))))
		fieldLines(line, "Header", e.Answer.Header, reveal)
		line("Body", fmt.Sprintf("%d bytes%s", len(e.Answer.Body), map[bool]string{true: ", which are not all of it"}[e.Answer.Cut]))
	}
	if e.Resource != "" {
		line("Resource", display(e.Resource))
	}
	if e.By != "" {
		line("Settled", "by "+display(e.By)+": "+display(e.Reason))
	}
	if reveal {
		revealBody(&b, "The request's body", e.Body)
		if e.Answer != nil {
			revealBody(&b, "The answer's body", e.Answer.Body)
		}
	}
	if _, err := io.WriteString(c.cmd.OutOrStdout(), b.String()); err != nil || e.State != outbox.Unknown {
		return err
	}
	_, err := fmt.Fprintf(c.cmd.ErrOrStderr(), "\n%s", advice(c.cmd, e))
	return err
}

// advice says how an operation that is unknown is decided.
func advice(cmd *cobra.Command, e *outbox.Entry) string {
	drop := outboxLine(cmd, "outbox drop", e, "--reason", "'…'", "--yes")
	if !e.FirstSentAt.IsZero() && !time.Now().Before(e.SendUntil) {
		return fmt.Sprintf("Find out at the server whether the operation took effect, then drop it; if it did not, send it anew afterwards:\n  %s\n", drop)
	}
	return fmt.Sprintf(`Find out at the server whether the operation took effect, then say so:
  it did         %s
  it did not     %s
The latter sends it again under its key, which is right, too, once the server can tell by the key.
`, drop, outboxLine(cmd, "outbox retry", e))
}

func fieldLines(line func(label, text string), label string, h http.Header, reveal bool) {
	names := slices.Sorted(maps.Keys(h))
	if !reveal {
		if len(names) > 0 {
			line(label, strings.Join(names, ", ")+" (values: --reveal)")
		}
		return
	}
	for _, name := range names {
		for _, value := range h[name] {
			line(label, display(name)+": "+display(value))
			label = ""
		}
	}
}

func revealBody(b *strings.Builder, what string, body []byte) {
	switch {
	case len(body) == 0:
	case utf8.Valid(body):
		fmt.Fprintf(b, "\n%s:\n%s\n", what, strings.TrimSuffix(harmless(string(body)), "\n"))
	default:
		fmt.Fprintf(b, "\n%s is no text; --json has it.\n", what)
	}
}

type revealedOperationJSON struct {
	operationJSON
	Header           http.Header `json:"header,omitempty"`
	Body             *string     `json:"body,omitempty"`
	BodyBase64       []byte      `json:"body_base64,omitempty"`
	AnswerHeader     http.Header `json:"answer_header,omitempty"`
	AnswerBody       *string     `json:"answer_body,omitempty"`
	AnswerBodyBase64 []byte      `json:"answer_body_base64,omitempty"`
}

func revealedJSON(e *outbox.Entry, reveal bool) revealedOperationJSON {
	j := revealedOperationJSON{operationJSON: newOperationJSON(e)}
	if !reveal {
		return j
	}
	text := func(body []byte) (*string, []byte) {
		if !utf8.Valid(body) {
			return nil, body
		}
		s := string(body)
		return &s, nil
	}
	j.Header = e.Header
	j.Body, j.BodyBase64 = text(e.Body)
	if e.Answer != nil {
		j.AnswerHeader = e.Answer.Header
		j.AnswerBody, j.AnswerBodyBase64 = text(e.Answer.Body)
	}
	return j
}

func newOutboxRetryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry OPERATION",
		Short: "Have an operation sent again, under its key",
		Long: `retry makes an operation due that is waiting, unknown or not done: the next worker sends it again, under its key. Where no
worker runs, send it with ichido send --operation. It is refused if the server may have forgotten the key: sent again, it
could take effect twice.

With --json it prints the members of ichido outbox list --json.

` + outboxExitCodes,
		Example: `  ichido outbox retry order-42`,
	}
	return newOutboxOneCommand(cmd, func() error { return nil }, func(ctx context.Context, c *outboxCommand, e *outbox.Entry) error {
		after, err := c.box.Retry(ctx, outbox.Settlement{ID: e.ID})
		if err != nil {
			return c.refused(err, e)
		}
		return c.settled(after, "%s is sent again by the next worker, or by: %s\n", display(ref(e)), sendLine(cmd, e))
	})
}

// sendLine is the command line that goes on with an operation.
func sendLine(cmd *cobra.Command, e *outbox.Entry) string {
	if e.Name == "" {
		return "a worker only, since it has no name"
	}
	return assemble("ichido send", "", append([]string{"--operation", shellWord(e.Name)}, databaseWords(cmd)...))
}

func newOutboxDropCommand() *cobra.Command {
	var by, reason string
	var yes bool
	cmd := &cobra.Command{
		Use:   "drop OPERATION --reason TEXT --yes",
		Short: "Say that an operation is not to be sent any more",
		Long: `drop says of an operation that is waiting, unknown or not done that it is not to be sent any more. It tells the server
nothing: what was sent may have taken effect. Its name is free, and an operation that is sent under it is a new one, with
another key. So it needs --yes; without it, drop says what it would do.

With --json it prints the members of ichido outbox list --json.

` + outboxExitCodes,
		Example: `  ichido outbox drop order-42 --reason 'seen in the shop' --yes`,
	}
	cmd = newOutboxOneCommand(cmd, func() error {
		if by == "" {
			if u, err := user.Current(); err == nil {
				by = u.Username
			}
		}
		if strings.TrimSpace(by) == "" || strings.TrimSpace(reason) == "" || !utf8.ValidString(by+reason) {
			return errors.New("--by and --reason must say who drops the operation and why, in UTF-8")
		}
		return nil
	}, func(ctx context.Context, c *outboxCommand, e *outbox.Entry) error {
		if !yes {
			consequence := "It has certainly not taken effect"
			if e.Sent || e.State == outbox.Sending {
				consequence = "It may have taken effect, and if it is sent anew after that, it does so twice"
			}
			return usageError(fmt.Errorf("nothing was done, because --yes is missing. The operation %s, which is %s, would not be sent any more. %s. To do it:\n  %s",
				display(ref(e)), e.State, consequence, commandLine(cmd, c.name, setFlag{"yes", "true"})))
		}
		after, err := c.box.Drop(ctx, outbox.Settlement{ID: e.ID, By: by, Reason: reason})
		if err != nil {
			return c.refused(err, e)
		}
		return c.settled(after, "dropped %s: it is not sent any more, and its name is free\n", display(ref(e)))
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why, a `text` for those who look at the operation later")
	cmd.Flags().StringVar(&by, "by", "", "`name` of who drops it; the user of this process if it is not given")
	bindVariable(cmd, "by", "USER")
	require(cmd, "reason")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it; else it is only said what would be done")
	return cmd
}

func (c *outboxCommand) refused(err error, e *outbox.Entry) error {
	text := strings.TrimPrefix(err.Error(), "outbox: ")
	switch {
	case errors.Is(err, outbox.ErrForgotten):
		return &exitError{exitOtherState, fmt.Errorf("%s. %s", text, advice(c.cmd, e))}
	case errors.Is(err, outbox.ErrState):
		return &exitError{exitOtherState, errors.New(text)}
	}
	return err
}

func (c *outboxCommand) settled(e *outbox.Entry, format string, args ...any) error {
	if c.asJSON {
		return printTerminalJSON(c.cmd.OutOrStdout(), newOperationJSON(e))
	}
	_, err := fmt.Fprintf(c.cmd.OutOrStdout(), format, args...)
	return err
}
