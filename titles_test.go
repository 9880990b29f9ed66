package ichido_test

import (
	"encoding/json"
	"testing"

	"github.com/ichido-dev/ichido"
)

// The titles that clients in Japan were promised, word for word.
func TestJapaneseTitles(t *testing.T) {
	for want, c := range map[string]struct {
		status int
		step   step
		key    string
	}{
		"Idempotency-Key ヘッダーが必要です": {400, busy, ""},
		"同じキーのリクエストを処理中です":          {409, busy, "k"},
		"このキーは別の内容のリクエストで使われています":   {422, hasOther("x"), "k"},
	} {
		m, err := ichido.New(newScript(t, c.step), ichido.Shared, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := post(c.key, "{}")
		r.Header.Set("Accept-Language", "ja")
		a := send(m.Wrap(created("x")), r)
		var p struct {
			Type, Title, Detail string
			Status              int
		}
		if err := json.Unmarshal([]byte(a.body), &p); err != nil {
			t.Fatal(err)
		}
		if p.Title != want || p.Status != c.status || a.status != c.status || p.Type == "" || p.Detail == "" {
			t.Errorf("answered %d %s, want %d %s", a.status, a.body, c.status, want)
		}
	}
}
