// Package routertest shows, and tests, how ichido stands under the usual routers: net/http's ServeMux, chi, gin and echo.
// It is a module of its own, so that no user of ichido gets a router with it. Its mountings are meant to be copied.
//
// Two rules hold for all of them.
//
// What stands behind [ichido.Manager.Wrap] runs again, from the start, when the database aborted the transaction to keep
// order. A router that notes in the request how far it has come must begin anew:
//
//   - net/http: nothing to do. mux.Handle("POST /orders", once.Wrap(h)), or once.Wrap(mux).
//   - chi: r.With(once.Wrap).Post("/orders", h), or once.Wrap(r). After r.Use(once.Wrap) chi goes on routing, so
//     freshRouteContext must come next: r.Use(once.Wrap, freshRouteContext).
//   - gin: once.Wrap(engine), gin.WrapH(once.Wrap(h)), or the function once of this package around a gin.HandlerFunc.
//     A gin.HandlerFunc for Use cannot be made of Wrap, because c.Next does nothing the second time.
//   - echo: once.Wrap(e), echo.WrapHandler(once.Wrap(h)), or the function onceEcho of this package as middleware.
//     echo.WrapMiddleware(once.Wrap) alone is wrong: an error that a handler returns passes ichido by.
//
// What decides about the answer stands behind Wrap, what belongs to the connection or the caller in front: handlers that
// authenticate, allow other origins, number requests, compress and recover from panics in front; handlers of errors
// behind. A handler that compresses may stand behind as well: then the compressed answer is what is stored and replayed. A handler
// that recovers must not: it hides that the handler failed, and if the handler had begun to answer, a success is
// committed.
//
// A key is unique within its principal and route. Where the router has found its pattern when Wrap is asked and says so
// in http.Request.Pattern (ServeMux, chi's With, echo), that is the route; elsewhere it is the path.
package routertest
