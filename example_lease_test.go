package ichido_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// A route that charges a card. The provider charges and its answer is lost, so nobody here knows whether it did. Nothing
// runs under the key any more: a sweep asks the provider, and the next request gets what it found out.
func Example_leaseMode() {
	p := &provider{charges: make(map[string]int)}
	once, err := ichido.New(memstore.New(nil), ichido.Shared, &ichido.Config{
		Mode:    ichido.LeaseMode,
		Route:   "charge",
		Contact: "payments@example.com",
		Resolver: func(ctx context.Context, key ichido.UnknownKey) (ichido.Resolution, error) {
			id := chargeID(key.Scope, key.Key)
			charged, err := p.Charged(ctx, id)
			if err != nil || !charged { // it may be on its way: not NotDone
				return ichido.Resolution{}, err
			}
			return ichido.Done(http.StatusCreated, http.Header{"Location": {"/charges/" + id}}, nil), nil
		},
	})
	if err != nil {
		panic(err)
	}
	charge := once.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op, _ := ichido.OperationOf(r.Context())
		id := chargeID(op.Scope, op.Key)
		switch err := p.Charge(r.Context(), id, 1200); {
		case errors.Is(err, errDeclined):
			ichido.Keep(r.Context()) // an outcome
			http.Error(w, "the card was declined", http.StatusPaymentRequired)
		case errors.Is(err, errInvalid):
			ichido.Discard(r.Context()) // the provider did nothing; the key is free
			http.Error(w, "the payment provider refuses our request", http.StatusBadGateway)
		case err != nil:
			http.Error(w, "the payment provider did not answer", http.StatusBadGateway) // the key is unknown
		default:
			w.Header().Set("Location", "/charges/"+id)
			w.WriteHeader(http.StatusCreated)
		}
	}))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	send := func() {
		r := httptest.NewRequest(http.MethodPost, "/charges", nil)
		r.Header.Set("Idempotency-Key", `"11111111-2222-4333-8444-555555555555"`)
		w := httptest.NewRecorder()
		charge.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Location"), "replayed:", w.Header().Get("Idempotent-Replayed") == "true")
	}

	send()
	found := make(chan int)
	go once.SweepEvery(ctx, time.Minute, func(_, settled int, err error) { found <- settled })
	fmt.Println("settled:", <-found)
	send()
	fmt.Println("charges:", len(p.charges))
	// Output:
	// 502  replayed: false
	// settled: 1
	// 201 /charges/fdec411565d0e9b83174d93cd0efe36b replayed: true
	// charges: 1
}

// chargeID names a charge to the provider: the same in every attempt, and for the Resolver.
func chargeID(scope, key string) string {
	sum := sha256.Sum256([]byte("charge\n" + scope + "\n" + key))
	return hex.EncodeToString(sum[:16])
}

var errDeclined, errInvalid = errors.New("declined"), errors.New("invalid")

// A provider stands for one that makes one charge for each id. The answer to the first is lost.
type provider struct {
	mu      sync.Mutex
	charges map[string]int
}

func (p *provider) Charge(_ context.Context, id string, amount int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charges[id] = amount
	if len(p.charges) == 1 {
		return errors.New("the connection was lost")
	}
	return nil
}

func (p *provider) Charged(_ context.Context, id string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charges[id] != 0, nil
}
