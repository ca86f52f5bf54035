package simserver

import (
	"math"
	"testing"
	"time"

	"plimsoll/engine"
)

func TestInstantsAreExact(t *testing.T) {
	start := time.Now()
	i, sum := instant{at: start}, engine.Picoseconds(0)
	for n := range engine.Picoseconds(5000) {
		d := n*n*1234567 + 999
		i = i.add(d)
		sum += d
		if got := i.since(start); got != sum || i.ps >= engine.Nanosecond {
			t.Fatalf("after %d ps: %d", sum, got)
		}
	}
	if got := i.add(math.MaxInt64).since(start); got < math.MaxInt64-engine.Nanosecond {
		t.Errorf("beyond the range: %d", got)
	}
}
