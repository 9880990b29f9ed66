package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ichido-dev/ichido/sqlstore"
)

func (o sqliteOffice) items(ctx context.Context) ([]item, error) {
	items, err := sqliteRows(ctx, o.db, func(row *sql.Rows) (i item, err error) {
		return i, row.Scan(&i.Code, &i.NameEN, &i.NameJA, &i.Price, &i.Stock, &i.Reserved)
	}, sqliteItems)
	return items, sqliteError("listing items", err)
}

const sqliteItems = `SELECT code, name_en, name_ja, price, stock,
	coalesce((SELECT sum(quantity) FROM reservations WHERE item_code = code), 0) FROM items ORDER BY code`

// sqliteRows reads the rows of a query.
func sqliteRows[T any](ctx context.Context, db *sql.DB, scan func(*sql.Rows) (T, error), query string, args ...any) (all []T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

const sqliteOrders = `SELECT id, item_code, quantity, ordered_by, amount, coalesce(charge, ''), status, created_at FROM orders `

func sqliteOrder(row *sql.Rows) (e orderEntry, err error) {
	var created string
	if err = row.Scan(&e.ID, &e.ItemCode, &e.Quantity, &e.OrderedBy, &e.Amount, &e.Charge, &e.Status, &created); err == nil {
		e.CreatedAt, err = parseSQLiteTime(created)
	}
	return e, err
}

func (o sqliteOffice) getOrder(ctx context.Context, id int64) (orderEntry, error) {
	entries, err := sqliteRows(ctx, o.db, sqliteOrder, sqliteOrders+`WHERE id = ?`, id)
	switch {
	case err != nil:
		return orderEntry{}, sqliteError("reading an order", err)
	case len(entries) == 0:
		return orderEntry{}, errNoEntry
	}
	return entries[0], nil
}

func (o sqliteOffice) listOrders(ctx context.Context, before int64, limit int) ([]orderEntry, error) {
	entries, err := sqliteRows(ctx, o.db, sqliteOrder, sqliteOrders+`WHERE id < ? ORDER BY id DESC LIMIT ?`, before, limit)
	return entries, sqliteError("listing orders", err)
}

func (o sqliteOffice) stepSecret(ctx context.Context) (secret []byte, err error) {
	if _, err = o.db.ExecContext(ctx, `INSERT INTO office_secrets (name, secret) VALUES ('steps', ?) ON CONFLICT DO NOTHING`, newStepSecret()); err == nil {
		err = o.db.QueryRowContext(ctx, `SELECT secret FROM office_secrets WHERE name = 'steps'`).Scan(&secret)
	}
	return secret, sqliteError("reading the secret of steps", err)
}

// reserve begins with a write, like insert.
func (o sqliteOffice) reserve(ctx context.Context, order order) (taking, error) {
	t, err := sqlstore.TxStep(ctx, "reserve", func(ctx context.Context, tx *sql.Tx) (t taking, err error) {
		err = tx.QueryRowContext(ctx, `UPDATE items SET stock = stock - ?1 WHERE code = ?2 AND stock >= ?1 RETURNING price * ?1`,
			order.quantity, order.itemCode).Scan(&t.Amount)
		switch {
		case err == nil:
			err = tx.QueryRowContext(ctx, `INSERT INTO orders (item_code, quantity, ordered_by, amount) VALUES (?, ?, ?, ?) RETURNING id`,
				order.itemCode, order.quantity, order.orderedBy, t.Amount).Scan(&t.ID)
			return t, err
		case !errors.Is(err, sql.ErrNoRows):
			return t, err
		}
		t.Refused = outOfStockRefusal
		err = tx.QueryRowContext(ctx, `SELECT stock FROM items WHERE code = ?`, order.itemCode).Scan(&t.Left)
		if errors.Is(err, sql.ErrNoRows) {
			t.Refused, err = unknownItemRefusal, nil
		}
		return t, err
	})
	return t, sqliteError("reserving the stock of an order", err)
}

func (o sqliteOffice) charged(ctx context.Context, id int64, charge string) error {
	return sqliteOrderStep(ctx, "charged", []string{`UPDATE orders SET status = 'charged', charge = ?2 WHERE id = ?1`}, id, charge)
}

func (o sqliteOffice) confirm(ctx context.Context, id int64) error {
	return sqliteOrderStep(ctx, "confirm", []string{`UPDATE orders SET status = 'confirmed' WHERE id = ?1`}, id)
}

func (o sqliteOffice) release(ctx context.Context, id int64) error {
	return sqliteOrderStep(ctx, "release", []string{
		`UPDATE orders SET status = 'declined' WHERE id = ?1`,
		`UPDATE items SET stock = stock + o.quantity FROM orders o WHERE o.id = ?1 AND code = o.item_code`}, id)
}

// sqliteOrderStep runs a step whose statements have the same arguments.
func sqliteOrderStep(ctx context.Context, name string, statements []string, args ...any) error {
	_, err := sqlstore.TxStep(ctx, name, func(ctx context.Context, tx *sql.Tx) (struct{}, error) {
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
				return struct{}{}, fmt.Errorf("%s: %w", statement, err)
			}
		}
		return struct{}{}, nil
	})
	return sqliteError("step "+name+" of an order", err)
}
