package conformance

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// A secret is a value that reports must not have. They have its variable instead.
type secret struct {
	value, variable string // variable as a shell has it, "$TOKEN_A"
}

// expand replaces the variables that header values name, and notes as secrets what comes from them, and all else that
// principals send.
func (r *runner) expand(getenv func(string) string) error {
	var wrong []error
	value := func(text string) string {
		return os.Expand(text, func(name string) string {
			v := getenv(name)
			if v == "" {
				wrong = append(wrong, fmt.Errorf("the environment variable %s, which it names, is not set", name))
			}
			r.hide(v, "$"+name)
			return v
		})
	}
	for name, text := range r.api.Request.Headers {
		r.api.Request.Headers[name] = value(text)
	}
	principals := slices.Clone(r.api.Principals)
	for i := range principals {
		principals[i].Headers = maps.Clone(principals[i].Headers)
		for name, text := range principals[i].Headers {
			v := value(text)
			principals[i].Headers[name] = v
			if v == text {
				r.hide(v, "$TOKEN_"+string(rune('A'+i)))
			}
		}
	}
	r.api.Principals = principals
	if len(principals) == 2 && maps.Equal(principals[0].Headers, principals[1].Headers) {
		wrong = append(wrong, errors.New("the two principals send the same, so they are one"))
	}
	return errors.Join(wrong...)
}

func (r *runner) hide(value, variable string) {
	if value != "" {
		r.secrets = append(r.secrets, secret{value, variable})
		// The longest first, since one may be a part of another.
		slices.SortStableFunc(r.secrets, func(a, b secret) int { return len(b.value) - len(a.value) })
	}
}

// redact replaces every secret by its variable.
func (r *runner) redact(text string) string {
	for _, s := range r.secrets {
		text = strings.ReplaceAll(text, s.value, s.variable)
	}
	return text
}
