package main

import (
	"context"

	"github.com/ichido-dev/ichido/pgstore"
	"github.com/jackc/pgx/v5"
)

func (o postgresOffice) items(ctx context.Context) ([]item, error) {
	rows, err := o.pool.Query(ctx, `SELECT code, name_en, name_ja, price, stock,
		coalesce((SELECT sum(quantity) FROM reservations WHERE item_code = code), 0)::int8 FROM items ORDER BY code`)
	if err != nil {
		return nil, postgresError("listing items", err)
	}
	items, err := pgx.CollectRows(rows, pgx.RowToStructByPos[item])
	return items, postgresError("listing items", err)
}

const postgresOrders = `SELECT id, item_code, quantity, ordered_by, amount, coalesce(charge, ''), status, created_at FROM orders `

func postgresOrder(row pgx.CollectableRow) (orderEntry, error) {
	e, err := pgx.RowToStructByPos[orderEntry](row)
	e.CreatedAt = e.CreatedAt.UTC()
	return e, err
}

func (o postgresOffice) getOrder(ctx context.Context, id int64) (e orderEntry, err error) {
	rows, err := o.pool.Query(ctx, postgresOrders+`WHERE id = $1`, id)
	if err == nil {
		e, err = pgx.CollectExactlyOneRow(rows, postgresOrder)
	}
	return e, postgresError("reading an order", err)
}

func (o postgresOffice) listOrders(ctx context.Context, before int64, limit int) (entries []orderEntry, err error) {
	rows, err := o.pool.Query(ctx, postgresOrders+`WHERE id < $1 ORDER BY id DESC LIMIT $2`, before, limit)
	if err == nil {
		entries, err = pgx.CollectRows(rows, postgresOrder)
	}
	return entries, postgresError("listing orders", err)
}

func (o postgresOffice) stepSecret(ctx context.Context) (secret []byte, err error) {
	if _, err = o.pool.Exec(ctx, `INSERT INTO office_secrets (name, secret) VALUES ('steps', $1) ON CONFLICT DO NOTHING`, newStepSecret()); err == nil {
		err = o.pool.QueryRow(ctx, `SELECT secret FROM office_secrets WHERE name = 'steps'`).Scan(&secret)
	}
	return secret, postgresError("reading the secret of steps", err)
}

func (o postgresOffice) reserve(ctx context.Context, order order) (taking, error) {
	t, err := pgstore.TxStep(ctx, "reserve", func(ctx context.Context, tx pgx.Tx) (t taking, err error) {
		rows, err := tx.Query(ctx, `WITH taken AS (
				UPDATE items SET stock = stock - $2::int4 WHERE code = $1::text AND stock >= $2::int4 RETURNING price
			)
			INSERT INTO orders (item_code, quantity, ordered_by, amount)
			SELECT $1::text, $2::int4, $3::text, price * $2::int4 FROM taken RETURNING id, amount`, order.itemCode, order.quantity, order.orderedBy)
		if err != nil {
			return t, err
		}
		n := 0
		if _, err = pgx.ForEachRow(rows, []any{&t.ID, &t.Amount}, func() error { n++; return nil }); err != nil || n > 0 {
			return t, err
		}
		rows, err = tx.Query(ctx, `SELECT stock FROM items WHERE code = $1::text`, order.itemCode)
		if err != nil {
			return t, err
		}
		t.Refused = unknownItemRefusal
		_, err = pgx.ForEachRow(rows, []any{&t.Left}, func() error { t.Refused = outOfStockRefusal; return nil })
		return t, err
	})
	return t, postgresError("reserving the stock of an order", err)
}

func (o postgresOffice) charged(ctx context.Context, id int64, charge string) error {
	return postgresOrderStep(ctx, "charged", `UPDATE orders SET status = 'charged', charge = $2 WHERE id = $1`, id, charge)
}

func (o postgresOffice) confirm(ctx context.Context, id int64) error {
	return postgresOrderStep(ctx, "confirm", `UPDATE orders SET status = 'confirmed' WHERE id = $1`, id)
}

func (o postgresOffice) release(ctx context.Context, id int64) error {
	return postgresOrderStep(ctx, "release", `WITH declined AS (
			UPDATE orders SET status = 'declined' WHERE id = $1 RETURNING item_code, quantity
		)
		UPDATE items SET stock = stock + d.quantity FROM declined d WHERE code = d.item_code`, id)
}

// postgresOrderStep runs a step that is one statement.
func postgresOrderStep(ctx context.Context, name, sql string, args ...any) error {
	_, err := pgstore.TxStep(ctx, name, func(ctx context.Context, tx pgx.Tx) (struct{}, error) {
		_, err := tx.Exec(ctx, sql, args...)
		return struct{}{}, err
	})
	return postgresError("step "+name+" of an order", err)
}
