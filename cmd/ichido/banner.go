package main

import (
	"crypto/rand"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// banner is what serve prints when it is ready: where, what, and commands to try.
func banner(o serveOptions, where string, addr net.Addr) string {
	base := baseURL(o.addr, addr)
	inProgress := "reject: a duplicate of a running request gets 409 at once"
	if o.inProgress == "wait" {
		inProgress = fmt.Sprintf("wait: a duplicate of a running request gets its answer, or 409 after %s", short(o.waitLimit))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ichido serves reservations and orders at %s\n", base)
	fmt.Fprintf(&b, "  page         %s/ in a browser\n", base)
	fmt.Fprintf(&b, "  data         %s\n", where)
	fmt.Fprintf(&b, "  in progress  %s\n", inProgress)
	fmt.Fprintf(&b, "  retention    %s: a key that comes back later is a new operation\n", short(o.retention))
	if o.work > 0 {
		fmt.Fprintf(&b, "  work         takes %s\n", short(o.work))
	}
	finish := "when they are sent again"
	if o.finishEvery > 0 {
		finish = "looked for every " + short(o.finishEvery)
	}
	fmt.Fprintf(&b, "  payments     by %s\n", o.pay)
	fmt.Fprintf(&b, "  mails        go to %s\n", o.mailbox)
	fmt.Fprintf(&b, "  orders       of a process that died go on after %s, %s\n", short(o.lease), finish)
	token := ""
	if len(o.token) > 0 {
		token = `-H "Authorization: Bearer $TOKEN" `
		fmt.Fprintf(&b, "  tokens       %d: requests need one, and keys belong to its name; put yours into $TOKEN\n", len(o.token))
	}
	fmt.Fprintf(&b, `
Reserve a projector; send it twice, and it is reserved once:
  curl -i %[1]s/reservations %[2]s-H 'Content-Type: application/json' -H 'Idempotency-Key: "%[3]s"' -d '{"item_code":"PJ-001","quantity":1,"reserved_by":"taro"}'
See what is reserved:
  curl %[2]s%[1]s/reservations
Order copy paper; it is charged and mailed once (needs a payment provider: ichido fakepay):
  curl -i %[1]s/orders %[2]s-H 'Content-Type: application/json' -H 'Idempotency-Key: "%[4]s"' -d '{"item_code":"PP-500","quantity":2,"ordered_by":"taro","card":"visa"}'
`, base, token, uuid(), uuid())
	return b.String()
}

// baseURL returns the URL to reach a listener at: its port, under the host that was asked for.
func baseURL(asked string, addr net.Addr) string {
	host, _, err := net.SplitHostPort(asked)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // listens everywhere
	}
	port := strconv.Itoa(addr.(*net.TCPAddr).Port)
	return "http://" + net.JoinHostPort(host, port)
}

// uuid returns a random UUID (RFC 9562, version 4): a key as a client would make one.
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
