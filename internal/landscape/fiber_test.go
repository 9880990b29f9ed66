package landscape

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
)

// work is how long the servers take to make something, so that requests can meet.
const work = 30 * time.Millisecond

type order struct {
	ID       int    `json:"id"`
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
	Flaky    bool   `json:"flaky,omitempty"` // its first try fails
}

// startFiber serves orders under fiber's middleware with its defaults, until the test ends.
func startFiber(t *testing.T) (url string) {
	var mu sync.Mutex
	orders := []order{}
	failed := map[string]bool{}
	app := fiber.New()
	app.Use("/orders", func(c fiber.Ctx) error {
		if who := c.Get("Authorization"); who != "Bearer a" && who != "Bearer b" {
			return fiber.ErrUnauthorized
		}
		return c.Next()
	})
	app.Use(idempotency.New())
	app.Post("/orders", func(c fiber.Ctx) error {
		var in order
		if err := c.Bind().JSON(&in); err != nil || in.Item == "" || in.Quantity < 1 {
			return fiber.NewError(http.StatusBadRequest, "quantity must be greater than 0")
		}
		time.Sleep(work)
		mu.Lock()
		defer mu.Unlock()
		if in.Flaky && !failed[in.Item] {
			failed[in.Item] = true
			return fiber.NewError(http.StatusInternalServerError, "it failed this time")
		}
		in.ID = len(orders) + 1
		orders = append(orders, in)
		c.Location(fmt.Sprintf("/orders/%d", in.ID))
		return c.Status(http.StatusCreated).JSON(in)
	})
	app.Get("/orders", func(c fiber.Ctx) error {
		mu.Lock()
		defer mu.Unlock()
		return c.JSON(fiber.Map{"orders": orders})
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() { _ = app.ShutdownWithTimeout(time.Second) })
	return "http://" + listener.Addr().String()
}
