package main

import (
	"context"
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

// An office keeps the ledger of reservations, in the same database as the store keeps its keys.
type office interface {
	ichido.Migrator

	// insert writes a reservation in the transaction of the attempt that ctx belongs to, and returns its id. Nothing
	// is kept unless the attempt is completed.
	insert(ctx context.Context, r reservation) (id int64, err error)
	// get returns one entry, or errNoEntry.
	get(ctx context.Context, id int64) (entry, error)
	// list returns the newest entries whose id is below before, at most limit.
	list(ctx context.Context, before int64, limit int) ([]entry, error)
}

// What an office's errors mean, where it is not simply a failure of the database. Compare with errors.Is.
var (
	errNoEntry     = errors.New("there is no such reservation")
	errQuantity    = errors.New("the table refused the quantity")
	errUnreachable = errors.New("the database cannot be reached") // or has no room, or no time; later may be better
)

// quantityCheck is the name of the CHECK that the quantity is positive, on both databases.
const quantityCheck = "reservations_quantity_positive"

//go:embed office
var officeFiles embed.FS
