package main

import (
	"fmt"
	"math/rand/v2"
)

// duplicates are requests of which a share is replays.
var duplicates = contest{(*api).duplicateVariants, func(string, int) []aim {
	var aims []aim
	for _, share := range shares {
		aims = append(aims, aim{of: sharing("ichido", share), to: sharing("usual", share)})
	}
	return aims
}}

// countedDuplicates is enough for what is a matter of chance.
const countedDuplicates = 400

// shares are the parts of the requests that are replays.
var shares = []float64{0, 0.01, 0.1, 0.5, 0.9}

func sharing(name string, share float64) string { return fmt.Sprintf("%s, %g %%", name, 100*share) }

func (a *api) duplicateVariants() ([]series, error) {
	var all []series
	for _, share := range shares {
		all = append(all, a.mixed(sharing("ichido", share), "/ichido", share), a.mixed(sharing("usual", share), "/usual", share))
	}
	for i := range all {
		all[i].counted = countedDuplicates
	}
	return all, nil
}

// mixed is a series of requests of which a share repeats one that the same worker has sent before.
func (a *api) mixed(name, path string, share float64) series {
	return series{name: name, worker: func() (func() error, func(), error) {
		c, err := dial(a.address)
		if err != nil {
			return nil, nil, err
		}
		var sent []string
		return func() error {
			if len(sent) > 0 && rand.Float64() < share {
				return c.post(path, sent[rand.IntN(len(sent))], true)
			}
			key := newKey()
			if len(sent) < storedKeys {
				sent = append(sent, key)
			} else {
				sent[rand.IntN(storedKeys)] = key
			}
			return c.post(path, key, false)
		}, func() { c.conn.Close() }, nil
	}}
}
