package openapi

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/ichido-dev/ichido"
)

// parameter returns the Parameter Object of the key.
func parameter(p ichido.KeyPolicy) object {
	out := object{
		"name":        p.Header,
		"in":          "header",
		"required":    p.Required,
		"description": describeKey(p),
		"schema":      keySchema(p.Key),
	}
	if key := exampleKey(p.Key); key != "" {
		out["example"] = `"` + key + `"`
	}
	return out
}

// What a key consists of, within double quotes (RFC 9651, String) and without.
const (
	quotedPattern = `"(?:[ !#-\[\]-~]|\\["\\])+"`
	barePattern   = `[!#-+\--:<-~]+`
)

// keySchema returns the schema of the field's value as it is sent, which includes the quotes: that is what gateways and
// generated clients compare with it.
func keySchema(k ichido.KeyRules) object {
	minLength, maxLength := k.MinLength, k.MaxLength+len(`""`)
	if k.Quotes == "required" {
		minLength += len(`""`)
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(k.Pattern, "^"), "$")
	var pattern string
	switch required := k.Quotes == "required"; {
	case inner == "" && required:
		pattern = quotedPattern
	case inner == "":
		pattern = "(?:" + quotedPattern + "|" + barePattern + ")"
	case required:
		pattern = `"` + inner + `"`
	default:
		pattern = `"?` + inner + `"?`
	}
	return object{"type": "string", "minLength": minLength, "maxLength": maxLength, "pattern": "^" + pattern + "$"}
}

// exampleKey returns a key that the rules accept, or "" if none is found.
func exampleKey(k ichido.KeyRules) string {
	const digits = "8e03978e40d543ddbc936894a57f9324"
	pattern, err := regexp.Compile(k.Pattern)
	if err != nil {
		return ""
	}
	long := strings.Repeat(digits, k.MaxLength/len(digits)+1)
	for _, key := range []string{
		"8e03978e-40d5-43dd-bc93-6894a57f9324", // a UUID
		"01ARZ3NDEKTSV4RRFFQ69G5FAV",           // a ULID
		digits, strings.ToUpper(digits),
		long[:k.MinLength], long[:k.MaxLength], strings.Repeat("1", k.MinLength),
	} {
		if len(key) >= k.MinLength && len(key) <= k.MaxLength && pattern.MatchString(key) {
			return key
		}
	}
	return ""
}

// describeKey tells people what the key is for, its form, its scope and its retention.
func describeKey(p ichido.KeyPolicy) string {
	var b strings.Builder
	b.WriteString("Names the operation: make one key for each operation and send it, unchanged, with every try. However often " +
		"the request is sent with its key, it takes effect once at most.")
	if p.Stored.Statuses == "below 400" {
		b.WriteString(" An answer below 400 is kept")
	} else {
		b.WriteString(" An answer that settles the operation is kept")
	}
	b.WriteString(", and later tries get it as a replay (`" + p.ReplayMarker + ": true`); any other leaves nothing, and its key is free.")
	if !p.Required {
		b.WriteString(" A request without a key is not protected.")
	}
	b.WriteString("\n\nForm: " + length(p.Key))
	if p.Key.Format != "" {
		b.WriteString(", " + p.Key.Format)
	}
	if p.Key.Quotes == "required" {
		b.WriteString(", in double quotes.")
	} else {
		b.WriteString(", in double quotes or without; both are the same key.")
	}
	if p.Scope == "principal" {
		b.WriteString("\n\nScope: a key is unique for its principal over all routes.")
	} else {
		b.WriteString("\n\nScope: a key is unique for its principal on one route.")
	}
	fmt.Fprintf(&b, "\n\nRetention: %s (%s). After that the key is a new operation, so stop sending it well before.", period(p.RetentionSeconds), p.Retention)
	if p.InProgress.Policy == "wait" {
		fmt.Fprintf(&b, "\n\nWhile an attempt is in progress, a request with its key waits for the answer, up to %s, and then gets %d.",
			period(p.InProgress.WaitLimitSeconds), p.InProgress.Status)
	} else {
		fmt.Fprintf(&b, "\n\nWhile an attempt is in progress, a request with its key gets %d.", p.InProgress.Status)
	}
	fmt.Fprintf(&b, " Another request under the same key gets %d.", p.Mismatch.Status)
	return b.String()
}

func length(k ichido.KeyRules) string {
	if k.MinLength == k.MaxLength {
		return fmt.Sprintf("%d ASCII characters", k.MinLength)
	}
	return fmt.Sprintf("%d to %d ASCII characters", k.MinLength, k.MaxLength)
}

// period writes seconds as people say it.
func period(seconds float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"day", 86400}, {"hour", 3600}, {"minute", 60}} {
		n := seconds / unit.seconds
		if n == float64(int64(n)) && n >= 1 && (n > 1 || unit.name != "day") {
			return plural(n, unit.name)
		}
	}
	return plural(seconds, "second")
}

func plural(n float64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return strconv.FormatFloat(n, 'f', -1, 64) + " " + unit + "s"
}
