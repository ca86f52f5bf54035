//go:build !linux

package load

import "time"

// machineClock is this process's own here: no other process knows it.
func machineClock() clock { return clock{epoch: time.Now()} }
