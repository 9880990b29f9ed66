package memstore_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
	"github.com/ichido-dev/ichido/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Database {
		store := memstore.New(nil)
		return storetest.Database{Open: func(*testing.T) ichido.Store { return store }}
	})
}

func complete(t *testing.T, s *memstore.Store, key string, retention time.Duration) {
	t.Helper()
	a, _, err := s.Begin(context.Background(), ichido.Claim{Scope: "s", Key: key, Fingerprint: []byte("f"), Retention: retention})
	if err != nil || a == nil {
		t.Fatalf("Begin(%s) = %v, %v", key, a, err)
	}
	if err := a.Complete(context.Background(), ichido.Response{Status: 200}); err != nil {
		t.Fatal(err)
	}
}

func stored(s *memstore.Store, key string) bool {
	a, r, _ := s.Begin(context.Background(), ichido.Claim{Scope: "s", Key: key, Fingerprint: []byte("f"), Retention: time.Hour})
	if a != nil {
		_ = a.Abandon(context.Background(), nil)
	}
	return r != nil
}

func TestRetentionByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(nil)
		complete(t, s, "k", time.Hour)
		time.Sleep(time.Hour - time.Nanosecond)
		if !stored(s, "k") {
			t.Error("the record is gone before its retention has passed")
		}
		time.Sleep(time.Nanosecond)
		if stored(s, "k") {
			t.Error("the record is still there after its retention")
		}
	})
}

// A store without a bound grows until the process dies (in-memory maps of others did).
func TestBoundedAndNeverEvictsAnAttemptInProgress(t *testing.T) {
	s := memstore.New(&memstore.Config{MaxRecords: 3})
	running, _, err := s.Begin(context.Background(), ichido.Claim{Scope: "s", Key: "running", Fingerprint: []byte("f"), Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		complete(t, s, fmt.Sprint(i), time.Hour)
	}
	for i, want := range []bool{false, false, true, true, true} {
		if got := stored(s, fmt.Sprint(i)); got != want {
			t.Errorf("record %d stored: %v, want %v", i, got, want)
		}
	}
	if _, _, err := s.Begin(context.Background(), ichido.Claim{Scope: "s", Key: "running", Fingerprint: []byte("f")}); err != ichido.ErrInProgress {
		t.Errorf("the running attempt was forgotten: %v", err)
	}
	if err := running.Complete(context.Background(), ichido.Response{Status: 200}); err != nil {
		t.Error(err)
	}
	if !stored(s, "running") {
		t.Error("the attempt that was running is not completed")
	}
}
