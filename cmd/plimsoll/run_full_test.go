//go:build full

package main

import (
	"testing"
	"time"

	"plimsoll/profile"
)

// timed ends a test of latencies under the race detector, which slows the client
// and the engine down: it would find nothing about latencies, and the same
// program is looked at for races in the other tests.
func timed(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("NOT RUN under the race detector: it compares latencies")
	}
}

// undisturbed is what a point has of the engine and not of the machine that it
// shares with others, which only ever make a request later: the least TTFT, and
// the median gap.
func undisturbed(p profile.Point) time.Duration {
	if p.Phase == profile.Prefill {
		return p.TTFT.Min
	}
	return p.ITL.P50
}
