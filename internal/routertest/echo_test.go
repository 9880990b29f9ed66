package routertest

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/ichido-dev/ichido"
)

var echoMountings = []mounting{
	// Around the whole router. The path is part of the scope.
	{"echo/around", func(m *ichido.Manager, a *api) http.Handler {
		e := echo.New()
		e.POST("/orders/:id", withEcho(a.create))
		e.GET("/orders/:id", withEcho(a.read))
		return a.front(m.Wrap(e))
	}},
	// Around a handler that is a net/http one. WrapHandler hands on the pattern and the parameters of the path.
	{"echo/wraphandler", func(m *ichido.Manager, a *api) http.Handler {
		e := echo.New()
		e.Use(echoFront(a), middleware.Recover())
		e.POST("/orders/:id", echo.WrapHandler(m.Wrap(withPathValue(a.create))))
		e.GET("/orders/:id", withEcho(a.read))
		return e
	}},
	// As middleware of a route.
	{"echo/route", func(m *ichido.Manager, a *api) http.Handler {
		e := echo.New()
		e.Use(echoFront(a), middleware.Recover())
		e.POST("/orders/:id", withEcho(a.create), onceEcho(m))
		e.GET("/orders/:id", withEcho(a.read))
		return e
	}},
	// As middleware of a group.
	{"echo/group", func(m *ichido.Manager, a *api) http.Handler {
		e := echo.New()
		e.Use(echoFront(a), middleware.Recover())
		g := e.Group("/orders", onceEcho(m))
		g.POST("/:id", withEcho(a.create))
		g.GET("/:id", withEcho(a.read))
		return e
	}},
}

// onceEcho is ichido as middleware of echo. Errors that handlers return are answered behind Wrap, where ichido sees the
// answer. echo.WrapMiddleware(m.Wrap) alone would let them pass by: ichido would see a handler that wrote nothing, which
// is an empty 200, and commit that.
func onceEcho(m *ichido.Manager) echo.MiddlewareFunc {
	wrap := echo.WrapMiddleware(m.Wrap)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		inner := wrap(func(c *echo.Context) error {
			if err := next(c); err != nil {
				c.Echo().HTTPErrorHandler(c, err)
			}
			return nil
		})
		return func(c *echo.Context) error {
			outer := c.Response()
			defer c.SetResponse(outer) // for middleware in front, which looks at the status
			return inner(c)
		}
	}
}

// withEcho makes a handler of echo's kind. Like those, it returns its refusals as errors.
func withEcho(h func(w http.ResponseWriter, r *http.Request, id string)) echo.HandlerFunc {
	return func(c *echo.Context) error {
		h(c.Response(), c.Request(), c.Param("id"))
		return nil
	}
}

func echoFront(a *api) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			a.inFront(c.Response().Header(), c.Request())
			return next(c)
		}
	}
}

// What handlers of echo's kind do works within onceEcho, returning errors above all.
func TestEchoHandler(t *testing.T) {
	e := echo.New()
	runs := 0
	var statuses []int
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc { // a log in front
		return func(c *echo.Context) error {
			err := next(c)
			r, _ := echo.UnwrapResponse(c.Response())
			statuses = append(statuses, r.Status)
			return err
		}
	})
	e.POST("/orders/:id", func(c *echo.Context) error {
		var body struct{ Item string }
		runs++
		if err := c.Bind(&body); err != nil {
			return err
		}
		if body.Item == "" {
			return echo.NewHTTPError(http.StatusUnprocessableEntity, "what item?")
		}
		c.Response().Header().Set("Location", "/orders/"+c.Param("id"))
		return c.JSON(http.StatusCreated, map[string]any{"run": runs, "item": body.Item})
	}, onceEcho(newManager(t, nil)))
	c := newClient(t, e)
	for i, want := range []struct {
		body     string
		status   int
		answer   string
		replayed bool
	}{
		{"{", 400, `{"message":"Bad Request"}` + "\n", false},
		{"{}", 422, `{"message":"what item?"}` + "\n", false},
		{order, 201, `{"item":"desk","run":3}` + "\n", false},
		{order, 201, `{"item":"desk","run":3}` + "\n", true},
	} {
		r := c.do(http.MethodPost, "/orders/7", want.body, "Idempotency-Key", "k", "Content-Type", "application/json")
		if r.status != want.status || r.body != want.answer || r.replayed() != want.replayed {
			t.Errorf("sending %d is answered %d %v\n%s\nwant %d %s, replayed: %v", i+1, r.status, r.header, r.body, want.status, want.answer, want.replayed)
		}
		if len(statuses) != i+1 || statuses[i] != want.status {
			t.Errorf("the log in front saw the statuses %v", statuses)
		}
	}
}

// The reason for onceEcho.
func TestEchoErrorsPassWrapMiddlewareBy(t *testing.T) {
	e := echo.New()
	e.POST("/orders/:id", func(*echo.Context) error {
		return echo.NewHTTPError(http.StatusUnprocessableEntity, "what item?")
	}, echo.WrapMiddleware(newManager(t, nil).Wrap))
	if r := newClient(t, e).post("/orders/7", "k", order, ""); r.status != http.StatusOK || r.body != "" {
		t.Errorf("answered %d %s: echo.WrapMiddleware may be used now", r.status, r.body)
	}
}
