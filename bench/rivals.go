package main

import (
	"context"
	"net/http"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// A rival is a library for keys with its store in memory, on the server that it is made for. To add one, add it to rivals.
type rival struct {
	name string
	// serve answers POST /bare without keys and POST /once with them, as work.go says, and marks replays by
	// Idempotent-Replayed: true, if need be by a handler of ours.
	serve func() (address string, close func(), err error)
}

var rivals = []rival{{"ichido", serveIchido}, {"fiber", serveFiber}}

// Rivals compares libraries for keys, each in memory and on its own server. Their first requests and replays are to be
// compared with the bare requests of the same server.
type Rivals struct {
	Loads []Load `json:"loads"` // "ichido bare", "ichido first", "ichido replay", "fiber bare" and so on
}

func measureRivals(ctx context.Context, o *options) (*Rivals, error) {
	var all []series
	var aims []aim
	for _, r := range rivals {
		address, end, err := r.serve()
		if err != nil {
			return nil, err
		}
		defer end()
		a := &api{address: address}
		replay, err := a.replays("/once")
		if err != nil {
			return nil, err
		}
		replay.name = r.name + " replay"
		all = append(all, a.series(r.name+" bare", "/bare", false, newKey), a.series(r.name+" first", "/once", false, newKey), replay)
		aims = append(aims, aim{of: r.name + " first", to: r.name + " bare"}, aim{of: replay.name, to: r.name + " bare"})
	}
	out := new(Rivals)
	for _, clients := range o.clients {
		got, err := alternate(ctx, o, clients, all)
		if err != nil {
			return nil, err
		}
		out.Loads = append(out.Loads, got.load(clients, all, aims...))
	}
	return out, nil
}

func serveIchido() (string, func(), error) {
	manager, err := ichido.New(memstore.New(nil), ichido.Shared, nil)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /bare", handle(insertNothing))
	mux.Handle("POST /once", manager.Wrap(handle(insertNothing)))
	return listen(mux)
}
