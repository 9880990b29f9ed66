package main

import (
	"testing"
	"time"

	"github.com/ichido-dev/ichido/internal/pgtest"
)

const (
	projector = `{"item_code":"PJ-001","quantity":1,"reserved_by":"taro"}`
	first     = `{"id":1,"item_code":"PJ-001","quantity":1,"reserved_by":"taro"}`
)

// The tests here are the rows of the API's table, each on both databases.

func TestNoKeyIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		a := s.do("POST", "/reservations", projector, "Content-Type: application/json")
		wantProblem(t, a, 400, "key-required")
		s.wantCount(0)
	})
}

func TestFirstRunsAndSecondReplays(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		one := wantCreated(t, s.reserve(`"k"`, projector), first)
		if got := one.header.Get("Location"); got != "/reservations/1" {
			t.Errorf("Location %q", got)
		}
		if got := one.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type %q", got)
		}
		wantReplay(t, s.reserve(`"k"`, projector), one)
		wantReplay(t, s.reserve(`k`, projector), one)
		s.wantCount(1)
		wantCreated(t, s.reserve(`"another"`, projector), `{"id":2,"item_code":"PJ-001","quantity":1,"reserved_by":"taro"}`)
	})
}

func TestAfterRestartSecondReplays(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		one := wantCreated(t, serveAPI(t, open(t, location), serveOptions{}, nil).reserve("k", projector), first)
		wantReplay(t, serveAPI(t, open(t, location), serveOptions{}, nil).reserve("k", projector), one)
	})
}

func TestRunningIsRejectedAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		g := newGate()
		s := serveAPI(t, open(t, location), serveOptions{inProgress: "reject"}, g)
		one := later(func() answer { return s.reserve("k", projector) })
		g.awaitBegin(t)
		a := s.reserve("k", projector)
		wantProblem(t, a, 409, "in-progress")
		if a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		g.open(t)
		created := wantCreated(t, receive(t, one, "the first answer"), first)
		wantReplay(t, s.reserve("k", projector), created)
		s.wantCount(1)
	})
}

func TestRunningIsWaitedFor(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		g := newGate()
		s := serveAPI(t, open(t, location), serveOptions{inProgress: "wait"}, g)
		one := later(func() answer { return s.reserve("k", projector) })
		g.awaitBegin(t)
		two := later(func() answer { return s.reserve("k", projector) })
		g.open(t)
		created := wantCreated(t, receive(t, one, "the first answer"), first)
		wantReplay(t, receive(t, two, "the second answer"), created)
		s.wantCount(1)
	})
}

func TestWaitHasALimit(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		g := newGate()
		s := serveAPI(t, open(t, location), serveOptions{inProgress: "wait", waitLimit: time.Millisecond}, g)
		one := later(func() answer { return s.reserve("k", projector) })
		g.awaitBegin(t)
		wantProblem(t, s.reserve("k", projector), 409, "in-progress")
		g.open(t)
		wantCreated(t, receive(t, one, "the first answer"), first)
	})
}

func TestOtherRequestIsAMismatch(t *testing.T) {
	other := `{"item_code":"PJ-001","quantity":2,"reserved_by":"taro"}`
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		one := wantCreated(t, s.reserve("k", projector), first)
		wantProblem(t, s.reserve("k", other), 422, "mismatch")
		wantReplay(t, s.reserve("k", projector), one) // untouched
		s.wantCount(1)
	})
	for _, policy := range []string{"reject", "wait"} {
		t.Run("running/"+policy, func(t *testing.T) {
			onBoth(t, func(t *testing.T, location string) {
				g := newGate()
				s := serveAPI(t, open(t, location), serveOptions{inProgress: policy}, g)
				one := later(func() answer { return s.reserve("k", projector) })
				g.awaitBegin(t)
				wantProblem(t, s.reserve("k", other), 422, "mismatch")
				g.open(t)
				wantCreated(t, receive(t, one, "the first answer"), first)
				s.wantCount(1)
			})
		})
	}
}

// On PostgreSQL a server sees what runs in another one.
func TestOtherServerSeesWhatRuns(t *testing.T) {
	location := pgtest.Shared(t).NewDatabase(t)
	g := newGate()
	s1 := serveAPI(t, open(t, location), serveOptions{}, g)
	s2 := serveAPI(t, open(t, location), serveOptions{}, nil)
	one := later(func() answer { return s1.reserve("k", projector) })
	g.awaitBegin(t)
	wantProblem(t, s2.reserve("k", projector), 409, "in-progress")
	wantProblem(t, s2.reserve("k", `{"item_code":"PJ-002","quantity":1,"reserved_by":"taro"}`), 422, "mismatch")
	g.open(t)
	created := wantCreated(t, receive(t, one, "the first answer"), first)
	wantReplay(t, s2.reserve("k", projector), created)
	s1.wantCount(1)
}

func TestMembersInAnotherOrderAreTheSameRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		one := wantCreated(t, s.reserve("k", projector), first)
		wantReplay(t, s.reserve("k", ` { "reserved_by" : "taro", "quantity":1,`+"\n"+`"item_code":"PJ-001"}`), one)
		s.wantCount(1)
	})
}

func TestMembersAreAnsweredInTheOrderSent(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		wantCreated(t, s.reserve("k", `{"reserved_by":"太郎","note":{"ignored":[1]},"quantity":3,"item_code":"<PJ>"}`),
			`{"id":1,"reserved_by":"太郎","quantity":3,"item_code":"<PJ>"}`)
	})
}

func TestExpiredKeyIsANewRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		wantCreated(t, s.reserve("k", projector), first)
		expireKeys(t, location)
		two := wantCreated(t, s.reserve("k", projector), `{"id":2,"item_code":"PJ-001","quantity":1,"reserved_by":"taro"}`)
		wantReplay(t, s.reserve("k", projector), two)
		s.wantCount(2)
	})
}
