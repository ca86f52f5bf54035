package latency

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// rowError is how far, relatively, a good model is from a row: measurements
// repeat within some 2 %, the physics leaves out another 3 %. It weighs rows
// against the prior.
const rowError = 0.04

// sample is an observation with its model laid out, so that only coefficients
// remain to be put in.
type sample struct {
	about  *about
	obs    Observation
	robust bool // it may be spoilt, and then counts for little
}

func (s sample) predict(k Coefficients) float64 {
	return s.about.at(k).Predict(s.obs)
}

// outlier is from how many rowErrors on a robust sample counts for less than half.
const outlier = 2.5

// loss is what a residual r in units of rowError costs, and its weight: half of the
// cost's slope over r. It is r² at weight 1; where the sample is robust that of
// Student's t, outlier²·ln(1 + (r/outlier)²), which is as r² for small residuals, and
// grows ever less for large ones (K. L. Lange, R. J. A. Little and J. M. G. Taylor,
// Robust statistical modeling using the t distribution, Journal of the American
// Statistical Association 84, 1989).
func (s sample) loss(r float64) (cost, weight float64) {
	if !s.robust {
		return r * r, 1
	}
	x := square(r / outlier)
	return outlier * outlier * math.Log1p(x), 1 / (1 + x)
}

// residual is ln(predicted/measured) in units of rowError.
func (s sample) residual(k Coefficients) float64 {
	return math.Log(s.predict(k)/s.obs.Seconds) / rowError
}

// solve finds coefficients that minimise
//
//	Σ loss(ln(predicted/measured) / rowError) + Σ (ln(k/prior) / spread)²
//
// by Levenberg and Marquardt's method (Numerical Recipes, 3rd ed., 15.5.2) over
// ln k: every coefficient stays positive, and one that no row depends on stays
// at the prior. It begins at start.
func solve(prior, start Coefficients, samples []sample) Coefficients {
	const n = numCoefficients
	center, x := logs(prior), logs(start)
	cost := func(at [n]float64) float64 {
		sum := 0.0
		for i := range at {
			sum += square((at[i] - center[i]) / spread(i))
		}
		k := exps(at)
		for _, s := range samples {
			c, _ := s.loss(s.residual(k))
			sum += c
		}
		return sum
	}
	low, high := logs(least()), logs(most())
	best, damping := cost(x), 1e-3
	for range 60 {
		hessian, gradient := normal(x, center, slopes(x, samples))
		holdAtBounds(x, hessian, gradient)
		improved := false
		for range 8 {
			step, ok := descend(hessian, gradient, damping)
			next := x
			for i := range next {
				next[i] = min(max(next[i]+min(max(step[i], -1), 1), low[i]), high[i])
			}
			if c := cost(next); ok && c < best {
				improved = best-c > 1e-5*best
				x, best, damping = next, c, damping/5
				break
			}
			damping *= 6
		}
		if !improved {
			break
		}
	}
	return exps(x).bounded()
}

// slope is a sample's residual in units of rowError and its derivatives, all by the
// root of its weight.
type slope struct {
	residual float64
	by       [numCoefficients]float64
}

// slopes are those of the samples at x, by central differences of 1 % in each
// coefficient.
func slopes(x [numCoefficients]float64, samples []sample) []slope {
	const h = 0.01
	var up, down [numCoefficients]Coefficients
	for i := range x {
		moved := x
		moved[i] += h
		up[i] = exps(moved)
		moved[i] -= 2 * h
		down[i] = exps(moved)
	}
	k := exps(x)
	out := make([]slope, len(samples))
	for n, s := range samples {
		r := s.residual(k)
		_, weight := s.loss(r)
		out[n].residual = math.Sqrt(weight) * r
		for i := range x {
			out[n].by[i] = math.Sqrt(weight) * math.Log(s.predict(up[i])/s.predict(down[i])) / (2 * h * rowError)
		}
	}
	return out
}

// normal is the Gauss-Newton Hessian and the gradient of half the cost at x.
func normal(x, center [numCoefficients]float64, rows []slope) (*mat.SymDense, *mat.VecDense) {
	hessian, gradient := mat.NewSymDense(numCoefficients, nil), mat.NewVecDense(numCoefficients, nil)
	for i := range x {
		hessian.SetSym(i, i, 1/square(spread(i)))
		gradient.SetVec(i, (x[i]-center[i])/square(spread(i)))
	}
	for _, r := range rows {
		row := mat.NewVecDense(numCoefficients, r.by[:])
		hessian.SymRankOne(hessian, 1, row)
		gradient.AddScaledVec(gradient, r.residual, row)
	}
	return hessian, gradient
}

// holdAtBounds keeps the coefficients where they are that would leave their bounds.
func holdAtBounds(x [numCoefficients]float64, hessian *mat.SymDense, gradient *mat.VecDense) {
	low, high := logs(least()), logs(most())
	for i := range x {
		if g := gradient.AtVec(i); (x[i] > low[i] || g <= 0) && (x[i] < high[i] || g >= 0) {
			continue
		}
		gradient.SetVec(i, 0)
		for j := range x {
			if j != i {
				hessian.SetSym(i, j, 0)
			}
		}
	}
}

// descend is the damped step down the gradient; false where there is none.
func descend(hessian *mat.SymDense, gradient *mat.VecDense, damping float64) (step [numCoefficients]float64, ok bool) {
	damped := mat.NewSymDense(numCoefficients, nil)
	damped.CopySym(hessian)
	for i := range numCoefficients {
		damped.SetSym(i, i, hessian.At(i, i)*(1+damping))
	}
	var cholesky mat.Cholesky
	if !cholesky.Factorize(damped) {
		return step, false
	}
	solution := mat.NewVecDense(numCoefficients, nil)
	if err := cholesky.SolveVecTo(solution, gradient); err != nil {
		return step, false
	}
	for i := range step {
		step[i] = -solution.AtVec(i)
	}
	return step, true
}

func logs(k Coefficients) [numCoefficients]float64 {
	v := k.vector()
	for i := range v {
		v[i] = math.Log(v[i])
	}
	return v
}

func exps(x [numCoefficients]float64) Coefficients {
	for i := range x {
		x[i] = math.Exp(x[i])
	}
	return fromVector(x)
}

func square(x float64) float64 { return x * x }

// variances are those of the logarithms of the coefficients: the diagonal of
// the inverse Hessian.
func variances(hessian *mat.SymDense) [numCoefficients]float64 {
	var out [numCoefficients]float64
	var cholesky mat.Cholesky
	var inverse mat.SymDense
	if !cholesky.Factorize(hessian) || cholesky.InverseTo(&inverse) != nil {
		for i := range out {
			out[i] = math.Inf(1)
		}
		return out
	}
	for i := range out {
		out[i] = inverse.At(i, i)
	}
	return out
}
