package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/problem"
)

// ordersRoute names the orders in the store.
const ordersRoute = "orders"

// ordersConfig makes the Config of orders from that of reservations. Whatever an order does is a step that may run again,
// so nothing speaks against another attempt, ever: there is no unknown, and no limit of attempts, since a provider may be
// down for longer than any number of them.
func (o serveOptions) ordersConfig(c *ichido.Config) {
	c.Mode = ichido.LeaseMode
	c.Lease = o.lease
	c.OnLapse = ichido.Rerun
	c.Route = ordersRoute
	c.MaxAttempts = -1
	c.AttemptTimeout = orderTimeout
	c.Finish = true
	c.Restore = restore
}

// orderTimeout bounds an attempt of an order, the provider's answer included.
const orderTimeout = 30 * time.Second

// restore gives the request of an order that is finished without its client its principal again.
func restore(r *http.Request, principal string) (*http.Request, error) {
	return r.WithContext(context.WithValue(r.Context(), principalKey{}, principal)), nil
}

// finished logs what finishing in the background did, if it did something.
func finished(log *slog.Logger) func(found, finished int, err error) {
	return func(found, finished int, err error) {
		switch {
		case err != nil:
			log.Error("finishing abandoned orders failed", slog.Int("found", found), slog.Int("finished", finished), slog.Any("error", err))
		case found > 0:
			log.Info("went on with abandoned orders", slog.Int("found", found), slog.Int("finished", finished))
		}
	}
}

// An orderAnswer is the body of the answer to an order that is confirmed.
type orderAnswer struct {
	ID        int64  `json:"id"`
	ItemCode  string `json:"item_code"`
	Quantity  int32  `json:"quantity"`
	OrderedBy string `json:"ordered_by"`
	Amount    int64  `json:"amount"`
	Charge    string `json:"charge"`
	Status    string `json:"status"`
}

// placeOrder takes an order through its steps, in lease mode. An attempt that begins after another has died goes on behind
// the last step that is kept. All that it does is in a step.
func (a *api) placeOrder(w http.ResponseWriter, r *http.Request) {
	f, ok := a.readBody(w, r, orderMembers)
	if !ok {
		return
	}
	o, ctx := order{f.texts["item_code"], int32(f.numbers["quantity"]), f.texts["ordered_by"]}, r.Context()
	if o.quantity < 1 { // before it costs the table a look
		a.refuse(w, r, memberInvalid, notPositive)
		return
	}
	taken, err := a.office.reserve(ctx, o)
	switch {
	case err != nil:
		a.failOrder(w, r, err)
		return
	case taken.Refused != "":
		a.refuseOrder(w, r, o, taken)
		return
	}
	w.Header().Set("Location", "/orders/"+strconv.FormatInt(taken.ID, 10))
	paid, err := ichido.Step(ctx, "charge", func(ctx context.Context, key string) (payment, error) {
		return a.provider.charge(ctx, key, chargeRequest{taken.Amount, f.texts["card"], "order " + strconv.FormatInt(taken.ID, 10)})
	})
	if err == nil && paid.Declined {
		if err = a.office.release(ctx, taken.ID); err == nil {
			ichido.Keep(ctx) // it is the outcome of the order
			a.refuse(w, r, cardDeclined, problem.Text{})
			return
		}
	}
	if err == nil {
		err = a.office.charged(ctx, taken.ID, paid.ID)
	}
	if err == nil {
		_, err = ichido.Step(ctx, "mail", func(ctx context.Context, key string) (struct{}, error) {
			return struct{}{}, a.mailbox.deliver(ctx, mail{
				Key: key, To: o.orderedBy, Order: taken.ID, SentAt: time.Now().UTC(),
				Subject: fmt.Sprintf("Your order %[1]d is confirmed / ご注文 %[1]d を承りました", taken.ID),
			})
		})
	}
	if err == nil {
		err = a.office.confirm(ctx, taken.ID)
	}
	if err != nil {
		a.failOrder(w, r, err)
		return
	}
	writeJSON(w, http.StatusCreated, orderAnswer{taken.ID, o.itemCode, o.quantity, o.orderedBy, taken.Amount, paid.ID, statusConfirmed})
}

// refuseOrder answers an order that took no stock. The answer is kept: the step that says so is.
func (a *api) refuseOrder(w http.ResponseWriter, r *http.Request, o order, t taking) {
	ichido.Keep(r.Context())
	if t.Refused == unknownItemRefusal {
		a.refuse(w, r, itemUnknown, problem.Text{})
		return
	}
	a.refuse(w, r, outOfStock, text("%d are left of %s. Nothing was taken or charged. The answer is kept: for another try take a new key.",
		"%[2]s の残りは %[1]d 個です。在庫の確保も請求もしていません。この結果は保存されます。注文し直すときは新しいキーを使ってください。", t.Left, o.itemCode))
}

// failOrder is fail for an order of which steps may be kept.
func (a *api) failOrder(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errPayment) {
		blame(r.Context(), err)
		a.refuse(w, r, paymentUnavailable, problem.Text{})
		return
	}
	a.fail(w, r, err, goesOn)
}

// goesOn is what the client of an order that failed half-way has to know.
var goesOn = problem.Text{
	EN: "What was done of the order is kept. Send the same request again later with the same key: the order goes on where it stopped.",
	JA: "注文の済んだ部分は残っています。しばらくしてから、同じキーで同じリクエストを送ってください。止まったところから続けます。",
}

// listItems answers with all items. They are few.
func (a *api) listItems(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	items, err := a.office.items(ctx)
	if err != nil {
		a.failReading(w, r, err)
		return
	}
	w.Header().Set("Link", serviceDesc)
	writeJSON(w, http.StatusOK, map[string][]item{"items": items})
}

// An orderPage is one page of the list of orders.
type orderPage struct {
	Orders []orderEntry `json:"orders"`
	Next   string       `json:"next,omitempty"`
}

func (a *api) listOrders(w http.ResponseWriter, r *http.Request) {
	entries, next, ok := readPage(a.refuser, w, r, a.office.listOrders, func(e orderEntry) int64 { return e.ID })
	if ok {
		writeJSON(w, http.StatusOK, orderPage{entries, next})
	}
}

func (a *api) getOrder(w http.ResponseWriter, r *http.Request) {
	readOne(a.refuser, w, r, a.office.getOrder, noOrder)
}
