package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestBodiesThatAreRefused(t *testing.T) {
	member := func(quantity string) string {
		return `{"item_code":"PJ-001","quantity":` + quantity + `,"reserved_by":"taro"}`
	}
	bodies := []struct{ name, contentType, body, code, names string }{
		{"empty", "application/json", "", "not-json", ""},
		{"spaces", "application/json", " \n", "not-json", ""},
		{"cut off", "application/json", `{"item_code":"PJ-0`, "not-json", "too early"},
		{"no value", "application/json", `{"quantity":}`, "not-json", "byte 13"},
		{"comma", "application/json", `{"quantity":1,}`, "not-json", ""},
		{"comment", "application/json", `{/**/}`, "not-json", ""},
		{"name without quotes", "application/json", `{quantity:1}`, "not-json", ""},
		{"garbage after", "application/json", projector + "x", "not-json", "follows"},
		{"object after", "application/json", projector + projector, "not-json", "follows"},
		{"invalid UTF-8", "application/json", `{"item_code":"` + "\xff" + `"}`, "not-json", "item_code"},
		{"half a surrogate", "application/json", `{"item_code":"\ud800"}`, "not-json", "item_code"},
		{"member twice", "application/json", `{"quantity":1,"quantity":2}`, "not-json", "quantity"},
		{"array", "application/json", `[` + projector + `]`, "member-invalid", "object"},
		{"null", "application/json", `null`, "member-invalid", "object"},
		{"text", "application/json", `"PJ-001"`, "member-invalid", "object"},
		{"nothing in it", "application/json", `{}`, "member-invalid", "item_code"},
		{"item_code missing", "application/json", `{"quantity":1,"reserved_by":"taro"}`, "member-invalid", "item_code"},
		{"quantity missing", "application/json", `{"item_code":"PJ-001","reserved_by":"taro"}`, "member-invalid", "quantity"},
		{"reserved_by missing", "application/json", `{"item_code":"PJ-001","quantity":1}`, "member-invalid", "reserved_by"},
		{"other case", "application/json", `{"Item_Code":"PJ-001","quantity":1,"reserved_by":"taro"}`, "member-invalid", "item_code"},
		{"item_code a number", "application/json", `{"item_code":1,"quantity":1,"reserved_by":"taro"}`, "member-invalid", "item_code"},
		{"item_code null", "application/json", `{"item_code":null,"quantity":1,"reserved_by":"taro"}`, "member-invalid", "item_code"},
		{"item_code empty", "application/json", `{"item_code":"","quantity":1,"reserved_by":"taro"}`, "member-invalid", "item_code"},
		{"reserved_by blank", "application/json", `{"item_code":"PJ-001","quantity":1,"reserved_by":" \t"}`, "member-invalid", "reserved_by"},
		{"reserved_by long", "application/json", `{"item_code":"PJ-001","quantity":1,"reserved_by":"` + strings.Repeat("漢", 201) + `"}`, "member-invalid", "reserved_by"},
		{"U+0000", "application/json", `{"item_code":"a\u0000b","quantity":1,"reserved_by":"taro"}`, "member-invalid", "item_code"},
		{"quantity text", "application/json", member(`"1"`), "member-invalid", "quantity"},
		{"quantity null", "application/json", member(`null`), "member-invalid", "quantity"},
		{"quantity true", "application/json", member(`true`), "member-invalid", "quantity"},
		{"quantity fraction", "application/json", member(`1.5`), "member-invalid", "quantity"},
		{"quantity exponent", "application/json", member(`1e2`), "member-invalid", "quantity"},
		{"quantity object", "application/json", member(`{}`), "member-invalid", "quantity"},
		{"quantity above int32", "application/json", member(`2147483648`), "member-invalid", "quantity"},
		{"quantity above int64", "application/json", member(`9223372036854775808`), "member-invalid", "quantity"},
		{"quantity below int64", "application/json", member(`-9223372036854775809`), "member-invalid", "quantity"},
		{"quantity leading zero", "application/json", member(`01`), "not-json", "byte 35"},
		{"form", "application/x-www-form-urlencoded", projector, "media-type-unsupported", ""},
		{"text/plain", "text/plain", projector, "media-type-unsupported", ""},
		{"JSON of another kind", "application/problem+json", projector, "media-type-unsupported", ""},
		{"no type", "", projector, "media-type-unsupported", ""},
	}
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		for _, b := range bodies {
			t.Run(b.name, func(t *testing.T) {
				a := s.do("POST", "/reservations", b.body, "Content-Type: "+b.contentType, "Idempotency-Key: k")
				status := 400
				if b.code == "media-type-unsupported" {
					status = 415
				}
				wantProblem(t, a, status, b.code)
				if !strings.Contains(a.body, b.names) {
					t.Errorf("%s does not tell of %s", a.body, b.names)
				}
			})
		}
		s.wantCount(0)
		if text := s.logs.String(); text != "" {
			t.Errorf("a client's mistake was logged as ours:\n%s", text)
		}
	})
}

func TestBodiesThatAreTaken(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		long := strings.Repeat("漢", 200)
		wantCreated(t, s.reserve("1", `{"item_code":"`+long+`","quantity":2147483647,"reserved_by":"\u592a\ud83d\ude00\n"}`),
			`{"id":1,"item_code":"`+long+`","quantity":2147483647,"reserved_by":"太😀\n"}`)
		a := s.do("POST", "/reservations", projector, `Content-Type: application/JSON; charset="utf-8"`, "Idempotency-Key: 2")
		wantCreated(t, a, `{"id":2,"item_code":"PJ-001","quantity":1,"reserved_by":"taro"}`)
	})
}

func FuzzParseBody(fuzz *testing.F) {
	for _, body := range []string{projector, `{}`, `[]`, `{"quantity":-0}`, `{"item_code":"\u0000"}`, `{"a":{"b":[1,{}]}}`, "{\xff}"} {
		fuzz.Add([]byte(body))
	}
	fuzz.Fuzz(func(t *testing.T, body []byte) {
		f, err := parseBody(body, reservationMembers)
		if err != nil {
			if bad := new(badBody); !errors.As(err, &bad) || bad.detail.EN == "" || bad.detail.JA == "" {
				t.Fatalf("%q: an error without explanation: %v", body, err)
			}
			return
		}
		// What was taken can be answered, and means the same to any reader of JSON.
		var got, sent struct {
			ItemCode   string `json:"item_code"`
			Quantity   int32  `json:"quantity"`
			ReservedBy string `json:"reserved_by"`
		}
		if err := json.Unmarshal(f.answer(1), &got); err != nil {
			t.Fatalf("%q: answer %s: %v", body, f.answer(1), err)
		}
		if got.ItemCode != f.texts["item_code"] || int64(got.Quantity) != f.numbers["quantity"] || got.ReservedBy != f.texts["reserved_by"] {
			t.Fatalf("%q: answer %s", body, f.answer(1))
		}
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Fatalf("%q was taken, but is not JSON: %v", body, err)
		}
	})
}
