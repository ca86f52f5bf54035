package oracle

import (
	"fmt"
	"math"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

// pools of Llama 3.1 8B that start in a minute.
func pools(tb testing.TB, disaggregated bool) []fleet.Pool {
	if !disaggregated {
		return []fleet.Pool{llama8B(tb, engine.RoleAggregated, 60*engine.Second)}
	}
	return []fleet.Pool{llama8B(tb, engine.RolePrefill, 60*engine.Second), llama8B(tb, engine.RoleDecode, 60*engine.Second)}
}

// day is a day of 20 requests a second on average, 33 at its peak: 1.73 million.
func day(tb testing.TB, disaggregated bool) Case {
	c := caseOf(pools(tb, disaggregated), sine(100.0/3, 86_400, 86_400).requests(), 30*engine.Second, engine.Day, 8)
	for i := range c.Fleet.Pools {
		c.Fleet.Pools[i].Replicas = 1
	}
	return c
}

func BenchmarkBoundOfADay(b *testing.B) {
	for name, disaggregated := range map[string]bool{"aggregated": false, "disaggregated": true} {
		c := day(b, disaggregated)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				f, err := Bound(c)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(f.GPUHours, "GPU-hours")
			}
		})
	}
}

func BenchmarkPlanOfADay(b *testing.B) {
	for name, disaggregated := range map[string]bool{"aggregated": false, "disaggregated": true} {
		c := day(b, disaggregated)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				p, err := Plan(c, c.Simulate, 0)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(p.Outcome.GPUHours, "GPU-hours")
				b.ReportMetric(float64(p.Simulations), "simulations")
			}
		})
	}
}

// BenchmarkGap is how far plan and bound are apart over half an hour, for fleets of
// about 4, 15 and 50 engines at the peak.
func BenchmarkGap(b *testing.B) {
	bursts := func(peak float64) load {
		l := sine(peak, 1800, 1800)
		l.rate = func(s float64) float64 {
			if math.Mod(s, 600) > 480 {
				return peak
			}
			return peak / 4
		}
		return l
	}
	for _, peak := range []float64{60, 230, 750} {
		for name, l := range map[string]load{"sine": sine(peak, 1800, 1800), "bursts": bursts(peak)} {
			for _, disaggregated := range []bool{false, true} {
				c := caseOf(pools(b, disaggregated), l.requests(), 15*engine.Second, 1800*engine.Second, 100)
				for i := range c.Fleet.Pools {
					c.Fleet.Pools[i].Replicas = int(peak)/(60*len(c.Fleet.Pools)) + 1
				}
				b.Run(fmt.Sprintf("%s/%v/disaggregated=%v", name, peak, disaggregated), func(b *testing.B) { gap(b, c) })
			}
		}
	}
}

func gap(b *testing.B, c Case) {
	for range b.N {
		f, err := Bound(c)
		if err != nil {
			b.Fatal(err)
		}
		p, err := Plan(c, c.Simulate, 0)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(f.GPUHours, "bound")
		b.ReportMetric(p.Outcome.GPUHours, "plan")
		b.ReportMetric(p.Outcome.GPUHours/f.GPUHours, "plan/bound")
		b.ReportMetric(p.Outcome.Attainment, "attainment")
	}
}
