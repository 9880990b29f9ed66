package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
)

// questionsAreDue moves the end of the last question to see when the next one is due.
func questionsAreDue(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	store := newStore(db)
	finishable := leased("k", rerun, func(l *ichido.Lease) { l.Request = []byte("request") })
	if err := begin(t, store, finishable).Abandon(limited(t), errors.New("gone")); err != nil {
		t.Fatal(err)
	}
	asked := func(q ichido.Question) int {
		q.Patience = time.Minute
		keys, err := store.Ask(limited(t), q)
		if err != nil {
			t.Fatal(err)
		}
		return len(keys)
	}
	abandoned := func(q ichido.Question) int {
		q.Patience = time.Minute
		keys, err := store.Abandoned(limited(t), q)
		if err != nil {
			t.Fatal(err)
		}
		return len(keys)
	}
	route, name := ichido.Question{Route: "r", Limit: 10}, ichido.Question{Scope: "s", Key: "k"}
	for n, pause := range map[int]int{0: 0, 1: 10, 2: 20, 3: 40, 9: 2560, 10: 3600, 11: 3600, 1000: 3600} {
		for _, c := range []struct {
			reserve  func(ichido.Question) int
			question ichido.Question
			ago      int // seconds
			want     int
		}{
			{asked, route, pause - 5, 0}, {asked, route, pause + 5, 1}, {asked, name, -5, 0}, {asked, name, 5, 1},
			{abandoned, route, pause - 5, 0}, {abandoned, route, pause + 5, 1},
		} {
			if n == 0 && c.ago < 0 {
				continue // it was never asked about
			}
			mustExec(t, db, "UPDATE idempotency_keys SET asked = ?, asked_until = datetime('now', ?), lease_until = datetime('now', '-2 hours')",
				n, fmt.Sprintf("%+d seconds", -c.ago))
			if got := c.reserve(c.question); got != c.want {
				t.Errorf("%+v, %d s after the end of question %d: %d keys, want %d", c.question, c.ago, n, got, c.want)
			}
			if c.question.Key != "" {
				continue
			}
			mustExec(t, db, "UPDATE idempotency_keys SET asked = ?, lease_until = datetime('now', ?), asked_until = datetime('now', '-2 hours')",
				n, fmt.Sprintf("%+d seconds", -c.ago))
			if got := c.reserve(c.question); got != c.want {
				t.Errorf("%+v, %d s after the attempt that followed question %d: %d keys, want %d", c.question, c.ago, n, got, c.want)
			}
		}
	}
	for _, free := range []string{"NULL", "''", "'yesterday'"} {
		mustExec(t, db, "UPDATE idempotency_keys SET lease_until = datetime('now', '-2 hours'), asked_until = "+free)
		if got := asked(route); got != 1 {
			t.Errorf("reserved until %s: %d keys, want 1", free, got)
		}
	}
}

// settlementsArePurged purges settlements with the records, within one limit.
func settlementsArePurged(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	store := newStore(db)
	for i := range 6 {
		c := leased(fmt.Sprint("k", i))
		if err := begin(t, store, c).Abandon(limited(t), errors.New("gone")); err != nil {
			t.Fatal(err)
		}
		if i < 3 {
			settlement := ichido.Settlement{Scope: "s", Key: c.Key, How: ichido.SettledNotDone, By: "test"}
			if err := store.Settle(limited(t), settlement); err != nil {
				t.Fatal(err)
			}
		}
	}
	days := count(t, db, "SELECT round(min(julianday(expires_at) - julianday(settled_at))) FROM idempotency_settlements")
	if want := int(ichido.SettlementRetention.Hours() / 24); days != want {
		t.Errorf("settlements are kept for %d days, want %d", days, want)
	}
	if n, err := store.Purge(limited(t), 10); n != 0 || err != nil {
		t.Errorf("Purge = %d, %v; nothing is expired", n, err)
	}
	mustExec(t, db, "UPDATE idempotency_keys SET expires_at = '2001-02-03'")
	mustExec(t, db, "UPDATE idempotency_settlements SET expires_at = '2001-02-03' WHERE idem_key <> 'k1'")
	for _, want := range []int{2, 2, 1, 0} {
		if n, err := store.Purge(limited(t), 2); n != want || err != nil {
			t.Errorf("Purge(2) = %d, %v; want %d", n, err, want)
		}
	}
	if s, err := store.Settlements(limited(t), "s", "k1"); len(s) != 1 || err != nil {
		t.Errorf("Settlements = %v, %v; this one was not expired", s, err)
	}
}

// listsByPrefix lists, in pages of two, keys whose neighbours are near in bytes.
func listsByPrefix(t *testing.T, d Driver) {
	db := d.open(t, newFile(t))
	store := newStore(db)
	keys := []string{"A", "a", "a%", "a%b", "a_", "aa", "ab", "b", "ÿ", "ÿa", "Ā", "予", "予約", "亇", "\U0010ffff", "\U0010ffffa"}
	for _, key := range keys {
		complete(t, begin(t, store, tx(leased(key))), answer(""))
	}
	slices.Sort(keys)
	for prefix, want := range map[string][]string{
		"": keys, "a": {"a", "a%", "a%b", "a_", "aa", "ab"}, "a%": {"a%", "a%b"}, "a_": {"a_"}, "B": nil, "ÿ": {"ÿ", "ÿa"},
		"予": {"予", "予約"}, "\U0010ffff": {"\U0010ffff", "\U0010ffffa"}, "\xc3": {"ÿ", "ÿa"}, "\xff": nil,
	} {
		var got []string
		for after := (*ichido.EntryID)(nil); ; {
			page, err := store.List(limited(t), ichido.Filter{KeyPrefix: prefix, After: after, Limit: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page {
				got = append(got, e.Key)
			}
			if len(page) < 2 {
				break
			}
			after = &page[1].EntryID
		}
		if !slices.Equal(got, want) {
			t.Errorf("prefix %q: %q, want %q", prefix, got, want)
		}
	}
	// What the database does not understand is no time.
	mustExec(t, db, "UPDATE idempotency_keys SET expires_at = 'whenever', created_at = '2001-02-03T04:05:06.789+09:00' WHERE idem_key = 'a'")
	e, err := store.Look(limited(t), "s", "a")
	if err != nil || !e.ExpiresAt.IsZero() || e.CreatedAt != time.Date(2001, 2, 2, 19, 5, 6, 789e6, time.UTC) {
		t.Errorf("Look = %+v, %v", e, err)
	}
	if _, err := store.List(limited(t), ichido.Filter{}); err == nil {
		t.Error("List without a limit returns no error")
	}
}
