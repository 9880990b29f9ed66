package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
)

// TestOrdersUnderKills has two servers on one database, which are killed again and again, take orders from clients some of
// which never come back, and charge them at a provider that loses answers and fails. In the end each order that was taken
// is there once: in the ledger, in the stock, at the provider and in the mailbox. $ICHIDO_KILL_ORDERS sets how many orders
// are sent, $ICHIDO_KILL_SEED what is drawn.
func TestOrdersUnderKills(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ichido")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	onBoth(t, func(t *testing.T, location string) {
		orders := 300
		if isPostgres(location) {
			orders = 2000
		}
		if testing.Short() {
			orders /= 4
		}
		k := &killing{t: t, orders: int(number(t, "ICHIDO_KILL_ORDERS", uint64(orders))), seed: number(t, "ICHIDO_KILL_SEED", rand.Uint64()),
			program: program, location: location, mailbox: filepath.Join(t.TempDir(), "mails")}
		defer func() {
			if t.Failed() {
				t.Logf("again with ICHIDO_KILL_ORDERS=%d ICHIDO_KILL_SEED=%d", k.orders, k.seed)
			}
		}()
		k.run()
	})
}

// number returns the number in an environment variable.
func number(t *testing.T, variable string, fallback uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// A killing is one run of the test.
type killing struct {
	t                          *testing.T
	orders                     int
	seed                       uint64
	program, location, mailbox string
	pay                        string // URL of the provider

	servers [2]atomic.Pointer[process]
	sent    atomic.Int64 // requests that were answered, or not
	kills   int

	mu      sync.Mutex
	answers map[int]string // the bodies of 201, by the number of the order
}

const (
	killPatience   = 4 * time.Minute // an order whose finishing was killed thrice is due again after a minute
	killClients    = 16
	killEvery      = 40 // requests, on average
	killShareAway  = 0.4
	killLongestTry = 60 * time.Millisecond // of a client that leaves
)

func (k *killing) run() {
	t := k.t
	began := time.Now()
	k.answers = make(map[int]string)
	k.pay = programProcess(t, k.program, "fakepay", "--db", filepath.Join(t.TempDir(), "fakepay.db"), "--lose-answers", "0.1", "--fail-after", "0.1").url
	for i := range k.servers {
		k.start(i)
	}
	t.Cleanup(func() {
		for i := range k.servers {
			p := k.servers[i].Load()
			p.kill()
			if t.Failed() {
				t.Logf("standard error of the last ichido serve %d:\n%s", i, tail(p.stderr.String()))
			}
		}
	})
	done := make(chan struct{})
	killed := later(func() struct{} { k.kill(done); return struct{}{} })
	var clients sync.WaitGroup
	next := make(chan int)
	for c := range killClients {
		clients.Go(func() {
			draw := rand.New(rand.NewPCG(k.seed, uint64(c)))
			for n := range next {
				k.client(draw, n)
			}
		})
	}
	for n := range k.orders {
		next <- n
	}
	close(next)
	clients.Wait()
	close(done)
	<-killed
	sending := time.Since(began)
	entries := k.settled()
	attempts, resumed := 0, 0
	for _, e := range entries {
		attempts += e.Attempts
		if e.Attempts > 1 {
			resumed++
		}
	}
	t.Logf("%d orders sent, %d taken, %d of them answered; %d kills, %d attempts, %d orders were resumed; %.1fs, and %.1fs until all were finished",
		k.orders, len(entries), len(k.answers), k.kills, attempts, resumed, sending.Seconds(), (time.Since(began) - sending).Seconds())
	if k.kills < max(1, k.orders/100) || resumed < k.orders/100 {
		t.Errorf("%d kills and %d resumed orders are too few to show anything", k.kills, resumed)
	}
	k.verify(len(entries))
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

func (k *killing) start(i int) {
	p, err := startServe(exec.Command(k.program, "serve", "--addr", "localhost:0", "--db", k.location, "--mailbox", k.mailbox,
		"--pay", k.pay, "--lease", "2s", "--finish-every", "500ms"))
	if err != nil {
		k.t.Error(err) // not Fatal: this is not the test's goroutine
		return
	}
	k.servers[i].Store(p)
}

// kill kills a server and starts another in its place, each time that so many requests were sent, until done is closed.
func (k *killing) kill(done <-chan struct{}) {
	draw := rand.New(rand.NewPCG(k.seed, killClients))
	for next := int64(0); ; {
		next += killEvery/2 + draw.Int64N(killEvery)
		for k.sent.Load() < next {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
		i := draw.IntN(len(k.servers))
		k.servers[i].Load().kill()
		k.kills++
		k.start(i)
	}
}

// client sends the order n, some until there is an answer, and some once, without waiting for it for long.
func (k *killing) client(draw *rand.Rand, n int) {
	timeout := patience
	leaves := draw.Float64() < killShareAway
	if leaves {
		timeout = time.Duration(draw.Int64N(int64(killLongestTry)))
	}
	for began := time.Now(); ; time.Sleep(time.Duration(50+draw.IntN(100)) * time.Millisecond) { // as clients do
		status, body := k.send(k.servers[draw.IntN(len(k.servers))].Load().url, n, timeout)
		k.sent.Add(1)
		switch {
		case status == http.StatusCreated:
			k.mu.Lock()
			k.answers[n] = body
			k.mu.Unlock()
			return
		case status != 0 && !strings.Contains(body, `"retryable":true`):
			k.t.Errorf("order %d: %d %s", n, status, body)
			return
		case leaves:
			return
		case time.Since(began) > killPatience:
			k.t.Errorf("order %d: no answer within %s; the last was %d %s", n, killPatience, status, body)
			return
		}
	}
}

// send sends the order n once; the status is 0 if there was no answer.
func (k *killing) send(url string, n int, timeout time.Duration) (status int, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/orders",
		strings.NewReader(fmt.Sprintf(`{"item_code":"PP-500","quantity":%d,"ordered_by":"client %d","card":"visa"}`, quantityOf(n), n)))
	if err != nil {
		k.t.Error(err)
		return 0, ""
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", fmt.Sprintf(`"order-%d"`, n))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(text)
}

func quantityOf(n int) int { return 1 + n%3 }

// settled waits until no order is in progress, and returns what is stored of the keys. There must be none that is unknown.
func (k *killing) settled() (entries []ichido.Entry) {
	k.t.Helper()
	db := open(k.t, k.location)
	untilWithin(k.t, killPatience, "the last order to be finished", func() bool {
		entries = nil
		for filter := (ichido.Filter{Limit: 500}); ; {
			page, err := db.store.List(k.t.Context(), filter)
			if err != nil {
				k.t.Fatal(err)
			}
			for _, e := range page {
				if e.State == ichido.InProgress {
					return false
				}
			}
			if entries = append(entries, page...); len(page) < filter.Limit {
				return true
			}
			filter.After = &page[len(page)-1].EntryID
		}
	})
	for _, e := range entries {
		if e.State != ichido.Completed || e.Status != http.StatusCreated {
			k.t.Errorf("%s is %s, status %d", e.Key, e.State, e.Status)
		}
	}
	return entries
}

// verify compares the ledger, the stock, the provider and the mailbox with each other, and with what clients were told.
func (k *killing) verify(keys int) {
	t := k.t
	s := &testServer{t: t, url: k.servers[0].Load().url}
	orders, charges, mails := make(map[int64]orderEntry), make(map[string]charge), make(map[int64]mail)
	byClient, quantity := make(map[string]int64), int32(0)
	for path := "/orders?limit=200"; path != ""; {
		var p orderPage
		s.read(&p, path)
		for _, o := range p.Orders {
			if other, twice := byClient[o.OrderedBy]; twice {
				t.Errorf("%s has the orders %d and %d", o.OrderedBy, o.ID, other)
			}
			orders[o.ID], byClient[o.OrderedBy] = o, o.ID
			quantity += o.Quantity
		}
		path = p.Next
	}
	f := &testProvider{testServer: &testServer{t: t, url: k.pay}}
	all := f.charges()
	for _, c := range all {
		if other, twice := charges[c.Reference]; twice {
			t.Errorf("%s has the charges %s and %s", c.Reference, c.ID, other.ID)
		}
		charges[c.Reference] = c
	}
	sent := readMails(t, k.mailbox)
	names := make(map[string]bool)
	for _, m := range sent {
		if _, twice := mails[m.Order]; twice || names[m.Key] {
			t.Errorf("order %d or key %s has two mails", m.Order, m.Key)
		}
		mails[m.Order], names[m.Key] = m, true
	}
	if len(orders) != keys || len(all) != keys || len(sent) != keys || s.stock("PP-500") != paperStock-quantity {
		t.Errorf("%d keys, %d orders, %d charges, %d mails; %d of stock taken and %d ordered",
			keys, len(orders), len(all), len(sent), paperStock-s.stock("PP-500"), quantity)
	}
	for id, o := range orders {
		c := charges[fmt.Sprint("order ", id)]
		if o.Status != statusConfirmed || c.ID != o.Charge || c.Amount != o.Amount || o.Amount != 680*int64(o.Quantity) || mails[id].To != o.OrderedBy {
			t.Errorf("the order %+v has the charge %+v and the mail %+v", o, c, mails[id])
		}
	}
	for n, body := range k.answers {
		var told orderAnswer
		err := json.Unmarshal([]byte(body), &told)
		o := orders[told.ID]
		if want := (orderAnswer{o.ID, "PP-500", int32(quantityOf(n)), fmt.Sprint("client ", n), o.Amount, o.Charge, statusConfirmed}); err != nil || told != want || o.OrderedBy != want.OrderedBy {
			t.Errorf("the client of order %d was told %s, and the ledger has %+v: %v", n, body, o, err)
		}
	}
}
