package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
)

const (
	paper      = `{"item_code":"PP-500","quantity":2,"ordered_by":"taro","card":"visa"}`
	firstOrder = `{"id":1,"item_code":"PP-500","quantity":2,"ordered_by":"taro","amount":1360,"charge":"ch_1","status":"confirmed"}`
	paperStock = 1_000_000
)

// order sends an order under a key.
func (s *testServer) order(key, body string, fields ...string) answer {
	return s.do("POST", "/orders", body, append(fields, "Content-Type: application/json", "Idempotency-Key: "+key)...)
}

// read reads what a GET answers.
func (s *testServer) read(into any, path string, fields ...string) {
	s.t.Helper()
	a := s.do("GET", path, "", fields...)
	if err := json.Unmarshal([]byte(a.body), into); err != nil || a.status != 200 {
		s.t.Fatalf("GET %s: %d %s: %v", path, a.status, a.body, err)
	}
}

// stock returns what is left of an item.
func (s *testServer) stock(code string, fields ...string) int32 {
	s.t.Helper()
	var all struct{ Items []item }
	s.read(&all, "/items", fields...)
	i := slices.IndexFunc(all.Items, func(i item) bool { return i.Code == code })
	if i < 0 {
		s.t.Fatalf("there is no %s in %+v", code, all.Items)
	}
	return all.Items[i].Stock
}

// wantOrder checks how far an order has got, and what there is of it.
func (s *testServer) wantOrder(f *testProvider, status string, taken int32, charges, mails int) {
	s.t.Helper()
	var o orderEntry
	s.read(&o, "/orders/1")
	if o.Status != status || (o.Charge != "") != (status == statusCharged || status == statusConfirmed) {
		s.t.Errorf("the order is %+v, want %s", o, status)
	}
	if left := s.stock("PP-500"); left != paperStock-taken {
		s.t.Errorf("%d of the paper are left, want %d", left, paperStock-taken)
	}
	if n := len(f.charges()); n != charges {
		s.t.Errorf("%d charges, want %d", n, charges)
	}
	if n := len(readMails(s.t, s.mailbox)); n != mails {
		s.t.Errorf("%d mails, want %d", n, mails)
	}
	var p orderPage
	if s.read(&p, "/orders"); len(p.Orders) != 1 {
		s.t.Errorf("the orders are %+v", p.Orders)
	}
}

// A testProvider is ichido fakepay in this process.
type testProvider struct {
	*testServer
	switches *switches
	requests atomic.Int32 // for charges
}

