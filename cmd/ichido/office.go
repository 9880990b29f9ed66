package main

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"time"

	"github.com/ichido-dev/ichido"
)

// A reservation is what a client sends: so many of an item for somebody.
type reservation struct {
	itemCode   string
	quantity   int32
	reservedBy string
}

// An entry is a reservation as the ledger holds it.
type entry struct {
	ID         int64     `json:"id"`
	ItemCode   string    `json:"item_code"`
	Quantity   int32     `json:"quantity"`
	ReservedBy string    `json:"reserved_by"`
	CreatedAt  time.Time `json:"created_at"`
}

// listQuery returns the query for the newest reservations before an id, of one name or all. mark begins a parameter. Both
// forms go by an index, which one that compares with the name "or with nothing" would not.
func listQuery(mark, by string, before int64, limit int) (query string, args []any) {
	args, where := []any{before, limit}, ""
	if by != "" {
		args, where = append(args, by), " AND reserved_by = "+mark+"3"
	}
	return "SELECT id, item_code, quantity, reserved_by, created_at FROM reservations WHERE id < " + mark + "1" + where +
		" ORDER BY id DESC LIMIT " + mark + "2", args
}

// An item is what the office sells.
type item struct {
	Code     string `json:"code"`
	NameEN   string `json:"name_en"`
	NameJA   string `json:"name_ja"`
	Price    int64  `json:"price"`    // of one, in yen
	Stock    int32  `json:"stock"`    // what orders may take
	Reserved int64  `json:"reserved"` // what all reservations together hold, which may be more than there is
}

// An order is what a client sends: so many of an item for somebody, to be paid. The card is not kept with it.
type order struct {
	itemCode  string
	quantity  int32
	orderedBy string
}

// An orderEntry is an order as the ledger holds it.
type orderEntry struct {
	ID        int64     `json:"id"`
	ItemCode  string    `json:"item_code"`
	Quantity  int32     `json:"quantity"`
	OrderedBy string    `json:"ordered_by"`
	Amount    int64     `json:"amount"`
	Charge    string    `json:"charge,omitempty"` // the provider's name of the payment; "" until then
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`
}

// How far an order has got.
const (
	statusReserved  = "reserved"
	statusCharged   = "charged"
	statusConfirmed = "confirmed"
	statusDeclined  = "declined" // the card was; the stock is given back
)

// A taking is the result of the step in which an order takes its stock.
type taking struct {
	ID      int64  `json:"id,omitempty"` // of the order
	Amount  int64  `json:"amount,omitempty"`
	Refused string `json:"refused,omitempty"` // why nothing was taken; "" if it was
	Left    int32  `json:"left,omitempty"`    // under outOfStockRefusal: what is left
}

// The values of taking.Refused.
const (
	unknownItemRefusal = "unknown item"
	outOfStockRefusal  = "out of stock"
)

// An office keeps the ledgers of reservations and orders, in the same database as the store keeps its keys.
type office interface {
	ichido.Migrator
	orderSteps

	// insert writes a reservation in the transaction of the attempt that ctx belongs to, and returns its id. Nothing
	// is kept unless the attempt is completed.
	insert(ctx context.Context, r reservation) (id int64, err error)
	// get returns one entry, or errNoEntry.
	get(ctx context.Context, id int64) (entry, error)
	// list returns the newest entries whose id is below before, at most limit. by, if it is not "", is whose they are.
	list(ctx context.Context, by string, before int64, limit int) ([]entry, error)

	// items returns all items, by their codes.
	items(ctx context.Context) ([]item, error)
	// getOrder and listOrders are get and list for orders.
	getOrder(ctx context.Context, id int64) (orderEntry, error)
	listOrders(ctx context.Context, before int64, limit int) ([]orderEntry, error)

	// stepSecret returns the secret from which the keys of steps are derived: the same for all processes, made by the
	// first that asks.
	stepSecret(ctx context.Context) ([]byte, error)
}

// orderSteps are the steps of an order that are transactions of the office. Each takes effect once in the operation that
// ctx belongs to, under the name that it has here.
type orderSteps interface {
	// reserve takes the stock and enters the order, or does neither and says why.
	reserve(ctx context.Context, o order) (taking, error)
	// charged notes the payment.
	charged(ctx context.Context, id int64, charge string) error
	// confirm notes that all is done.
	confirm(ctx context.Context, id int64) error
	// release gives the stock back, because the card was declined.
	release(ctx context.Context, id int64) error
}

// newStepSecret makes a secret to be kept.
func newStepSecret() []byte {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return secret
}

// What an office's errors mean, where it is not simply a failure of the database. Compare with errors.Is.
var (
	errNoEntry     = errors.New("there is no such entry")
	errQuantity    = errors.New("the table refused the quantity")
	errUnreachable = errors.New("the database cannot be reached") // or has no room, or no time; later may be better
)

// quantityCheck is the name of the CHECK that the quantity is positive, on both databases.
const quantityCheck = "reservations_quantity_positive"

//go:embed office
var officeFiles embed.FS
