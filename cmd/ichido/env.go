package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// variableOf is the annotation of a flag that names its environment variable.
const variableOf = "ichido_variable"

// bindVariable lets a flag also be set by an environment variable, and says so in its help.
func bindVariable(cmd *cobra.Command, flag, variable string) {
	f := cmd.Flags().Lookup(flag)
	f.Usage += " [$" + variable + "]"
	if f.Annotations == nil {
		f.Annotations = make(map[string][]string)
	}
	f.Annotations[variableOf] = []string{variable}
}

// readVariables sets the flags that the command line left alone from their variables. An empty variable counts as unset.
func readVariables(flags *pflag.FlagSet) error {
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		variable := f.Annotations[variableOf]
		if failed != nil || f.Changed || len(variable) == 0 {
			return
		}
		value := os.Getenv(variable[0])
		if value == "" {
			return
		}
		if err := f.Value.Set(value); err != nil {
			failed = usageError(fmt.Errorf("environment variable %s: %q: %w", variable[0], value, err))
		}
	})
	return failed
}
