package outbox

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ichido-dev/ichido/client"
)

// A State is where an operation of an outbox is.
type State string

const (
	// Waiting: it is to be sent, now or after a pause.
	Waiting State = "waiting"
	// Sending: a worker has it. It is another one's turn when the lease is over.
	Sending State = "sending"
	// Done: it took effect.
	Done State = "done"
	// NotDone: it certainly did not take effect, and is not sent any more.
	NotDone State = "not_done"
	// Unknown: it may have taken effect, and is not sent any more until somebody says so, by [Outbox.Retry] or [Outbox.Drop].
	Unknown State = "unknown"
	// Dropped: somebody said that it is not to be sent any more. Its name is free.
	Dropped State = "dropped"
)

// String is the state for people.
func (s State) String() string { return strings.ReplaceAll(string(s), "_", " ") }

// Decided tells whether no worker sends an operation in this state.
func (s State) Decided() bool { return s != Waiting && s != Sending }

// An Entry is an operation in an outbox.
type Entry struct {
	// ID is its number, in the order in which operations were put.
	ID int64
	// Name and Subject are as in [Operation].
	Name, Subject string
	// Key is what the server recognises the operation by, Target the name of the target that takes it.
	Key, Target string
	Method, URL string
	Header      http.Header // without credentials
	Body        []byte      // nil in a list, where BodySize tells of it
	BodySize    int

	State State
	// Sent tells whether it may have taken effect: it was sent, or a worker died while it had it.
	Sent bool
	// Attempts is how often a worker began to send it.
	Attempts int
	// Answer is that of the last attempt; nil if it had none.
	Answer *Answer
	// Resource is as in [client.Result].
	Resource string
	// Err says why it is not done: what went wrong last, for people.
	Err string

	CreatedAt, FirstSentAt time.Time // FirstSentAt is zero if it certainly took no effect so far
	// DueAt is when a worker will look at it, or, in the state Sending, when the worker's lease ends. Zero if none will.
	DueAt time.Time
	// SendUntil is when it is given up: the server may have forgotten its key, or it waited for too long to be sent at all.
	SendUntil time.Time
	// DecidedAt is zero while it is waiting or being sent. PurgeAt is zero for one that is not purged.
	DecidedAt, PurgeAt time.Time
	// By and Reason are of [Outbox.Drop] and [Outbox.Retry].
	By, Reason string

	hash  []byte
	token int64
	now   time.Time // by the database
}

// An Answer is what the server answered.
type Answer struct {
	Status int
	Header http.Header // without cookies
	Body   []byte      // nil in a list
	// Cut tells that Body is not all of it: it was longer than Config.MaxAnswer, or it broke off.
	Cut bool
}

// Outcome is what is known of the operation now. One that was dropped is Unknown if it may have been sent.
func (e *Entry) Outcome() client.Outcome {
	switch {
	case e.State == Done:
		return client.Done
	case e.State == NotDone, e.State != Unknown && !e.Sent && e.State != Sending:
		return client.NotDone
	}
	return client.Unknown
}

// String names the operation for people, without its key.
func (e *Entry) String() string { return named(e.ID, e.Name) }

func named(id int64, name string) string {
	if name != "" {
		return "operation " + name
	}
	return fmt.Sprintf("operation %d", id)
}

// columns are those of an entry, as scan takes them. The bodies are given by the expressions.
func (d *Dialect) columns(body, answer string) string {
	return `id, operation, subject, idem_key, request_hash, target, method, url, headers, state, sent, attempts, lease_token,
		last_error, answer_status, answer_headers, answer_cut, resource, settled_by, reason, coalesce(length(body), 0), ` +
		d.ms("created_at") + `, ` + d.ms("first_sent_at") + `, ` + d.ms("due_at") + `, ` + d.ms("decided_at") + `, ` + d.ms("purge_at") + `, ` +
		d.ms(`CASE WHEN first_sent_at IS NULL THEN expires_at ELSE `+d.after("first_sent_at", "memory")+` END`) + `, ` +
		d.ms(d.now) + `, ` + body + `, ` + answer
}

// scan reads the columns of an entry. It returns nil if there is no row.
func scan(row Row) (*Entry, error) {
	var (
		e                                                                Entry
		name, subject, failure, answerHeader, resource, by, reason       sql.NullString
		header                                                           string
		status, created, firstSent, due, decided, purged, sendUntil, now sql.NullInt64
		cut                                                              bool
		answer                                                           []byte
	)
	err := row.Scan(&e.ID, &name, &subject, &e.Key, &e.hash, &e.Target, &e.Method, &e.URL, &header, &e.State, &e.Sent, &e.Attempts, &e.token,
		&failure, &status, &answerHeader, &cut, &resource, &by, &reason, &e.BodySize,
		&created, &firstSent, &due, &decided, &purged, &sendUntil, &now, &e.Body, &answer)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e.Name, e.Subject, e.Err, e.Resource, e.By, e.Reason = name.String, subject.String, failure.String, resource.String, by.String, reason.String
	for _, t := range []struct {
		to   *time.Time
		from sql.NullInt64
	}{{&e.CreatedAt, created}, {&e.FirstSentAt, firstSent}, {&e.DueAt, due}, {&e.DecidedAt, decided}, {&e.PurgeAt, purged}, {&e.SendUntil, sendUntil}, {&e.now, now}} {
		if t.from.Valid {
			*t.to = time.UnixMilli(t.from.Int64)
		}
	}
	if err := json.Unmarshal([]byte(header), &e.Header); err != nil {
		return nil, fmt.Errorf("the column headers of %s: %w", &e, err)
	}
	if status.Valid {
		e.Answer = &Answer{Status: int(status.Int64), Body: answer, Cut: cut}
		if err := json.Unmarshal([]byte(answerHeader.String), &e.Answer.Header); err != nil {
			return nil, fmt.Errorf("the column answer_headers of %s: %w", &e, err)
		}
	}
	return &e, nil
}
