package ichido

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkFingerprint: the cost is linear, and beyond the body there is one buffer, which is used again.
func BenchmarkFingerprint(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20} {
		var body strings.Builder
		body.WriteString(`{"items":[`)
		for i := 0; body.Len() < size; i++ {
			if i > 0 {
				body.WriteByte(',')
			}
			fmt.Fprintf(&body, `{"quantity":%d,"item_code":"PJ-%06d","note":"r\u00e9serv\u00e9"}`, i, i)
		}
		body.WriteString(`]}`)
		for name, f := range map[string]*Fingerprint{"json": {}, "raw": {Raw: true}, "ignore": {Ignore: []string{"/sent_at"}}} {
			b.Run(fmt.Sprintf("%s/%dKB", name, size>>10), func(b *testing.B) {
				r := httptest.NewRequest("POST", "/reservations", nil)
				r.Header.Set("Content-Type", "application/json")
				sent := []byte(body.String())
				b.SetBytes(int64(len(sent)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := f.of(r, sent); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
