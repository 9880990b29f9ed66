package main

import (
	"slices"

	"github.com/ichido-dev/ichido"
)

// A describer makes the parts of the document that the library does not know.
type describer struct {
	policy     ichido.KeyPolicy
	withTokens bool
}

func (d describer) paths() object {
	id := func(of string) object {
		return object{"name": "id", "in": "path", "required": true, "description": "The number of the " + of + ".", "schema": object{"$ref": "#/components/schemas/ID"}}
	}
	page := object{"text/html": object{"schema": object{"type": "string"}}}
	lang := object{"name": "lang", "in": "query", "description": "The language; without it, by `Accept-Language`.", "schema": object{"type": "string", "enum": []any{"en", "ja"}}}
	name := object{"name": "name", "in": "path", "required": true, "description": "The code of a problem.", "schema": object{"type": "string", "enum": d.codes()}}
	anyJSON := object{"application/json": object{"schema": object{"type": "object"}}}
	return object{
		"/reservations": object{
			"get": d.secured(list("listReservations", "reservations", "Page",
				object{"name": "reserved_by", "in": "query", "description": "Whose; without it all.", "schema": object{"type": "string", "maxLength": maxText}})),
			"post": d.secured(create()),
		},
		"/reservations/{id}": object{"get": d.secured(object{
			"operationId": "getReservation",
			"summary":     "Read a reservation",
			"parameters":  []any{id("reservation")},
			"responses": responses("200", object{"description": "The reservation.", "content": content("Entry")},
				noReservation, internalFault, databaseUnreachable),
		})},
		"/items": object{"get": d.secured(object{
			"operationId": "listItems",
			"summary":     "List what can be ordered",
			"responses": responses("200", object{"description": "All items.", "content": content("Items")},
				internalFault, databaseUnreachable),
		})},
		"/orders": object{
			"get":  d.secured(list("listOrders", "orders", "OrderPage")),
			"post": d.secured(placeOrder()),
		},
		"/orders/{id}": object{"get": d.secured(object{
			"operationId": "getOrder",
			"summary":     "Read how far an order has got",
			"parameters":  []any{id("order")},
			"responses": responses("200", object{"description": "The order.", "content": content("OrderEntry")},
				noOrder, internalFault, databaseUnreachable),
		})},
		"/healthz": object{"get": object{
			"operationId": "getHealth",
			"summary":     "Ask whether the store answers",
			"responses": responses("200", object{"description": "It does.", "content": object{"application/json": object{
				"schema": object{"type": "object", "required": []any{"status"}, "properties": object{"status": object{"type": "string", "enum": []any{"ok"}}}}}}},
				internalFault, databaseUnreachable),
		}},
		"/problems/": object{"get": object{
			"operationId": "listProblems",
			"summary":     "Read about all problems",
			"parameters":  []any{lang},
			"responses":   unchanged(responses("200", object{"description": "A page for people.", "content": page})),
		}},
		"/problems/{name}": object{"get": object{
			"operationId": "getProblem",
			"summary":     "Read what a problem means and what to do",
			"parameters":  []any{name, lang},
			"responses":   unchanged(responses("200", object{"description": "A page for people.", "content": page}, noResource)),
		}},
		"/openapi.json": object{"get": object{
			"operationId": "getDescription",
			"summary":     "Read this document",
			"responses":   unchanged(responses("200", object{"description": "This document.", "content": anyJSON})),
		}},
		"/.well-known/idempotency": object{"get": object{
			"operationId": "getKeyPolicy",
			"summary":     "Read what the server publishes about its keys",
			"responses":   unchanged(responses("200", object{"description": "The policy: field, lifetime, methods, scope, problems.", "content": anyJSON})),
		}},
	}
}

func list(operation, what, page string, filters ...any) object {
	return object{
		"operationId": operation,
		"summary":     "List the " + what + ", the newest first",
		"parameters": append([]any{
			object{"name": "limit", "in": "query", "description": "How many there are on a page at most.",
				"schema": object{"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit}},
			object{"name": "cursor", "in": "query", "description": "Where the page begins; follow `next` from page to page.",
				"schema": object{"type": "integer", "format": "int64", "minimum": 1}},
		}, filters...),
		"responses": responses("200", object{"description": "A page of the list.", "content": content(page)},
			parameterInvalid, internalFault, databaseUnreachable),
	}
}

func create() object {
	return object{
		"operationId": "createReservation",
		"summary":     "Make a reservation, once for each key",
		"requestBody": object{"required": true, "content": content("Reservation")},
		"responses": responses("201", object{
			"description": "The reservation was made, now or, on a replay, before.",
			"headers": object{"Location": object{
				"description": "The path of the reservation.", "schema": object{"type": "string", "format": "uri-reference"}}},
			"content": content("Created"),
		}, notJSON, memberInvalid, mediaTypeUnsupported, internalFault, databaseUnreachable),
	}
}

func placeOrder() object {
	return object{
		"operationId": "createOrder",
		"summary":     "Order an item, charge the card and send a mail, once for each key",
		"description": "If the server dies half-way, or answers 5xx, the same request with the same key goes on where it stopped.",
		"requestBody": object{"required": true, "content": content("Order")},
		"responses": responses("201", object{
			"description": "The order is paid and confirmed, now or, on a replay, before.",
			"headers": object{"Location": object{
				"description": "The path of the order.", "schema": object{"type": "string", "format": "uri-reference"}}},
			"content": content("Ordered"),
		}, notJSON, memberInvalid, itemUnknown, cardDeclined, outOfStock, mediaTypeUnsupported,
			internalFault.saying(goesOn), databaseUnreachable.saying(goesOn), paymentUnavailable),
	}
}

// secured adds what the tokens bring to an operation.
func (d describer) secured(operation object) object {
	if !d.withTokens {
		return operation
	}
	operation["security"] = []any{object{"token": []any{}}}
	refused := problemResponse([]*kind{tokenRequired})
	refused["headers"] = object{"WWW-Authenticate": object{"description": "Bearer.", "schema": object{"type": "string"}}}
	operation["responses"].(object)["401"] = refused
	return operation
}

func (d describer) codes() []any {
	var codes []string
	for _, doc := range problemDocs(d.policy, kinds) {
		codes = append(codes, doc.Code)
	}
	slices.Sort(codes)
	var out []any
	for _, code := range codes {
		out = append(out, code)
	}
	return out
}
