package main

import (
	"fmt"
	"math"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim/build"
	"plimsoll/interpolation"
	"plimsoll/planner/policy"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// estimatedSurfaces are the surfaces that profile-sla would measure if engines were as the
// latency model says. Policies plan by them where there is no profile.
func estimatedSurfaces(of build.Pair) (profileSurfaces, error) {
	prefill, decode := store.NewPick(of.Prefill.Config), store.NewPick(of.Decode.Config)
	out := profileSurfaces{
		provenance: profile.Estimated, workload: store.Lengths{ISL: 3000, OSL: 500}, // profile-sla's own defaults
		rec: store.Recommendation{Provenance: profile.Estimated, Model: of.Prefill.Model.Name, GPU: of.Prefill.GPU.Name, Prefill: &prefill, Decode: &decode},
	}
	fail := func(err error) (profileSurfaces, error) {
		return out, fmt.Errorf("the latency model's surfaces: %w", err)
	}
	m := of.Prefill.Latency
	limits, gpus := m.Limits(), float64(prefill.GPUs)
	var err error
	if out.prefill, err = interpolation.FitPrefill(prefillOf(m, limits.MaxModelLen, gpus)); err != nil {
		return fail(err)
	}
	if b := batchedOf(m, limits.MaxNumBatchedTokens, limits.MaxNumSeqs, gpus); len(b.Samples) > 0 {
		if out.prefill, err = out.prefill.WithBatched(b); err != nil {
			return fail(err)
		}
	}
	m = of.Decode.Latency
	if out.decode, err = interpolation.FitDecode(decodeOf(m, m.Limits(), float64(decode.GPUs)), decode.GPUs); err != nil {
		return fail(err)
	}
	return out, nil
}

// surfaces are what policies plan by for the plan's first row. An aggregated engine's have
// the rate that one of it holds beside them, as those of a profile do.
func (z *sizing) surfaces() (profileSurfaces, error) {
	best := z.plans[0]
	if z.fleet.Profile != "" {
		return readSurfaces(z.fleet.Profile, 1)
	}
	s, err := estimatedSurfaces(best.candidate.engines)
	if err != nil || best.Strategy != capacity.Aggregated || best.Infeasible != nil {
		return s, err
	}
	l := best.candidate.layout
	one, err := capacity.Variants{l}.Highest(l.Pools[0].GPUs, 0, z.traffic, z.slo, best.candidate.sizeOptions(z.seed, capacity.SizeOptions{}))
	if err != nil || one.Rate == 0 {
		return s, err
	}
	s.rate = policy.Rated{RPS: one.Rate, ISL: z.traffic.ISL, OSL: z.traffic.OSL, SLA: z.slo.SLA()}
	s.running = one.At.Pools[0].Running
	return s, nil
}

// rising are whole numbers from one to another, each so many times the one before.
func rising(from, to int, by float64) []int {
	var out []int
	for v := float64(from); int(v) < to; v = math.Max(v+1, v*by) {
		out = append(out, int(v))
	}
	return append(out, to)
}

func prefillOf(m latency.Model, longest int, gpus float64) profile.PrefillSurface {
	s := profile.PrefillSurface{Provenance: profile.Estimated}
	for _, isl := range rising(min(16, longest), longest, 1.4) {
		ttft := m.TTFT(isl, 0)
		s.Samples = append(s.Samples, profile.PrefillSample{ISL: isl, TTFT: ttft, ThroughputPerGPU: float64(isl) / ttft.Seconds() / gpus})
	}
	return s
}

// batchedOf is prefill of as many prompts at once as fill a step.
func batchedOf(m latency.Model, budget, seqs int, gpus float64) profile.BatchedPrefill {
	s := profile.BatchedPrefill{MaxBatchedTokens: budget, Provenance: profile.Estimated}
	if seqs < 2 || budget < 32 {
		return s
	}
	for _, isl := range rising(16, budget/2, 2) {
		var b engine.Batch
		k := min(budget/isl, seqs)
		for range k {
			b.AddChunk(isl, 0)
		}
		took := (m.StepTime(b) + m.Outside(k*isl)).Duration()
		s.Samples = append(s.Samples, profile.BatchedSample{ISL: isl, K: k, TTFT: took, ThroughputPerGPU: float64(k*isl) / took.Seconds() / gpus})
	}
	return s
}

func decodeOf(m latency.Model, limits engine.Limits, gpus float64) profile.DecodeSurface {
	s := profile.DecodeSurface{MaxKVTokens: m.KVTokensAt(limits.MaxModelLen), Provenance: profile.Estimated}
	for _, context := range rising(min(128, limits.MaxModelLen), limits.MaxModelLen, 2) {
		most := min(limits.MaxNumSeqs, m.KVTokensAt(context)/context)
		if most < 1 {
			break
		}
		for _, n := range rising(1, most, 1.5) {
			itl := m.ITL(n, float64(context))
			s.Samples = append(s.Samples, profile.DecodeSample{
				KVUsage: float64(n) * float64(context) / float64(s.MaxKVTokens), Context: float64(context),
				ITL: itl, ThroughputPerGPU: float64(n) / itl.Seconds() / gpus,
			})
		}
	}
	return s
}

// epoch is where the clock of a replay begins: any instant does.
func epoch() time.Time { return time.Unix(0, 0).UTC() }
