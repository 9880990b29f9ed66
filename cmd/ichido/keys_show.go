package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ichido-dev/ichido"
	"github.com/spf13/cobra"
)

func newKeysShowCommand() *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show what is stored of a key",
		Long: `show prints what is stored of a key: its state, its times, its answer, and how it was settled, by whom and why. With
--scope it shows how a key was settled also when its record is gone.

Values of header fields and the body may be private. They are printed with --reveal only. A body that was encrypted cannot
be revealed: that takes the secret of the service.

With --json it prints the members of ichido keys list --json, and "steps", "header_names", "settlements":[{"how","by","reason",
"at"}] with how being done, not_done or deleted; with --reveal also "header":{"Name":["value"]} and "body", or, where it is
not UTF-8, "body_base64". The state is unregistered if there is no record, only settlements.

` + keysExitCodes,
		Example: `  ichido keys show order-7
  ichido keys show order-7 --scope 'shop POST /payments' --reveal`,
	}
	return withReveal(newKeyCommand(cmd, func(*keyCommand) error { return nil },
		func(ctx context.Context, db *database, k *keyCommand) error { return k.show(ctx, db.store, reveal) }), &reveal)
}

func withReveal(cmd *cobra.Command, reveal *bool) *cobra.Command {
	cmd.Flags().BoolVar(reveal, "reveal", false, "print values of header fields, and the body")
	return cmd
}

// A shown is all that is known of a key.
type shown struct {
	entry       *ichido.Entry // nil if there is no record
	settlements []ichido.Settlement
	header      http.Header
	body        []byte
	unreadable  error // why there is no body
}

func (k *keyCommand) show(ctx context.Context, store store, reveal bool) error {
	entry, err := k.look(ctx, store)
	switch {
	case err == nil:
	case exitCode(err) != exitNoKey:
		return err
	case !k.cmd.Flags().Changed("scope"):
		return noKey(err.Error() + "; with --scope, show tells how it was settled, if it was")
	}
	settlements, failed := store.Settlements(ctx, k.scope, k.key)
	switch {
	case failed != nil:
		return failed
	case err != nil && len(settlements) == 0:
		return err
	}
	s := shown{entry: entry, settlements: settlements}
	if entry != nil && entry.Response != nil {
		_, s.header, s.body, s.unreadable = new(ichido.Stored).Open(entry.Scope, entry.Key, entry.Fingerprint, *entry.Response)
	}
	if k.asJSON {
		err = printTerminalJSON(k.cmd.OutOrStdout(), s.json(k, reveal))
	} else {
		err = s.print(k, reveal)
	}
	if err == nil && reveal && s.unreadable != nil && !errors.Is(s.unreadable, ichido.ErrNotKept) {
		err = fmt.Errorf("the body cannot be revealed: %s", without(s.unreadable))
	}
	return err
}

// without returns the text of an error of the library without its name.
func without(err error) string { return strings.TrimPrefix(err.Error(), "ichido: ") }

// A shownJSON is what is known of a key as --json prints it.
type shownJSON struct {
	entryJSON
	HeaderNames []string         `json:"header_names,omitempty"`
	Header      http.Header      `json:"header,omitempty"`
	Body        *string          `json:"body,omitempty"`
	BodyBase64  []byte           `json:"body_base64,omitempty"`
	Settlements []settlementJSON `json:"settlements"`
}

