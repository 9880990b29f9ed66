package routertest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// A mounting is one way to put ichido under a router.
type mounting struct {
	name string
	// mount returns the whole service: the handlers in front, the router, ichido, and the handlers of a.
	mount func(m *ichido.Manager, a *api) http.Handler
}

// mountings are all that work. What goes wrong in other ways is told in the files of the routers.
var mountings = slices.Concat(muxMountings, chiMountings, ginMountings, echoMountings)

// each runs a test on every mounting.
func each(t *testing.T, store func() ichido.Store, test func(t *testing.T, c *client, a *api)) {
	for _, m := range mountings {
		t.Run(m.name, func(t *testing.T) {
			a := newAPI()
			test(t, newClient(t, m.mount(newManager(t, store()), a)), a)
		})
	}
}

func memory() ichido.Store { return memstore.New(nil) }

const order = `{"item":"desk"}`

func wantFirst(t *testing.T, r reply, id, run string) {
	t.Helper()
	body := `{"id":"` + id + `","run":` + run + `,"request":"{\"item\":\"desk\"}"}`
	if r.status != http.StatusCreated || r.body != body || r.replayed() || r.header.Get("Location") != "/orders/"+id {
		t.Errorf("answered %d %v\n%s\nwant the first answer, 201 %s", r.status, r.header, r.body, body)
	}
}

func wantProblem(t *testing.T, r reply, status int, code string) {
	t.Helper()
	if r.status != status || r.code() != code || r.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("answered %d %v\n%s\nwant the problem %d %s", r.status, r.header, r.body, status, code)
	}
}

func TestFirstAndReplay(t *testing.T) {
	each(t, memory, func(t *testing.T, c *client, a *api) {
		first := c.post("/orders/7", "k", order, "")
		wantFirst(t, first, "7", "1")
		again := c.post("/orders/7", "k", order, "")
		if !again.replayed() || again.status != first.status || again.body != first.body {
			t.Errorf("the second sending is answered %d %v\n%s\nwant a replay of the first, 201 %s", again.status, again.header, again.body, first.body)
		}
		for _, name := range []string{"Content-Type", "Location", "Content-Length"} {
			if got, want := again.header[name], first.header[name]; !slices.Equal(got, want) {
				t.Errorf("%s of the replay is %q, of the first answer %q", name, got, want)
			}
		}
		if n := a.runs.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want once", n)
		}
		wantFirst(t, c.post("/orders/7", "other", order, ""), "7", "2")
	})
}

// What handlers in front set is that of each request, on replays and problems too, and nothing of it gets lost.
func TestFieldsSetInFront(t *testing.T) {
	each(t, memory, func(t *testing.T, c *client, _ *api) {
		for i, want := range []struct {
			r    reply
			vary []string
		}{
			{c.post("/orders/7", "k", order, ""), []string{"Origin", "Accept"}},
			{c.post("/orders/7", "k", order, ""), []string{"Origin", "Accept"}},
			{c.post("/orders/7", "k", "other", ""), []string{"Origin", "Accept-Language"}},
		} {
			h := want.r.header
			if got := h["X-Request-Id"]; !slices.Equal(got, []string{string(rune('1' + i))}) {
				t.Errorf("answer %d: X-Request-Id is %q", i+1, got)
			}
			if got := h["Access-Control-Allow-Origin"]; !slices.Equal(got, []string{"https://shop.example"}) {
				t.Errorf("answer %d: Access-Control-Allow-Origin is %q", i+1, got)
			}
			if got := h["Vary"]; !slices.Equal(got, want.vary) {
				t.Errorf("answer %d: Vary is %q, want %q", i+1, got, want.vary)
			}
		}
	})
}

func TestMismatch(t *testing.T) {
	each(t, memory, func(t *testing.T, c *client, a *api) {
		wantFirst(t, c.post("/orders/7", "k", order, ""), "7", "1")
		wantProblem(t, c.post("/orders/7", "k", `{"item":"chair"}`, ""), http.StatusUnprocessableEntity, "mismatch")
		if n := a.runs.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want once", n)
		}
	})
}

// A key on another thing is never answered with the first thing's record. Where the router tells ichido its pattern,
// both are one route, and it is a mismatch; elsewhere they are two paths, and two operations.
func TestKeyOnAnotherThing(t *testing.T) {
	each(t, memory, func(t *testing.T, c *client, _ *api) {
		wantFirst(t, c.post("/orders/7", "k", order, ""), "7", "1")
		if r := c.post("/orders/8", "k", order, ""); r.code() == "mismatch" {
			wantProblem(t, r, http.StatusUnprocessableEntity, "mismatch")
		} else {
			wantFirst(t, r, "8", "2")
		}
	})
}

func TestConflict(t *testing.T) {
	each(t, memory, func(t *testing.T, c *client, a *api) {
		first := make(chan reply, 1)
		go func() { first <- c.post("/orders/7", "k", order, "block") }()
		<-a.started
		wantProblem(t, c.post("/orders/7", "k", order, ""), http.StatusConflict, "in-progress")
		close(a.release)
		wantFirst(t, <-first, "7", "1")
	})
}

// A handler that fails leaves nothing, and its key is free.
func TestFailures(t *testing.T) {
	each(t, memory, func(t *testing.T, c *client, _ *api) {
		if r := c.post("/orders/7", "k", order, "panic"); r.status != http.StatusInternalServerError || r.replayed() {
			t.Errorf("a panic is answered %d %s", r.status, r.body)
		}
		if r := c.post("/orders/7", "k", order, "refuse"); r.status != http.StatusBadRequest || r.body != "out of stock\n" {
			t.Errorf("a refusal is answered %d %s", r.status, r.body)
		}
		wantFirst(t, c.post("/orders/7", "k", order, ""), "7", "3")
	})
}

// When the database aborts the transaction, everything inside of ichido runs again: it must find the request as it was,
// the parameters of its path included.
func TestRunsAgain(t *testing.T) {
	each(t, func() ichido.Store { return &abortsOnce{Store: memory()} }, func(t *testing.T, c *client, _ *api) {
		wantFirst(t, c.post("/orders/7", "k", order, ""), "7", "2")
	})
}

func TestOtherMethodsPassThrough(t *testing.T) {
	each(t, memory, func(t *testing.T, c *client, _ *api) {
		for range 2 {
			if r := c.do(http.MethodGet, "/orders/7", "", "Idempotency-Key", "k"); r.status != http.StatusOK || r.body != "order 7" || r.replayed() {
				t.Errorf("answered %d %v %s", r.status, r.header, r.body)
			}
		}
	})
}

func TestKeyIsRequired(t *testing.T) {
	each(t, memory, func(t *testing.T, c *client, _ *api) {
		wantProblem(t, c.post("/orders/7", "", order, ""), http.StatusBadRequest, "key-required")
	})
}

// Scripts of other origins may read the marker of a replay, and the Location of a first answer.
func TestMarkerIsExposedToOtherOrigins(t *testing.T) {
	each(t, memory, func(t *testing.T, c *client, _ *api) {
		for i := range 2 {
			r := c.post("/orders/7", "k", order, "")
			if got := r.header["Access-Control-Expose-Headers"]; !slices.Equal(got, []string{"Idempotent-Replayed, Location, Retry-After"}) {
				t.Errorf("answer %d: Access-Control-Expose-Headers is %q", i+1, got)
			}
		}
	})
}
