package pgtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Codes in the place of the protocol version, in the first message of a connection.
const (
	protocolVersion = 3 << 16
	cancelRequest   = 80877102
	sslRequest      = 80877103
	gssRequest      = 80877104
)

// Kinds of messages. The same letter means different things in the two directions.
const (
	kindQuery     = 'Q'
	kindParse     = 'P'
	kindBind      = 'B'
	kindExecute   = 'E'
	kindClose     = 'C'
	kindFlush     = 'H'
	kindSync      = 'S'
	kindTerminate = 'X'

	kindReady    = 'Z'
	kindComplete = 'C'
	kindError    = 'E'
	kindAuth     = 'R'
)

// maxMessage bounds what one message may make us allocate. It is PostgreSQL's own limit.
const maxMessage = 1 << 30

// message is one message of the protocol (version 3) after the first.
type message struct {
	kind byte
	body []byte
}

func readMessage(r io.Reader) (message, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	body, err := readBody(r, head[1:])
	return message{kind: head[0], body: body}, err
}

// readStartup reads a connection's first message, which has no kind, and returns its code too.
func readStartup(r io.Reader) (code uint32, body []byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	body, err = readBody(r, head[:])
	if err == nil && len(body) < 4 {
		err = errors.New("the first message is too short")
	}
	if err != nil {
		return 0, nil, err
	}
	return binary.BigEndian.Uint32(body), body, nil
}

// readBody reads what a length field announces. The field counts itself.
func readBody(r io.Reader, length []byte) ([]byte, error) {
	n := binary.BigEndian.Uint32(length)
	if n < 4 || n > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes: this is not the PostgreSQL protocol", n)
	}
	body := make([]byte, n-4)
	_, err := io.ReadFull(r, body)
	return body, err
}

func (m message) writeTo(w io.Writer) error {
	buf := append(make([]byte, 0, 5+len(m.body)), m.kind)
	_, err := w.Write(appendBody(buf, m.body))
	return err
}

func appendBody(buf, body []byte) []byte {
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(body)+4))
	return append(buf, body...)
}

// strings returns the first n zero-terminated strings of the body, empty where it ends early.
func (m message) strings(n int) []string {
	out := make([]string, n)
	rest := m.body
	for i := range out {
		text, after, found := bytes.Cut(rest, []byte{0})
		if !found {
			break
		}
		out[i], rest = string(text), after
	}
	return out
}

// errorText is the human part of an ErrorResponse, with its SQLSTATE.
func (m message) errorText() string {
	fields := map[byte]string{}
	for _, field := range bytes.Split(m.body, []byte{0}) {
		if len(field) > 1 {
			fields[field[0]] = string(field[1:])
		}
	}
	return fmt.Sprintf("%s (SQLSTATE %s)", fields['M'], fields['C'])
}

// dial opens a connection and logs in without a password.
func dial(address, user, database string) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if err := logIn(conn, user, database); err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	return conn, nil
}

func logIn(conn net.Conn, user, database string) error {
	body := binary.BigEndian.AppendUint32(nil, protocolVersion)
	body = append(body, "user\x00"+user+"\x00database\x00"+database+"\x00\x00"...)
	if _, err := conn.Write(appendBody(nil, body)); err != nil {
		return err
	}
	for {
		m, err := readMessage(conn)
		switch {
		case err != nil:
			return err
		case m.kind == kindReady:
			return nil
		case m.kind == kindError:
			return errors.New(m.errorText())
		case m.kind == kindAuth && !bytes.Equal(m.body, make([]byte, 4)):
			return errors.New("the server wants a password")
		}
	}
}

// ping reports whether a server accepts connections.
func ping(address, user, database string) error {
	return execute(address, user, database, "")
}

// execute connects, runs one statement without parameters, and disconnects.
func execute(address, user, database, sql string) error {
	conn, err := dial(address, user, database)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(readyTimeout))
	if err := (message{kindQuery, []byte(sql + "\x00")}).writeTo(conn); err != nil {
		return err
	}
	for {
		m, err := readMessage(conn)
		switch {
		case err != nil:
			return err
		case m.kind == kindError:
			return errors.New(m.errorText())
		case m.kind == kindReady:
			return message{kind: kindTerminate}.writeTo(conn)
		}
	}
}
