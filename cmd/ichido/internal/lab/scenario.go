package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A scenario is what befalls an operation.
type scenario struct {
	id     string
	orders int  // how many are right in the end
	again  bool // one operation is sent more than once
	once   bool // tried once only: it starts and kills a process
	play   func(ctx context.Context, t *trial) error
}

// atOnce is how many requests "at once" means.
const atOnce = 10

// scenarios in the order in which they are shown.
var scenarios = []*scenario{
	{id: "twice", orders: 1, again: true, play: func(ctx context.Context, t *trial) error {
		o, err := t.openOrder(ctx, "taro", 1)
		if err != nil {
			return err
		}
		return errors.Join(t.send(ctx, o), t.send(ctx, o))
	}},
	{id: "at-once", orders: 1, again: true, play: func(ctx context.Context, t *trial) error {
		o, err := t.openOrder(ctx, "taro", 1)
		if err != nil {
			return err
		}
		return t.sendAtOnce(ctx, o, atOnce)
	}},
	{id: "lost", orders: 1, again: true, play: func(ctx context.Context, t *trial) error {
		o, err := t.openOrder(ctx, "taro", 1)
		if err != nil {
			return err
		}
		t.server.losing.Store(true)
		if err := t.send(ctx, o); err != nil {
			return err
		}
		t.server.losing.Store(false)
		return t.send(ctx, o)
	}},
	{id: "honest", orders: 2, play: func(ctx context.Context, t *trial) error {
		for n := range 2 { // the form is opened anew
			o, err := t.openOrder(ctx, "taro", n+1)
			if err != nil {
				return err
			}
			if err := t.send(ctx, o); err != nil {
				return err
			}
		}
		return nil
	}},
	{id: "edit", play: func(ctx context.Context, t *trial) error {
		taro, err := t.openEdit(ctx, "taro", func(i *item) { i.Name = "Office chair" })
		if err != nil {
			return err
		}
		hanako, err := t.openEdit(ctx, "hanako", func(i *item) { i.Price = 120 })
		if err != nil {
			return err
		}
		return errors.Join(t.send(ctx, taro), t.send(ctx, hanako))
	}},
	{id: "crash", orders: 1, once: true, again: true, play: crash},
}

// A trial is one run of a scenario against a way.
type trial struct {
	lab    *lab
	way    *way
	server *server
	client *http.Client

	mu    sync.Mutex
	log   []*Exchange
	spent time.Duration // in which somebody waited for an answer
}

// newTrial empties the tables and starts a server.
func (l *lab) newTrial(ctx context.Context, w *way, p pool) (*trial, error) {
	if err := l.db.exec(ctx, l.db.emptied(w)...); err != nil {
		return nil, err
	}
	s, err := serve(ctx, w, p)
	if err != nil {
		return nil, err
	}
	// A connection each: on one that is used again, net/http itself sends again what has an Idempotency-Key.
	return &trial{lab: l, way: w, server: s, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}}, nil
}

// request is what a client sends, and may send again.
type request struct{ who, method, path, body, key, ifMatch string }

// openOrder opens the form and fills it in: the nth order of a user.
func (t *trial) openOrder(ctx context.Context, who string, n int) (request, error) {
	r := request{who: who, method: http.MethodPost, path: "/orders", body: `{"item":"chair","quantity":1}`}
	if t.way.keys {
		r.key = fmt.Sprintf("%s-order-%d", who, n)
	}
	if t.way.id != "version" { // who orders without it need not have seen the item
		return r, nil
	}
	i, err := t.open(ctx, who)
	r.ifMatch = strconv.Quote(strconv.Itoa(i.Version))
	return r, err
}

// openEdit opens the form of the item and changes something in it.
func (t *trial) openEdit(ctx context.Context, who string, change func(*item)) (request, error) {
	i, err := t.open(ctx, who)
	if err != nil {
		return request{}, err
	}
	r := request{who: who, method: http.MethodPut, path: "/items/chair"}
	if t.way.id == "version" {
		r.ifMatch = strconv.Quote(strconv.Itoa(i.Version))
	}
	if t.way.keys {
		r.key = who + "-edit-1"
	}
	change(&i)
	r.body = fmt.Sprintf(`{"name":%q,"price":%d}`, i.Name, i.Price)
	return r, nil
}

