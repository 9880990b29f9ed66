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

// A member is one that a body must have.
type member struct {
	name string
	max  int64 // the largest of an integer; 0 for text
}

// The members of the bodies that we take.
var (
	reservationMembers = []member{{"item_code", 0}, {"quantity", math.MaxInt32}, {"reserved_by", 0}}
	orderMembers       = []member{{"item_code", 0}, {"quantity", math.MaxInt32}, {"ordered_by", 0}, {"card", 0}}
)

// fields are the members of a body that were asked for.
type fields struct {
	texts    map[string]string
	numbers  map[string]int64
	sequence []string // the names as they were sent
}

// A badBody says what is wrong with a body.
type badBody struct {
	kind   *kind
	detail problem.Text
}

func (b *badBody) Error() string { return b.detail.EN }

func invalidMember(en, ja string, args ...any) error {
	return &badBody{memberInvalid, text(en, ja, args...)}
}

const maxText = 200 // characters

// parseBody reads an object that must have the members. Others are ignored; one that is there twice is refused, because
// readers of JSON do not agree which of the two counts.
func parseBody(body []byte, members []member) (*fields, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, &badBody{notJSON, text("The body is empty.", "本文が空です。")}
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil {
			return nil, badJSON(err)
		}
		return nil, &badBody{memberInvalid, text("The body must be an object.", "本文はオブジェクトでなければなりません。")}
	}
	f, bad, err := readMembers(d, members)
	if err != nil {
		return nil, badJSON(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &badBody{notJSON, text("Something follows the object.", "オブジェクトの後に余分なものがあります。")}
	}
	if bad != nil {
		return nil, bad
	}
	return f, f.complete(members)
}

// readMembers reads an object to its end. Invalid JSON is an error; bad is the first member that is no good.
func readMembers(d *jsontext.Decoder, members []member) (f *fields, bad, err error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, nil, err
	}
	f = &fields{texts: make(map[string]string), numbers: make(map[string]int64)}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, nil, err
		}
		sent := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, nil, err
		}
		if i := slices.IndexFunc(members, func(m member) bool { return m.name == sent }); i >= 0 {
			if err := f.set(members[i], value); err != nil && bad == nil {
				bad = err
			}
		}
	}
	_, err = d.ReadToken()
	return f, bad, err
}

// set takes the value of one member.
func (f *fields) set(m member, value jsontext.Value) (err error) {
	if m.max > 0 {
		f.numbers[m.name], err = integerMember(m, value)
	} else {
		f.texts[m.name], err = textMember(m.name, value)
	}
	f.sequence = append(f.sequence, m.name)
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

// integerMember takes an integer between the bounds of its column. That it is positive is for others to say.
func integerMember(m member, value jsontext.Value) (int64, error) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	switch {
	case value.Kind() != '0' || errors.Is(err, strconv.ErrSyntax):
		return 0, invalidMember(`"%s" must be an integer, written without fraction or exponent.`,
			`"%s" は整数でなければなりません(小数点や指数は使えません)。`, m.name)
	case err != nil || n > m.max || n < -m.max-1:
		return 0, invalidMember(`"%s" must be from 1 to %d.`, `"%s" は 1 以上 %d 以下でなければなりません。`, m.name, m.max)
	}
	return n, nil
}

// complete says which member is missing, if one is.
func (f *fields) complete(members []member) error {
	for _, m := range members {
		if !slices.Contains(f.sequence, m.name) {
			return invalidMember(`"%s" is missing.`, `"%s" がありません。`, m.name)
		}
	}
	return nil
}

// badJSON says where a body stops being JSON.
func badJSON(err error) error {
	syntax := new(jsontext.SyntacticError)
	switch {
	case !errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF):
		return &badBody{notJSON, text("It ends too early.", "途中で終わっています。")}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &badBody{notJSON, text("%q is there twice.", "%q が重複しています。", syntax.JSONPointer.LastToken())}
	}
	at := text("It goes wrong at byte %d", "%d バイト目に誤りがあります", syntax.ByteOffset+1)
	if member := syntax.JSONPointer.LastToken(); member != "" {
		at.EN += fmt.Sprintf(", in %q", member)
		at.JA += fmt.Sprintf("(%q の中)", member)
	}
	return &badBody{notJSON, problem.Text{EN: at.EN + ".", JA: at.JA + "。"}}
}

// answer returns the body of the answer to a request that became row id: its members in the order in which they were sent.
func (f *fields) answer(id int64) []byte {
	out := append([]byte(`{"id":`), strconv.FormatInt(id, 10)...)
	for _, name := range f.sequence {
		out = append(out, `,"`+name+`":`...)
		if n, ok := f.numbers[name]; ok {
			out = strconv.AppendInt(out, n, 10)
		} else {
			out = appendQuote(out, f.texts[name])
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
