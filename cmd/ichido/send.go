package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ichido-dev/ichido/client"
	"github.com/ichido-dev/ichido/client/outbox"
	"github.com/spf13/cobra"
)

// The exit codes of send, beyond those that every command has. exitNoKey and exitOtherState are as for keys.
const (
	exitNotDone = 5
	exitUnknown = 6
)

const sendExitCodes = `Exit codes: 0 done, 1 send itself failed, which says nothing of the operation, 2 the command was not understood,
3 there is no such operation, 4 the operation has another request, or was dropped, 5 not done: it certainly took no effect so far, 6 unknown: it may have taken effect.`

type sendOptions struct {
	cmd       *cobra.Command
	url       string // "" goes on with what is kept
	method    string
	header    []string
	data      []dataPart
	include   bool
	output    string
	silent    bool
	operation string
	subject   string
	target    string
	location  string
	maxTime   time.Duration
	retryFor  time.Duration
	fields    http.Header
}

func newSendCommand() *cobra.Command {
	o := &sendOptions{}
	cmd := &cobra.Command{
		Use:   "send [--operation NAME] [URL]",
		Short: "Send a request so that it takes effect once, after a crash too",
		Long: `send sends a request as curl does, and makes it an operation: it is kept on disk before its first byte is sent, and it is sent
under one key until its outcome is known. The same command again, with the same --operation, goes on where the last one
was stopped, or killed; what is done is not sent again: send prints the answer that it got.

The server must honour keys; --target says how. Without an operation's name one is made and printed. With --operation and
without URL it goes on with what is kept. Fields of -H that are no description of the body or the answer, such as
Authorization, are sent but not kept: give them each time. -H @FILE reads fields from a file.

An answer of 2xx or 303 is done. The body of the last answer is printed, whatever it means; redirects are not followed.
Attempts are shown on standard error. An operation that is unknown is not sent again by itself: see ichido outbox. Operations
that are done, not done or dropped are kept for 30 days; later, the same name is a new operation.

` + sendExitCodes,
		Example: `  ichido send --operation order-42 --json '{"item_code":"PJ-001","quantity":1,"reserved_by":"taro"}' http://localhost:8080/reservations
  ichido send --operation order-42
  ichido send --operation charge-7 --target stripe -H @credentials -d amount=500 -d currency=jpy https://api.stripe.com/v1/charges`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.url = args[0]
			}
			return o.run(cmd.Context())
		},
	}
	o.cmd = cmd
	f := cmd.Flags()
	f.StringVarP(&o.method, "request", "X", "", "`method` of the request; POST if there is data")
	f.StringArrayVarP(&o.header, "header", "H", nil, "`field` of the request, as in 'Name: value'; @file reads fields from a file. Repeat it for more")
	f.VarP(dataFlag{&o.data, "data"}, "data", "d", "data of the request, a form if no Content-Type is given; @file reads a file, @- standard input. Repeat it for more")
	f.Var(dataFlag{&o.data, "data-binary"}, "data-binary", "the same, with the line ends of a file")
	f.Var(dataFlag{&o.data, "json"}, "json", "the same, as JSON")
	f.BoolVarP(&o.include, "include", "i", false, "print the status and the header of the answer too")
	f.StringVarP(&o.output, "output", "o", "", "write the answer to a `file`")
	f.BoolVarP(&o.silent, "silent", "s", false, "show errors only, and not each attempt")
	f.StringVar(&o.operation, "operation", "", "`name` of the operation: the same name is the same operation")
	f.StringVar(&o.subject, "subject", "", "`subject` of the operation: those of a subject are sent one after the other")
	words := targetWords()
	addChoice(cmd, &o.target, "target", "ICHIDO_TARGET", "how the server takes keys, in a `word`: "+strings.Join(words, ", "), words...)
	addOutboxFlag(cmd, &o.location)
	o.maxTime, o.retryFor = 30*time.Second, 2*time.Minute
	f.Var(secondsFlag{durationFlag{value: &o.maxTime}}, "max-time", "how long an attempt may take, in seconds or like 30s")
	f.Var(secondsFlag{durationFlag{value: &o.retryFor}}, "retry-for", "how long this command goes on sending, in seconds or like 2m")
	return cmd
}

