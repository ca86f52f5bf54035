package main

import (
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// A load is too much where a request waits for longer than this share of the time in
// which all came, of so many requests at least: those before it are then what it waits
// for, and more of them would make it wait longer.
const (
	longWait       = 0.5
	enoughRequests = 10
)

// saturated says where latencies are those of how many requests there are. Of loads that
// last for longer fleet.Report says by itself that the queue grows.
func (s simulation) saturated() []profile.Warning {
	r, came := s.report, engine.FromDuration(s.load.last)
	if s.load.n < enoughRequests || came == 0 || slices.ContainsFunc(r.Warnings, func(w profile.Warning) bool { return w.Code == "saturated" }) {
		return nil
	}
	wait := engine.Picoseconds(0)
	for _, p := range r.Pools {
		if p.Wait.Count() > 0 {
			wait = max(wait, engine.Picoseconds(p.Wait.Max()))
		}
	}
	if float64(wait) <= longWait*float64(came) {
		return nil
	}
	return []profile.Warning{profile.Warnf("saturated", "%d requests came within %s (%.4g/s), but only %.4g/s were served, and one waited %s. Latencies depend on the number of requests, not on the rate; lower the rate",
		s.load.n, seconds(came), s.load.perSecond(), r.Requests, seconds(wait))}
}

// fewRequests names the percentiles that are no more than the largest figure: of fewer
// requests than 1/(1−q) none is expected beyond quantile q.
func fewRequests(r fleet.Report) []profile.Warning {
	n := r.TTFT.Count()
	if n == 0 {
		return nil
	}
	for _, p := range []struct {
		name     string
		quantile float64
	}{{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}} {
		if need := int64(math.Round(1 / (1 - p.quantile))); n < need {
			return []profile.Warning{profile.Warnf("few_requests", "percentiles of TTFT and E2E from %s on are at or near the maximum of %s. Simulate more: %s needs at least %[4]d", p.name, engine.Count(n, "request"), p.name, need)}
		}
	}
	return nil
}