type settlementJSON struct {
	How    string    `json:"how"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

func (s *shown) json(k *keyCommand, reveal bool) shownJSON {
	j := shownJSON{entryJSON: entryJSON{Key: k.key, Scope: k.scope, State: "unregistered"}, HeaderNames: s.headerNames(),
		Settlements: []settlementJSON{}} // not null
	if s.entry != nil {
		j.entryJSON = newEntryJSON(s.entry)
	}
	for _, t := range s.settlements {
		j.Settlements = append(j.Settlements, settlementJSON{howName(t.How), t.By, t.Reason, t.At.UTC()})
	}
	if !reveal {
		return j
	}
	j.Header = s.header
	switch {
	case s.body == nil:
	case utf8.Valid(s.body):
		text := string(s.body)
		j.Body = &text
	default:
		j.BodyBase64 = s.body
	}
	return j
}

// howName is how a settlement is written in JSON.
func howName(h ichido.SettledHow) string { return strings.ReplaceAll(h.String(), " ", "_") }

func (s *shown) headerNames() []string { return slices.Sorted(maps.Keys(s.header)) }

// print writes it all for people, and what they can do on standard error.
func (s *shown) print(k *keyCommand, reveal bool) error {
	var b strings.Builder
	line := func(label, text string) { fmt.Fprintf(&b, "%-13s%s\n", label, text) }
	line("Key", display(k.key))
	line("Scope", display(k.scope))
	line("State", s.state())
	if s.entry != nil {
		s.lines(line)
	}
	if s.entry != nil && s.entry.Response != nil {
		s.answer(line, reveal)
	}
	for i, t := range s.settlements {
		label := "Settled"
		if i > 0 {
			label = ""
		}
		line(label, fmt.Sprintf("%s, by %s, %s: %s", t.How, display(t.By), moment(t.At), display(t.Reason)))
	}
	if reveal && len(s.body) > 0 && utf8.Valid(s.body) {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSuffix(harmless(string(s.body)), "\n"))
	}
	if _, err := io.WriteString(k.cmd.OutOrStdout(), b.String()); err != nil {
		return err
	}
	return s.advise(k)
}

// state says what the state means.
func (s *shown) state() string {
	e := s.entry
	switch {
	case e == nil:
		return "no record: the key is free"
	case e.State == ichido.Unknown:
		return "unknown: nobody has said yet whether its operation took effect"
	case e.State == ichido.InProgress && e.MaxAttempts > 0 && e.Attempts >= e.MaxAttempts:
		return "in progress; this is its last attempt: when its lease is over, the key is unknown"
	case e.State == ichido.InProgress && e.Resumes:
		return "in progress; when its lease is over, the next request with the key resumes after the last step"
	case e.State == ichido.InProgress && e.Rerun:
		return "in progress; when its lease is over, the next request with the key runs the work again"
	}
	return e.State.String()
}

// lines are about the record, but not its answer.
func (s *shown) lines(line func(label, text string)) {
	e := s.entry
	if e.Route != "" {
		line("Route", display(e.Route))
	}
	if e.State == ichido.Completed {
		line("Completed", moment(e.CreatedAt))
	} else {
		line("Begun", moment(e.CreatedAt))
	}
	if !e.LeaseUntil.IsZero() {
		line("Lease until", moment(e.LeaseUntil))
	}
	switch {
	case e.Owner == "":
	case time.Until(e.LeaseUntil) > 0:
		line("Run by", display(e.Owner))
	default:
		line("Last run by", display(e.Owner))
	}
	if e.Attempts > 0 {
		attempts := strconv.Itoa(e.Attempts)
		if e.MaxAttempts > 0 {
			attempts += " of at most " + strconv.Itoa(e.MaxAttempts)
		}
		line("Attempts", attempts)
	}
	if e.Resumes {
		line("Steps", display(strings.Join(append([]string{strconv.Itoa(len(e.Steps)) + " kept"}, e.Steps...), ", ")))
	}
	if e.Finishes {
		line("Request", "kept, so that the operation can be finished without its client")
	}
	switch {
	case e.Asked == 0:
	case e.Finishes || e.Resumes || e.Rerun: // of what is completed the request has gone
		line("Taken up", times(e.Asked)+", to finish it or to ask a Resolver")
	default:
		line("Resolver", "asked "+times(e.Asked))
	}
	kept := moment(e.ExpiresAt)
	if time.Until(e.ExpiresAt) < 0 && time.Until(e.LeaseUntil) < 0 {
		kept += ": it is as good as deleted"
	}
	line("Kept until", kept)
	line("Fingerprint", fmt.Sprintf("%x", e.Fingerprint))
}

// answer shows the answer. It may be private, except for the status and the names of fields.
func (s *shown) answer(line func(label, text string), reveal bool) {
	line("Answer", strings.TrimSpace(fmt.Sprintf("%d %s", s.entry.Status, http.StatusText(s.entry.Status))))
	label := "Header"
	if !reveal && len(s.header) > 0 {
		var names []string
		for _, name := range s.headerNames() {
			names = append(names, display(name))
		}
		line(label, strings.Join(names, ", ")+" (values: --reveal)")
	}
	for _, name := range s.headerNames() {
		for _, value := range s.header[name] {
			if reveal {
				line(label, display(name)+": "+display(value))
				label = ""
			}
		}
	}
	switch {
	case errors.Is(s.unreadable, ichido.ErrNotKept):
		line("Body", "too large to be kept")
	case s.unreadable != nil:
		line("Body", fmt.Sprintf("%d bytes as they are stored; %s", s.entry.BodySize, display(without(s.unreadable))))
	case !reveal && len(s.body) > 0:
		line("Body", fmt.Sprintf("%d bytes (--reveal)", len(s.body)))
	case !utf8.Valid(s.body):
		line("Body", fmt.Sprintf("%d bytes that are no text; --json has them", len(s.body)))
	default:
		line("Body", fmt.Sprintf("%d bytes", len(s.body)))
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// harmless escapes in a text what a terminal could take for something else than text.
func harmless(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || r == '\t' || strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// advise says how an unknown key is settled.
func (s *shown) advise(k *keyCommand) error {
	if s.entry == nil || s.entry.State != ichido.Unknown {
		return nil
	}
	_, err := fmt.Fprintf(k.cmd.ErrOrStderr(), `
Find out whether the operation took effect, then say so:
  it did      %s
  it did not  %s
`, siblingLine(k.cmd, "resolve", s.entry.EntryID, "--status", "201", "--reason", "'…'"),
		siblingLine(k.cmd, "release", s.entry.EntryID, "--reason", "'…'"))
	return err
}
