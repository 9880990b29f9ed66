package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
)

func TestExpiredKeysArePurgedInTheBackground(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		db := open(t, location)
		s := serveAPI(t, db, serveOptions{}, nil)
		lines := new(logs)
		ctx, cancel := context.WithCancel(t.Context())
		ended := later(func() bool {
			ichido.PurgeEvery(ctx, db.store, time.Millisecond, purged(newLogger(lines)))
			return true
		})
		s.reserve("k", projector)
		if text := lines.String(); text != "" {
			t.Errorf("purges that find nothing are logged:\n%s", text)
		}
		expireKeys(t, location)
		until(t, "the key to be purged", func() bool { return strings.Contains(lines.String(), "deleted=1") })
		cancel()
		receive(t, ended, "the purger to end")
		if n, err := ichido.Purge(t.Context(), db.store); n != 0 || err != nil {
			t.Errorf("left %d keys: %v", n, err)
		}
		s.wantCount(1)
	})
}
