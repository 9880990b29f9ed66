package main

import (
	"testing"

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
