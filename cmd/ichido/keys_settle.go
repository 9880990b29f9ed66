package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ichido-dev/ichido"
	"github.com/spf13/cobra"
)

// A settling is a command that settles a key.
type settling struct {
	how    ichido.SettledHow
	by     string
	reason string
	yes    bool

	// Of resolve only:
	status    int
	header    []string
	body      string
	bodyFile  string
	retention time.Duration
	answer    http.Header
	content   []byte
}

const settledJSON = `With --json it prints {"key","scope","how","by","reason","was"}: how is done, not_done or deleted, was is the state before.
The settlement is kept for 400 days; ichido keys show shows it.

`

func newKeysResolveCommand() *cobra.Command {
	s := &settling{how: ichido.SettledDone}
	cmd := &cobra.Command{
		Use:   "resolve KEY --status STATUS --reason TEXT",
		Short: "Settle an unknown key: its operation took effect",
		Long: `resolve completes a key that is unknown, because its operation did take effect. The answer that is given here is what
requests with the key get from now on, as if the attempt had given it. It is stored as it is, not encrypted. It cannot be
corrected later, so an answer of 400 or above needs --yes. A key of ichido.Do needs --status 200, and the JSON of its value
as the body.

` + settledJSON + keysExitCodes,
		Example: `  ichido keys resolve order-7 --status 201 --header 'Location: /payments/7' --header 'Content-Type: application/json' \
    --body '{"id":7}' --reason 'charged, says the provider'`,
	}
	cmd = s.withYes(s.command(cmd))
	cmd.Flags().IntVar(&s.status, "status", 0, "`status` of the answer, such as 201")
	cmd.Flags().StringArrayVar(&s.header, "header", nil, "header `field` of the answer, as in 'Location: /x'. Repeat it for more")
	cmd.Flags().StringVar(&s.body, "body", "", "body of the answer, a `text`")
	cmd.Flags().StringVar(&s.bodyFile, "body-file", "", "`file` with the body, - for standard input")
	addDuration(cmd, &s.retention, "retention", "ICHIDO_RETENTION", 24*time.Hour, "how long the answer is kept; as long as the service keeps its own")
	cmd.MarkFlagsMutuallyExclusive("body", "body-file")
	require(cmd, "status")
	return cmd
}

func newKeysReleaseCommand() *cobra.Command {
	s := &settling{how: ichido.SettledNotDone}
	cmd := &cobra.Command{
		Use:   "release KEY --reason TEXT --yes",
		Short: "Settle an unknown key: its operation took no effect",
		Long: `release frees a key that is unknown, because its operation took no effect and will take none. The next request with the
key runs the work again: if that is wrong, the operation takes effect twice. So it needs --yes; without it, release says
what it would do.

` + settledJSON + keysExitCodes,
		Example: `  ichido keys release order-7 --reason 'never reached the provider' --yes`,
	}
	return s.withYes(s.command(cmd))
}

func newKeysDeleteCommand() *cobra.Command {
	s := &settling{how: ichido.SettledDeleted}
	cmd := &cobra.Command{
		Use:   "delete KEY --reason TEXT --yes",
		Short: "Delete a key that is completed or unknown",
		Long: `delete deletes the record of a key that is completed or unknown, with its answer. The key is free: a request that is
sent again with it is a new operation. So it needs --yes; without it, delete says what it would do.

` + settledJSON + keysExitCodes,
		Example: `  ichido keys delete order-7 --reason 'erasure request 2026-118' --yes`,
	}
	return s.withYes(s.command(cmd))
}

func (s *settling) command(cmd *cobra.Command) *cobra.Command {
	cmd = newKeyCommand(cmd, s.check, s.settle)
	cmd.Flags().StringVar(&s.reason, "reason", "", "why, a `text` for those who look at the key later")
	cmd.Flags().StringVar(&s.by, "by", "", "`name` of who settles the key; the user of this process if it is not given")
	bindVariable(cmd, "by", "USER")
	require(cmd, "reason")
	return cmd
}

