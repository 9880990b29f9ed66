package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/ichido-dev/ichido/conformance"
	"github.com/spf13/cobra"
)

func newVerifyScenariosCommand() *cobra.Command {
	var asJSON bool
	var lang string
	cmd := &cobra.Command{
		Use:   "scenarios",
		Short: "List what verify tests, and who asks for it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), listScenarios(lang))
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, s := range listScenarios(lang) {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.ID, s.Level, s.Source, s.Title)
				fmt.Fprintf(w, "\t\t\t  %s\n", s.Expected)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	addChoice(cmd, &lang, "lang", "ICHIDO_LANG", "language of the titles", "en", "ja")
	return cmd
}

// A listedScenario is what "scenarios" prints of one.
type listedScenario struct {
	ID       string            `json:"id"`
	Level    conformance.Level `json:"level"`
	Promise  string            `json:"promise"`
	Source   string            `json:"source"`
	Title    string            `json:"title"`
	Expected string            `json:"expected"`
}

func listScenarios(lang string) []listedScenario {
	var out []listedScenario
	for _, s := range conformance.Scenarios() {
		out = append(out, listedScenario{s.ID, s.Level, s.Promise, s.Source, s.Title.In(lang), s.Expected.In(lang)})
	}
	return out
}
