package oracle

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
	"plimsoll/planner/replay"
)

// A schedule takes as much here as where policies are replayed.
func TestSimulateIsRunSchedule(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		c := smallCase(t)
		if c.Fleet.SLA.ITL == 0 {
			c.Fleet.SLA.ITL = time.Second
		}
		s := replay.Scenario{
			Fleet: c.Fleet, Length: c.end().Duration(), Drain: c.Drain.Duration(),
			Pace: planner.Pace{Every: time.Second}, Scrape: time.Second,
			Deployment: planner.Deployment{SLA: c.Fleet.SLA, Budget: planner.Budget{Max: -1, Min: -1}},
		}
		s.Deployment.SLA.Stat = "mean"
		schedule := make(Schedule, len(c.Bounds))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "replicas"), 1))
		plan := make(replay.Schedule, c.Bins)
		for i, p := range c.Fleet.Pools {
			s.Deployment.Pools = append(s.Deployment.Pools, planner.Pool{Role: p.Engine.Role, GPUs: p.GPUs})
			s.Start = s.Start.With(p.Engine.Role, p.Replicas)
			for b := range c.Bins {
				n := rng.IntN(4)
				schedule[i] = append(schedule[i], n)
				plan[b].At = time.Duration(b) * c.Every.Duration()
				plan[b].Want = plan[b].Want.With(p.Engine.Role, n)
			}
		}
		c.Fleet = s.Simulated()
		a, err := c.Simulate(schedule)
		if err != nil {
			t.Fatal(err)
		}
		b, err := replay.RunSchedule(slices.Values[[]fleet.Request](c.Requests), s, plan)
		if err != nil {
			t.Fatal(err)
		}
		if a.Attainment != b.Attainment.Both || math.Abs(a.GPUHours-b.GPUHours) > 1e-9 {
			t.Fatalf("%v with %v GPU-hours, replayed %v with %v", a.Attainment, a.GPUHours, b.Attainment.Both, b.GPUHours)
		}
	})
}
