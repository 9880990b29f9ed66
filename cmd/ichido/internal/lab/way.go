package lab

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// A way is what a server does against double registration.
type way struct {
	id     string
	unique bool // the table of orders has a unique constraint
	keys   bool // ichido is around the handlers

	// order takes an order, in a transaction. It returns the status to answer with.
	order func(ctx context.Context, p pool, tx querier, o order) (int, error)

	// edit writes an item as a form has it.
	edit func(ctx context.Context, tx querier, i item) (int, error)

	// inapplicable are the scenarios that the way has no say in.
	inapplicable map[string]bool
}

type order struct {
	ID       int64  `json:"id"`
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
	by       string
	version  int // of the item, as the form showed it
}

type item struct {
	Item    string `json:"item"`
	Name    string `json:"name"`
	Price   int    `json:"price"`
	Version int    `json:"version"`
}

const (
	insertOrder = "INSERT INTO orders (item, quantity, ordered_by) VALUES ($1, $2, $3)"
	updateItem  = "UPDATE items SET name = $1, price = $2"
)

// ways in the order in which they are shown.
var ways = []*way{
	{id: "nothing", order: insert, edit: overwrite},
	{id: "unique", unique: true, order: insert, edit: overwrite, inapplicable: map[string]bool{"edit": true}},
	{id: "upsert", unique: true,
		order: func(ctx context.Context, _ pool, tx querier, o order) (int, error) {
			return http.StatusOK, tx.row(ctx, insertOrder+" ON CONFLICT (ordered_by, item) DO UPDATE SET quantity = excluded.quantity RETURNING id",
				[]any{o.Item, o.Quantity, o.by}, orderID(ctx))
		},
		edit: func(ctx context.Context, tx querier, i item) (int, error) {
			_, err := tx.exec(ctx, `INSERT INTO items (item, name, price) VALUES ($1, $2, $3)
				ON CONFLICT (item) DO UPDATE SET name = excluded.name, price = excluded.price`, i.Item, i.Name, i.Price)
			return http.StatusOK, err
		}},
	{id: "version",
		order: func(ctx context.Context, p pool, tx querier, o order) (int, error) {
			n, err := tx.exec(ctx, "UPDATE items SET version = version + 1 WHERE item = $1 AND version = $2", o.Item, o.version)
			if err != nil || n == 0 {
				return http.StatusPreconditionFailed, err
			}
			return insert(ctx, p, tx, o)
		},
		edit: func(ctx context.Context, tx querier, i item) (int, error) {
			n, err := tx.exec(ctx, updateItem+", version = version + 1 WHERE item = $3 AND version = $4", i.Name, i.Price, i.Item, i.Version)
			if err != nil || n == 0 {
				return http.StatusPreconditionFailed, err
			}
			return http.StatusOK, nil
		}},
	{id: "key", keys: true, order: insert, edit: overwrite},
}

// insert is a plain INSERT. Whether it meets a constraint is a matter of the table.
func insert(ctx context.Context, p pool, tx querier, o order) (int, error) {
	err := tx.row(ctx, insertOrder+" RETURNING id", []any{o.Item, o.Quantity, o.by}, orderID(ctx))
	if p.isUnique(err) {
		return http.StatusConflict, nil
	}
	return http.StatusCreated, err
}

func overwrite(ctx context.Context, tx querier, i item) (int, error) {
	_, err := tx.exec(ctx, updateItem+" WHERE item = $3", i.Name, i.Price, i.Item)
	return http.StatusOK, err
}

type orderIDKey struct{}

// orderID is where the id of an order goes.
func orderID(ctx context.Context) *int64 { return ctx.Value(orderIDKey{}).(*int64) }

// tables are the statements that make the tables. id is the type of a primary key that counts by itself.
func (w *way) tables(id string) []string {
	orders := "CREATE TABLE orders (id " + id + ", item text NOT NULL, quantity integer NOT NULL, ordered_by text NOT NULL"
	if w.unique {
		orders += ", UNIQUE (ordered_by, item)"
	}
	return []string{
		"CREATE TABLE items (item text PRIMARY KEY, name text NOT NULL, price integer NOT NULL, version integer NOT NULL DEFAULT 1)",
		orders + ")",
		firstItem,
	}
}

