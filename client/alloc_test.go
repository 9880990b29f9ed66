package client_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/client"
)

// A stub is a Base that answers at once.
type stub struct{ res http.Response }

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	res := s.res
	res.Request = r
	return &res, nil
}

// The project promises that a request which succeeds at once costs at most 12 allocations and 3 µs more than without.
func TestAllocationsOfARequestThatSucceedsAtOnce(t *testing.T) {
	base := &stub{http.Response{StatusCode: 201, Header: http.Header{}, Body: http.NoBody}}
	tr := newTransport(t, &client.Config{Base: base, Targets: client.Targets{"api.example.com": client.Ichido}})
	body := strings.NewReader(`{"amount":1}`)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.com/orders", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer x")
	send := func(rt http.RoundTripper) func() {
		return func() {
			res, err := rt.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
	bare := testing.AllocsPerRun(200, send(base))
	if got := testing.AllocsPerRun(200, send(tr)) - bare; got > 12 {
		t.Errorf("%g allocations more than without, want at most 12", got)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	base := &stub{http.Response{StatusCode: 201, Header: http.Header{}, Body: http.NoBody}}
	tr, err := client.NewTransport(&client.Config{Base: base, Targets: client.Targets{"api.example.com": client.Ichido}})
	if err != nil {
		b.Fatal(err)
	}
	for name, rt := range map[string]http.RoundTripper{"bare": base, "transport": tr} {
		b.Run(name, func(b *testing.B) {
			r, _ := http.NewRequest(http.MethodPost, "https://api.example.com/orders", strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
			b.ReportAllocs()
			for b.Loop() {
				res, _ := rt.RoundTrip(r)
				res.Body.Close()
			}
		})
	}
}
