package main

import (
	"context"
	"database/sql"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/problem"
	"github.com/ichido-dev/ichido/sqlstore"
)

// A charge is a payment as the provider keeps it.
type charge struct {
	Number    int64     `json:"-"`
	ID        string    `json:"id"`
	Amount    int64     `json:"amount"`
	Card      string    `json:"card"`
	Reference string    `json:"reference"`
	CreatedAt time.Time `json:"created_at"`
}

// chargeID is the name of a charge: ch_7.
func chargeID(number int64) string { return "ch_" + strconv.FormatInt(number, 10) }

// declinedCard is the name of a card that is always declined.
const declinedCard = "declined"

var chargeMembers = []member{{"amount", 1 << 53}, {"card", 0}, {"reference", 0}}

// charge makes a charge, in the transaction of its attempt.
func (f *fakeProvider) charge(w http.ResponseWriter, r *http.Request) {
	b, ok := f.readBody(w, r, chargeMembers)
	if !ok {
		return
	}
	amount, card := b.numbers["amount"], b.texts["card"]
	if amount < 1 {
		f.refuse(w, r, memberInvalid, text(`"amount" must be greater than 0.`, `"amount" は 1 以上でなければなりません。`))
		return
	}
	m := f.switches.get()
	if err := pause(time.Duration(m.Slow))(r.Context()); err != nil {
		f.fail(w, r, err, problem.Text{})
		return
	}
	if card == declinedCard || m.Decline.hits() {
		ichido.Keep(r.Context()) // the same key is not asked twice
		f.refuse(w, r, cardDeclined, text("Nothing was charged. The answer is kept: for another card take a new key.",
			"請求はしていません。この結果は保存されます。別のカードには新しいキーを使ってください。"))
		return
	}
	c, err := insertCharge(r.Context(), amount, card, b.texts["reference"])
	if err != nil {
		f.fail(w, r, err, problem.Text{})
		return
	}
	w.Header().Set("Location", "/charges/"+c.ID)
	writeJSON(w, http.StatusCreated, c)
}

func insertCharge(ctx context.Context, amount int64, card, reference string) (charge, error) {
	c, err := scanCharge(sqlstore.Tx(ctx).QueryRowContext(ctx,
		`INSERT INTO charges (amount, card, reference) VALUES (?, ?, ?) RETURNING `+chargeColumns, amount, card, reference))
	return c, sqliteError("inserting a charge", err)
}

const chargeColumns = `id, amount, card, reference, created_at`

func scanCharge(row interface{ Scan(...any) error }) (c charge, err error) {
	var created string
	if err = row.Scan(&c.Number, &c.Amount, &c.Card, &c.Reference, &created); err != nil {
		return c, err
	}
	c.ID = chargeID(c.Number)
	c.CreatedAt, err = parseSQLiteTime(created)
	return c, err
}

// A chargePage is one page of the list of charges.
type chargePage struct {
	Charges []charge `json:"charges"`
	Next    string   `json:"next,omitempty"`
}

func (f *fakeProvider) list(w http.ResponseWriter, r *http.Request) {
	charges, next, ok := readPage(f.refuser, w, r, func(ctx context.Context, before int64, limit int) ([]charge, error) {
		all, err := sqliteRows(ctx, f.db, func(row *sql.Rows) (charge, error) { return scanCharge(row) },
			`SELECT `+chargeColumns+` FROM charges WHERE id < ? ORDER BY id DESC LIMIT ?`, before, limit)
		return all, sqliteError("listing charges", err)
	}, func(c charge) int64 { return c.Number })
	if ok {
		writeJSON(w, http.StatusOK, chargePage{charges, next})
	}
}

func (f *fakeProvider) get(w http.ResponseWriter, r *http.Request) {
	number, _ := strings.CutPrefix(r.PathValue("id"), "ch_")
	r.SetPathValue("id", number)
	readOne(f.refuser, w, r, func(ctx context.Context, id int64) (charge, error) {
		c, err := scanCharge(f.db.QueryRowContext(ctx, `SELECT `+chargeColumns+` FROM charges WHERE id = ?`, id))
		return c, sqliteError("reading a charge", err)
	}, noCharge)
}