func servePayments(t *testing.T) *testProvider {
	t.Helper()
	db, _, err := openSQLiteFile(t.Context(), filepath.Join(t.TempDir(), "fakepay.db"), sqliteCreate)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	f := &testProvider{switches: new(switches), testServer: &testServer{t: t, logs: new(logs)}}
	handler, err := newFakepay(t.Context(), db, "en", f.switches, newLogger(f.logs))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			f.requests.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// misbehave sets the switches.
func (f *testProvider) misbehave(m misbehaviour) {
	f.switches.mu.Lock()
	defer f.switches.mu.Unlock()
	f.switches.now = m
}

// charges returns all charges, the newest first.
func (f *testProvider) charges() (all []charge) {
	f.t.Helper()
	for path := "/charges?limit=200"; path != ""; {
		var p chargePage
		f.read(&p, path)
		all, path = append(all, p.Charges...), p.Next
	}
	return all
}

// onBothWithPayments runs a test on an empty database of each kind, with a provider.
func onBothWithPayments(t *testing.T, test func(t *testing.T, location string, f *testProvider)) {
	onBoth(t, func(t *testing.T, location string) { test(t, location, servePayments(t)) })
}

func TestOrderIsTakenOnce(t *testing.T) {
	onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
		s := serveAPI(t, open(t, location), serveOptions{pay: f.url}, nil)
		one := wantCreated(t, s.order("k", paper), firstOrder)
		if got := one.header.Get("Location"); got != "/orders/1" {
			t.Errorf("Location %q", got)
		}
		wantReplay(t, s.order(`"k"`, paper), one)
		s.wantOrder(f, statusConfirmed, 2, 1, 1)
		wantProblem(t, s.order("k", strings.Replace(paper, "2", "3", 1)), 422, "mismatch")

		if c := f.charges()[0]; c.Amount != 1360 || c.Card != "visa" || c.Reference != "order 1" {
			t.Errorf("charged %+v", c)
		}
		m := readMails(t, s.mailbox)[0]
		if m.Order != 1 || m.To != "taro" || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-`).MatchString(m.Key) {
			t.Errorf("mailed %+v", m)
		}
		for _, text := range []string{s.logs.String(), s.do("GET", "/orders", "").body} {
			if strings.Contains(text, "visa") || strings.Contains(text, "level=ERROR") {
				t.Errorf("%s", text)
			}
		}
	})
}

func TestItemsAreListed(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		var all struct{ Items []item }
		s.read(&all, "/items")
		if len(all.Items) != 8 || !slices.IsSortedFunc(all.Items, func(a, b item) int { return strings.Compare(a.Code, b.Code) }) {
			t.Errorf("%+v", all)
		}
		want := item{"PJ-001", "Projector", "プロジェクター", 89800, 30, 0}
		if !slices.Contains(all.Items, want) {
			t.Errorf("%+v lacks %+v", all, want)
		}
	})
}

func TestOrdersArePagedNewestFirst(t *testing.T) {
	onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
		s := serveAPI(t, open(t, location), serveOptions{pay: f.url}, nil)
		if a := s.do("GET", "/orders", ""); a.body != `{"orders":[]}`+"\n" {
			t.Errorf("the empty list is %s", a.body)
		}
		for i := range 5 {
			s.order(fmt.Sprint(i), paper)
		}
		var ids []int64
		pages := 0
		for path := "/orders?limit=2"; path != ""; pages++ {
			var p orderPage
			s.read(&p, path)
			for _, o := range p.Orders {
				ids = append(ids, o.ID)
				if o.CreatedAt.Before(time.Now().Add(-time.Hour)) || o.CreatedAt.Location() != time.UTC {
					t.Errorf("created_at %v", o.CreatedAt)
				}
			}
			path = p.Next
		}
		if !slices.Equal(ids, []int64{5, 4, 3, 2, 1}) || pages != 3 {
			t.Errorf("%v on %d pages", ids, pages)
		}
	})
}

// What is wrong with an order is said before anything is done, and the key stays free.
func TestOrdersThatAreRefused(t *testing.T) {
	onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
		s := serveAPI(t, open(t, location), serveOptions{pay: f.url}, nil)
		wantProblem(t, s.do("POST", "/orders", paper, "Content-Type: application/json"), 400, "key-required")
		wantProblem(t, s.do("POST", "/orders", paper, "Content-Type: text/plain", "Idempotency-Key: k"), 415, "media-type-unsupported")
		for body, code := range map[string]string{
			`{`:  "not-json",
			`{}`: "member-invalid",
			`{"item_code":"PP-500","quantity":2,"ordered_by":"taro"}`:                                         "member-invalid",
			`{"item_code":"PP-500","quantity":0,"ordered_by":"taro","card":"visa"}`:                           "member-invalid",
			`{"item_code":"PP-500","quantity":-2147483648,"ordered_by":"taro","card":"visa"}`:                 "member-invalid",
			`{"item_code":"PP-500","quantity":2147483648,"ordered_by":"taro","card":"visa"}`:                  "member-invalid",
			`{"item_code":"PP-500","quantity":1,"ordered_by":" ","card":"visa"}`:                              "member-invalid",
			`{"item_code":"PP-500","quantity":1,"ordered_by":"taro","card":4242}`:                             "member-invalid",
			`{"item_code":"PP-500","quantity":1,"reserved_by":"taro","ordered_by":"taro","card":"","x":null}`: "member-invalid",
		} {
			wantProblem(t, s.order("k", body), 400, code)
		}
		wantCreated(t, s.order("k", paper), firstOrder)
		if text := s.logs.String(); text != "" {
			t.Errorf("a client's mistake was logged as ours:\n%s", text)
		}
	})
}

// An order that takes no stock is decided: its answer is kept, and it reaches nobody.
func TestOrdersThatTakeNoStock(t *testing.T) {
	onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
		s := serveAPI(t, open(t, location), serveOptions{pay: f.url}, nil)
		for _, c := range []struct {
			key, body string
			status    int
			code      string
		}{
			{"more", strings.Replace(paper, ":2,", ":1000001,", 1), 409, "out-of-stock"},
			{"most", strings.Replace(paper, ":2,", ":2147483647,", 1), 409, "out-of-stock"},
			{"none", strings.Replace(paper, "PP-500", "pp-500", 1), 400, "item-unknown"},
		} {
			one := s.order(c.key, c.body)
			wantProblem(t, one, c.status, c.code)
			wantReplay(t, s.order(c.key, c.body), one)
			if c.status == 409 && !strings.Contains(one.body, "1000000 are left of PP-500") {
				t.Errorf("%s does not say what is left", one.body)
			}
		}
		var p orderPage
		if s.read(&p, "/orders"); len(p.Orders) != 0 || s.stock("PP-500") != paperStock || f.requests.Load() != 0 || len(readMails(t, s.mailbox)) != 0 {
			t.Errorf("something was done: %+v, %d left, %d requests", p, s.stock("PP-500"), f.requests.Load())
		}
		// All that is left, and no more.
		wantCreated(t, s.order("all", strings.Replace(paper, ":2,", ":1000000,", 1)),
			`{"id":1,"item_code":"PP-500","quantity":1000000,"ordered_by":"taro","amount":680000000,"charge":"ch_1","status":"confirmed"}`)
		wantProblem(t, s.order("last", strings.Replace(paper, ":2,", ":1,", 1)), 409, "out-of-stock")
	})
}

// However many want the last ones, no more are sold than there are.
func TestStockIsNotOversold(t *testing.T) {
	onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
		s := serveAPI(t, open(t, location), serveOptions{pay: f.url}, nil)
		var sold atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				a := s.order(fmt.Sprint(i), `{"item_code":"WB-090","quantity":4,"ordered_by":"taro","card":"visa"}`) // of 15
				if a.status == 201 {
					sold.Add(1)
				} else {
					wantProblem(t, a, 409, "out-of-stock")
				}
			})
		}
		wg.Wait()
		if left := s.stock("WB-090"); sold.Load() != 3 || left != 3 || len(f.charges()) != 3 {
			t.Errorf("%d sold, %d left, %d charges", sold.Load(), left, len(f.charges()))
		}
	})
}

func TestDeclinedCardGivesTheStockBack(t *testing.T) {
	onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
		s := serveAPI(t, open(t, location), serveOptions{pay: f.url}, nil)
		body := strings.Replace(paper, "visa", declinedCard, 1)
		one := s.order("k", body)
		wantProblem(t, one, 402, "card-declined")
		if one.header.Get("Location") != "/orders/1" {
			t.Errorf("%v", one.header)
		}
		s.wantOrder(f, statusDeclined, 0, 0, 0)
		wantReplay(t, s.order("k", body), one)
		s.wantOrder(f, statusDeclined, 0, 0, 0) // and not given back twice
		if n := f.requests.Load(); n != 1 {
			t.Errorf("%d requests for charges", n)
		}
	})
}

// Whatever the provider does, the client is told that the order goes on; it does, once the provider behaves, and nothing
// of it is there twice.
func TestProviderThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		misbehaviour
		charges int
	}{
		"down":         {misbehaviour{Down: 1}, 0},
		"fail after":   {misbehaviour{FailAfter: 1}, 1},
		"lose answers": {misbehaviour{LoseAnswers: 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
				s := serveAPI(t, open(t, location), serveOptions{pay: f.url}, nil)
				f.misbehave(c.misbehaviour)
				a := s.order("k", paper, "X-Request-Id: trace-7")
				wantProblem(t, a, 503, "payment-unavailable")
				if a.header.Get("Retry-After") == "" || a.header.Get("Location") != "/orders/1" || strings.Contains(a.body, f.url) {
					t.Errorf("%v %s", a.header, a.body)
				}
				if log := s.logs.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "request=trace-7") {
					t.Errorf("want one line with the request's id, got:\n%s", log)
				}
				s.wantOrder(f, statusReserved, 2, c.charges, 0)
				wantProblem(t, s.order("k", paper), 503, "payment-unavailable")
				wantProblem(t, s.order("k", strings.Replace(paper, "2", "3", 1)), 422, "mismatch")
				s.wantOrder(f, statusReserved, 2, c.charges, 0)
				f.misbehave(misbehaviour{})
				one := wantCreated(t, s.order("k", paper), firstOrder)
				wantReplay(t, s.order("k", paper), one)
				s.wantOrder(f, statusConfirmed, 2, 1, 1)
			})
		})
	}
}

func TestProviderThatIsNotThere(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		wantProblem(t, s.order("k", paper), 503, "payment-unavailable")
		wantCreated(t, s.reserve("k", projector), first) // all else works
		if a := s.do("GET", "/healthz", ""); a.status != 200 {
			t.Errorf("healthz: %d", a.status)
		}
	})
}

// Answers that are none of a provider are not taken for a charge.
func TestProviderThatAnswersNonsense(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "office.db"))
	var nonsense atomic.Value
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nonsense.Load().(http.HandlerFunc)(w, r)
	}))
	t.Cleanup(provider.Close)
	s := serveAPI(t, db, serveOptions{pay: provider.URL + "/"}, nil)
	answering := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/charges" {
				t.Errorf("the provider is asked at %s", r.URL)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for _, handler := range []http.HandlerFunc{
		answering(200, `{"id":"ch_1"}`), answering(201, `{}`), answering(201, `oh`), answering(201, ``), answering(404, ``),
		answering(409, `{"id":"ch_1"}`), answering(500, `{"id":"ch_1"}`), answering(201, `{"id":"ch_1"`),
	} {
		nonsense.Store(handler)
		wantProblem(t, s.order("k", paper), 503, "payment-unavailable")
	}
	nonsense.Store(answering(201, `{"id":"ch_1"}`))
	wantCreated(t, s.order("k", paper), firstOrder)
}

// A stumblingOffice fails once in one of the steps, after it or before.
type stumblingOffice struct {
	office
	step  string // "" when it has stumbled
	after bool
}

func (o *stumblingOffice) stumble(step string, run func() error) error {
	if o.step != step {
		return run()
	}
	o.step = ""
	if o.after {
		if err := run(); err != nil {
			return err
		}
	}
	return errors.New("stumbled")
}

func (o *stumblingOffice) reserve(ctx context.Context, order order) (t taking, err error) {
	err = o.stumble("reserve", func() error { t, err = o.office.reserve(ctx, order); return err })
	return t, err
}

func (o *stumblingOffice) charged(ctx context.Context, id int64, charge string) error {
	return o.stumble("charged", func() error { return o.office.charged(ctx, id, charge) })
}

func (o *stumblingOffice) confirm(ctx context.Context, id int64) error {
	return o.stumble("confirm", func() error { return o.office.confirm(ctx, id) })
}

func (o *stumblingOffice) release(ctx context.Context, id int64) error {
	return o.stumble("release", func() error { return o.office.release(ctx, id) })
}

func TestOrderGoesOnBehindEachStep(t *testing.T) {
	for _, c := range []struct {
		step, status string // that the order has then
		after        bool
	}{
		{"reserve", "", false}, {"reserve", statusReserved, true}, {"charged", statusReserved, false}, {"charged", statusCharged, true},
		{"confirm", statusCharged, false}, {"confirm", statusConfirmed, true}, {"release", statusReserved, false}, {"release", statusDeclined, true},
	} {
		t.Run(fmt.Sprint(c.step, " ", c.after), func(t *testing.T) {
			onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
				db := open(t, location)
				db.office = &stumblingOffice{db.office, c.step, c.after}
				s := serveAPI(t, db, serveOptions{pay: f.url}, nil)
				body, status := paper, statusConfirmed
				if c.step == "release" {
					body, status = strings.Replace(paper, "visa", declinedCard, 1), statusDeclined
				}
				wantProblem(t, s.order("k", body), 500, "internal-fault")
				var p orderPage
				if s.read(&p, "/orders"); c.status == "" && len(p.Orders) > 0 || c.status != "" && (len(p.Orders) != 1 || p.Orders[0].Status != c.status) {
					t.Errorf("the orders are %+v, want one that is %q", p.Orders, c.status)
				}
				one := s.order("k", body)
				if status == statusConfirmed {
					wantCreated(t, one, firstOrder)
					s.wantOrder(f, status, 2, 1, 1)
				} else {
					wantProblem(t, one, 402, "card-declined")
					s.wantOrder(f, status, 0, 0, 0)
				}
				wantReplay(t, s.order("k", body), one)
				if n := f.requests.Load(); n != 1 {
					t.Errorf("%d requests for charges: one that is kept was made again", n)
				}
			})
		})
	}
}

func TestOrderGoesOnWhenTheMailboxWorksAgain(t *testing.T) {
	onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
		box := filepath.Join(t.TempDir(), "box")
		if err := os.Mkdir(box, 0o700); err != nil {
			t.Fatal(err)
		}
		s := serveAPI(t, open(t, location), serveOptions{pay: f.url, mailbox: box}, nil)
		a := s.order("k", paper)
		wantProblem(t, a, 500, "internal-fault")
		if !strings.Contains(a.body, "goes on where it stopped") || strings.Contains(a.body, box) || !strings.Contains(s.logs.String(), box) {
			t.Errorf("%s\n%s", a.body, s.logs)
		}
		if err := os.Remove(box); err != nil {
			t.Fatal(err)
		}
		s.wantOrder(f, statusCharged, 2, 1, 0)
		wantCreated(t, s.order("k", paper), firstOrder)
		s.wantOrder(f, statusConfirmed, 2, 1, 1)
	})
}

// finish goes on with the abandoned orders, as serve does in the background.
func (s *testServer) finish(wantFound, wantFinished int) {
	s.t.Helper()
	s.finishWith(s.service.again, wantFound, wantFinished)
}

func (s *testServer) finishWith(again http.Handler, wantFound, wantFinished int) {
	s.t.Helper()
	found, done, err := s.service.orders.Finish(s.t.Context(), again)
	if found != wantFound || done != wantFinished || err != nil {
		s.t.Errorf("finished %d of %d: %v", done, found, err)
	}
}

func TestOrderGoesOnWithoutItsClient(t *testing.T) {
	onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
		s := serveAPI(t, open(t, location), serveOptions{pay: f.url}, nil)
		other := serveAPI(t, open(t, location), serveOptions{pay: f.url, mailbox: s.mailbox}, nil)
		f.misbehave(misbehaviour{LoseAnswers: 1})
		wantProblem(t, s.order("k", paper), 503, "payment-unavailable")
		s.logs.buf.Reset()
		s.finish(1, 0)
		if log := s.logs.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "path=/orders") || !strings.Contains(log, "request=") {
			t.Errorf("want one line about the order, got:\n%s", log)
		}
		s.finish(0, 0) // it is not due yet
		f.misbehave(misbehaviour{})
		if err := execSQL(location, "UPDATE idempotency_keys SET asked = 0, asked_until = NULL"); err != nil {
			t.Fatal(err)
		}
		other.finish(1, 1)
		s.wantOrder(f, statusConfirmed, 2, 1, 1)
		a := s.order("k", paper)
		wantReplay(t, a, answer{201, a.header, firstOrder + "\n"})
		s.finish(0, 0)
	})
}

// The request of an order that is not finished is kept, and its card is not to be read there.
func TestKeptOrdersAreEncrypted(t *testing.T) {
	onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
		db := open(t, location)
		s := serveAPI(t, db, serveOptions{pay: f.url}, nil)
		f.misbehave(misbehaviour{Down: 1})
		wantProblem(t, s.order("k", strings.Replace(paper, "visa", "4242424242", 1)), 503, "payment-unavailable")
		kept, err := db.store.(ichido.Finisher).Abandoned(t.Context(), ichido.Question{Route: ordersRoute, Limit: 1, Patience: time.Millisecond})
		// The body is base64 in what is encrypted, so that its text proves nothing: the mark of stored bodies does.
		if err != nil || len(kept) != 1 || !strings.Contains(string(kept[0].Request), ":encrypted: orders\n") {
			t.Errorf("%+v, %v", kept, err)
		}
	})
}

func TestOrdersThatAreFinishedBelongToTheirPrincipal(t *testing.T) {
	onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
		pairs := []string{"a=" + secretA, "b=" + secretB}
		known, err := parseTokens(pairs)
		if err != nil {
			t.Fatal(err)
		}
		s := serveAPI(t, open(t, location), serveOptions{pay: f.url, token: pairs}, nil)
		for _, path := range []string{"/orders", "/orders/1", "/items"} {
			wantProblem(t, s.do("GET", path, ""), 401, "token-required")
		}
		wantProblem(t, s.order("k", paper), 401, "token-required")
		f.misbehave(misbehaviour{Down: 1})
		wantProblem(t, s.order("k", paper, authorized(secretA)), 503, "payment-unavailable")
		wantProblem(t, s.order("k", strings.Replace(paper, "taro", "hanako", 1), authorized(secretB)), 503, "payment-unavailable")
		f.misbehave(misbehaviour{})
		var mu sync.Mutex
		var principals []string
		s.finishWith(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, err := known.scope()(r)
			mu.Lock()
			principals = append(principals, fmt.Sprint(name, err))
			mu.Unlock()
			s.service.again.ServeHTTP(w, r)
		}), 2, 2)
		if slices.Sort(principals); !slices.Equal(principals, []string{"a<nil>", "b<nil>"}) {
			t.Errorf("the orders were finished for %q", principals)
		}
		for i, secret := range []string{secretA, secretB} {
			body := []string{paper, strings.Replace(paper, "taro", "hanako", 1)}[i]
			a := s.order("k", body, authorized(secret))
			if a.status != 201 || a.header.Get("Idempotent-Replayed") != "true" || !strings.Contains(a.body, []string{"taro", "hanako"}[i]) {
				t.Errorf("%d %s %v", a.status, a.body, a.header)
			}
		}
		if n := len(f.charges()); n != 2 {
			t.Errorf("%d charges", n)
		}
		if log := s.logs.String(); strings.Contains(log, secretA) || strings.Contains(log, secretB) {
			t.Errorf("log: %s", log)
		}
	})
}

// Whoever asks first makes the secret of steps; all processes on the database have the same.
func TestSecretOfStepsIsShared(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		open(t, location)
		secrets := make(chan string, 8)
		for range cap(secrets) {
			db := open(t, location)
			go func() {
				secret, err := db.office.stepSecret(context.Background())
				if err != nil {
					t.Error(err)
				}
				secrets <- string(secret)
			}()
		}
		one := receive(t, secrets, "a secret")
		for range cap(secrets) - 1 {
			if other := receive(t, secrets, "a secret"); other != one || len(one) != 32 {
				t.Errorf("%x and %x", one, other)
			}
		}
		if strings.Count(one, one[:1]) == len(one) {
			t.Errorf("%x is not random", one)
		}
		given, err := serveOptions{stepSecret: "of the operator: 0123"}.secretOfSteps(t.Context(), nil)
		if string(given) != "of the operator: 0123" || err != nil {
			t.Errorf("%s: %v", given, err)
		}
		if _, err = (serveOptions{stepSecret: "too short"}).secretOfSteps(t.Context(), nil); exitCode(err) != exitUsage || strings.Contains(err.Error(), "too short") {
			t.Errorf("%v", err)
		}
	})
}

// What the provider did for one server, another one gets by the same key.
func TestOrderGoesOnAtAnotherServer(t *testing.T) {
	onBothWithPayments(t, func(t *testing.T, location string, f *testProvider) {
		s := serveAPI(t, open(t, location), serveOptions{pay: f.url}, nil)
		other := serveAPI(t, open(t, location), serveOptions{pay: f.url, mailbox: s.mailbox}, nil)
		f.misbehave(misbehaviour{LoseAnswers: 1})
		wantProblem(t, s.order("k", paper), 503, "payment-unavailable")
		f.misbehave(misbehaviour{})
		wantCreated(t, other.order("k", paper), firstOrder)
		s.wantOrder(f, statusConfirmed, 2, 1, 1)
	})
}

// A server that is being stopped hands back an order that waits for the provider: another server goes on at once, long
// before the lease would have run out.
func TestStoppingHandsOrdersBack(t *testing.T) {
	program := filepath.Join(installProgram(t), "ichido")
	onBoth(t, func(t *testing.T, location string) {
		keys, began, let := make(chan string, 9), make(chan struct{}, 9), make(chan struct{})
		provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			keys <- r.Header.Get("Idempotency-Key")
			began <- struct{}{}
			select {
			case <-let:
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, `{"id":"ch_1"}`)
			case <-r.Context().Done():
			}
		}))
		t.Cleanup(provider.Close)
		flags := []string{"--db", location, "--pay", provider.URL, "--lease", "10m", "--finish-every", "0"}
		p := serveProcess(t, program, flags...)
		s := &testServer{t: t, url: p.url}
		running := later(func() answer { return s.order("k", paper) })
		receive(t, began, "the provider to be asked")
		if err := p.end(syscall.SIGTERM); err != nil {
			t.Errorf("ended with %v", err)
		}
		a := receive(t, running, "the answer")
		if a.status != 503 || !strings.Contains(a.body, `"retryable":true`) {
			t.Errorf("the client of an order that was handed back got %d %s", a.status, a.body)
		}
		if log := p.stderr.String(); !strings.Contains(log, "handed back") {
			t.Errorf("log: %s", log)
		}
		close(let)
		s.url = serveProcess(t, program, flags...).url
		wantCreated(t, s.order("k", paper), firstOrder)
		if one, two := <-keys, <-keys; one != two || !strings.HasPrefix(one, `"`) {
			t.Errorf("the provider was given the keys %s and %s", one, two)
		}
	})
}