func (t *trial) open(ctx context.Context, who string) (i item, err error) {
	e := &Exchange{Who: who, Method: http.MethodGet, Path: "/items/chair", Opening: true}
	if err := t.exchange(ctx, t.server.url, t.expect(e), e); err != nil {
		return i, err
	}
	return i, json.Unmarshal([]byte(e.answered().Body), &i)
}

// expect notes an exchange that is going to be, and returns its number.
func (t *trial) expect(e *Exchange) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, e)
	t.server.expect(len(t.log), e)
	return len(t.log)
}

// send sends a request, which is not changed. That no answer comes is no error.
func (t *trial) send(ctx context.Context, r request) error {
	e := r.exchange()
	return t.exchange(ctx, t.server.url, t.expect(e), e)
}

func (r request) exchange() *Exchange {
	return &Exchange{Who: r.who, Method: r.method, Path: r.path, Key: r.key, IfMatch: r.ifMatch, Body: r.body}
}

func (t *trial) exchange(ctx context.Context, url string, n int, e *Exchange) error {
	r, err := http.NewRequestWithContext(ctx, e.Method, url+e.Path, strings.NewReader(e.Body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-User", e.Who)
	r.Header.Set(exchangeHeader, strconv.Itoa(n))
	if e.Key != "" {
		r.Header.Set("Idempotency-Key", strconv.Quote(e.Key))
	}
	if e.IfMatch != "" {
		r.Header.Set("If-Match", e.IfMatch)
	}
	began := time.Now()
	response, err := t.client.Do(r)
	if err == nil {
		var body []byte
		body, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err == nil {
			e.answer(response.StatusCode, response.Header, body, false)
		}
	}
	if !e.Opening && !e.Elsewhere {
		t.mu.Lock()
		t.spent += time.Since(began)
		t.mu.Unlock()
	}
	if a := e.answered(); a.Status >= 500 {
		return fmt.Errorf("%s %s of the way %s was answered with %d %s", e.Method, e.Path, t.way.id, a.Status, a.Body)
	}
	return ctx.Err() // the connection broke, as it is meant to, unless the lab is being stopped
}

// sendAtOnce sends a request many times at once. The first to come holds its transaction open until all have come.
func (t *trial) sendAtOnce(ctx context.Context, r request, times int) error {
	var come sync.WaitGroup
	come.Add(times)
	t.server.read = come.Done
	all := make(chan struct{})
	go func() { come.Wait(); close(all) }()
	t.server.hold = func(ctx context.Context) error {
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	errs := make([]error, times)
	var sent sync.WaitGroup
	began := time.Now()
	for n := range times {
		e := r.exchange()
		number := t.expect(e)
		sent.Go(func() { errs[n] = t.exchange(ctx, t.server.url, number, e) })
	}
	sent.Wait()
	t.spent = time.Since(began) // they waited at the same time
	return errors.Join(errs...)
}

// crash sends a request to a server that is killed right before its commit, and again to another one.
func crash(ctx context.Context, t *trial) (err error) {
	o, err := t.openOrder(ctx, "taro", 1)
	if err != nil {
		return err
	}
	e := o.exchange()
	e.Elsewhere = true
	n := t.expect(e)
	child, err := t.lab.startChild(ctx, childOrder{Place: t.lab.db.place(), Way: t.way.id, Exchange: n})
	if err != nil {
		return fmt.Errorf("starting a server to kill: %w", err)
	}
	defer child.kill()
	answered := make(chan error, 1)
	go func() { answered <- t.exchange(ctx, child.url, n, e) }()
	line, err := child.line()
	if err != nil {
		return fmt.Errorf("the server that was to be killed ended by itself: %w", err)
	}
	child.kill()
	if err := <-answered; err != nil {
		return err
	}
	e.Statements = line.Statements
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := t.lab.db.forgotten(bounded); err != nil {
		return err
	}
	return t.send(ctx, o)
}

// A child is a server in a process of its own.
type child struct {
	lines *json.Decoder
	url   string
	kill  func()
}

func (l *lab) startChild(ctx context.Context, order childOrder) (*child, error) {
	cmd := l.options.Program(ctx)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{lines: json.NewDecoder(out)}
	c.kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // SIGKILL
		_ = cmd.Wait()
	})
	var line childLine
	if err = json.NewEncoder(in).Encode(order); err == nil {
		line, err = c.line()
	}
	if err != nil {
		c.kill()
		return nil, fmt.Errorf("%w: %s", err, said.String())
	}
	c.url = line.URL
	return c, nil
}

func (c *child) line() (line childLine, err error) { return line, c.lines.Decode(&line) }
