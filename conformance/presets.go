package conformance

// Presets are the names of the descriptions that [Preset] has.
var Presets = []string{"ichido", "draft-07", "stripe"}

// Preset returns a new copy of a description to begin with:
//
//   - ichido: the API of "ichido serve", and all that ichido promises
//   - draft-07: the same requests; promised is what draft-ietf-httpapi-idempotency-key-header-07 asks for
//   - stripe: forms, bare and optional keys, and the choices of Stripe's API; the request makes a customer
//
// Of the last two a description changes at least the request and the effects. It reports false for another name.
func Preset(name string) (API, bool) {
	switch name {
	case "ichido":
		return ichidoAPI(), true
	case "draft-07":
		return draftAPI(), true
	case "stripe":
		return stripeAPI(), true
	}
	return API{}, false
}

func ichidoAPI() API {
	const body = `{"item_code":"{item}","quantity":{quantity},"reserved_by":"ichido verify"}`
	return API{
		Name: "ichido",
		Request: Request{
			Path:    "/reservations",
			Headers: map[string]string{"Content-Type": "application/json"},
			Body:    body,
			Invalid: `{"item_code":"{item}","quantity":0,"reserved_by":"ichido verify"}`,
		},
		Key: Key{Marker: "Idempotent-Replayed"},
		Effects: Effects{Get: "/reservations", At: "/reservations", Where: "/item_code", ID: "/id", Next: "/next",
			NewestFirst: true, Answer: "/id"},
		Policy: "/.well-known/idempotency",
		Expect: Expect{Success: Replies{"201"}, ServerError: Replies{execute}, Problems: true, Documentation: true, RetryAfter: true},
	}
}

func draftAPI() API {
	a := ichidoAPI()
	a.Name, a.Key.Marker, a.Policy = "draft-07", "", ""
	a.Expect = Expect{Documentation: true}
	return a
}

func stripeAPI() API {
	return API{
		Name: "stripe",
		Request: Request{
			Path:    "/v1/customers",
			Headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
			Body:    "email={item}@example.com&balance={quantity}",
			Invalid: "email={item}@example.com&balance=none",
		},
		Key: Key{Form: "bare", Optional: true, Marker: "Idempotent-Replayed"},
		Effects: Effects{Get: "/v1/customers?email={item}@example.com&limit=100", At: "/data", ID: "/id",
			After: "starting_after", Answer: "/id"},
		Expect: Expect{
			Mismatch:    Replies{"400"},
			InProgress:  Replies{"409"},
			Corrected:   Replies{"400", execute},
			ServerError: Replies{replay},
		},
	}
}
