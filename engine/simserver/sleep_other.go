//go:build !linux

package simserver

import (
	"runtime"
	"time"
)

// spin is how much of a sleep is spent running instead, because timers wake
// late by about as much.
const spin = 200 * time.Microsecond

// fineClock sleeps by Go's timers and spins for the rest.
type fineClock struct{}

func newFineClock() fineClock { return fineClock{} }

// until returns at t, never before.
func (fineClock) until(t time.Time) {
	if d := time.Until(t) - spin; d > 0 {
		time.Sleep(d)
	}
	for time.Until(t) > 0 {
		runtime.Gosched()
	}
}
