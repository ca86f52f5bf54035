package capacity

import (
	"testing"
	"time"

	"plimsoll/profile"
)

// A confirmed rate is no higher than the one asked about, holds by itself, and of none
// there is none.
func TestSustains(t *testing.T) {
	s := mixes[0]
	l, w := chunked(t, s)[0], s.workload()
	sla := profile.SLA{TTFT: 2 * time.Second, ITL: 100 * time.Millisecond, Stat: profile.Mean}
	for _, rate := range []float64{0, 0.5, 1000} {
		got, err := l.Sustains(rate, w, sla, 2000, 1)
		if err != nil || got > rate || rate == 0.5 && got != rate || rate == 1000 && got != 0 {
			t.Errorf("of %v requests/s it holds %v, %v", rate, got, err)
		}
	}
}
