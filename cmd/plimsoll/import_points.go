package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/interpolation"
	"plimsoll/profile"
)

// points are read off the surfaces, as a sweep would have measured them: TTFT at the
// target ISL, and at the target context a row of loads, with the largest that keeps
// the ITL among them.
func (in imported) points(o profileOptions) ([]profile.Point, error) {
	pf, err := interpolation.FitPrefill(in.prefill)
	if err != nil {
		return nil, field.Errorf("import: prefill: %v", err)
	}
	df, err := interpolation.FitDecode(in.decode, in.layout.GPUs())
	if err != nil {
		return nil, field.Errorf("import: decode: %v", err)
	}
	cfg := engine.Config{Model: in.model, GPU: in.gpu, Parallelism: in.layout, Limits: in.limits}
	ttft := pf.TTFT(float64(o.isl))
	points := []profile.Point{{
		ID: "import/prefill", Stage: profile.StageSweep, Phase: profile.Prefill, Config: cfg, Provenance: in.prefill.Provenance,
		ISL: o.isl, OSL: 1, Asked: 1, InFlight: 1, Context: float64(o.isl), TTFT: alone(ttft.Value),
		ThroughputPerGPU: pf.ThroughputPerGPU(float64(o.isl)).Value, Requests: 1, Warnings: ttft.Warnings(),
	}}
	context := float64(o.isl) + float64(o.osl)/2
	for _, n := range importedLoads(df, o.sla.ITL, context) {
		itl := df.ITLAt(n, context)
		points = append(points, profile.Point{
			ID: fmt.Sprintf("import/decode/n%.6g", n), Stage: profile.StageSweep, Phase: profile.Decode, Config: cfg, Provenance: in.decode.Provenance,
			ISL: o.isl, OSL: o.osl, Asked: int(n), InFlight: n, Context: context, KVUsage: n * context / float64(in.decode.MaxKVTokens),
			MaxKV: in.decode.MaxKVTokens, ITL: alone(itl.Value), ThroughputPerGPU: df.ThroughputAt(n, context).Value, Requests: 1, Warnings: itl.Warnings(),
		})
	}
	return points, nil
}

// alone is the distribution of one figure.
func alone(d time.Duration) profile.Distribution {
	return profile.Distribution{N: 1, Mean: d, Min: d, Max: d, P50: d, P90: d, P95: d, P99: d}
}

// importedLoads rise over the measured loads of a context by a factor of √2 at most.
// What is sustained is between them: a load that comes on its own is now above the
// largest that keeps the limit, and now below.
func importedLoads(df interpolation.Decode, limit time.Duration, context float64) []float64 {
	const same = 0.02 // loads so near each other are one
	low, high := df.InFlight(context)
	low, high = max(1, low), max(1, high)
	best := max(1, df.BestThroughput(limit, context).InFlight)
	loads := []float64{best}
	steps := max(1, math.Ceil(2*math.Log2(high/low)))
	for i := range int(steps) + 1 {
		if n := low * math.Pow(high/low, float64(i)/steps); math.Abs(n-best) > same*n {
			loads = append(loads, n)
		}
	}
	slices.Sort(loads)
	return loads
}
