package sweep

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// exactly is a distribution of nothing but d.
func exactly(d time.Duration) profile.Distribution {
	return profile.Distribution{N: 1, Mean: d, Min: d, P50: d, P90: d, P95: d, P99: d, Max: d}
}

// scaledBy is a distribution at a multiple of every latency.
func scaledBy(d profile.Distribution, k float64) profile.Distribution {
	for _, t := range []*time.Duration{&d.Mean, &d.Std, &d.Min, &d.P50, &d.P90, &d.P95, &d.P99, &d.Max, &d.Half} {
		*t = time.Duration(float64(*t) * k)
	}
	return d
}

// expected are the best point of a phase by the latency model of c, its latencies
// times factor, and in decode what is below it; without a latency where there is no model.
func (o Options) expected(phase profile.Phase, c engine.Config, factor float64) []profile.Point {
	p := profile.Point{Phase: phase, Config: c, ISL: o.ISL, OSL: o.OSL, Asked: 1, InFlight: 1, Stage: profile.StageSweep}
	e, ok := o.expect(c)
	if !ok {
		return []profile.Point{p}
	}
	gpus := float64(c.GPUs())
	if phase == profile.Prefill {
		d := time.Duration(factor * float64(e.TTFT(o.ISL)))
		p.TTFT, p.ThroughputPerGPU = exactly(d), float64(attentionReplicas(c)*o.ISL)/max(d.Seconds(), 1e-9)/gpus
		return []profile.Point{p}
	}
	f := o.facts(c)
	p.Context, p.MaxKV, p.MaxSeqs, p.Cap = nominalContext(o.ISL, o.OSL), f.KVTokens, f.MaxNumSeqs, o.MaxInFlight
	var ps []profile.Point
	for _, n := range falling(max(1, o.expectedBoundary(e, c, factor)), rowLevels, levelRatio) {
		d := time.Duration(factor * float64(o.expectedITL(e, n)))
		p.Asked, p.InFlight, p.ITL, p.ThroughputPerGPU = n, float64(n), exactly(d), float64(n)/max(d.Seconds(), 1e-9)/gpus
		ps = append(ps, p)
	}
	return ps
}

func (o Options) expectedITL(e Expectation, n int) time.Duration {
	return e.ITL(n, nominalContext(o.ISL, o.OSL))
}

// expectedBoundary is the largest in-flight count at which the latency model, its
// ITL times factor, meets the SLA; 0 where none does.
func (o Options) expectedBoundary(e Expectation, c engine.Config, factor float64) int {
	f := o.facts(c)
	room := o.rounds(f, c, o.ISL, o.decodeOSL(f))
	return room.each * sort.Search(room.top, func(i int) bool {
		return factor*float64(o.expectedITL(e, room.each*(i+1))) > float64(o.SLA.ITL)
	})
}

// sortedByLoad are points by the in-flight count that was seen.
func sortedByLoad(ps []profile.Point) []profile.Point {
	return slices.SortedFunc(slices.Values(ps), func(a, b profile.Point) int { return cmp.Compare(a.InFlight, b.InFlight) })
}
