package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ichido-dev/ichido"
)

// inspector opens a store, and skips the case if it does not show what it has stored.
func (s *suite) inspector() ichido.Inspector {
	s.Helper()
	store, ok := s.Open(s.T).(ichido.Inspector)
	if !ok {
		s.Skip("the store is no Inspector")
	}
	return store
}

// A kept record is one of which the case knows what a store must show.
type kept struct {
	ichido.EntryID
	state ichido.State
	route string
}

// The ways in which keep makes a record.
const (
	byTransaction = iota
	byLease
	live
	lost
	toRunAgain
	ways
)

// keep makes a record. A store that has no lease mode gets completed ones only.
func (s *suite) keep(store ichido.Store, id ichido.EntryID, way int, name string) kept {
	s.Helper()
	c := claim(id.Key, "x")
	c.Scope = id.Scope
	if _, ok := store.(ichido.Leaser); !ok || way == byTransaction {
		s.complete(s.begin(store, c), answer(id.Key))
		return kept{id, ichido.Completed, ""}
	}
	c.Lease = leased(id.Key, "x", route(name)).Lease
	c.Lease.Rerun = way == toRunAgain
	attempt := s.begin(store, c)
	switch way {
	case byLease:
		s.complete(attempt, answer(id.Key))
		return kept{id, ichido.Completed, name}
	case live:
		return kept{id, ichido.InProgress, name}
	case lost:
		s.abandon(attempt, errGone)
		return kept{id, ichido.Unknown, name}
	}
	s.abandon(attempt, errGone)
	return kept{id, ichido.InProgress, name}
}

