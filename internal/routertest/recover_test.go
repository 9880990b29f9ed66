package routertest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v5"
	echomiddleware "github.com/labstack/echo/v5/middleware"
)

// The reason why handlers that recover belong in front: behind Wrap they hide that the handler failed. As long as
// nothing was written they answer 500, which leaves nothing either; afterwards the answer stands as it was begun.
func TestRecoveringBehind(t *testing.T) {
	failing := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Do") == "write" {
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, "half of")
		}
		panic("boom")
	}
	routers := map[string]http.Handler{}
	{
		r := chi.NewRouter()
		r.Use(recovering)
		r.Post("/", failing)
		routers["chi"] = r
	}
	{
		e := gin.New()
		e.Use(gin.RecoveryWithWriter(nil))
		e.POST("/", gin.WrapF(failing))
		routers["gin"] = e
	}
	{
		e := echo.New()
		e.Use(echomiddleware.Recover())
		e.POST("/", echo.WrapHandler(http.HandlerFunc(failing)))
		routers["echo"] = e
	}
	for name, router := range routers {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, newManager(t, nil).Wrap(router))
			for range 2 {
				if r := c.post("/", "k", order, ""); r.status != http.StatusInternalServerError || r.replayed() {
					t.Errorf("a panic before the first byte is answered %d %s", r.status, r.body)
				}
			}
			if r := c.post("/", "k", order, "write"); r.status == http.StatusCreated {
				if again := c.post("/", "k", order, ""); !again.replayed() {
					t.Errorf("after 201, answered %d %s", again.status, again.body)
				}
			} else if r.status != http.StatusInternalServerError { // if one can tell, so much the better
				t.Errorf("a panic after the first byte is answered %d %s", r.status, r.body)
			}
		})
	}
}

// recovering is chi's middleware.Recoverer without its log.
func recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}
