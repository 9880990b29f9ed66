package pgtest

import (
	"encoding/binary"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

// client is just enough of a PostgreSQL client to test with: it sends exactly the messages it is told.
type client struct {
	t    testing.TB
	conn net.Conn
}

func connect(t testing.TB, dsn string) *client {
	t.Helper()
	c, err := tryConnect(t, dsn)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tryConnect(t testing.TB, dsn string) (*client, error) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dial(u.Host, u.User.Username(), strings.TrimPrefix(u.Path, "/"))
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn}, nil
}

// send writes all messages in one packet, as a pipelining driver does.
func (c *client) send(messages ...message) error {
	var buf []byte
	for _, m := range messages {
		buf = appendBody(append(buf, m.kind), m.body)
	}
	_, err := c.conn.Write(buf)
	return err
}

// receive reads until n requests are answered. It returns the command tags, and the first error of the
// server or the connection.
func (c *client) receive(n int) (tags []string, err error) {
	for n > 0 {
		m, readErr := readMessage(c.conn)
		if readErr != nil {
			return tags, errors.Join(err, readErr)
		}
		switch m.kind {
		case kindReady:
			n--
		case kindComplete:
			tags = append(tags, m.strings(1)[0])
		case kindError:
			if err == nil {
				err = errors.New(m.errorText())
			}
		}
	}
	return tags, err
}

// query runs simple queries, one after the other.
func (c *client) query(statements ...string) error {
	for _, sql := range statements {
		if err := c.send(simple(sql)); err != nil {
			return err
		}
		if _, err := c.receive(1); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) must(statements ...string) {
	c.t.Helper()
	if err := c.query(statements...); err != nil {
		c.t.Fatal(err)
	}
}

// text returns the first column of the first row.
func (c *client) text(sql string) string {
	c.t.Helper()
	if err := c.send(simple(sql)); err != nil {
		c.t.Fatal(err)
	}
	var value string
	for {
		m, err := readMessage(c.conn)
		switch {
		case err != nil:
			c.t.Fatal(err)
		case m.kind == 'D':
			// Two bytes of column count, four of the value's length.
			size := binary.BigEndian.Uint32(m.body[2:])
			value = string(m.body[6 : 6+size])
		case m.kind == kindError:
			c.t.Fatalf("%s: %s", sql, m.errorText())
		case m.kind == kindReady:
			return value
		}
	}
}

func simple(sql string) message { return message{kindQuery, []byte(sql + "\x00")} }

func parse(name, sql string) message {
	return message{kindParse, []byte(name + "\x00" + sql + "\x00\x00\x00")}
}

func bind(portal, statement string) message {
	return message{kindBind, []byte(portal + "\x00" + statement + "\x00\x00\x00\x00\x00\x00\x00")}
}

func executePortal(portal string) message {
	return message{kindExecute, []byte(portal + "\x00\x00\x00\x00\x00")}
}

// run is a statement without a name, prepared and executed at once.
func run(sql string) []message { return []message{parse("", sql), bind("", ""), executePortal("")} }

var (
	syncUp = message{kind: kindSync}
	flush  = message{kind: kindFlush}
)

// happens fails the test when the channel is not closed soon.
func happens(t testing.TB, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(20 * time.Second):
		t.Fatal("the cut did not happen")
	}
}

// notYet fails the test when the channel is closed already.
func notYet(t testing.TB, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
		t.Fatal("the cut happened too early")
	default:
	}
}
