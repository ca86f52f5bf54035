package sweep

import (
	"fmt"

	"plimsoll/profile"
)

// judge says of a point that is whole what puts it in doubt as such: more
// throughput than the GPUs can compute, and a percentile of too few samples.
func (r *runner) judge(p *profile.Point) {
	if r.opts.Peak != nil {
		if peak := r.opts.Peak(p.Config); peak > 0 && p.ThroughputPerGPU > peak && p.Invalid == "" {
			p.Invalid = fmt.Sprintf("%.0f tokens/s/GPU is more than the GPU can compute (%.0f at its dense peak): the prompts or outputs were not what they are said to be", p.ThroughputPerGPU, peak)
		}
	}
	if p.Invalid != "" {
		p.Warnings = append(p.Warnings, profile.Warnf("invalid", "%s", p.Invalid))
	}
	sla := r.opts.SLA
	if p.Stage == profile.StageSurface || p.Load != nil || p.Latency(sla) <= 0 || !p.Undecided(sla) {
		return // surfaces are of means, whose interval says it all; loads say how sure they are
	}
	p.Warnings = append(p.Warnings, profile.Warnf("few_samples",
		"%s is undecided: %.0f independent samples, %d needed", sla.Stat, p.Samples(sla), sla.Needed(p.Phase)).By(float64(sla.Needed(p.Phase))/max(p.Samples(sla), 1)))
}
