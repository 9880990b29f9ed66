package crashtest

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/pgstore"
	"github.com/ichido-dev/ichido/sqlstore"
	"github.com/jackc/pgx/v5"
)

// The points of an order, in the order in which an attempt meets them. Those of a Step: before is in its function, before
// the call; after is behind the call, before the statement that keeps the result; kept is behind that. Those of the TxStep:
// before is in its function, before the first statement; after is at the end of the function, before the result is written
// and all is committed (one flight on PostgreSQL, two statements on SQLite); kept is behind the COMMIT.
// TestKilledWhileCommitting is about what is between the last two. The mail's look is between its before and looked.
var orderPoints = []string{
	"claim before", "claim after",
	"begin before", "begin after", // the first step begins: the store notes that the operation resumes
	"reserve before", "reserve after", "reserve kept",
	"renew before", "renew after",
	"charge before", "charge after", "charge kept",
	"mail before", "mail looked", "mail after", "mail kept",
	"complete before", "complete after",
}

var orderSteps = []string{"reserve", "charge", "mail"}

// order is a handler with three steps: a row of our own, a provider that is idempotent by key, and a mail system that is
// not, but can be searched.
func order(e engine, p reporter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, name := r.Context(), strings.Trim(r.Header.Get("Idempotency-Key"), `"`)
		movement, err := e.reserve(ctx, name, p)
		if err == nil {
			p.report("reserve kept")
			err = p.waitForRenewal(ctx)
		}
		var charge, mail string
		if err == nil {
			charge, err = ichido.Step(ctx, "charge", func(_ context.Context, key string) (string, error) {
				p.report("charge before")
				return call("POST", shopURL("/charges", name, key))
			})
		}
		if err == nil {
			// Its call is not bound to the context, as with many mail systems: an owner that is late will make it.
			mail, err = ichido.Step(ctx, "mail", func(_ context.Context, key string) (string, error) {
				p.report("mail before")
				if id, err := call("GET", shopURL("/mails", name, key)); err != nil || id != "" {
					return id, err
				}
				p.report("mail looked")
				return call("POST", shopURL("/mails", name, key))
			})
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Location", "/orders/"+name)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, orderAnswer(movement, charge, mail))
	})
}

func orderAnswer(movement int64, charge, mail string) string {
	return fmt.Sprintf("movement %d, charge %s, mail %s", movement, charge, mail)
}

func shopURL(path, order, key string) string {
	return os.Getenv(providerVariable) + path + "?" + url.Values{"order": {order}, "key": {key}}.Encode()
}

// createMovements makes the table that reserve writes to. Nothing in it is unique, so that what is there twice is seen.
const createMovements = "CREATE TABLE stock_movements (id %s, order_name text NOT NULL)"

const insertMovement = "INSERT INTO stock_movements (order_name) VALUES ($1) RETURNING id"

func reservePostgres(ctx context.Context, order string, p reporter) (int64, error) {
	return pgstore.TxStep(ctx, "reserve", func(ctx context.Context, tx pgx.Tx) (id int64, err error) {
		p.report("reserve before")
		err = tx.QueryRow(ctx, insertMovement, order).Scan(&id)
		p.report("reserve after")
		return id, err
	})
}

func reserveSQLite(ctx context.Context, order string, p reporter) (int64, error) {
	return sqlstore.TxStep(ctx, "reserve", func(ctx context.Context, tx *sql.Tx) (id int64, err error) {
		p.report("reserve before")
		err = tx.QueryRowContext(ctx, insertMovement, order).Scan(&id)
		p.report("reserve after")
		return id, err
	})
}