// keepMany makes records of all states whose keys are easily put in another order, or taken for patterns. It returns them
// in order.
func (s *suite) keepMany(store ichido.Store) []kept {
	s.Helper()
	var ids []ichido.EntryID
	for _, key := range []string{
		"a", "A", "B", "b", "aa", "a'b", `a"b`, "a b", "a%", "a_", "ab", "%", "%a", "_", "*", "[a]", `\`, `\a`,
		"é", "e", "z", "予約", "予定", "a\U0010ffff",
	} {
		ids = append(ids, ichido.EntryID{Scope: "scope 1", Key: key})
	}
	for _, scope := range []string{"SCOPE", "予約", "scope", "scope ", "%", "s", "scope 2"} {
		ids = append(ids, ichido.EntryID{Scope: scope, Key: "same"})
	}
	var all []kept
	for i, id := range ids {
		all = append(all, s.keep(store, id, i%ways, []string{"orders", "Orders", "%", ""}[i/ways%4]))
	}
	slices.SortFunc(all, func(a, b kept) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Scope, b.Scope))
	})
	return all
}

// list returns all pages of a filter.
func (s *suite) list(store ichido.Inspector, f ichido.Filter) []ichido.Entry {
	s.Helper()
	var all []ichido.Entry
	for {
		page, err := store.List(s.context(), f)
		if err != nil {
			s.Fatalf("List(%+v): %v", f, err)
		}
		if len(page) > f.Limit {
			s.Fatalf("List(%+v) returned %d entries", f, len(page))
		}
		if all = append(all, page...); len(page) < f.Limit {
			return all
		}
		if len(all) > 1000 {
			s.Fatalf("List(%+v) does not end", f)
		}
		f.After = &page[len(page)-1].EntryID
	}
}

// wantListed checks which entries are listed, in order.
func (s *suite) wantListed(store ichido.Inspector, f ichido.Filter, want []kept) {
	s.Helper()
	got := s.list(store, f)
	var ids, wanted []ichido.EntryID
	for _, e := range got {
		ids = append(ids, e.EntryID)
	}
	for _, k := range want {
		wanted = append(wanted, k.EntryID)
	}
	if !slices.Equal(ids, wanted) {
		s.Errorf("List(%+v) = %q\nwant %q", f, ids, wanted)
		return
	}
	for i, e := range got {
		if e.State != want[i].state || e.Route != want[i].route {
			s.Errorf("%q is listed as %v of route %q, want %v of %q", e.EntryID, e.State, e.Route, want[i].state, want[i].route)
		}
	}
}

func listsInPages(s *suite) {
	store, other := s.inspector(), s.inspector()
	s.wantListed(store, ichido.Filter{Limit: 4}, nil)
	all := s.keepMany(s.Open(s.T))
	for _, limit := range []int{1, 4, len(all) - 1, len(all), len(all) + 1, 1000} {
		s.wantListed(other, ichido.Filter{Limit: limit}, all)
	}
	// A page begins after its place, whether or not an entry is there.
	for _, after := range []ichido.EntryID{
		{Key: ""}, {Scope: "scope 1", Key: "a"}, {Scope: "", Key: "same"}, {Scope: "scope", Key: "same"}, {Scope: "zzz", Key: "ab"}, {Key: "\U0010ffff"},
	} {
		var want []kept
		for _, k := range all {
			if k.Key > after.Key || k.Key == after.Key && k.Scope > after.Scope {
				want = append(want, k)
			}
		}
		s.wantListed(store, ichido.Filter{After: &after, Limit: 4}, want)
	}
}

func listsWhatTheFilterChooses(s *suite) {
	store := s.inspector()
	all := s.keepMany(s.Open(s.T))
	none := func(ichido.Filter, kept) bool { return false }
	filters := []struct {
		ichido.Filter
		chooses func(ichido.Filter, kept) bool // nil: by the fields that chosen looks at
	}{
		{Filter: ichido.Filter{}},
		{Filter: ichido.Filter{States: []ichido.State{}}},
		{Filter: ichido.Filter{States: []ichido.State{ichido.Completed}}},
		{Filter: ichido.Filter{States: []ichido.State{ichido.InProgress}}},
		{Filter: ichido.Filter{States: []ichido.State{ichido.Unknown}}},
		{Filter: ichido.Filter{States: []ichido.State{ichido.Unknown, ichido.InProgress}}},
		{Filter: ichido.Filter{States: []ichido.State{ichido.Completed, ichido.Unknown, ichido.Completed}}},
		{Filter: ichido.Filter{States: []ichido.State{ichido.Completed, ichido.Unknown, ichido.InProgress}}},
		{Filter: ichido.Filter{Scope: "scope 1"}},
		{Filter: ichido.Filter{Scope: "scope"}},
		{Filter: ichido.Filter{Scope: "%"}},
		{Filter: ichido.Filter{Scope: "Scope 1"}},
		{Filter: ichido.Filter{Route: "orders"}},
		{Filter: ichido.Filter{Route: "Orders"}},
		{Filter: ichido.Filter{Route: "%"}},
		{Filter: ichido.Filter{Route: "_"}},
		{Filter: ichido.Filter{Key: "same"}},
		{Filter: ichido.Filter{Key: "a"}},
		{Filter: ichido.Filter{Key: "%"}},
		{Filter: ichido.Filter{Key: "missing"}},
		{Filter: ichido.Filter{KeyPrefix: "a"}},
		{Filter: ichido.Filter{KeyPrefix: "A"}},
		{Filter: ichido.Filter{KeyPrefix: "a%"}},
		{Filter: ichido.Filter{KeyPrefix: "%"}},
		{Filter: ichido.Filter{KeyPrefix: "_"}},
		{Filter: ichido.Filter{KeyPrefix: "a_"}},
		{Filter: ichido.Filter{KeyPrefix: "a'"}},
		{Filter: ichido.Filter{KeyPrefix: "*"}},
		{Filter: ichido.Filter{KeyPrefix: "["}},
		{Filter: ichido.Filter{KeyPrefix: `\`}},
		{Filter: ichido.Filter{KeyPrefix: "予"}},
		{Filter: ichido.Filter{KeyPrefix: "予約"}},
		{Filter: ichido.Filter{KeyPrefix: "é"}},
		{Filter: ichido.Filter{KeyPrefix: "a\U0010ffff"}},
		{Filter: ichido.Filter{KeyPrefix: "sam"}},
		{Filter: ichido.Filter{KeyPrefix: "samey"}},
		{Filter: ichido.Filter{OlderThan: time.Hour}, chooses: none},
		{Filter: ichido.Filter{NewerThan: time.Hour}},
		{Filter: ichido.Filter{OlderThan: time.Hour, NewerThan: 2 * time.Hour}, chooses: none},
		{Filter: ichido.Filter{States: []ichido.State{ichido.InProgress}, Scope: "scope 1", NewerThan: time.Hour}},
		{Filter: ichido.Filter{States: []ichido.State{ichido.InProgress}, Scope: "scope 1", OlderThan: time.Hour}, chooses: none},
		{Filter: ichido.Filter{States: []ichido.State{ichido.Unknown}, Route: "orders"}},
		{Filter: ichido.Filter{States: []ichido.State{ichido.Unknown, ichido.Completed}, Key: "same"}},
		{Filter: ichido.Filter{Scope: "scope 1", Key: "a", KeyPrefix: "a"}},
		{Filter: ichido.Filter{Scope: "scope 1", Key: "a", KeyPrefix: "b"}},
		{Filter: ichido.Filter{Scope: "scope", Key: "same", NewerThan: time.Hour}},
		{Filter: ichido.Filter{
			States: []ichido.State{ichido.Completed, ichido.InProgress}, Scope: "scope 1", Route: "orders", KeyPrefix: "a", NewerThan: time.Hour,
		}},
	}
	for _, f := range filters {
		var want []kept
		for _, k := range all {
			if f.chooses == nil && chosen(f.Filter, k) || f.chooses != nil && f.chooses(f.Filter, k) {
				want = append(want, k)
			}
		}
		for _, f.Limit = range []int{2, 1000} {
			s.wantListed(store, f.Filter, want)
		}
	}
	for what, f := range map[string]struct {
		ichido.Filter
		want int
	}{
		"all are older than a millisecond": {ichido.Filter{OlderThan: time.Millisecond, Limit: 100}, len(all)},
		"none is newer than a millisecond": {ichido.Filter{NewerThan: time.Millisecond, Limit: 100}, 0},
	} {
		s.until(what, func() bool { return len(s.list(store, f.Filter)) == f.want })
	}
}

// chosen is what a filter says of a record, its times aside.
func chosen(f ichido.Filter, k kept) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, k.state)) &&
		(f.Scope == "" || f.Scope == k.Scope) &&
		(f.Route == "" || f.Route == k.route) &&
		(f.Key == "" || f.Key == k.Key) &&
		strings.HasPrefix(k.Key, f.KeyPrefix)
}

// both returns an entry as List and as Look show it, and checks that they agree.
func (s *suite) both(store ichido.Inspector, c ichido.Claim) *ichido.Entry {
	s.Helper()
	listed := s.list(store, ichido.Filter{Scope: c.Scope, Key: c.Key, Limit: 10})
	looked, err := store.Look(s.context(), c.Scope, c.Key)
	if err != nil || looked == nil || len(listed) != 1 {
		s.Fatalf("%s: List = %+v; Look = %+v, %v; want one entry", c.Key, listed, looked, err)
	}
	l := listed[0]
	if l.Response != nil {
		s.Errorf("%s: the list contains the answer", c.Key)
	}
	for what, at := range map[string][2]time.Time{
		"CreatedAt": {l.CreatedAt, looked.CreatedAt}, "ExpiresAt": {l.ExpiresAt, looked.ExpiresAt},
		"LeaseUntil": {l.LeaseUntil, looked.LeaseUntil},
	} {
		if !at[0].Equal(at[1]) {
			s.Errorf("%s: %s is %v in the list, and %v at a look", c.Key, what, at[0], at[1])
		}
	}
	if a, b := facts(l), facts(*looked); a != b {
		s.Errorf("%s: List shows %s, Look shows %s", c.Key, a, b)
	}
	if looked.EntryID != (ichido.EntryID{Scope: c.Scope, Key: c.Key}) || string(looked.Fingerprint) != string(c.Fingerprint) {
		s.Errorf("%s: the entry is that of %q, %q", c.Key, looked.EntryID, looked.Fingerprint)
	}
	s.wantNow(c.Key+": CreatedAt", looked.CreatedAt)
	return looked
}

// facts is all of an entry but its times and its answer.
func facts(e ichido.Entry) string {
	return fmt.Sprintf("%q %v %q status %d size %d route %q token %d attempts %d of %d rerun %v asked %d resumes %v owner %q finishes %v",
		e.EntryID, e.State, e.Fingerprint, e.Status, e.BodySize, e.Route, e.Token, e.Attempts, e.MaxAttempts, e.Rerun, e.Asked, e.Resumes, e.Owner, e.Finishes)
}

func entriesOfTransactions(s *suite) {
	store := s.inspector()
	one := s.Open(s.T)
	for name, want := range answers() {
		c := claim(name, "x")
		c.Retention = 48 * time.Hour
		s.complete(s.begin(one, c), want)
		e := s.both(store, c)
		if e.Response == nil {
			s.Fatalf("%s: Look does not show the answer", name)
		}
		s.wantResponse(name, *e.Response, want)
		s.wantFacts(e, ichido.Entry{EntryID: e.EntryID, Fingerprint: e.Fingerprint, Status: want.Status, BodySize: len(want.Body)})
		if !e.LeaseUntil.IsZero() {
			s.Errorf("%s: a lease until %v", name, e.LeaseUntil)
		}
		s.wantApart(name+": retention", e.ExpiresAt.Sub(e.CreatedAt), c.Retention)
	}
	// The transaction of an attempt in progress is no record.
	running := s.begin(one, claim("running", "x"))
	s.wantNoEntry(store, claim("running", "x"))
	s.abandon(running, nil)
	s.wantNoEntry(store, claim("running", "x"))
}

func (s *suite) wantFacts(e *ichido.Entry, want ichido.Entry) {
	s.Helper()
	if got, want := facts(*e), facts(want); got != want {
		s.Errorf("the entry is %s, want %s", got, want)
	}
}

func (s *suite) wantNoEntry(store ichido.Inspector, c ichido.Claim) {
	s.Helper()
	if e, err := store.Look(s.context(), c.Scope, c.Key); e != nil || !errors.Is(err, ichido.ErrNoRecord) {
		s.Errorf("%s: Look = %+v, %v; want ErrNoRecord", c.Key, e, err)
	}
	if l := s.list(store, ichido.Filter{Scope: c.Scope, Key: c.Key, Limit: 10}); len(l) != 0 {
		s.Errorf("%s is listed as %+v", c.Key, l)
	}
}

func entriesOfLeases(s *suite) {
	store := s.inspector()
	one, ok := s.Open(s.T).(ichido.Leaser)
	if !ok {
		s.Skip("the store is no Leaser")
	}
	c := leased("k", "x", route("orders"))
	c.Retention, c.Lease.UnknownRetention = 48*time.Hour, 72*time.Hour
	want := ichido.Entry{
		EntryID: ichido.EntryID{Scope: c.Scope, Key: c.Key}, Fingerprint: c.Fingerprint,
		State: ichido.InProgress, Route: "orders", Token: c.Lease.Token, Attempts: 1,
	}
	attempt := s.begin(one, c)
	e := s.both(store, c)
	s.wantFacts(e, want)
	s.wantApart("the lease", e.LeaseUntil.Sub(e.CreatedAt), c.Lease.Duration)
	s.wantApart("the retention while in progress", e.ExpiresAt.Sub(e.CreatedAt), c.Lease.UnknownRetention)
	if e.Response != nil {
		s.Errorf("an attempt in progress has an answer: %+v", e.Response)
	}

	s.complete(attempt, answer("done"))
	e = s.both(store, c)
	want.State, want.Status, want.BodySize = ichido.Completed, 201, len("done")
	s.wantFacts(e, want)
	s.wantApart("the retention once completed", e.ExpiresAt.Sub(e.CreatedAt), c.Retention)
	if !e.LeaseUntil.IsZero() || e.Response == nil {
		s.Fatalf("the completed entry has a lease until %v, and the answer %v", e.LeaseUntil, e.Response)
	}
	s.wantResponse("k", *e.Response, answer("done"))

	for _, again := range []bool{false, true} {
		c := leased(fmt.Sprint("again ", again), "x", short, func(l *ichido.Lease) { l.Rerun = again })
		s.lapsed(one, c)
		e := s.both(store, c)
		want := ichido.Entry{
			EntryID: ichido.EntryID{Scope: c.Scope, Key: c.Key}, Fingerprint: c.Fingerprint,
			State: ichido.Unknown, Token: c.Lease.Token, Attempts: 1,
		}
		if again {
			want.State, want.Rerun = ichido.InProgress, true
		}
		s.wantFacts(e, want)
		// Another record's claim, later than all that, says what time it is.
		later := leased("later than "+c.Key, "x")
		s.begin(one, later)
		if now := s.both(store, later).CreatedAt; e.LeaseUntil.IsZero() || e.LeaseUntil.Before(e.CreatedAt) || e.LeaseUntil.After(now) {
			s.Errorf("%s: claimed at %v, the lease until %v; now it is %v", c.Key, e.CreatedAt, e.LeaseUntil, now)
		}
		s.wantApart("the retention of what nobody completed", e.ExpiresAt.Sub(e.CreatedAt), c.Lease.UnknownRetention)
	}
	freed := leased("freed", "x")
	s.abandon(s.begin(one, freed), nil)
	s.wantNoEntry(store, freed)
}

func lookFindsOnlyTheKey(s *suite) {
	store := s.inspector()
	one := s.Open(s.T)
	s.wantNoEntry(store, claim("key", "x"))
	s.complete(s.begin(one, claim("key", "x")), answer("done"))
	for _, other := range [][2]string{{"suite POST /things", "KEY"}, {"suite POST /things", "k%"}, {"suite POST /thing", "key"}, {"", "key"}} {
		c := claim(other[1], "x")
		c.Scope = other[0]
		if e, err := store.Look(s.context(), c.Scope, c.Key); e != nil || !errors.Is(err, ichido.ErrNoRecord) {
			s.Errorf("Look(%q, %q) = %+v, %v; want ErrNoRecord", c.Scope, c.Key, e, err)
		}
	}
}

func expiredIsListedUntilPurged(s *suite) {
	store := s.inspector()
	one := s.Open(s.T)
	s.complete(s.begin(one, expiring("completed", "x")), answer("done"))
	want := []kept{{ichido.EntryID{Scope: claim("", "").Scope, Key: "completed"}, ichido.Completed, ""}}
	if _, ok := one.(ichido.Leaser); ok {
		c := leased("unknown", "x", forgotten)
		s.unknown(one, c)
		want = append(want, kept{ichido.EntryID{Scope: c.Scope, Key: c.Key}, ichido.Unknown, ""})
	}
	s.wantListed(store, ichido.Filter{Limit: 10}, want)
	if _, ok := one.(ichido.Purger); ok {
		s.purgeAll(one, len(want))
		s.wantListed(store, ichido.Filter{Limit: 10}, nil)
	}
}
