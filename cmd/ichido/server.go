package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// newHTTPServer bounds all that a client can make us wait for.
func newHTTPServer(handler http.Handler, longestAnswer time.Duration, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      longestAnswer, // counts from the end of the request's header
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// serveUntil serves until ctx ends. Then it takes no new requests, and waits for the running ones as long as they may
// take. Meanwhile handBack, if it is not nil, ends those that somebody else can go on with. stop gives signals back their
// usual effect, so that a second one ends the program at once.
func serveUntil(ctx context.Context, stop func(), server *http.Server, listener net.Listener, longest time.Duration, handBack func(), log *slog.Logger) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop()
	log.Info("stopping: running requests may finish; a second signal stops at once")
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer cancel()
	if handBack != nil {
		var handing sync.WaitGroup
		defer handing.Wait()
		handing.Go(handBack)
	}
	if err := server.Shutdown(bounded); err != nil {
		_ = server.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("requests were still running after %s and were cut off; nothing of them is left", short(longest))
		}
		return err
	}
	log.Info("stopped")
	return nil
}
