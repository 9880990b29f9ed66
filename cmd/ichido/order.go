package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/ichido-dev/ichido/internal/problem"
)

// An order is the body of a request for a reservation.
type order struct {
	reservation
	sequence []string // the members as they were sent
}

// A badOrder says what is wrong with a body.
type badOrder struct {
	kind   *kind
	detail problem.Text
}

func (b *badOrder) Error() string { return b.detail.EN }

func invalidMember(en, ja string, args ...any) error {
	return &badOrder{memberInvalid, text(en, ja, args...)}
}

// members are what an order must have.
var members = []string{"item_code", "quantity", "reserved_by"}

const maxText = 200 // characters

// parseOrder reads an order. Members that it does not know are ignored; one that is there twice is refused, because
// readers of JSON do not agree which of the two counts.
func parseOrder(body []byte) (*order, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, &badOrder{notJSON, text("The body is empty.", "本文が空です。")}
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil {
			return nil, badJSON(err)
		}
		return nil, &badOrder{memberInvalid, text("The body must be an object.", "本文はオブジェクトでなければなりません。")}
	}
	o, bad, err := readMembers(d)
	if err != nil {
		return nil, badJSON(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &badOrder{notJSON, text("Something follows the object.", "オブジェクトの後に余分なものがあります。")}
	}
	if bad != nil {
		return nil, bad
	}
	return o, o.complete()
}

// readMembers reads an object to its end. Invalid JSON is an error; bad is the first member that is no good.
func readMembers(d *jsontext.Decoder) (o *order, bad, err error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, nil, err
	}
	o = new(order)
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, nil, err
		}
		member := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, nil, err
		}
		if err := o.set(member, value); err != nil && bad == nil {
			bad = err
		}
	}
	_, err = d.ReadToken()
	return o, bad, err
}

// set takes the value of one member.
func (o *order) set(member string, value jsontext.Value) (err error) {
	switch member {
	case "item_code":
		o.itemCode, err = textMember(member, value)
	case "quantity":
		o.quantity, err = integerMember(member, value)
	case "reserved_by":
		o.reservedBy, err = textMember(member, value)
	default:
		return nil
	}
	o.sequence = append(o.sequence, member)
	return err
}

func textMember(member string, value jsontext.Value) (string, error) {
	if value.Kind() != '"' {
		return "", invalidMember(`"%s" must be text.`, `"%s" は文字列でなければなりません。`, member)
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return "", badJSON(err) // cannot be: the value was read as JSON
	}
	s := string(unquoted)
	switch {
	case strings.TrimSpace(s) == "":
		return "", invalidMember(`"%s" must not be empty.`, `"%s" を空にはできません。`, member)
	case utf8.RuneCountInString(s) > maxText:
		return "", invalidMember(`"%s" must not be longer than %d characters.`, `"%s" は %d 文字以内でなければなりません。`, member, maxText)
	case strings.ContainsRune(s, 0): // PostgreSQL cannot keep it
		return "", invalidMember(`"%s" must not contain the character U+0000.`, `"%s" に文字 U+0000 は使えません。`, member)
	}
	return s, nil
}

// integerMember takes any integer that the column can hold. That it is positive is for the table to say.
func integerMember(member string, value jsontext.Value) (int32, error) {
	n, err := strconv.ParseInt(string(value), 10, 32)
	switch {
	case value.Kind() != '0' || errors.Is(err, strconv.ErrSyntax):
		return 0, invalidMember(`"%s" must be an integer, written without fraction or exponent.`,
			`"%s" は整数でなければなりません(小数点や指数は使えません)。`, member)
	case err != nil:
		return 0, invalidMember(`"%s" must be from 1 to %d.`, `"%s" は 1 以上 %d 以下でなければなりません。`, member, math.MaxInt32)
	}
	return int32(n), nil
}

// complete says which member is missing, if one is.
func (o *order) complete() error {
	for _, member := range members {
		if !slices.Contains(o.sequence, member) {
			return invalidMember(`"%s" is missing.`, `"%s" がありません。`, member)
		}
	}
	return nil
}

// badJSON says where a body stops being JSON.
func badJSON(err error) error {
	syntax := new(jsontext.SyntacticError)
	switch {
	case !errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF):
		return &badOrder{notJSON, text("It ends too early.", "途中で終わっています。")}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &badOrder{notJSON, text("%q is there twice.", "%q が重複しています。", syntax.JSONPointer.LastToken())}
	}
	at := text("It goes wrong at byte %d", "%d バイト目に誤りがあります", syntax.ByteOffset+1)
	if member := syntax.JSONPointer.LastToken(); member != "" {
		at.EN += fmt.Sprintf(", in %q", member)
		at.JA += fmt.Sprintf("(%q の中)", member)
	}
	return &badOrder{notJSON, problem.Text{EN: at.EN + ".", JA: at.JA + "。"}}
}

// answer returns the body of the answer to an order that became reservation id: its members in the order in which they
// were sent.
func (o *order) answer(id int64) []byte {
	out := append([]byte(`{"id":`), strconv.FormatInt(id, 10)...)
	for _, member := range o.sequence {
		out = append(out, `,"`+member+`":`...)
		switch member {
		case "item_code":
			out = appendQuote(out, o.itemCode)
		case "quantity":
			out = strconv.AppendInt(out, int64(o.quantity), 10)
		case "reserved_by":
			out = appendQuote(out, o.reservedBy)
		}
	}
	return append(out, "}\n"...)
}

func appendQuote(out []byte, s string) []byte {
	out, err := jsontext.AppendQuote(out, s)
	if err != nil { // fails for invalid UTF-8 only, which did not come through textMember
		panic(err)
	}
	return out
}
