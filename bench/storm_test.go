package main

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/ichido-dev/ichido/internal/pgtest"
)

func TestStorm(t *testing.T) {
	all := runQuick(t, "--storm", "--postgres", pgtest.Shared(t).URL("postgres")).Storms
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	for _, s := range all {
		if len(s.Variants) != 3 {
			t.Fatalf("%+v", s)
		}
		for _, v := range s.Variants {
			if !v.Met || v.Operations.Median < 1 || v.Sendings.Median < 1 || v.MostInside.Median < 2 || len(v.Answered) != 12 || len(v.Sent) != 12 {
				t.Errorf("%s: %+v", s.Stalls, v)
			}
			if v.Longest.Median < 250 {
				t.Errorf("%s, %s: no operation was held up by a stall of 500 ms: the longest took %.0f ms", s.Stalls, v.Name, v.Longest.Median)
			}
		}
	}
}

// With keys no operation may be booked more than once, in any round.
func TestStormVariant(t *testing.T) {
	all := []*stormRun{{operations: 10, sendings: 20}, {operations: 10, sendings: 30, twice: 1}, {operations: 10, sendings: 40}}
	if v := stormVariant("wait", all); v.Met || v.Twice != (Spread{0, 0, 1}) || v.Sendings.Median != 3 {
		t.Errorf("%+v", v)
	}
	if v := stormVariant("no keys", all); !v.Met {
		t.Errorf("%+v", v)
	}
	if v := stormVariant("wait", all[:1]); !v.Met {
		t.Errorf("%+v", v)
	}
}

// A gate that is shut holds up what is read, although it has come, and what is written.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		g := new(gate)
		c := gatedConn{here, g}
		for range 2 { // it can be shut again
			open := g.shut()
			passed := make(chan string, 3)
			go func() { _, _ = c.Read(make([]byte, 1)); passed <- "read" }()
			go func() { _, _ = there.Write([]byte("x")); passed <- "written by the other side" }()
			synctest.Wait()
			if got := <-passed; got != "written by the other side" || len(passed) != 0 {
				t.Errorf("%s, although the gate is shut", got)
			}
			go func() { _, _ = c.Write([]byte("y")); passed <- "written" }()
			go func() { _, _ = there.Read(make([]byte, 1)) }()
			synctest.Wait()
			if len(passed) != 0 {
				t.Errorf("%s, although the gate is shut", <-passed)
			}
			open()
			synctest.Wait()
			if len(passed) != 2 {
				t.Errorf("%d passed the gate when it was opened, want 2", len(passed))
			}
		}
	})
}
