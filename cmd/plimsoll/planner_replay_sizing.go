package main

import (
	"cmp"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/forecast"
	"plimsoll/planner/policy"
)

// sized is what the default policy makes of a minute, by the profile alone: no
// forecast but that it stays so, no correction, no caution. It is held to bounds
// and budget.
func (s plannerSettings) sized(m minute, p99 lengths) (planner.Decision, error) {
	s.policy, s.warmup = "default", ""
	s.forecast = forecast.DefaultOptions(forecast.Constant)
	o := &s.careful
	o.NoCorrection, o.Margin, o.StableFor, o.Ahead, o.MostUp, o.MostDown = true, 0, 0, 0, maxReplicas, maxReplicas
	core, err := s.core(epoch())
	if err != nil {
		return planner.Decision{}, err
	}
	see := planner.Observation{
		Start: epoch(), Length: time.Minute, Arrivals: planner.Known(m.requests), Finished: planner.Known(m.requests),
		Running: planner.Known(0.0), Waiting: planner.Known(0.0),
	}
	if m.requests > 0 {
		spread := func(mean, p99 float64) planner.Spread[float64] {
			return planner.Spread[float64]{Count: 1e6, Mean: planner.Known(mean), P99: planner.Exactly(max(mean, p99))}
		}
		see.ISL, see.OSL = spread(m.isl/m.requests, p99.isl), spread(m.osl/m.requests, p99.osl)
	}
	for _, p := range s.deployment.Pools {
		see.Pools = append(see.Pools, planner.PoolObservation{PoolState: planner.PoolState{Role: p.Role, GPUs: p.GPUs}})
	}
	return core.Step(see), nil
}

// peak is enough for each of some minutes, in each pool, and what the profile asked
// for before the budget.
func (s plannerSettings) peak(minutes []minute, p99 lengths) (want, proposed planner.Replicas, err error) {
	for _, m := range minutes {
		d, err := s.sized(m, p99)
		if err != nil {
			return want, proposed, err
		}
		want, proposed = want.Max(d.Want), proposed.Max(d.Proposed)
	}
	return want, proposed, nil
}

// fullLoads are the requests that a replica of each pool serves when it is full by
// the profile: one prompt, or as many as keep the ITL at a load.
func fullLoads(s plannerSettings, d planner.Decision) []policy.PoolTarget {
	var out []policy.PoolTarget
	for _, p := range s.deployment.Pools {
		full := policy.PoolTarget{Role: p.Role, Metric: policy.MetricRunning, Value: 1}
		for _, c := range d.Capacity {
			switch {
			case c.Role != p.Role || p.Role == engine.RolePrefill:
			case c.InFlight.Known:
				full.Value = max(1, c.InFlight.Value)
			case c.Rate.Known: // by Little's law; the ITL may be less than was promised
				token := cmp.Or(s.surfaces.token(), s.deployment.SLA.ITL.Seconds())
				full.Value = max(1, c.Rate.Value*d.Forecast.OSL.Value*token)
			}
		}
		out = append(out, full)
	}
	return out
}