func (o *sendOptions) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	request, err := o.request()
	if err != nil {
		return usageError(err)
	}
	db, err := openOutbox(ctx, o.location, request != nil)
	if err != nil {
		return err
	}
	defer db.Close()
	target, err := o.findTarget(ctx, db)
	if err != nil {
		return err
	}
	box, err := o.box(db, target)
	if err != nil {
		return err
	}
	e, err := o.put(ctx, box, target, request)
	if err != nil {
		return err
	}
	if e.State == outbox.NotDone { // to send it again is safe, and the reason may be gone
		o.talk("operation %s was not done before (%s); it is sent again\n", display(ref(e)), display(e.Err))
		if e, err = box.Retry(ctx, outbox.Settlement{ID: e.ID}); err != nil && !errors.Is(err, outbox.ErrState) && !errors.Is(err, outbox.ErrForgotten) {
			return err
		}
	}
	if e.State.Decided() {
		o.talk("operation %s is %s since %s; nothing was sent\n", display(ref(e)), e.State, moment(e.DecidedAt))
		return o.end(e, nil)
	}
	if e.State == outbox.Sending {
		o.talk("operation %s is being sent by another process, or by one that died; waiting for it until %s\n", display(ref(e)), moment(e.DueAt))
	}
	sending, cancel := context.WithTimeout(ctx, o.retryFor)
	defer cancel()
	e, err = box.Send(sending, e.ID)
	if e == nil {
		return err
	}
	_, _ = box.Purge(ctx, 100) // what is left is for the next one
	return o.end(e, err)
}

// request makes the request, nil if there is none to make.
func (o *sendOptions) request() (*http.Request, error) {
	stdin := o.cmd.InOrStdin()
	var err error
	if o.fields, err = headerFields(o.header, stdin); err != nil {
		return nil, err
	}
	if o.url == "" {
		if o.operation == "" || o.method != "" || len(o.data) > 0 || o.cmd.Flags().Changed("target") || o.subject != "" {
			return nil, errors.New("the URL is missing; without one, --operation alone says what to go on with")
		}
		return nil, nil
	}
	if !strings.Contains(o.url, "://") {
		o.url = "http://" + o.url
	}
	content, err := body(o.data, stdin)
	if err != nil {
		return nil, err
	}
	if o.method == "" {
		if len(o.data) == 0 {
			return nil, fmt.Errorf("nothing is to be sent to %s: there is neither data (-d, --json) nor a method (-X), and a GET needs no operation. "+
				"To go on with an operation give its name as --operation NAME", display(o.url))
		}
		o.method = http.MethodPost
	}
	r, err := http.NewRequest(o.method, o.url, bytes.NewReader(content))
	if bad := new(url.Error); errors.As(err, &bad) { // it repeats the URL, which may have a password
		return nil, fmt.Errorf("this is no URL: %w", bad.Err)
	}
	if err != nil {
		return nil, err
	}
	if r.URL.User != nil {
		return nil, errors.New("the URL has a user or a password, and URLs are kept; give them as -H @FILE, a file with the field Authorization")
	}
	kind := "application/x-www-form-urlencoded"
	if slices.ContainsFunc(o.data, func(p dataPart) bool { return p.kind == "json" }) {
		kind = "application/json"
		r.Header.Set("Accept", kind)
	}
	if len(o.data) > 0 {
		r.Header.Set("Content-Type", kind)
	}
	return r, nil
}

// findTarget returns the target of the request: that of the operation if it goes on with one.
func (o *sendOptions) findTarget(ctx context.Context, db *outboxDatabase) (client.Target, error) {
	fits := func(word string, _ client.Target) bool { return word == o.target }
	if o.url == "" {
		box, err := outbox.New(db.DB, db.dialect, nil, nil)
		if err != nil {
			return client.Target{}, err
		}
		e, err := find(ctx, box, o.operation)
		if err != nil {
			return client.Target{}, err
		}
		fits = func(_ string, t client.Target) bool { return t.Name == e.Target }
	}
	for _, t := range sendTargets {
		if fits(t.word, t.target) {
			return t.target, nil
		}
	}
	return client.Target{}, errors.New("the operation is for a target that send does not know; let a worker of its service send it")
}

func (o *sendOptions) box(db *outboxDatabase, target client.Target) (*outbox.Outbox, error) {
	transport, err := client.NewTransport(&client.Config{Targets: client.Targets{"*": target}, Attempts: 1, AttemptTimeout: o.maxTime, TotalTimeout: -1})
	if err != nil {
		return nil, err
	}
	return outbox.New(db.DB, db.dialect, transport, &outbox.Config{
		Lease:     o.maxTime*8/7 + time.Second, // a worker stops at seven eighths of it
		Poll:      200 * time.Millisecond,
		MaxDelay:  30 * time.Second,
		MaxAnswer: 1 << 20,
		Keep:      30 * 24 * time.Hour,
		Authorize: func(_ context.Context, r *http.Request) error {
			maps.Copy(r.Header, o.fields) // what is left of them when it was put
			return nil
		},
		Observe: func(_ context.Context, e *outbox.Entry) { o.attempt(e) },
	})
}

