package main

import (
	"net"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
)

// serveFiber serves by the middleware of fiber with its store in memory. It compares no requests: a key that comes back with
// another one gets the first answer.
func serveFiber() (string, func(), error) {
	app := fiber.New()
	answered := func(c fiber.Ctx) error {
		made, err := reserve(c, c.Body(), insertNothing)
		if err != nil {
			return err
		}
		c.Set(fiber.HeaderContentType, "application/json")
		c.Set(fiber.HeaderLocation, made.location)
		return c.Status(fiber.StatusCreated).Send(made.body)
	}
	mark := func(c fiber.Ctx) error {
		err := c.Next()
		if idempotency.IsFromCache(c) {
			c.Set(replayedHeader, "true")
		}
		return err
	}
	app.Post("/bare", answered)
	app.Post("/once", mark, idempotency.New(idempotency.Config{
		KeyHeader:         "Idempotency-Key",
		KeyHeaderValidate: func(string) error { return nil }, // its own refuses quotes
	}), answered)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	go app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true})
	return listener.Addr().String(), func() { _ = app.Shutdown() }, nil
}
