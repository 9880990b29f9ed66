package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// addDatabaseFlag adds --db, which names the database.
func addDatabaseFlag(cmd *cobra.Command, location *string) {
	cmd.Flags().StringVar(location, "db", "ichido.db", "database: postgres://… or the `path` of a SQLite file")
	bindVariable(cmd, "db", "DATABASE_URL")
}

// durationFlag is the value of a flag that is a length of time.
type durationFlag struct {
	value   *time.Duration
	zeroToo bool // 0 has a meaning
}

var _ pflag.Value = durationFlag{}

func (d durationFlag) String() string {
	if d.value == nil || *d.value == 0 && !d.zeroToo {
		return ""
	}
	return short(*d.value)
}

func (d durationFlag) Set(text string) error {
	value, err := parseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("write it like 500ms, 30s, 24h or 7d")
	case value < 0 || value == 0 && !d.zeroToo:
		if d.zeroToo {
			return fmt.Errorf("it must not be negative")
		}
		return fmt.Errorf("it must be longer than 0")
	}
	*d.value = value
	return nil
}

// parseDuration is time.ParseDuration with days: 7d, 1d12h.
func parseDuration(text string) (time.Duration, error) {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16) // so many that they do not overflow
	if err != nil {
		return 0, err
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err == nil && (more < 0 || more >= 24*time.Hour) {
		err = strconv.ErrRange
	}
	return d + more, err
}

func (d durationFlag) Type() string { return "duration" }

// addDuration adds a flag that is a length of time, longer than 0.
func addDuration(cmd *cobra.Command, p *time.Duration, name, variable string, value time.Duration, usage string) {
	*p = value
	cmd.Flags().Var(durationFlag{value: p}, name, usage)
	bindVariable(cmd, name, variable)
}

// addDurationOrZero adds a flag that is a length of time, or 0.
func addDurationOrZero(cmd *cobra.Command, p *time.Duration, name, variable string, value time.Duration, usage string) {
	*p = value
	cmd.Flags().Var(durationFlag{value: p, zeroToo: true}, name, usage)
	bindVariable(cmd, name, variable)
}

// short writes a duration as people do: 24h, not 24h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// secretFlag is the value of a flag that is a secret. It refuses nothing, since the errors of flags repeat the value.
type secretFlag struct{ value *string }

var _ pflag.Value = secretFlag{}

func (s secretFlag) String() string { return "" } // not to be printed

func (s secretFlag) Set(text string) error {
	*s.value = text
	return nil
}

func (s secretFlag) Type() string { return "secret" }

// choiceFlag is the value of a flag that is one of a few words.
type choiceFlag struct {
	value *string
	words []string
}

var _ pflag.Value = choiceFlag{}

func (c choiceFlag) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

func (c choiceFlag) Set(text string) error {
	if !slices.Contains(c.words, text) {
		return fmt.Errorf("it must be %s", strings.Join(c.words, " or "))
	}
	*c.value = text
	return nil
}

func (c choiceFlag) Type() string { return strings.Join(c.words, "|") }

// addChoice adds a flag that is one of a few words, the first if it is not given.
func addChoice(cmd *cobra.Command, p *string, name, variable, usage string, words ...string) {
	*p = words[0]
	cmd.Flags().Var(choiceFlag{p, words}, name, usage)
	bindVariable(cmd, name, variable)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that is not there
}
