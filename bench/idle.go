package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"
)

// Other programs that run at the same time spoil a measurement more than anything else. Between two samples nothing of
// ours runs, so that whoever is busy then is somebody else.
const (
	idleLook  = 300 * time.Millisecond
	idleBusy  = 0.08 // of all cores: below it the machine is idle
	idleTries = 5    // samples taken anew before one that was disturbed is kept
)

// undisturbed takes a sample on an idle machine: it waits for one, and takes another sample if it is not idle
// afterwards. It gives up when the patience ends, and reports whether it had to.
func undisturbed(ctx context.Context, patience time.Duration, take func() (sample, error)) (s sample, disturbed bool, err error) {
	if patience == 0 {
		s, err = take()
		return s, false, err
	}
	deadline := time.Now().Add(patience)
	for tries := 1; ; tries++ {
		for !isIdle(ctx) && time.Now().Before(deadline) && ctx.Err() == nil {
		}
		if s, err = take(); err != nil {
			return s, false, err
		}
		if isIdle(ctx) {
			return s, false, nil
		}
		if tries == idleTries || time.Now().After(deadline) {
			return s, true, nil
		}
	}
}

// isIdle looks for a moment whether the machine is. Where it cannot see, it is.
func isIdle(ctx context.Context) bool {
	busyBefore, allBefore := cpuTimes()
	pause(ctx, idleLook)
	busy, all := cpuTimes()
	return all == allBefore || float64(busy-busyBefore)/float64(all-allBefore) < idleBusy
}

// cpuTimes are the times of all cores together, in ticks, that Linux counts.
func cpuTimes() (busy, all int64) {
	stat, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || i > 8 { // "cpu"; guests are counted in what is before them
			continue
		}
		all += n
		if i != 4 && i != 5 { // idle, waiting for a disk
			busy += n
		}
	}
	return busy, all
}
