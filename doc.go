// Package ichido makes an HTTP request that is sent twice take effect once.
//
// When a connection breaks, a client cannot know whether its POST arrived; if it sends it again, the same thing may be
// registered, charged or shipped twice. With ichido the client names its operation by a key, in the Idempotency-Key
// field (draft-ietf-httpapi-idempotency-key-header-07, an expired Internet-Draft that many APIs follow), and sends it
// as often as it must: the work is done once, and every sending gets the same answer.
//
// A [Manager] wraps an [net/http.Handler] or runs a function ([Do]). It keeps one record per key in a [Store]. The
// stores pgstore (PostgreSQL) and sqlstore (SQLite) hold the key, the rows that the handler writes, and the answer in
// one database transaction: a crash at any point leaves all of it or nothing.
//
//	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
//	…
//	store := pgstore.New(pool)
//	if _, err := store.Migrate(ctx); err != nil { … }
//	once, err := ichido.New(store, principal, nil)
//	…
//	mux.Handle("POST /orders", once.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//		_, err := pgstore.Tx(r.Context()).Exec(r.Context(), "INSERT INTO orders …")
//		…
//		w.WriteHeader(http.StatusCreated)
//	})))
//
// What this gives is "once" for everything inside that transaction. Work that leaves the database, such as a call to a
// payment provider, is as idempotent as the other side is. For it there is [LeaseMode]: the claim is committed first, with
// a lease that is renewed while the work runs, and the answer last. If the process dies in between, nobody can know
// whether the work took effect, and nothing runs under the key until a [Resolver] or a person has settled it.
//
// The words of this package, in its names and messages: a key is chosen by the client, one per operation; a scope is
// what it is unique within; the fingerprint recognises another request under the same key (mismatch, 422); an attempt
// is one try at executing on the server, in progress (conflict, 409) until it ends; a record is what is stored of a
// completed key, in lease mode also of one that is in progress or unknown; answering from it is a replay.
package ichido
