package main

import (
	"testing"
	"time"
)

func TestDurationsAreWrittenAsPeopleDo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 500 * time.Millisecond: "500ms", 30 * time.Second: "30s", 10 * time.Minute: "10m", 90 * time.Second: "1m30s",
		24 * time.Hour: "24h", 90 * time.Minute: "1h30m", 100 * time.Minute: "1h40m", time.Hour + time.Second: "1h0m1s",
		20 * time.Hour: "20h", 10*time.Hour + 10*time.Minute: "10h10m",
	} {
		got := short(d)
		if back, err := time.ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
