package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/ichido-dev/ichido/conformance"
	"github.com/spf13/cobra"
)

// exitNotRun is verify's code for a server that could not be graded.
const exitNotRun = 3

func newVerifyCommand() *cobra.Command {
	var o conformance.Options
	var asJSON bool
	var token string
	cmd := &cobra.Command{
		Use:   "verify URL",
		Short: "Grade how a server treats idempotency keys",
		Long: `verify sends reservations to the server at URL, once, twice and ten at once, breaks the rules, and counts by the
server's own list what was really made. It leaves its reservations there, under item codes that begin with "verify-".

It prints a table: a line for each scenario, and below a broken one what was expected, what came, and the command that
reproduces it. With --json it prints the report as JSON; its members are documented with the package conformance.

Exit codes: 0 every promise held, 1 a promise is broken, 2 the command was not understood, 3 it could not be graded (the
server cannot be reached, or something could not be tested and nothing is broken).`,
		Example: `  ichido verify http://localhost:8080
  ichido verify http://localhost:8080 --json | jq '.results[] | select(.verdict != "held")'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkVerify(o); err != nil {
				return usageError(err)
			}
			if stderr := cmd.ErrOrStderr(); isTerminal(stderr) && !asJSON {
				o.Progress = func(r conformance.Result) { fmt.Fprintf(stderr, "%s: %s\n", r.ID, r.Verdict) }
			}
			if token != "" {
				o.Client = &http.Client{Transport: tokenTransport{token, &http.Transport{DisableKeepAlives: true}}, CheckRedirect: keepRedirect}
			}
			report, err := conformance.Run(cmd.Context(), args[0], &o)
			switch {
			case errors.Is(err, conformance.ErrInvalid):
				return usageError(err)
			case err != nil:
				return &exitError{exitNotRun, err}
			}
			if err := printReport(cmd.OutOrStdout(), report, asJSON); err != nil {
				return err
			}
			return verdict(report)
		},
	}
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 30*time.Second, "how long one request may take")
	cmd.Flags().IntVar(&o.Concurrency, "concurrency", 10, "how many requests \"at once\" means, from 2 to 500")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&token, "token", "", "`secret` to send with every request, as Authorization: Bearer")
	bindVariable(cmd, "token", "ICHIDO_TOKEN")
	return cmd
}

// A tokenTransport adds a token to every request. Connections are not used again, as conformance has it by default.
type tokenTransport struct {
	token string
	next  http.RoundTripper
}

func (b tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// keepRedirect makes a redirect the answer: a token must not follow it.
func keepRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func checkVerify(o conformance.Options) error {
	switch {
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout is %s; it must be longer than 0", o.Timeout)
	case o.Concurrency < 2 || o.Concurrency > 500:
		return fmt.Errorf("--concurrency is %d; it must be from 2 to 500", o.Concurrency)
	}
	return nil
}

func printReport(stdout io.Writer, report *conformance.Report, asJSON bool) error {
	if asJSON {
		return printJSON(stdout, report)
	}
	return report.WriteTable(stdout, isTerminal(stdout) && os.Getenv("NO_COLOR") == "")
}

// verdict is the error of a report that is not all held.
func verdict(report *conformance.Report) error {
	if n := report.Broken(); n > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d of %d scenarios are broken", n, len(report.Results))}
	}
	if !report.Held() {
		return &exitError{exitNotRun, errors.New("nothing is broken, but not everything could be tested")}
	}
	return nil
}

func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
