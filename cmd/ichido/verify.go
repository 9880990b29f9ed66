package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/ichido-dev/ichido/conformance"
	"github.com/spf13/cobra"
)

// exitNotRun is verify's code for a server that could not be graded.
const exitNotRun = 3

type verifyOptions struct {
	conformance.Options
	api           string // a preset or a file
	levels        []string
	scenarios     []string
	token, other  string
	crash         string
	asJSON        bool
	junit, html   string
	lang          string
	allowUntested bool
}

func newVerifyCommand() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify URL",
		Short: "Grade how a server treats idempotency keys",
		Long: `verify sends requests to the server at URL, once, twice and many at once, breaks the rules, and counts by what the
server itself shows what was really made. It leaves that there, under names that begin with "verify-". The server may be
of any make: --api says how its API looks, by the name of a preset (` + strings.Join(conformance.Presets, ", ") + `) or by a file, which
"ichido verify init" writes. docs/verify.md explains both.

It prints a table: a line for each scenario, and below one that is broken what was expected, what came, and the command
that reproduces it. "differs" is what an API may choose, "not testable" what could not be seen, and why. --json, --junit
and --html print the same for others.

Exit codes: 0 all held, or differs by choice, 1 a promise is broken, 2 the command was not understood, 3 it could not be
graded (the server cannot be reached, or something could not be tested and nothing is broken).`,
		Example: `  ichido verify http://localhost:8080
  ichido verify http://localhost:8080 --level core,robust --json | jq '.results[] | select(.verdict != "held")'
  TOKEN_A=… TOKEN_B=… ichido verify https://shop.example --api shop.yaml --level all --html report.html
  ichido verify http://localhost:8080 --level crash --crash 'docker kill shop; docker start shop'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return verify(cmd, args[0], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.api, "api", "ichido", "what the API looks like: a preset or the `file` of a description")
	f.StringSliceVar(&o.levels, "level", nil, "run these `levels`: core, robust, published, crash, or all (default core,published)")
	f.StringSliceVar(&o.scenarios, "scenario", nil, "run these `ids` instead, or besides --level")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Second, "how long one request may take")
	f.IntVar(&o.Concurrency, "concurrency", 10, "how many requests \"at once\" means, from 2 to 500")
	f.StringVar(&o.token, "token", "", "`secret` to send with every request, as Authorization: Bearer")
	bindVariable(cmd, "token", "ICHIDO_TOKEN")
	f.StringVar(&o.other, "other-token", "", "`secret` of another user, for the scenarios of two")
	bindVariable(cmd, "other-token", "ICHIDO_OTHER_TOKEN")
	f.StringVar(&o.crash, "crash", "", "shell `command` that kills the server and starts it again, for the level crash")
	f.DurationVar(&o.Recovery, "recovery", time.Minute, "how long after a crash a key may be refused as in progress")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.StringVar(&o.junit, "junit", "", "write JUnit XML to this `file`, too")
	f.StringVar(&o.html, "html", "", "write a page that needs no other to this `file`, too")
	addChoice(cmd, &o.lang, "lang", "ICHIDO_LANG", "language of the page", "en", "ja")
	f.BoolVar(&o.allowUntested, "allow-untested", false, "exit with 0 although something could not be tested")
	cmd.AddCommand(newVerifyInitCommand(), newVerifyScenariosCommand())
	return cmd
}

func verify(cmd *cobra.Command, url string, o verifyOptions) error {
	if err := o.prepare(cmd.ErrOrStderr()); err != nil {
		return usageError(err)
	}
	report, err := conformance.Run(cmd.Context(), url, &o.Options)
	switch {
	case errors.Is(err, conformance.ErrInvalid):
		return usageError(err)
	case err != nil:
		return &exitError{exitNotRun, err}
	}
	if err := o.print(cmd.OutOrStdout(), report); err != nil {
		return &exitError{exitNotRun, err} // not that of a broken promise
	}
	return o.verdict(report)
}

// prepare makes the options of the run from the flags.
func (o *verifyOptions) prepare(stderr io.Writer) error {
	switch {
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout is %s; it must be longer than 0", o.Timeout)
	case o.Recovery <= 0:
		return fmt.Errorf("--recovery is %s; it must be longer than 0", o.Recovery)
	case o.Concurrency < 2 || o.Concurrency > 500:
		return fmt.Errorf("--concurrency is %d; it must be from 2 to 500", o.Concurrency)
	case o.other != "" && o.token == "":
		return errors.New("--other-token is that of another user than --token, which is missing")
	}
	api, err := readDescription(o.api)
	if err != nil {
		return err
	}
	o.API = api
	o.setTokens()
	for _, level := range o.levels {
		if level == "all" {
			o.Levels = conformance.Levels
			break
		}
		o.Levels = append(o.Levels, conformance.Level(level))
	}
	o.Scenarios = o.scenarios
	if o.crash != "" {
		o.Crash = func(ctx context.Context) error { return runCrash(ctx, o.crash) }
	}
	if isTerminal(stderr) && !o.asJSON {
		o.Progress = func(r conformance.Result) { fmt.Fprintf(stderr, "%-13s %s\n", r.Verdict, r.ID) }
	}
	return nil
}

// runCrash runs the command of --crash. Its output goes to a file and not through a pipe: a server that it started in the
// background has the same output, and keeps it for as long as it lives.
func runCrash(ctx context.Context, command string) error {
	out, err := os.CreateTemp("", "ichido-crash-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		const most = 1000 // bytes
		said := make([]byte, most)
		n, _ := out.ReadAt(said, 0)
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(said[:n])))
	}
	return nil
}

// setTokens makes principals of the tokens, in reports as $TOKEN_A and $TOKEN_B.
func (o *verifyOptions) setTokens() {
	secrets := map[string]string{}
	var principals []conformance.Principal
	for i, secret := range []string{o.token, o.other} {
		if secret != "" {
			name := "TOKEN_" + string(rune('A'+i))
			secrets[name] = secret
			principals = append(principals, conformance.Principal{Headers: map[string]string{"Authorization": "Bearer $" + name}})
		}
	}
	if principals != nil {
		o.API.Principals = principals
	}
	o.Getenv = func(name string) string {
		if secret, ok := secrets[name]; ok {
			return secret
		}
		return os.Getenv(name)
	}
}

// print prints the report, and only then writes the files: the run must not be lost with one that cannot be written.
func (o *verifyOptions) print(stdout io.Writer, report *conformance.Report) error {
	if err := o.printReport(stdout, report); err != nil {
		return err
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{o.junit, report.WriteJUnit},
		{o.html, func(w io.Writer) error { return report.WriteHTML(w, o.lang) }},
	} {
		if file.name == "" {
			continue
		}
		if err := writeFile(file.name, file.write); err != nil {
			return err
		}
	}
	return nil
}

func (o *verifyOptions) printReport(stdout io.Writer, report *conformance.Report) error {
	if o.asJSON {
		return printJSON(stdout, report)
	}
	return report.WriteTable(stdout, isTerminal(stdout) && os.Getenv("NO_COLOR") == "")
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// verdict is the error of a report that is not all held.
func (o *verifyOptions) verdict(report *conformance.Report) error {
	if n := report.Broken(); n > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d of %d scenarios are broken", n, len(report.Results))}
	}
	n := report.Count(conformance.NotTestable)
	if n == len(report.Results) { // a wrong URL, say: --allow-untested is not for that
		return &exitError{exitNotRun, fmt.Errorf("none of %d scenarios could be tested; of the first: %s", n, report.Results[0].Got)}
	}
	if n > 0 && !o.allowUntested {
		return &exitError{exitNotRun, fmt.Errorf("nothing is broken, but %d of %d scenarios could not be tested; "+
			"--allow-untested takes that for good", n, len(report.Results))}
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
