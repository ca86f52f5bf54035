package recommend

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// The rate at which 95 % of requests are within the SLA is no higher than the one at
// which their mean is, and above 0 where there is room for a queue.
func TestMostRequestsTakeALowerRate(t *testing.T) {
	enginetest.Check(t, func(rt *rapid.T) {
		alone := time.Duration(rapid.IntRange(5, 100).Draw(rt, "alone")) * ms
		slack := rapid.Float64Range(1.5, 10).Draw(rt, "slack")
		mean := sla(time.Duration(slack*float64(alone)), 20*ms)
		most := mean
		most.Stat = profile.P95
		c := choose(t, profile.Prefill, mean, BySustained, prefill(1, alone))
		if got := c.MostRPS(most, 150); !(got > 0) || got > c.Picked.RPS {
			rt.Errorf("prefill: %v of %v requests/s", got, c.Picked.RPS)
		}
		step := func(n float64) profile.Point {
			p := decode(1, n, 4*ms+time.Duration(n*float64(200*time.Microsecond)))
			p.TPOT = profile.Distribution{N: 400, Neff: 400, Mean: p.ITL.Mean, P95: p.ITL.Mean}
			return p
		}
		d := choose(t, profile.Decode, mean, BySustained, step(1), step(8), step(32), step(64))
		if got := d.MostRPS(most, 150); !(got > 0) || got > d.Picked.RPS {
			rt.Errorf("decode: %v of %v requests/s", got, d.Picked.RPS)
		}
	})
}
