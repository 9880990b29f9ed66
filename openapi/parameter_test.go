package openapi_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
	"github.com/ichido-dev/ichido/openapi"
)

// The schema of the field accepts what the server accepts, with quotes or without, and nothing that it refuses for its
// characters or form.
func TestSchemaAgreesWithServer(t *testing.T) {
	values := []string{
		`k`, `"k"`, `k k`, `"k k"`, `k,k`, `"k,k"`, `k;k`, `"k;k"`, `"k`, `k"`, `"a\"b"`, `"a\\b"`, `"a\b"`, `"a"b"`,
		`"é"`, `é`, `""`, `:`, `-`, `+`, `<~!`, `"[]"`, `[]`, `\`,
		`8e03978e-40d5-43dd-bc93-6894a57f9324`, `"8e03978e-40d5-43dd-bc93-6894a57f9324"`, `"8e03978e40d543ddbc936894a57f9324"`,
		"a", "b", `"a"`, `"b"`, "ab", strings.Repeat("k", 255), `"` + strings.Repeat("k", 255) + `"`, `"` + strings.Repeat("k", 256) + `"`,
	}
	for name, config := range map[string]ichido.Config{
		"default":     {},
		"strict":      {StrictKeys: true},
		"uuid":        {KeyFormat: ichido.UUIDKeys},
		"strict uuid": {KeyFormat: ichido.UUIDKeys, StrictKeys: true},
		"a or b":      {KeyFormat: ichido.KeyFormat{Pattern: "^a|b$"}},
	} {
		m, err := ichido.New(memstore.New(nil), ichido.Shared, &config)
		if err != nil {
			t.Fatal(err)
		}
		schema := at(openapi.Components(m.KeyPolicy()), "parameters", "IdempotencyKey", "schema").(map[string]any)
		pattern := regexp.MustCompile(schema["pattern"].(string))
		h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
		for _, value := range values {
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Header["Idempotency-Key"] = []string{value}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if value == "k;k" {
				continue // a parameter, which the server ignores and the schema does not describe
			}
			n := len(value)
			accepts := n >= schema["minLength"].(int) && n <= schema["maxLength"].(int) && pattern.MatchString(value)
			if accepts != (w.Code == http.StatusCreated) {
				t.Errorf("%s: the schema accepts %s: %t; the server answers %d", name, value, accepts, w.Code)
			}
		}
	}
}

// An example is a key that the server would accept, or there is none.
func TestExamples(t *testing.T) {
	for _, c := range []struct {
		format ichido.KeyFormat
		want   any
	}{
		{ichido.KeyFormat{}, `"8e03978e-40d5-43dd-bc93-6894a57f9324"`},
		{ichido.UUIDKeys, `"8e03978e-40d5-43dd-bc93-6894a57f9324"`},
		{ichido.KeyFormat{MaxLength: 32}, `"01ARZ3NDEKTSV4RRFFQ69G5FAV"`},
		{ichido.KeyFormat{MaxLength: 32, Pattern: "[0-9a-f]+"}, `"8e03978e40d543ddbc936894a57f9324"`},
		{ichido.KeyFormat{MinLength: 40}, `"8e03978e40d543ddbc936894a57f93248e03978e"`},
		{ichido.KeyFormat{MinLength: 6, Pattern: "[0-9]{6}"}, `"111111"`},
		{ichido.KeyFormat{Pattern: "evt_.*"}, nil},
	} {
		got := at(openapi.Components(policy(t, ichido.Config{KeyFormat: c.format})), "parameters", "IdempotencyKey", "example")
		if got != c.want {
			t.Errorf("%+v: the example is %v, want %v", c.format, got, c.want)
		}
	}
}