// put puts the operation, or finds it.
func (o *sendOptions) put(ctx context.Context, box *outbox.Outbox, target client.Target, r *http.Request) (*outbox.Entry, error) {
	key := o.fields.Get(target.Header)
	if strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) && len(key) > 1 {
		key = key[1 : len(key)-1]
	}
	o.fields.Del(target.Header)
	for name, lines := range o.fields {
		if box.Stores(name) {
			if delete(o.fields, name); r != nil {
				r.Header[name] = lines
			}
		}
	}
	if r == nil {
		return find(ctx, box, o.operation)
	}
	made := o.operation == ""
	if made {
		o.operation = "send-" + time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:8])
	}
	e, err := box.Put(ctx, nil, outbox.Operation{Name: o.operation, Subject: o.subject, Key: key, Request: r})
	switch {
	case errors.Is(err, outbox.ErrMismatch):
		text := strings.TrimPrefix(err.Error(), "outbox: ")
		if there, err := box.LookName(ctx, o.operation); err == nil && there.State != outbox.Done {
			text += ". Or drop that one, if it is not to be sent: " + outboxLine(o.cmd, "outbox drop", there, "--reason", "'…'", "--yes")
		}
		return nil, &exitError{exitOtherState, errors.New(text)}
	case errors.Is(err, outbox.ErrRefused):
		return nil, usageError(errors.New(strings.TrimPrefix(err.Error(), "outbox: ")))
	case err != nil:
		return nil, err
	case made:
		o.talk("operation %s; after a crash go on with: %s\n", e.Name, sendLine(o.cmd, e))
	}
	return e, nil
}

// talk tells people what happens.
func (o *sendOptions) talk(format string, args ...any) {
	if !o.silent {
		fmt.Fprintf(o.cmd.ErrOrStderr(), format, args...)
	}
}

// attempt tells what came of a sending.
func (o *sendOptions) attempt(e *outbox.Entry) {
	what := e.Err
	if e.Answer != nil {
		what = strings.TrimSpace(fmt.Sprintf("%d %s", e.Answer.Status, http.StatusText(e.Answer.Status)))
		if e.Answer.Header.Get("Idempotent-Replayed") == "true" {
			what += ", the answer of an earlier attempt"
		}
	}
	next := e.State.String()
	if e.State == outbox.Waiting {
		next = "again in " + max(time.Until(e.DueAt), 0).Round(100*time.Millisecond).String()
	}
	o.talk("attempt %d: %s; %s\n", e.Attempts, display(what), next)
}

// end prints the answer, and makes the outcome an exit code. err says why the sending ended before it was decided.
func (o *sendOptions) end(e *outbox.Entry, err error) error {
	name := display(ref(e))
	if e.Answer != nil && e.State != outbox.Dropped {
		if err := o.print(e.Answer); err != nil {
			return fmt.Errorf("operation %s is %s, but its answer cannot be written: %w. It is kept: %s", name, e.State, err, outboxLine(o.cmd, "outbox show", e, "--reveal"))
		}
	}
	why := display(e.Err)
	if e.Err == "" && e.Subject != "" {
		why = fmt.Sprintf("its turn has not come: see ichido outbox list --subject %s", shellWord(e.Subject))
	} else if e.Err == "" {
		why = "nothing was learned"
	}
	outcome := e.Outcome()
	switch {
	case outcome == client.Done:
		if e.Answer.Cut {
			o.talk("the answer is not whole: it broke off, or has more than 1 MiB\n")
		}
		return nil
	case e.State == outbox.Dropped:
		return &exitError{exitOtherState, fmt.Errorf("operation %s was dropped by %s: %s", name, display(e.By), display(e.Reason))}
	case outcome == client.NotDone && e.State.Decided():
		return &exitError{exitNotDone, fmt.Errorf("operation %s is not done: %s", name, why)}
	case outcome == client.NotDone:
		return &exitError{exitNotDone, fmt.Errorf("operation %s is not done yet (%s): %s. To go on:\n  %s", name, stopped(err), why, sendLine(o.cmd, e))}
	case e.State.Decided():
		return &exitError{exitUnknown, fmt.Errorf("whether operation %s took effect is unknown: %s. %s", name, why, strings.TrimSuffix(advice(o.cmd, e), "\n"))}
	}
	return &exitError{exitUnknown, fmt.Errorf("whether operation %s took effect is unknown yet (%s): %s. To find out, go on; it is the same operation:\n  %s",
		name, stopped(err), why, sendLine(o.cmd, e))}
}

// stopped says why the sending ended.
func stopped(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "--retry-for is over"
	}
	return "it was interrupted"
}

func (o *sendOptions) print(a *outbox.Answer) error {
	var b bytes.Buffer
	if o.include {
		fmt.Fprintf(&b, "HTTP %s\r\n", strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status))))
		_ = a.Header.Write(&b) // a buffer never fails
		b.WriteString("\r\n")
	}
	b.Write(a.Body)
	if o.output != "" && o.output != "-" {
		return os.WriteFile(o.output, b.Bytes(), 0o666)
	}
	_, err := io.Copy(o.cmd.OutOrStdout(), &b)
	return err
}
