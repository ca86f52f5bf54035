package sweep

import (
	"fmt"

	"plimsoll/engine"
	"plimsoll/profile"
)

// judge says of a point that is whole what puts it in doubt as such: more
// throughput than the GPUs can compute, and a percentile of too few samples.
func (r *runner) judge(p *profile.Point) {
	if r.opts.Peak != nil {
		if peak := r.opts.Peak(p.Config); peak > 0 && p.ThroughputPerGPU > peak && p.Invalid == "" {
			p.Invalid = fmt.Sprintf("%s tokens/s/GPU is impossible (the GPU's dense peak allows %s). Prompts or outputs were shorter than requested, or cached", engine.Number(p.ThroughputPerGPU), engine.Number(peak))
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
		"too few samples to judge %s: %.0f independent ones, %d needed", sla.Stat, p.Samples(sla), sla.Needed(p.Phase)).By(float64(sla.Needed(p.Phase))/max(p.Samples(sla), 1)))
}
