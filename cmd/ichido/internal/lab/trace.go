package lab

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// An Exchange is one request of a trial: what was sent, the statements that the server ran for it, and the answer.
type Exchange struct {
	Who       string `json:"who"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Key       string `json:"key,omitempty"`      // the field Idempotency-Key
	IfMatch   string `json:"if_match,omitempty"` // the field If-Match
	Body      string `json:"body,omitempty"`
	Opening   bool   `json:"opening,omitempty"`   // reads what a form is to show: not counted
	Elsewhere bool   `json:"elsewhere,omitempty"` // sent to the server that is killed

	mu         sync.Mutex  // guards what follows, until the trial is over
	Answer     Answer      `json:"answer"`
	Statements []Statement `json:"statements"`
}

// A Statement is one that was sent to the database, with its parameters written in, and what came of it.
type Statement struct {
	SQL    string `json:"sql"`
	Result string `json:"result,omitempty"` // an error, or the command tag where the driver has one
}

// An Answer is what a client got.
type Answer struct {
	Status   int    `json:"status,omitempty"` // 0 if it got none
	Body     string `json:"body,omitempty"`
	Replayed bool   `json:"replayed,omitempty"`
	Withheld bool   `json:"withheld,omitempty"` // made, but lost on the way
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *Exchange {
	e, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return e
}

// begun notes a statement that is being sent. It returns a function that notes what came of it.
func (e *Exchange) begun(sql string) func(result string) {
	if e == nil { // not of a request
		return func(string) {}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Statements = append(e.Statements, Statement{SQL: sql})
	n := len(e.Statements) - 1
	return func(result string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.Statements[n].Result = result
	}
}

// answer notes the answer.
func (e *Exchange) answer(status int, header http.Header, body []byte, withheld bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Answer = Answer{Status: status, Body: strings.TrimSpace(string(body)), Replayed: header.Get("Idempotent-Replayed") == "true", Withheld: withheld}
}

func (e *Exchange) answered() Answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Answer
}

func (e *Exchange) sent() []Statement {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Statement(nil), e.Statements...)
}

var (
	spaces      = regexp.MustCompile(`\s+`)
	placeholder = regexp.MustCompile(`\$(\d+)|\?(\d*)`)
)

// written returns a statement on one line, with its parameters as literals: it can be pasted into psql or sqlite3.
func written(sql string, args []any, bytes string) string {
	sql = strings.TrimSpace(spaces.ReplaceAllString(sql, " "))
	if len(args) == 0 {
		return sql
	}
	next := 0
	return placeholder.ReplaceAllStringFunc(sql, func(p string) string {
		next++
		n, err := strconv.Atoi(p[1:])
		if err != nil { // a bare ?
			n = next
		}
		if n < 1 || n > len(args) {
			return p
		}
		return literal(args[n-1], bytes)
	})
}

// literal writes a value in SQL. bytes is the form of one that is bytes.
func literal(value any, bytes string) string {
	switch v := value.(type) {
	case nil:
		return "NULL"
	case []byte:
		if v == nil {
			return "NULL"
		}
		return fmt.Sprintf(bytes, hex.EncodeToString(v))
	case int, int16, int32, int64:
		text := fmt.Sprint(v)
		if text[0] == '-' { // -1::int8 is -(1::int8), which does not hold the smallest
			return "'" + text + "'"
		}
		return text
	}
	return "'" + strings.ReplaceAll(fmt.Sprint(value), "'", "''") + "'"
}
