package main

import "plimsoll/engine/latency"

// profileResult is one fit on the H200 profile, which none has seen: before a
// calibration on six of its points, and after.
type profileResult struct {
	fit    string
	before latency.Held
	after  []draws
}

func onProfile(rows []row, results []result) ([]profileResult, error) {
	h200 := observations(rows, "h200-npz")
	var out []profileResult
	for i, r := range results {
		priors := []latency.Fit{r.fit}
		if i == 0 { // the default: what a calibration without a named prior does
			for _, other := range results[1:] {
				priors = append(priors, other.fit)
			}
		}
		after, err := sixes(priors, h200)
		if err != nil {
			return nil, err
		}
		before, err := errorsOf("", r.fit.Coefficients, h200)
		if err != nil {
			return nil, err
		}
		out = append(out, profileResult{r.fit.Name, before, after})
	}
	return out, nil
}

func (p *page) profile(all []profileResult) {
	p.line("\n## Another GPU, precision and engine: Llama-3.1-8B FP8 on an H200\n\nThe profile does not name its engine. Every fit, before and after six of its points.")
	p.table("fit", "ITL before", "ITL after six", "TTFT before", "TTFT after six")
	for _, r := range all {
		cells := map[bool]string{}
		for _, d := range r.after {
			cells[d.ttft] = percent(d.at(0.5)) + " (" + d.spread() + ")"
		}
		p.row("`"+r.fit+"`", text(r.before.TPOT), cells[false], text(r.before.TTFT), cells[true])
	}
	for _, d := range all[0].after {
		p.line("\n%s from the nearest of these fits: %s (%s) after six random points, %s after six chosen ones (nearest: `%s`).", d.what(), percent(d.nearestAt(0.5)), d.nearestSpread(), percent(d.chosen.Median), d.from)
	}
}
