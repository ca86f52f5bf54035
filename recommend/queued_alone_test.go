package recommend

import (
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// A first token that comes late, of requests one at a time whose ITL holds, may have waited for
// others; with an ITL that misses, too, or under load it says nothing of them.
func TestQueuedAlone(t *testing.T) {
	sla := profile.SLA{TTFT: 250 * time.Millisecond, ITL: 30 * time.Millisecond, Stat: profile.P50}
	for _, c := range []struct {
		ttft, itl time.Duration
		rate      float64
		feasible  bool
		want      int
	}{
		{2 * time.Second, 20 * time.Millisecond, 0, false, 1},
		{2 * time.Second, 40 * time.Millisecond, 0, false, 0},
		{200 * time.Millisecond, 20 * time.Millisecond, 0, false, 0},
		{2 * time.Second, 20 * time.Millisecond, 5, false, 0},
		{2 * time.Second, 20 * time.Millisecond, 0, true, 0},
	} {
		p := profile.Point{Config: engine.Config{Kind: engine.KindEndpoint}, Rate: c.rate, Load: &profile.Attainment{TTFT: profile.Distribution{P50: c.ttft}, TPOT: profile.Distribution{P50: c.itl}}}
		if got := (Choice{Feasible: c.feasible, Picked: Candidate{Point: p}}).queuedAlone(sla); len(got) != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
