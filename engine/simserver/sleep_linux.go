package simserver

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// fineClock sleeps by clock_nanosleep, which is good to some 50 µs.
type fineClock struct{}

// newFineClock prepares the calling thread.
func newFineClock() fineClock {
	// The kernel may delay a thread's timers by its slack, 50 µs by default, to
	// save power. Where it refuses less, the sleep is just that much less exact.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return fineClock{}
}

// until returns at t, never before.
func (fineClock) until(t time.Time) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		time.Sleep(time.Until(t))
		return
	}
	at := unix.NsecToTimespec(now.Nano() + int64(time.Until(t)))
	for time.Until(t) > 0 {
		// The runtime's signals interrupt the sleep: go on to the same instant.
		err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			time.Sleep(time.Until(t))
		}
	}
}
