package main

import (
	"fmt"
	"slices"

	"plimsoll/engine/latency"
)

// holdOut fills in the errors of r's fit on rows that fits were kept from.
func (r *result) holdOut(rows []row, f family) error {
	name := r.fit.Name
	one, err := latency.LeaveOneOut(r.prior, r.obs)
	if err != nil {
		return err
	}
	same := summary(basis("leave-one-out", len(r.obs), name), residuals(r.obs, one))
	r.fit.TTFT, r.fit.TPOT = same.TTFT, same.TPOT
	for _, h := range []struct {
		what string
		into *latency.Held
		of   func(latency.Observation) string
	}{
		{"TP", &r.fit.OtherTP, func(o latency.Observation) string { return fmt.Sprint(o.Config.Parallelism.TP) }},
		{"model", &r.fit.OtherModel, func(o latency.Observation) string { return o.Model.Name }},
		{"GPU", &r.fit.OtherGPU, func(o latency.Observation) string { return o.GPU.Name }},
	} {
		if *h.into, err = leaveOut(r.prior, r.obs, basis("leave-one-"+h.what+"-out", len(r.obs), name), h.of); err != nil {
			return err
		}
	}
	if r.fit.OtherGPU.TPOT.N == 0 {
		h200 := observations(rows, "h200-npz")
		r.fit.OtherGPU = summary(fmt.Sprintf("an H200 running FP8, of which the fit %s has no row: %d points of an unknown engine", name, len(h200)),
			predictAll(r.fit.Coefficients, h200))
	}
	if len(f.priors) == 0 {
		return nil
	}
	r.fit.OtherVersion = summary(basis("other engine versions", len(r.obs), name), predictAll(r.prior, r.obs))
	priors, err := unseen(rows, f, r.prior)
	if err != nil {
		return err
	}
	if r.six, err = sixes(priors, r.obs); err != nil {
		return err
	}
	six := basis("calibrated on six others, from other engine versions", len(r.obs), name)
	r.fit.SixPoints = latency.Held{TTFT: sixError(r.six, true, six), TPOT: sixError(r.six, false, six)}
	return nil
}

func basis(how string, n int, name string) string {
	return fmt.Sprintf("%s, %d points of %s", how, n, name)
}

// leaveOut predicts the observations of each group from those of all others;
// nothing where there is one group.
func leaveOut(prior latency.Coefficients, obs []latency.Observation, basis string, group func(latency.Observation) string) (latency.Held, error) {
	var groups []string
	for _, o := range obs {
		if !slices.Contains(groups, group(o)) {
			groups = append(groups, group(o))
		}
	}
	if len(groups) < 2 {
		return latency.Held{}, nil
	}
	var all []latency.Residual
	for _, g := range groups {
		in, out := split(obs, func(o latency.Observation) bool { return group(o) == g })
		k, err := latency.Estimate(prior, out)
		if err != nil {
			return latency.Held{}, err
		}
		all = append(all, predictAll(k, in)...)
	}
	return summary(basis, all), nil
}

func split(obs []latency.Observation, in func(latency.Observation) bool) (yes, no []latency.Observation) {
	for _, o := range obs {
		if in(o) {
			yes = append(yes, o)
		} else {
			no = append(no, o)
		}
	}
	return yes, no
}

// predictAll predicts what was measured; readRows has refused what cannot run.
func predictAll(k latency.Coefficients, obs []latency.Observation) []latency.Residual {
	out := make([]latency.Residual, 0, len(obs))
	for _, o := range obs {
		m, err := latency.NewWith(o.Model, o.GPU, o.Config, latency.Fit{Coefficients: k})
		if err != nil {
			continue // Estimate has refused it before
		}
		out = append(out, latency.Residual{Kind: o.Kind, Measured: o.Seconds, After: m.Predict(o)})
	}
	return out
}

func residuals(obs []latency.Observation, predicted []float64) []latency.Residual {
	out := make([]latency.Residual, len(obs))
	for i, o := range obs {
		out[i] = latency.Residual{Kind: o.Kind, Measured: o.Seconds, After: predicted[i]}
	}
	return out
}

func summary(basis string, r []latency.Residual) latency.Held {
	return latency.Summarize(basis, r, func(r latency.Residual) float64 { return r.After })
}
