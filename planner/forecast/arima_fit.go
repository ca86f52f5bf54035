package forecast

import (
	"math"

	"gonum.org/v1/gonum/optimize"
)

// fit is an ARIMA model with its parameters.
type fit struct {
	order  order
	params []float64 // artanh of partial autocorrelations: p of the AR, q of the MA
	aicc   float64   // +Inf where there is none
	filter filter    // after the last value
}

// coefficientsOf are φ and θ, stationary and invertible whatever the parameters.
func coefficientsOf(o order, params []float64) (phi, theta coefficients) {
	var partial [2 * maxOrder]float64
	for i, v := range params {
		partial[i] = math.Tanh(v)
	}
	phi = fromPartial(partial[:o.P])
	theta = fromPartial(partial[o.P : o.P+o.Q])
	for j := range theta {
		theta[j] = -theta[j]
	}
	return phi, theta
}

// run filters the values with these parameters.
func run(o order, params, values []float64) filter {
	phi, theta := coefficientsOf(o, params)
	f := newFilter(o, phi, theta)
	for _, v := range values {
		f.observe(v)
	}
	return f
}

// fitted is the model of most likelihood for values of about 1, searched from
// start.
func fitted(o order, start, values []float64) fit {
	params := append([]float64(nil), start...)
	if len(params) > 0 {
		params = mostLikely(o, params, values)
	}
	f := fit{order: o, params: params, filter: run(o, params, values)}
	f.aicc = f.score()
	return f
}

// mostLikely searches by BFGS. A search that ends early keeps the best it met.
func mostLikely(o order, start, values []float64) []float64 {
	cost := func(params []float64) float64 {
		f := run(o, params, values)
		if f.used == 0 {
			return math.Inf(1)
		}
		return -f.logLikelihood() / float64(f.used)
	}
	best, least := append([]float64(nil), start...), cost(start)
	problem := optimize.Problem{
		Func: func(params []float64) float64 {
			c := cost(params)
			if c < least {
				least = c
				copy(best, params)
			}
			return c
		},
		Grad: func(grad, params []float64) { slope(grad, params, cost) },
	}
	settings := &optimize.Settings{
		GradientThreshold: 1e-4,
		MajorIterations:   50,
		FuncEvaluations:   200,
		Converger:         &optimize.FunctionConverge{Absolute: 1e-6, Iterations: 3},
	}
	// The error says that a line search got stuck, on a ridge or at rounding;
	// what it found until then is in best.
	_, _ = optimize.Minimize(problem, start, settings, &optimize.BFGS{})
	return best
}

// slope is the gradient by central differences.
func slope(grad, params []float64, cost func([]float64) float64) {
	const step = 1e-4
	at := append([]float64(nil), params...)
	for i := range at {
		at[i] = params[i] + step
		above := cost(at)
		at[i] = params[i] - step
		grad[i] = (above - cost(at)) / (2 * step)
		at[i] = params[i]
	}
}

// score is AICc, with the variance as a parameter; +Inf for too many parameters
// and, as in R's auto.arima, with a root within 1 % of the unit circle.
func (f fit) score() float64 {
	k := float64(len(f.params) + 1)
	if f.order.Constant { // the mean or drift
		k++
	}
	n := float64(f.filter.used)
	if n-k-1 <= 0 {
		return math.Inf(1)
	}
	phi, theta := coefficientsOf(f.order, f.params)
	for j := range theta {
		theta[j] = -theta[j]
	}
	const nearest = 1.01
	if !phi.rootsBeyond(f.order.P, nearest) || !theta.rootsBeyond(f.order.Q, nearest) {
		return math.Inf(1)
	}
	return finite(-2*f.filter.logLikelihood()+2*k+2*k*(k+1)/(n-k-1), math.Inf(1))
}
