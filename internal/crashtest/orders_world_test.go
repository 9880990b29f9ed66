package crashtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ichido-dev/ichido"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// An ordersWorld is a world whose clients order.
type ordersWorld struct {
	*world
	shop  *shop
	store leaseStore
	db    *sql.DB
}

// newOrders makes a world one of orders. loses is that of its shop.
func newOrders(w *world, loses ...int) *ordersWorld {
	w.Helper()
	o := &ordersWorld{world: w, shop: newShop(w.T, loses), store: w.store()}
	w.path, w.outside = "/orders", o.shop.URL
	driver, source, id := "sqlite", sqliteSource(w.database), "INTEGER PRIMARY KEY"
	if onPostgres(w.database) {
		driver, source, id = "pgx", w.database, "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
	}
	var err error
	if o.db, err = sql.Open(driver, source); err == nil {
		w.Cleanup(func() { _ = o.db.Close() })
		o.db.SetMaxIdleConns(0) // the database may restart in between
		_, err = o.db.Exec(fmt.Sprintf(createMovements, id))
	}
	if err != nil {
		w.Fatal(err)
	}
	return o
}

// startAt starts a server to which something happens at a point.
func (o *ordersWorld) startAt(point string, at func(*process, string)) *process {
	o.Helper()
	return o.launch(at, shortLease, isRenewal(point))
}

// A watch counts the points that processes come to.
type watch struct {
	mu   sync.Mutex
	came map[string]int
}

// startWatched starts a server to which nothing happens.
func (o *ordersWorld) startWatched(seen *watch) *process {
	o.Helper()
	return o.launch(func(_ *process, point string) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if seen.came == nil {
			seen.came = make(map[string]int)
		}
		seen.came[point]++
	}, longLease, false)
}

func (s *watch) count(point string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came[point]
}

// steps are the steps that ran.
func (s *watch) steps() []string {
	return slices.DeleteFunc(slices.Clone(orderSteps), func(step string) bool { return s.count(step+" before") == 0 })
}

// What is there of an order.
type remains struct {
	movements, charges, mails int
	kept                      string // names of steps, by commas
	state                     string // of the key
}

const noRecord = "no record"

func (o *ordersWorld) remains(order string) remains {
	o.Helper()
	charges, mails, _ := o.shop.of(order)
	r := remains{movements: len(o.movements(order)), charges: len(charges), mails: len(mails), state: noRecord}
	if entry := o.entry(order); entry != nil {
		r.kept, r.state = strings.Join(entry.Steps, ", "), entry.State.String()
	}
	return r
}

// entry returns what is stored of an order's key, or nil.
func (o *ordersWorld) entry(order string) *ichido.Entry {
	o.Helper()
	entry, err := o.store.Look(context.Background(), o.scope(), order)
	if err != nil && !errors.Is(err, ichido.ErrNoRecord) {
		o.Fatal(err)
	}
	return entry
}

// movements returns the ids of an order's stock movements.
func (o *ordersWorld) movements(order string) (ids []int64) {
	o.Helper()
	rows, err := o.db.Query("SELECT id FROM stock_movements WHERE order_name = $1 ORDER BY id", order)
	if err != nil {
		o.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			o.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		o.Fatal(err)
	}
	return ids
}

// finish has a server call Finish as long as the key of an order is in progress, as FinishEvery does, and returns how many
// operations it found and completed.
func (o *ordersWorld) finish(p *process, order string) (found, finished int) {
	o.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		f, c := o.finishOnce(p)
		found, finished = found+f, finished+c
		if entry := o.entry(order); entry == nil || entry.State != ichido.InProgress {
			return found, finished
		}
	}
	o.Fatal("the order is still in progress")
	return 0, 0
}

// finishOnce has a server call Finish.
func (o *ordersWorld) finishOnce(p *process) (found, finished int) {
	o.Helper()
	said, err := call("POST", p.url+"/finish")
	var failed string
	if err == nil {
		_, err = fmt.Sscan(said, &found, &finished, &failed)
	}
	if err != nil || failed != "<nil>" {
		o.Fatalf("finishing: %q, %v", said, err)
	}
	return found, finished
}

// wantOneOfEach wants of an order, which a client was told of, one stock movement, one charge and one mail, and that every
// later sending gets the same answer.
func (o *ordersWorld) wantOneOfEach(p *process, order string, a answer) {
	o.Helper()
	charges, mails, _ := o.shop.of(order)
	movements := o.movements(order)
	if len(movements) != 1 || len(charges) != 1 || len(mails) != 1 {
		o.Errorf("%s: movements %v, charges %v, mails %v", order, movements, charges, mails)
		return
	}
	if want := orderAnswer(movements[0], charges[0].id, mails[0].id); a.status != 201 || a.body != want {
		o.Errorf("%s: answered %+v, want 201 %q", order, a, want)
	}
	o.wantReplays(p, order, a)
}

// wantReplays wants that an order is completed, and that every later sending gets the same answer.
func (o *ordersWorld) wantReplays(p *process, order string, a answer) {
	o.Helper()
	for range 2 {
		if again := send(p, order); again.status != 201 || !again.replayed || again.body != a.body {
			o.Errorf("%s: acknowledged %q, and then %+v", order, a.body, again)
		}
	}
	if r := o.remains(order); r.state != "completed" || r.kept != strings.Join(orderSteps, ", ") {
		o.Errorf("%s: in the end %+v", order, r)
	}
}
