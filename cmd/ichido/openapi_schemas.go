package main

func content(schema string) object {
	return object{"application/json": object{"schema": object{"$ref": "#/components/schemas/" + schema}}}
}

// components returns the schemas of reservations, and how tokens are sent. The library adds its own.
func (d describer) components() object {
	text := object{"type": "string", "minLength": 1, "maxLength": maxText, "pattern": `\S`}
	fields := func(names ...string) object {
		all := object{
			"id":          object{"$ref": "#/components/schemas/ID"},
			"item_code":   text,
			"quantity":    object{"type": "integer", "format": "int32", "minimum": 1},
			"reserved_by": text,
			"created_at":  object{"type": "string", "format": "date-time"},
		}
		properties, required := object{}, []any{}
		for _, name := range names {
			properties[name] = all[name]
			required = append(required, name)
		}
		return object{"type": "object", "required": required, "properties": properties}
	}
	order := fields(members...)
	order["description"] = "What to reserve. Other members are ignored."
	order["examples"] = []any{object{"item_code": "PJ-001", "quantity": 1, "reserved_by": "taro"}}
	components := object{"schemas": object{
		"ID":          object{"type": "integer", "format": "int64", "minimum": 1},
		"Reservation": order,
		"Created":     fields(append([]string{"id"}, members...)...),
		"Entry":       fields(append([]string{"id", "created_at"}, members...)...),
		"Page": object{
			"type":     "object",
			"required": []any{"reservations"},
			"properties": object{
				"reservations": object{"type": "array", "items": object{"$ref": "#/components/schemas/Entry"}},
				"next":         object{"type": "string", "format": "uri-reference", "description": "Where the next page is; absent on the last."},
			},
		},
	}}
	if d.withTokens {
		components["securitySchemes"] = object{"token": object{
			"type": "http", "scheme": "bearer",
			"description": "A token of the server. Keys belong to its name, so its secret can be replaced between two tries.",
		}}
	}
	return components
}
