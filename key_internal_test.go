package ichido

import (
	"strconv"
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	long := strings.Repeat("k", 255)
	for _, c := range []struct{ line, want string }{
		{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`, "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		{`8e03978e-40d5-43dd-bc93-6894a57f9324`, "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		{`k`, "k"},
		{" \t\"k\"\t ", "k"},
		{"\t k \t", "k"},
		{`"two words"`, "two words"},
		{`" "`, " "},
		{`"a,b;c=d"`, "a,b;c=d"},
		{`"say \"once\""`, `say "once"`},
		{`"back\\slash"`, `back\slash`},
		{`"\\"`, `\`},
		{`back\slash`, `back\slash`}, // without quotes there is nothing to escape
		{`a=b:c/d+e?f`, "a=b:c/d+e?f"},
		{`"k";v=1`, "k"},
		{`"k";v=1;w`, "k"},
		{`"k" ; v=1`, "k"},
		{`"k" `, "k"},
		{long, long},
		{`"` + long + `"`, long},
		{`"` + strings.Repeat(`\"`, 255) + `"`, strings.Repeat(`"`, 255)},
		{"!~", "!~"},
		{`"!~"`, "!~"},
	} {
		got, err := keyIn([]string{c.line})
		if err != nil || got != c.want {
			t.Errorf("parseKey(%q) = %q, %v; want %q", c.line, got, err, c.want)
		}
	}
}

func TestParseKeyRefuses(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{``, "The key is empty"},
		{" \t ", "The key is empty"},
		{`""`, "The key is empty"},
		{strings.Repeat("k", 256), "has 256 characters; at most 255"},
		{`"` + strings.Repeat("k", 256) + `"`, "has 256 characters; at most 255"},
		{`a,b`, "At character 2: a comma"},
		{`"a", "b"`, "At character 4: something follows"},
		{`"a" "b"`, "At character 4: something follows"},
		{`"a"b`, "At character 4: something follows"},
		{`"a";v=1, "b"`, "At character 4: something follows"},
		{`"`, "At character 2: the closing quote"},
		{`"abc`, "At character 5: the closing quote"},
		{`"abc\"`, "At character 7: the closing quote"},
		{`"ab\`, "At character 4: a backslash"},
		{`"a\n"`, "At character 3: a backslash"},
		{`a"b`, "At character 2: a quote"},
		{`two words`, "At character 4: "},
		{"a\tb", "At character 2: "},
		{"\"a\tb\"", "At character 3: "},
		{"a\x00b", "At character 2: "},
		{"\"a\x00b\"", "At character 3: "},
		{"a\x7f", "At character 2: "},
		{"\"a\x7f\"", "At character 3: "},
		{"予約", "At character 1: "},
		{`"予約"`, "At character 2: "},
		{"caf\xe9", "At character 4: "},
	} {
		got, err := keyIn([]string{c.line})
		switch {
		case err == nil:
			t.Errorf("parseKey(%q) = %q, want an error", c.line, got)
		case got != "" || !strings.Contains(err.Error(), c.want):
			t.Errorf("parseKey(%q) = %q, %v; want %q", c.line, got, err, c.want)
		}
	}
}

func TestParseKeyRefusesTwoLines(t *testing.T) {
	for _, lines := range [][]string{{"a", "b"}, {"a", "a"}, {`"a"`, ""}} {
		if key, err := keyIn(lines); err == nil || !strings.Contains(err.Error(), "2 times") {
			t.Errorf("parseKey(%q) = %q, %v; want an error", lines, key, err)
		}
	}
}

// A comma separates keys only outside of strings; a parameter's value may be one (RFC 9651, section 3.1.2).
func TestParametersMayHoldCommasInStrings(t *testing.T) {
	if key, err := keyIn([]string{`"k";note="a, b"`}); err != nil || key != "k" {
		t.Errorf(`parseKey = %q, %v; want "k"`, key, err)
	}
}

// Clients that send keys bare do not know of parameters. If all from the semicolon on were dropped, two operations
// would have one key, and the second would be answered by the first one's record without being done.
func TestBareKeysThatDifferAfterASemicolonAreNotOne(t *testing.T) {
	a, errA := keyIn([]string{"order;1"})
	b, errB := keyIn([]string{"order;2"})
	if errA == nil && errB == nil && a == b {
		t.Errorf("order;1 and order;2 are both the key %q", a)
	}
}

func FuzzParseKey(f *testing.F) {
	for _, line := range []string{``, `"`, `""`, `"k"`, `k`, `"a\"b\\c"`, `"k";v="x"`, `k;v`, "a,b", "予約", "\"\x00\"", `"a\`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, err := keyIn([]string{line})
		if err != nil {
			if key != "" {
				t.Errorf("parseKey(%q) = %q with the error %v", line, key, err)
			}
			if rest, ok := strings.CutPrefix(err.Error(), "At character "); ok {
				position, _, _ := strings.Cut(rest, ":")
				if n, err := strconv.Atoi(position); err != nil || n < 1 || n > len(line)+1 {
					t.Errorf("parseKey(%q) names the character %s", line, position)
				}
			}
			return
		}
		if key == "" || len(key) > maxKeyLength {
			t.Errorf("parseKey(%q) has %d bytes", line, len(key))
		}
		for i := range len(key) {
			if key[i] < 0x20 || key[i] > 0x7e {
				t.Errorf("parseKey(%q) = %q, with a byte %#x", line, key, key[i])
			}
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := keyIn([]string{quoted}); err != nil || again != key {
			t.Errorf("parseKey(%q) = %q, but quoted again it is %q, %v", line, key, again, err)
		}
	})
}

// keyIn is the key in the lines of the field under the default Config.
func keyIn(lines []string) (string, error) {
	var format KeyFormat
	if err := format.fill(); err != nil {
		panic(err)
	}
	key, err := parseKey(lines, false)
	if err == nil {
		err = format.check(key)
	}
	if err != nil {
		return "", err
	}
	return key, nil
}
