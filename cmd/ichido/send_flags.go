package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ichido-dev/ichido/client"
	"github.com/spf13/pflag"
)

// sendTargets are the words of --target.
var sendTargets = []struct {
	word   string
	target client.Target
}{
	{"ichido", client.Ichido}, {"draft-07", client.Draft07}, {"stripe", client.Stripe}, {"paypal", client.PayPal}, {"adyen", client.Adyen},
	{"square", client.Square}, {"gocardless", client.GoCardless}, {"payjp", client.PayJP}, {"komoju", client.KOMOJU}, {"line", client.LINE},
	{"mangopay", client.Mangopay}, {"amazonpay", client.AmazonPay}, {"oasis", client.OASIS},
}

func targetWords() (words []string) {
	for _, t := range sendTargets {
		words = append(words, t.word)
	}
	return words
}

// A dataPart is what one of -d, --data-binary and --json gives to the body.
type dataPart struct {
	text string
	kind string // the name of the flag
}

// dataFlag is the value of a flag that gives data. All of them fill one list, since their order counts.
type dataFlag struct {
	parts *[]dataPart
	kind  string
}

var _ pflag.Value = dataFlag{}

func (f dataFlag) String() string { return "" }

func (f dataFlag) Set(text string) error {
	*f.parts = append(*f.parts, dataPart{text, f.kind})
	return nil
}

func (f dataFlag) Type() string { return "data" }

// body puts the parts together as curl does: with & between them, but not between those of --json. @ is for files; -d leaves
// their line ends out.
func body(parts []dataPart, stdin io.Reader) ([]byte, error) {
	var all []byte
	for i, p := range parts {
		data := []byte(p.text)
		if name, ok := strings.CutPrefix(p.text, "@"); ok {
			var err error
			if data, err = readFile(name, stdin); err != nil {
				return nil, fmt.Errorf("--%s: %w", p.kind, err)
			}
			if p.kind == "data" {
				data = []byte(strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(string(data)))
			}
		}
		if i > 0 && p.kind != "json" {
			all = append(all, '&')
		}
		all = append(all, data...)
	}
	return all, nil
}

// readFile reads a file, - for standard input.
func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}

// headerFields reads the fields of -H: 'Name: value', or @file with one on each line.
func headerFields(lines []string, stdin io.Reader) (http.Header, error) {
	h := make(http.Header)
	for _, text := range lines {
		if name, ok := strings.CutPrefix(text, "@"); ok {
			data, err := readFile(name, stdin)
			if err != nil {
				return nil, fmt.Errorf("--header: %w", err)
			}
			text = string(data)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			name, value, ok := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			switch {
			case strings.TrimSpace(line) == "":
			case !ok || name == "" || value == "": // it may be a secret; do not repeat it
				return nil, errors.New("--header: write each field like 'Name: value'")
			default:
				h.Add(name, value)
			}
		}
	}
	return h, nil
}

// secondsFlag is the value of a flag that is a length of time, longer than 0. As in curl a bare number is seconds.
type secondsFlag struct{ durationFlag }

func (f secondsFlag) Set(text string) error {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds < float64(1<<31) {
		text = time.Duration(seconds * float64(time.Second)).String()
	}
	return f.durationFlag.Set(text)
}