func (s *settling) withYes(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&s.yes, "yes", false, "do it; else it is only said what would be done")
	return cmd
}

func require(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagRequired(flag); err != nil { // only a flag that is not there
		panic(err)
	}
}

func (s *settling) check(k *keyCommand) error {
	if s.by == "" {
		if u, err := user.Current(); err == nil {
			s.by = u.Username
		}
	}
	switch {
	case strings.TrimSpace(s.by) == "":
		return errors.New("--by is needed: who settles the key is not known otherwise")
	case strings.TrimSpace(s.reason) == "":
		return errors.New("--reason is empty; say why, for those who look at the key later")
	case !utf8.ValidString(s.by + " " + s.reason):
		return errors.New("--by and --reason must be UTF-8")
	case s.how != ichido.SettledDone:
		return nil
	case s.status < 200 || s.status > 599:
		return fmt.Errorf("--status is %d; it must be from 200 to 599", s.status)
	}
	s.answer = make(http.Header)
	for _, field := range s.header {
		name, value, ok := strings.Cut(field, ":")
		if !ok {
			return fmt.Errorf("--header is %q; write it like 'Location: /x'", field)
		}
		s.answer.Add(name, strings.TrimSpace(value))
	}
	if err := s.readBody(k.cmd.InOrStdin()); err != nil {
		return err
	}
	if len(s.content) > 0 && (s.status == http.StatusNoContent || s.status == http.StatusNotModified) {
		return fmt.Errorf("an answer with the status %d has no body", s.status)
	}
	_, err := s.seal(&ichido.Entry{})
	return err
}

// readBody reads the body, a little more than can be stored at most.
func (s *settling) readBody(stdin io.Reader) error {
	s.content = []byte(s.body)
	if s.bodyFile == "" {
		return nil
	}
	from := stdin
	if s.bodyFile != "-" {
		file, err := os.Open(s.bodyFile)
		if err != nil {
			return fmt.Errorf("--body-file: %w", err)
		}
		defer file.Close()
		from = file
	}
	var err error
	if s.content, err = io.ReadAll(io.LimitReader(from, 2<<20)); err != nil {
		return fmt.Errorf("--body-file: %w", err)
	}
	return nil
}

// seal returns the answer as it is stored, if it can be stored whole.
func (s *settling) seal(e *ichido.Entry) (ichido.Response, error) {
	var rules ichido.Stored
	r, err := rules.Seal(e.Scope, e.Key, e.Fingerprint, s.status, s.answer, s.content)
	if err != nil {
		return r, errors.New(without(err))
	}
	_, header, _, err := rules.Open(e.Scope, e.Key, e.Fingerprint, r)
	if err != nil {
		return r, err
	}
	for name := range s.answer {
		if len(header[name]) == 0 {
			return r, fmt.Errorf("--header: the field %q is never stored", name)
		}
	}
	return r, nil
}

func (s *settling) settle(ctx context.Context, db *database, k *keyCommand) error {
	e, err := k.look(ctx, db.store)
	if err != nil {
		return err
	}
	if err := s.fits(k, e); err != nil {
		return &exitError{exitOtherState, fmt.Errorf("%s%s", err, lastSettlement(ctx, db.store, k))}
	}
	if (s.how != ichido.SettledDone || s.status >= 400) && !s.yes {
		return usageError(fmt.Errorf("nothing was done, because --yes is missing. %s. To do it:\n  %s",
			s.consequence(k, e), commandLine(k.cmd, k.key, setFlag{"yes", "true"}, setFlag{"scope", k.scope})))
	}
	t := ichido.Settlement{Scope: e.Scope, Key: e.Key, Token: e.Token, How: s.how, By: s.by, Reason: s.reason}
	if s.how == ichido.SettledDone {
		t.Retention = s.retention
		if t.Response, err = s.seal(e); err != nil {
			return err
		}
	}
	if err := db.store.Settle(ctx, t); err != nil {
		return s.refused(ctx, db.store, k, err)
	}
	return s.report(k, e)
}

