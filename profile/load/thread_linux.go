package load

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ownThread gives this goroutine a thread of its own until release, and what
// tells the processor time of that thread since.
func ownThread() (used func() time.Duration, release func()) {
	runtime.LockOSThread()
	before := threadTime()
	return func() time.Duration { return threadTime() - before }, runtime.UnlockOSThread
}

func threadTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
