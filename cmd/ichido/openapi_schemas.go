package main

import "slices"

func content(schema string) object {
	return object{"application/json": object{"schema": object{"$ref": "#/components/schemas/" + schema}}}
}

// components returns the schemas of what the office keeps, and how tokens are sent. The library adds its own.
func (d describer) components() object {
	text := object{"type": "string", "minLength": 1, "maxLength": maxText, "pattern": `\S`}
	yen := object{"type": "integer", "format": "int64", "minimum": 0, "description": "In yen."}
	all := object{
		"id":          object{"$ref": "#/components/schemas/ID"},
		"item_code":   text,
		"quantity":    object{"type": "integer", "format": "int32", "minimum": 1},
		"reserved_by": text,
		"ordered_by":  text,
		"card":        text,
		"amount":      yen,
		"charge":      object{"type": "string", "description": "The provider's name of the payment; absent until there is one."},
		"status":      object{"type": "string", "enum": []any{statusReserved, statusCharged, statusConfirmed, statusDeclined}},
		"created_at":  object{"type": "string", "format": "date-time"},
		"code":        text,
		"name_en":     text,
		"name_ja":     text,
		"price":       yen,
		"stock":       object{"type": "integer", "format": "int32", "minimum": 0, "description": "What orders may take."},
		"reserved":    object{"type": "integer", "format": "int64", "minimum": 0, "description": "What all reservations together hold. They are not refused when it is more than the stock."},
	}
	fields := func(required []string, optional ...string) object {
		properties, names := object{}, []any{}
		for _, name := range slices.Concat(required, optional) {
			properties[name] = all[name]
		}
		for _, name := range required {
			names = append(names, name)
		}
		return object{"type": "object", "required": names, "properties": properties}
	}
	page := func(name, of string) object {
		return object{
			"type":     "object",
			"required": []any{name},
			"properties": object{
				name:   object{"type": "array", "items": object{"$ref": "#/components/schemas/" + of}},
				"next": object{"type": "string", "format": "uri-reference", "description": "Where the next page is; absent on the last."},
			},
		}
	}
	reserved, ordered := []string{"id", "item_code", "quantity", "reserved_by"}, []string{"id", "item_code", "quantity", "ordered_by", "amount", "status"}
	reservation := fields(reserved[1:])
	reservation["description"] = "What to reserve. Other members are ignored."
	reservation["examples"] = []any{object{"item_code": "PJ-001", "quantity": 1, "reserved_by": "taro"}}
	order := fields([]string{"item_code", "quantity", "ordered_by", "card"})
	order["description"] = "What to order. The card is what the provider calls it. Other members are ignored."
	order["examples"] = []any{object{"item_code": "PP-500", "quantity": 2, "ordered_by": "taro", "card": "visa"}}
	items := page("items", "Item")
	delete(items["properties"].(object), "next")
	components := object{"schemas": object{
		"ID":          object{"type": "integer", "format": "int64", "minimum": 1},
		"Reservation": reservation,
		"Created":     fields(reserved),
		"Entry":       fields(append(reserved, "created_at")),
		"Page":        page("reservations", "Entry"),
		"Item":        fields([]string{"code", "name_en", "name_ja", "price", "stock", "reserved"}),
		"Items":       items,
		"Order":       order,
		"Ordered":     fields(append(ordered, "charge")),
		"OrderEntry":  fields(append(ordered, "created_at"), "charge"),
		"OrderPage":   page("orders", "OrderEntry"),
	}}
	if d.withTokens {
		components["securitySchemes"] = object{"token": object{
			"type": "http", "scheme": "bearer",
			"description": "A token of the server. Keys belong to its name, so its secret can be replaced between two tries.",
		}}
	}
	return components
}
