package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"github.com/ichido-dev/ichido"
)

// A row is what a claim reads of its key. nil is that of a key without a record.
type row struct {
	fingerprint []byte
	status      sql.Null[int] // NULL while there is no answer
	header      []byte
	body        []byte
	absent      bool  // past its retention, and no lease is running: as good as none
	live        bool  // an attempt holds a running lease
	token       int64 // of the last attempt in lease mode, or 0
	rerun       bool  // another attempt may follow when the lease has run out
	resumes     bool  // the operation has steps: another attempt follows
	again       bool  // it has not had all its attempts
}

// read returns the row of a key, or nil if it has none.
func read(ctx context.Context, stmt *sql.Stmt, scope, key string) (*row, error) {
	var r row
	err := stmt.QueryRowContext(ctx, key, scope).
		Scan(&r.fingerprint, &r.status, &r.header, &r.body, &r.absent, &r.live, &r.token, &r.rerun, &r.resumes, &r.again)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &r, err
}

// active reports whether there is a record that counts.
func (r *row) active() bool { return r != nil && !r.absent }

func (r *row) completed() bool { return r.active() && r.status.Valid }

// answer is what a claim with the fingerprint gets to hear of an active record that it cannot have.
func (r *row) answer(fingerprint []byte) (*ichido.Record, error) {
	switch {
	case r.status.Valid:
		return &ichido.Record{Fingerprint: r.fingerprint, Response: response(r.status.V, r.header, r.body)}, nil
	case !r.live:
		return &ichido.Record{Fingerprint: r.fingerprint, State: ichido.Unknown}, nil
	case bytes.Equal(r.fingerprint, fingerprint):
		return nil, ichido.ErrInProgress
	}
	return nil, ichido.ErrMismatch
}

// response is the answer of a record. Some drivers read an empty body as nil.
func response(status int, header, body []byte) ichido.Response {
	if body == nil {
		body = []byte{}
	}
	return ichido.Response{Status: status, Header: header, Body: body}
}
