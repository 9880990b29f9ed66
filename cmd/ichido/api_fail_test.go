package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido/internal/pgtest"
)

// Whatever way the work fails, it leaves nothing, and the same key works again.

func TestRefusedQuantityLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		for _, quantity := range []string{"0", "-1", "-2147483648"} {
			a := s.reserve("k", `{"item_code":"PJ-001","quantity":`+quantity+`,"reserved_by":"taro"}`)
			wantProblem(t, a, 400, "member-invalid")
			if !strings.Contains(a.body, `\"quantity\"`) {
				t.Errorf("%s does not name the member", a.body)
			}
		}
		s.wantCount(0)
		a := s.reserve("k", projector)
		if a.status != 201 {
			t.Errorf("the same key afterwards: %d %s", a.status, a.body)
		}
		s.wantCount(1)
		if text := s.logs.String(); text != "" {
			t.Errorf("a client's mistake was logged as ours:\n%s", text)
		}
	})
}

// brokenOffice fails after it has written.
type brokenOffice struct {
	office
	fail func() error // nil: works
}

func (o *brokenOffice) insert(ctx context.Context, r reservation) (int64, error) {
	id, err := o.office.insert(ctx, r)
	if o.fail != nil && err == nil {
		err = o.fail()
	}
	return id, err
}

func TestFaultLeavesNothing(t *testing.T) {
	secret := errors.New("relation reservations, host 10.0.0.7")
	faults := map[string]struct {
		fail   func() error
		status int
		code   string
	}{
		"panic":    {func() error { panic(secret) }, 500, "handler-failed"},
		"error":    {func() error { return secret }, 500, "internal-fault"},
		"gone":     {func() error { return errors.Join(errUnreachable, secret) }, 503, "database-unreachable"},
		"deadline": {func() error { return postgresError("x", context.DeadlineExceeded) }, 503, "database-unreachable"},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, location string) {
				db := open(t, location)
				broken := &brokenOffice{office: db.office, fail: fault.fail}
				db.office = broken
				s := serveAPI(t, db, serveOptions{}, nil)

				a := s.reserve("k", projector, "X-Request-Id: trace-7")
				wantProblem(t, a, fault.status, fault.code)
				if strings.Contains(a.body, "relation") || strings.Contains(a.body, "10.0.0.7") {
					t.Errorf("the answer tells internals: %s", a.body)
				}
				log := s.logs.String()
				if strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "request=trace-7") {
					t.Errorf("want one line with the request's id, got:\n%s", log)
				}
				s.wantCount(0)

				broken.fail = nil
				if a := s.reserve("k", projector); a.status != 201 {
					t.Errorf("the same key afterwards: %d %s", a.status, a.body)
				}
				s.wantCount(1)
			})
		})
	}
}

func TestPostgresGoneAndBack(t *testing.T) {
	server := pgtest.Start(t)
	location := server.NewDatabase(t)
	g := newGate()
	s := serveAPI(t, open(t, location), serveOptions{}, g)

	running := later(func() answer { return s.reserve("running", projector) })
	g.awaitBegin(t)
	server.Stop("immediate")
	g.open(t)
	wantProblem(t, receive(t, running, "the answer"), 503, "database-unreachable")
	wantProblem(t, s.reserve("late", projector), 503, "store-unavailable")
	wantProblem(t, s.do("GET", "/reservations", ""), 503, "database-unreachable")
	wantProblem(t, s.do("GET", "/healthz", ""), 503, "database-unreachable")

	server.StartAgain()
	go func() {
		for range 2 {
			g.awaitBegin(t)
			g.open(t)
		}
	}()
	for _, key := range []string{"running", "late"} {
		if a := s.reserve(key, projector); a.status != 201 {
			t.Errorf("the same key afterwards: %d %s", a.status, a.body)
		}
	}
	if a := s.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("healthz: %d %s", a.status, a.body)
	}
	s.wantCount(2)
}

func TestSQLiteGoneAndBack(t *testing.T) {
	location := filepath.Join(t.TempDir(), "office.db")
	db := open(t, location)
	s := serveAPI(t, db, serveOptions{}, nil)
	if err := db.close(); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, s.reserve("k", projector), 503, "store-unavailable")
	wantProblem(t, s.do("GET", "/healthz", ""), 503, "database-unreachable")

	s = serveAPI(t, open(t, location), serveOptions{}, nil)
	wantCreated(t, s.reserve("k", projector), first)
}
