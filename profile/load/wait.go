package load

import (
	"context"
	"runtime"
	"time"
)

// The ways of waiting, from the cheapest to the most accurate, and how long
// before the instant each hands over to the next. Go's timers wake up to about
// 1 ms late (the poller counts whole milliseconds), the kernel's about 60 µs
// (50 µs of timer slack); the rest is spent yielding, in which other goroutines
// run.
const (
	timerMargin = 2 * time.Millisecond
	sleepMargin = 100 * time.Microsecond
)

// waitUntil returns at the instant due, or before it when ctx ends.
func (k clock) waitUntil(ctx context.Context, due time.Duration) error {
	if left := due - k.now(); left > timerMargin {
		t := time.NewTimer(left - timerMargin)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if left := due - k.now(); left > sleepMargin {
		nap(left - sleepMargin)
	}
	for k.now() < due {
		runtime.Gosched()
	}
	return ctx.Err()
}

// yield lets a goroutine that was just started run first: a caller that went
// on into a system call would keep it waiting behind itself.
func yield() { runtime.Gosched() }
