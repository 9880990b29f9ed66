package ichido

import "sync"

// flights knows the keys that requests of this process are busy with. It saves the store from asking about what
// the process knows already: duplicates wait here, in memory, and a mismatch with a running attempt is seen at
// once. Nothing depends on it for correctness: two processes have two of them.
type flights struct {
	mu sync.Mutex
	m  map[flightID]*flight
}

type flightID struct{ scope, key string }

// A flight is the common fate of all requests of this process that carry one key at one time. The request that
// opened it leads: it alone talks to the store. Fields are guarded by flights.mu.
type flight struct {
	id          flightID
	fingerprint []byte // the leader's
	made        Record // what the leader's attempt stored, if it did
	stage       stage
	news        landing       // set when landed
	changed     chan struct{} // closed at the next change of stage; nil while nobody follows
}

// A landing is what the leader of a flight tells its followers: the key's record, or an error.
type landing struct {
	record *Record
	err    error
}

type stage int

const (
	asking    stage = iota // the leader asks the store; nothing is known
	running                // the leader's attempt runs: the key belongs to the leader's fingerprint
	elsewhere              // an attempt of another process runs; the leader looks again now and then
	landed                 // over; there are news
)

// join returns the flight of id, opening one led by the caller if there is none.
func (fs *flights) join(id flightID, fingerprint []byte) (f *flight, leads bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.m[id]; f != nil {
		return f, false
	}
	if fs.m == nil {
		fs.m = make(map[flightID]*flight)
	}
	f = &flight{id: id, fingerprint: fingerprint}
	fs.m[id] = f
	return f, true
}

// move sets the stage of a flight that has not landed.
func (fs *flights) move(f *flight, to stage) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.stage != to {
		f.stage = to
		f.wake()
	}
}

// land ends a flight with news for its followers. The next request with its key opens another one.
func (fs *flights) land(f *flight, news landing) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.stage, f.news = landed, news
	delete(fs.m, f.id)
	f.wake()
}

func (f *flight) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// look returns the stage of a flight: if landed the news, else a channel that is closed at the next change.
func (fs *flights) look(f *flight) (stage, landing, <-chan struct{}) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.stage == landed {
		return landed, f.news, nil
	}
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.stage, landing{}, f.changed
}
