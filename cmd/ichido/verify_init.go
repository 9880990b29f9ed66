package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ichido-dev/ichido/conformance"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

type verifyInitOptions struct {
	preset    string
	openAPI   string // a file
	operation string // "POST /orders"
	out       string
}

func newVerifyInitCommand() *cobra.Command {
	var o verifyInitOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write the description of an API, for verify --api",
		Long: `init writes a description to standard output, or to the file of --out, which must not be there yet. It reads an OpenAPI
document (JSON or YAML, 3.x), or asks; Enter takes the answer that is in brackets. What it writes is a beginning: look
through it, above all at how effects are counted.

` + exitCodes,
		Example: `  ichido verify init --out shop.yaml
  ichido verify init --openapi openapi.json --operation "POST /orders" --out shop.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := o.describe(cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			text, err := d.text()
			if err != nil {
				return err
			}
			if o.out == "" {
				_, err := io.WriteString(cmd.OutOrStdout(), text)
				return err
			}
			f, err := os.OpenFile(o.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(f, text); err != nil {
				_ = f.Close()
				return err
			}
			return f.Close()
		},
	}
	o.preset = "draft-07"
	cmd.Flags().Var(choiceFlag{&o.preset, conformance.Presets}, "preset", "what to begin with")
	cmd.Flags().StringVar(&o.openAPI, "openapi", "", "`file` of an OpenAPI document to read instead of asking")
	cmd.Flags().StringVar(&o.operation, "operation", "", "`operation` of the document, as \"POST /orders\"; default the only one with a key")
	cmd.Flags().StringVar(&o.out, "out", "", "`file` to write")
	return cmd
}

func (o verifyInitOptions) describe(stdin io.Reader, stderr io.Writer) (*description, error) {
	d := &description{}
	d.API, _ = conformance.Preset(o.preset)
	d.Name = ""
	if o.openAPI == "" {
		return d, ask(d, stdin, stderr)
	}
	text, err := os.ReadFile(o.openAPI)
	if err != nil {
		return nil, err
	}
	notes, err := fromOpenAPI(d, text, o.operation)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.openAPI, err)
	}
	for _, note := range notes {
		fmt.Fprintln(stderr, note)
	}
	return d, nil
}

// A question asks for one member of a description.
type question struct {
	text  string
	value *string
}

// ask asks on stderr and reads the answers. At the end of the input the rest stays as it is.
func ask(d *description, stdin io.Reader, stderr io.Writer) error {
	contentType := d.Request.Headers["Content-Type"]
	d.Effects.NewestFirst = false // it is not asked; where it is wrong, what is new would not be seen
	questions := []question{
		{"Name of the API", &d.Name},
		{"Path of the request that makes something", &d.Request.Path},
		{"Content-Type", &contentType},
		{"Its body; {item} is a word that is new in each scenario, {quantity} a number", &d.Request.Body},
		{"A body that must fail (- for none)", &d.Request.Invalid},
		{"Header of the key", &d.Key.Header},
		{"Form of the key, quoted or bare", &d.Key.Form},
		{"Header that marks a replay (- for none)", &d.Key.Marker},
		{"Path of a GET that shows what was made (- for none)", &d.Effects.Get},
		{"JSON pointer in its answer to the list, or to a number", &d.Effects.At},
		{"JSON pointer in an element to {item} (- for none)", &d.Effects.Where},
		{"JSON pointer in an element to its id (- for none)", &d.Effects.ID},
		{"JSON pointer in the answer to the address of the next page (- for none)", &d.Effects.Next},
		{"JSON pointer in the answer to a request to the id of what was made (- for none)", &d.Effects.Answer},
		{"Path of the document with the rules for keys (- for none)", &d.Policy},
	}
	if d.Key.Header == "" {
		d.Key.Header = "Idempotency-Key"
	}
	if d.Key.Form == "" {
		d.Key.Form = "quoted"
	}
	lines := bufio.NewReader(stdin)
	for _, q := range questions {
		fmt.Fprintf(stderr, "%s [%s]: ", q.text, *q.value)
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		switch line = strings.TrimSpace(line); line {
		case "":
		case "-":
			*q.value = ""
		default:
			*q.value = line
		}
	}
	fmt.Fprintln(stderr)
	d.Request.Headers = map[string]string{"Content-Type": contentType}
	return nil
}

// text writes the description as YAML, without what is not said.
func (d *description) text() (string, error) {
	var node yaml.Node
	if err := node.Encode(d); err != nil {
		return "", err
	}
	prune(&node)
	out, err := yaml.Marshal(&node)
	if err != nil {
		return "", err
	}
	return "# What ichido verify needs to know of an API; docs/verify.md explains each member.\n" + string(out), nil
}

// prune removes the members of a mapping that are empty, and reports whether the node is.
func prune(node *yaml.Node) (empty bool) {
	switch node.Kind {
	case yaml.MappingNode:
		var kept []*yaml.Node
		for i := 0; i < len(node.Content); i += 2 {
			if !prune(node.Content[i+1]) {
				kept = append(kept, node.Content[i], node.Content[i+1])
			}
		}
		node.Content = kept
		return len(kept) == 0
	case yaml.SequenceNode:
		return len(node.Content) == 0
	}
	return node.Value == "" || node.Tag == "!!null" || node.Tag == "!!bool" && node.Value == "false"
}
