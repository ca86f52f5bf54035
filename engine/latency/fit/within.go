package main

import (
	"slices"

	"plimsoll/engine/latency"
)

// withinResult is one TP of a family predicted by the family's other TPs, before
// and after a calibration on six of its points.
type withinResult struct {
	family string
	tp     int
	before latency.Error
	after  draws
}

// withinFamily is that for each TP with points enough, TPOT and TTFT.
func withinFamily(results []result) ([]withinResult, error) {
	var out []withinResult
	for _, r := range results[1:] {
		var tps []int
		for _, o := range r.obs {
			if tp := o.Config.Parallelism.TP; !slices.Contains(tps, tp) {
				tps = append(tps, tp)
			}
		}
		slices.Sort(tps)
		for _, tp := range tps {
			own, others := split(r.obs, func(o latency.Observation) bool { return o.Config.Parallelism.TP == tp })
			k, err := latency.Estimate(r.from, others)
			if err != nil {
				return nil, err
			}
			all, err := sixes([]latency.Fit{{Coefficients: k}}, own)
			if err != nil {
				return nil, err
			}
			before, err := errorsOf("", k, own)
			if err != nil {
				return nil, err
			}
			for _, d := range all {
				w := withinResult{r.fit.Name, tp, before.TPOT, d}
				if d.ttft {
					w.before = before.TTFT
				}
				out = append(out, w)
			}
		}
	}
	return out, nil
}
