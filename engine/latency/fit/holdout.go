package main

import (
	"fmt"
	"slices"

	"plimsoll/engine/latency"
)

// holdOut fills in the errors of r's fit on rows that fits were kept from.
func (r *result) holdOut(rows []row, f family) error {
	name := r.fit.Name
	one, err := latency.LeaveOneOut(r.from, r.obs)
	if err != nil {
		return err
	}
	same := summary(basis("leave-one-out", name), residuals(r.obs, one))
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
		if *h.into, err = leaveOut(r.from, r.obs, basis("leave-one-"+h.what+"-out", name), h.of); err != nil {
			return err
		}
	}
	if r.h200, err = errorsOf("an H200 beyond what its unknown engine explains", r.fit.Coefficients, observations(rows, "h200-npz")); err != nil {
		return err
	}
	if len(f.priors) == 0 {
		return nil
	}
	if r.prior, err = errorsOf(basis("fitted to other engine versions", name), r.from, r.obs); err != nil {
		return err
	}
	priors, err := unseen(rows, f, r.from)
	if err != nil {
		return err
	}
	r.six, err = sixes(priors, r.obs)
	return err
}

// sixHeld is what calibrating r's prior on six of r's rows leaves on the others.
func sixHeld(r result) latency.Held {
	six := basis("calibrated on six others, from other engine versions", r.fit.Name)
	return latency.Held{TTFT: sixError(r.six, true, six), TPOT: sixError(r.six, false, six)}
}

func basis(how, name string) string { return how + ", rows of " + name }

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
		predicted, err := predictAll(k, in)
		if err != nil {
			return latency.Held{}, err
		}
		all = append(all, predicted...)
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

// predictAll predicts what was measured.
func predictAll(k latency.Coefficients, obs []latency.Observation) ([]latency.Residual, error) {
	predicted := make([]float64, len(obs))
	for i, o := range obs {
		m, err := latency.NewWith(o.Model, o.GPU, o.Config, latency.Fit{Coefficients: k})
		if err != nil {
			return nil, err
		}
		predicted[i] = m.Predict(o)
	}
	return residuals(obs, predicted), nil
}

// errorsOf are those of k on obs.
func errorsOf(basis string, k latency.Coefficients, obs []latency.Observation) (latency.Held, error) {
	r, err := predictAll(k, obs)
	return summary(basis, r), err
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
