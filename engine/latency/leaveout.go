package latency

import "slices"

// exactFolds is up to how many points leaving one run out means a new fit. With more
// of them one Gauss-Newton step from the fit to all reaches the same place.
const exactFolds = 30

// leaveOneOut predicts each observation with the coefficients that explain the others
// best, in seconds and in their order. Those of the same Run, or of the same load, are
// left out together: its TTFT tells of its TPOT. K is the fit to all samples.
func leaveOneOut(prior, k Coefficients, ss []sample) []float64 {
	out := make([]float64, len(ss))
	var rows []slope
	if len(ss) > exactFolds {
		rows = slopes(logs(k), ss)
	}
	for i, s := range ss {
		if rows != nil {
			out[i] = s.predict(stepFrom(prior, k, others(rows, ss, i)))
		} else {
			out[i] = s.predict(solve(prior, k, others(ss, ss, i)))
		}
	}
	return out
}

// others are those of all that are neither of sample i's run nor of its load: a
// load measured again predicts itself.
func others[T any](all []T, ss []sample, i int) []T {
	var out []T
	own, run := load(ss[i].obs), ss[i].obs.Run
	for j := range all {
		if j != i && (run == 0 || ss[j].obs.Run != run) && load(ss[j].obs) != own {
			out = append(out, all[j])
		}
	}
	return out
}

// load is an observation without what came of it.
func load(o Observation) Observation {
	o.Kind, o.Seconds, o.Run = "", 0, 0
	return o
}

// loads counts the different loads.
func loads(ss []sample) int {
	var seen []Observation
	for _, s := range ss {
		if o := load(s.obs); !slices.Contains(seen, o) {
			seen = append(seen, o)
		}
	}
	return len(seen)
}

// stepFrom is one step from k to where the rows want it.
func stepFrom(prior, k Coefficients, rows []slope) Coefficients {
	x, low, high := logs(k), logs(least()), logs(most())
	hessian, gradient := normal(x, logs(prior), rows)
	holdAtBounds(x, hessian, gradient)
	if step, ok := descend(hessian, gradient, 0); ok {
		for j := range x {
			x[j] = min(max(x[j]+step[j], low[j]), high[j])
		}
	}
	return exps(x).bounded()
}
