package capacity

import (
	"fmt"

	"plimsoll/profile"
)

// pools are the formulas' sizes of the two pools. Groups are whole numbers in
// float64, which does not overflow.
type pools struct {
	prefillBase, decodeBase float64 // groups by throughput alone
	prefill, decode         float64 // after the latency factors
	ttftMs, itlMs           float64 // estimates
}

func sizePools(w Workload, slo SLO, t Throughput, o Options) pools {
	p := pools{
		prefillBase: max(1, ceil(w.Rate*w.ISL/(t.PrefillTPS*o.UtilizationTarget))),
		decodeBase:  max(1, ceil(w.Rate*w.OSL/(t.DecodeTPS*o.UtilizationTarget))),
		ttftMs:      w.ISLP99/t.PrefillTPS*1000 + 5,
		itlMs:       1000 / (t.DecodeTPS / w.Rate),
	}
	p.prefill = stretched(p.prefillBase, p.ttftMs, profile.Milliseconds(slo.TTFT))
	p.decode = stretched(p.decodeBase, p.itlMs, profile.Milliseconds(slo.ITL))
	return p
}

// stretched is groups times estimate/slo where the estimate is above.
func stretched(groups, estimateMs, sloMs float64) float64 {
	if estimateMs <= sloMs {
		return groups
	}
	return ceil(groups * estimateMs / sloMs)
}

func (p pools) check(t Throughput, w Workload) error { return checkSize(p.prefill+p.decode, t, w) }

// maxGPUs bounds a plan; more is a mistake in units.
const maxGPUs = 1e9

func checkSize(groups float64, t Throughput, w Workload) error {
	if gpus := groups * float64(t.TP) * burst(w); gpus > maxGPUs {
		return fmt.Errorf("planning by formula: rate %v of %v + %v tokens takes %.3g GPUs, above %.0e. Check the units of rate, lengths, throughput and SLO",
			w.Rate, w.ISL, w.OSL, gpus, maxGPUs)
	}
	return nil
}

// binding is what decides the size of the larger pool.
func (p pools) binding() string {
	switch {
	case p.prefill > p.decode && p.prefill > p.prefillBase:
		return "ttft"
	case p.prefill > p.decode:
		return "prefill throughput"
	case p.decode > p.decodeBase:
		return "itl"
	default:
		return "decode throughput"
	}
}