// emptied are the statements that put the tables back to what they were. orders are those for the orders.
func (w *way) emptied(orders ...string) []string {
	all := append(orders, "DELETE FROM items", firstItem)
	if w.keys {
		all = append(all, "DELETE FROM idempotency_keys")
	}
	return all
}

// refusals are the texts of the statuses that refuse.
var refusals = map[int]string{
	http.StatusConflict:           `{"error":"you have ordered this already"}`,
	http.StatusPreconditionFailed: `{"error":"the item has changed since you opened it; open it again"}`,
}

// errRefused makes a transaction that refuses roll back.
var errRefused = errors.New("refused")

// handler serves a way's API.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{item}", s.readItem)
	post, put := http.Handler(http.HandlerFunc(s.takeOrder)), http.Handler(http.HandlerFunc(s.editItem))
	if s.way.keys {
		post, put = s.once.Wrap(post), s.once.Wrap(put)
	}
	mux.Handle("POST /orders", post)
	mux.Handle("PUT /items/{item}", put)
	return mux
}

func (s *server) readItem(w http.ResponseWriter, r *http.Request) {
	var i item
	err := s.pool.row(r.Context(), "SELECT item, name, price, version FROM items WHERE item = $1", []any{r.PathValue("item")}, &i.Item, &i.Name, &i.Price, &i.Version)
	respond(w, http.StatusOK, i, err)
}

func (s *server) takeOrder(w http.ResponseWriter, r *http.Request) {
	o := order{by: user(r), version: ifMatch(r)}
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		respond(w, 0, nil, err)
		return
	}
	status := 0
	err := s.transact(r.Context(), func(ctx context.Context, tx querier) (err error) {
		status, err = s.way.order(context.WithValue(ctx, orderIDKey{}, &o.ID), s.pool, tx, o)
		return s.decide(ctx, status, err)
	})
	respond(w, status, o, err)
}

func (s *server) editItem(w http.ResponseWriter, r *http.Request) {
	i := item{Item: r.PathValue("item"), Version: ifMatch(r)}
	if err := json.NewDecoder(r.Body).Decode(&i); err != nil {
		respond(w, 0, nil, err)
		return
	}
	status := 0
	err := s.transact(r.Context(), func(ctx context.Context, tx querier) (err error) {
		status, err = s.way.edit(ctx, tx, i)
		return s.decide(ctx, status, err)
	})
	respond(w, status, map[string]any{"item": i.Item, "name": i.Name, "price": i.Price}, err)
}

// transact runs work in a transaction: ichido's, where it has begun one.
func (s *server) transact(ctx context.Context, work func(ctx context.Context, tx querier) error) error {
	if s.way.keys {
		return work(ctx, s.pool.attempt(ctx))
	}
	return s.pool.transact(ctx, func(tx querier) error { return work(ctx, tx) })
}

// decide ends the work of a transaction. What is accepted is held here as the scenario has it, right before its commit.
func (s *server) decide(ctx context.Context, status int, err error) error {
	switch {
	case err != nil:
		return err
	case status >= 400:
		return errRefused
	}
	return s.hold(ctx)
}

// respond answers with a value, or a refusal, or 500 where err is anything else.
func respond(w http.ResponseWriter, status int, value any, err error) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case errors.Is(err, errRefused):
		w.WriteHeader(status)
		_, _ = w.Write([]byte(refusals[status] + "\n"))
	case err != nil:
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
	default:
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
}

func user(r *http.Request) string { return r.Header.Get("X-User") }

// ifMatch is the version in the field If-Match, 0 if there is none.
func ifMatch(r *http.Request) int {
	n, _ := strconv.Atoi(strings.Trim(r.Header.Get("If-Match"), `"`))
	return n
}
