package latency

import "slices"

// exactFolds is up to how many points leaving one out means a new fit. With more
// of them one Gauss-Newton step from the fit to all reaches the same place.
const exactFolds = 30

// LeaveOneOut predicts each observation with the coefficients that explain the
// others best, in seconds and in their order.
func LeaveOneOut(prior Coefficients, obs []Observation) ([]float64, error) {
	ss, err := samples(obs)
	if err != nil {
		return nil, err
	}
	return leaveOneOut(prior, solve(prior, prior, ss), ss), nil
}

// leaveOneOut needs the fit to all samples, k.
func leaveOneOut(prior, k Coefficients, ss []sample) []float64 {
	fold := func(i int) Coefficients {
		return solve(prior, k, slices.Delete(slices.Clone(ss), i, i+1))
	}
	if len(ss) > exactFolds {
		rows := slopes(logs(k), ss)
		fold = func(i int) Coefficients { return stepWithout(prior, k, rows, i) }
	}
	out := make([]float64, len(ss))
	for i, s := range ss {
		out[i] = s.predict(fold(i))
	}
	return out
}

// stepWithout is one step from k to where the rows without row i want it.
func stepWithout(prior, k Coefficients, rows []slope, i int) Coefficients {
	x, low, high := logs(k), logs(least()), logs(most())
	hessian, gradient := normal(x, logs(prior), slices.Delete(slices.Clone(rows), i, i+1))
	holdAtBounds(x, hessian, gradient)
	if step, ok := descend(hessian, gradient, 0); ok {
		for j := range x {
			x[j] = min(max(x[j]+step[j], low[j]), high[j])
		}
	}
	return exps(x).bounded()
}
