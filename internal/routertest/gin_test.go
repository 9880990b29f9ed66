package routertest

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/ichido-dev/ichido"
)

func init() { gin.SetMode(gin.ReleaseMode) }

var ginMountings = []mounting{
	// Around the engine: the usual way. The path is part of the scope.
	{"gin/around", func(m *ichido.Manager, a *api) http.Handler {
		e := gin.New()
		e.POST("/orders/:id", withParam(a.create))
		e.GET("/orders/:id", withParam(a.read))
		return a.front(m.Wrap(e))
	}},
	// Around a handler that is a net/http one. It gets the parameters of the path, and ichido the pattern, by inGin.
	{"gin/wraph", func(m *ichido.Manager, a *api) http.Handler {
		e := gin.New()
		e.Use(ginFront(a), gin.Recovery())
		e.POST("/orders/:id", inGin(m.Wrap(withPathValue(a.create))))
		e.GET("/orders/:id", withParam(a.read))
		return e
	}},
	// Around one handler of gin's kind.
	{"gin/handler", func(m *ichido.Manager, a *api) http.Handler {
		e := gin.New()
		e.Use(ginFront(a), gin.Recovery())
		e.POST("/orders/:id", once(m, withParam(a.create)))
		e.GET("/orders/:id", once(m, withParam(a.read)))
		return e
	}},
}

// inGin is gin.WrapH for handlers that want to know what gin's router found.
func inGin(h http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		h.ServeHTTP(c.Writer, found(c))
	}
}

func found(c *gin.Context) *http.Request {
	r := c.Request
	r.Pattern = c.FullPath()
	for _, p := range c.Params {
		r.SetPathValue(p.Key, p.Value)
	}
	return r
}

// once protects one handler of gin's kind. A gin.HandlerFunc for Use cannot be made of Wrap: it would call c.Next, which
// runs what comes next only the first time, so that a run after an aborted transaction would answer 200 with nothing done.
func once(m *ichido.Manager, h gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		outer := c.Writer
		m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner := &ginWriter{ResponseWriter: w, outer: outer, status: http.StatusOK, size: -1}
			defer func() { c.Writer = outer }()
			c.Writer, c.Request = inner, r
			h(c)
			inner.WriteHeaderNow()
		})).ServeHTTP(outer, found(c))
	}
}

// withParam makes a handler of gin's kind.
func withParam(h func(w http.ResponseWriter, r *http.Request, id string)) gin.HandlerFunc {
	return func(c *gin.Context) { h(c.Writer, c.Request, c.Param("id")) }
}

func ginFront(a *api) gin.HandlerFunc {
	return func(c *gin.Context) { a.inFront(c.Writer.Header(), c.Request) }
}

// What handlers of gin's kind do with the context works within once, too.
func TestGinHandler(t *testing.T) {
	e := gin.New()
	m := newManager(t, nil)
	runs := 0
	e.POST("/orders/:id", once(m, func(c *gin.Context) {
		var body struct{ Item string }
		runs++
		switch err := c.ShouldBindJSON(&body); {
		case err != nil:
			c.AbortWithStatusJSON(http.StatusBadRequest, gin.H{"error": "not JSON"})
		case body.Item == "":
			c.Status(http.StatusNoContent)
		default:
			c.Header("Location", "/orders/"+c.Param("id"))
			c.JSON(http.StatusCreated, gin.H{"run": runs, "item": body.Item})
			if !c.Writer.Written() || c.Writer.Status() != http.StatusCreated || c.Writer.Size() == 0 {
				t.Error("the writer does not know what was written")
			}
		}
	}))
	c := newClient(t, e)
	for i, want := range []struct {
		key, body string
		status    int
		answer    string
		replayed  bool
	}{
		{"k", "{", 400, `{"error":"not JSON"}`, false},
		{"k", order, 201, `{"item":"desk","run":2}`, false},
		{"k", order, 201, `{"item":"desk","run":2}`, true},
		{"l", "{}", 204, "", false},
		{"l", "{}", 204, "", true},
	} {
		r := c.post("/orders/7", want.key, want.body, "")
		if r.status != want.status || r.body != want.answer || r.replayed() != want.replayed {
			t.Errorf("sending %d is answered %d %v\n%s\nwant %d %s, replayed: %v", i+1, r.status, r.header, r.body, want.status, want.answer, want.replayed)
		}
	}
}

// The reason why there is no gin.HandlerFunc for Use.
func TestGinRunsWhatComesNextOnlyOnce(t *testing.T) {
	a := newAPI()
	e := gin.New()
	m := newManager(t, &abortsOnce{Store: memory()})
	e.Use(func(c *gin.Context) {
		m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.Writer, c.Request = &ginWriter{ResponseWriter: w, outer: c.Writer, status: http.StatusOK, size: -1}, r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
	})
	e.POST("/orders/:id", withParam(a.create))
	if r := newClient(t, e).post("/orders/7", "k", order, ""); r.status != http.StatusOK || r.body != "" || a.runs.Load() != 1 {
		t.Errorf("answered %d %s after %d runs: c.Next may be called again now", r.status, r.body, a.runs.Load())
	}
}
