package client_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/client"
	"github.com/ichido-dev/ichido/memstore"
)

// losing serves by h, and breaks the connection in the place of every third answer.
func losing(h http.Handler) http.Handler {
	var mu sync.Mutex
	n := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		mu.Lock()
		n++
		lose := n%3 == 0
		mu.Unlock()
		if lose {
			panic(http.ErrAbortHandler)
		}
		for name, lines := range rec.Header() {
			w.Header()[name] = lines
		}
		w.WriteHeader(rec.Code)
		w.Write(rec.Body.Bytes())
	})
}

// Every operation has one effect, and its client learns of it, though every third answer is lost and every fourth attempt
// fails.
func TestOnceWithOurServer(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2 %v", http2), func(t *testing.T) {
			once, err := ichido.New(memstore.New(nil), ichido.Shared, nil)
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			effects, calls := map[string]int{}, 0
			work := once.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				if calls++; calls%4 == 0 {
					w.WriteHeader(500)
					return
				}
				effects[string(body)]++
				w.WriteHeader(201)
				w.Write(body)
			}))
			s := httptest.NewUnstartedServer(losing(work))
			s.EnableHTTP2 = http2
			s.StartTLS()
			defer s.Close()
			config := quick(local)
			config.Base, config.Attempts, config.MaxDelay = s.Client().Transport, 40, 2*time.Second
			rt := newTransport(t, config)
			var group sync.WaitGroup
			for worker := range 8 {
				group.Go(func() {
					for i := range 25 {
						name := fmt.Sprintf(`{"order":"%d-%d"}`, worker, i)
						result := rt.Send(request(t, "POST", s.URL+"/orders", name), client.NewOperation())
						if result.Outcome != client.Done {
							t.Errorf("%s: %+v", name, result)
							continue
						}
						body, err := io.ReadAll(result.Response.Body)
						result.Response.Body.Close()
						if result.Response.StatusCode != 201 || string(body) != name || err != nil || result.Response.ProtoMajor == 2 != http2 {
							t.Errorf("%s: %s %s %v", name, result.Response.Status, body, err)
						}
					}
				})
			}
			group.Wait()
			if len(effects) != 200 {
				t.Errorf("%d operations took effect, want 200", len(effects))
			}
			for name, n := range effects {
				if n != 1 {
					t.Errorf("%s took effect %d times", name, n)
				}
			}
		})
	}
}

// 30 % of the sendings fail, and 10 % lose their answer after the effect.
func TestSendingsPerOperation(t *testing.T) {
	const operations = 100_000
	effects := make(map[string]int, operations)
	random := rand.New(rand.NewPCG(1, 2))
	sendings := 0
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		sendings++
		r.Body.Close()
		switch p := random.Float64(); {
		case p < 0.3:
			return status(503)(r)
		case p < 0.4:
			effects[r.Header.Get("Idempotency-Key")] |= 1
			return nil, errors.New("connection reset")
		}
		effects[r.Header.Get("Idempotency-Key")] |= 1
		return status(201)(r)
	})
	rt := newTransport(t, &client.Config{Base: base, Targets: client.Targets{"*": client.Ichido}, BaseDelay: 1, Attempts: 30, Budget: client.Budget{Ratio: 1, Reserve: 1000}})
	for range operations {
		res, err := rt.RoundTrip(request(t, "POST", "https://api.example.com/", "x"))
		if err != nil || res.StatusCode != 201 {
			t.Fatalf("%v %v", res, err)
		}
		res.Body.Close()
	}
	if per := float64(sendings) / operations; len(effects) != operations || per > 1.7 {
		t.Errorf("%d operations took effect, want %d; %g sendings for each, want at most 1.7", len(effects), operations, per)
	}
}

func TestHTTP2(t *testing.T) {
	n := 0
	var keys []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if n++; n == 1 {
			panic(http.ErrAbortHandler) // resets the stream
		}
		w.WriteHeader([]int{0, 0, 503, 201}[n])
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	config := quick(local)
	config.Base = s.Client().Transport
	res, _ := do(t, newTransport(t, config), request(t, "POST", s.URL, strings.Repeat("x", 100_000)))
	result, _ := client.ResultOf(res)
	if res.ProtoMajor != 2 || res.StatusCode != 201 || result.Sendings != 3 || result.Attempts != 3 || keys[0] == "" || keys[0] != keys[2] {
		t.Errorf("%s %s, %+v, keys %q", res.Proto, res.Status, result, keys)
	}
}

// A certificate that is not good is not good the next time.
func TestBadCertificatesAreNotRetried(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	config := quick(local)
	config.Base = fresh(t)
	_, err := newTransport(t, config).RoundTrip(request(t, "POST", s.URL, "x"))
	if not := new(client.NotDoneError); !errors.As(err, &not) || not.Attempts != 1 || not.Sendings != 0 {
		t.Errorf("%v", err)
	}
}
