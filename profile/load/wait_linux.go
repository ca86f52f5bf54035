package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps for d by the kernel's clock, which wakes within about 60 µs; a
// signal may end it early, after which the caller yields until its instant.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil) // EINTR: see above
}