// fits says why a key is not in the state that the command needs. Of one that will be run again, only the store knows
// whether its lease is over.
func (s *settling) fits(k *keyCommand, e *ichido.Entry) error {
	switch {
	case e.State == ichido.InProgress && !e.Rerun && !e.Resumes:
		return fmt.Errorf("the key %s is in progress: an attempt holds it for another %s, or longer; wait until it has ended", k.named(), span(time.Until(e.LeaseUntil)))
	case e.State == ichido.Completed && s.how != ichido.SettledDeleted:
		return fmt.Errorf("the key %s is completed, with the status %d; there is nothing to settle", k.named(), e.Status)
	}
	return nil
}

// refused makes the error of a settlement one with an exit code.
func (s *settling) refused(ctx context.Context, store store, k *keyCommand, err error) error {
	text := ""
	switch {
	case errors.Is(err, ichido.ErrInProgress):
		text = "an attempt holds the key " + k.named() + "; wait until it has ended"
	case errors.Is(err, ichido.ErrNotUnknown):
		text = "the key " + k.named() + " has been settled or taken by another attempt in the meantime"
	case !errors.Is(err, ichido.ErrNoRecord):
		return err
	default:
		if _, err := store.Look(ctx, k.scope, k.key); err == nil {
			return noKey("the key " + k.named() + " is past its retention, and as good as deleted")
		}
		text = "the key " + k.named() + " has been settled or purged in the meantime"
	}
	return &exitError{exitOtherState, errors.New(text + lastSettlement(ctx, store, k))}
}

// lastSettlement says how a key was settled last, to follow what was said of it.
func lastSettlement(ctx context.Context, store store, k *keyCommand) string {
	all, err := store.Settlements(ctx, k.scope, k.key)
	if err != nil || len(all) == 0 { // the error that this follows is the one to report
		return ""
	}
	t := all[len(all)-1]
	return fmt.Sprintf(" (settled last as %s, by %s, %s: %s)", t.How, display(t.By), moment(t.At), display(t.Reason))
}

// consequence says what settling would mean.
func (s *settling) consequence(k *keyCommand, e *ichido.Entry) string {
	if s.how == ichido.SettledDone {
		return fmt.Sprintf("Requests with the key %s would get the status %d from now on, and that could not be corrected", k.named(), s.status)
	}
	if s.how == ichido.SettledNotDone {
		return fmt.Sprintf("The key %s would be free, and the next request with it would run the work again: twice, if the operation took effect after all", k.named())
	}
	if e.State == ichido.Completed {
		return fmt.Sprintf("The answer of the key %s, with the status %d, would be lost, and a request that is sent again would run the work again", k.named(), e.Status)
	}
	return fmt.Sprintf("The key %s would be free without anybody saying whether its operation took effect, and the next request with it would run the work", k.named())
}

// report says what was done.
func (s *settling) report(k *keyCommand, e *ichido.Entry) error {
	if k.asJSON {
		return printTerminalJSON(k.cmd.OutOrStdout(), map[string]string{"key": e.Key, "scope": e.Scope, "how": howName(s.how), "by": s.by,
			"reason": s.reason, "was": stateName(e.State)})
	}
	done := "resolved " + k.named() + fmt.Sprintf(": requests with the key get the status %d from now on", s.status)
	switch s.how {
	case ichido.SettledNotDone:
		done = "released " + k.named() + ": the key is free, and the next request with it runs the work again"
	case ichido.SettledDeleted:
		done = "deleted " + k.named() + ": the key is free, and a request with it is a new operation"
	}
	_, err := fmt.Fprintln(k.cmd.OutOrStdout(), done)
	return err
}
