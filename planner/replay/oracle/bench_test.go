package oracle

import (
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
