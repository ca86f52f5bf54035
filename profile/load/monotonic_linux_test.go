package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// machineClock counts from the machine's start, as in every other process here.
func machineClock() clock {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return clock{epoch: time.Now()}
	}
	return clock{epoch: time.Now().Add(-time.Duration(t.Nano()))}
}
