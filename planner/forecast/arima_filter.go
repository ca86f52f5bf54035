package forecast

import "math"

const (
	maxLags   = maxOrder + 1 // of the state's autoregression: max(p, q+1)
	maxStates = maxLags + maxDifferences

	// diffuse is the variance, in that of innovations, of what differencing leaves
	// open; innovations of more than diffuseEnds of variance are no evidence. Both
	// as in R's stats::arima.
	diffuse     = 1e6
	diffuseEnds = 1e4
)

// order is that of an ARIMA model; with Constant there is a mean (d = 0) or
// a drift (d = 1).
type order struct {
	P        int  `json:"p"`
	D        int  `json:"d"`
	Q        int  `json:"q"`
	Constant bool `json:"constant"`
}

// filter is the Kalman filter of y = β·x + ARIMA, with x = 1 or the time. Its
// state holds the autoregression in Harvey's form and then the last d values
// (Harvey 1989, section 3.4; Gardner, Harvey and Phillips, Applied Statistics 29,
// 1980). y and x go through the same filter, and β is what generalized least
// squares then say. Variances are in that of the innovations.
type filter struct {
	order order
	phi   [maxLags]float64
	noise [maxLags]float64 // what an innovation adds to each lag: 1, θ_1, θ_2 …
	lags  int
	n     int                // of states
	delta [maxStates]float64 // of the last values, in what the states add up to
	y, x  [maxStates]float64 // means of the states, for the next time
	cov   [maxStates][maxStates]float64
	t     int // of intervals

	used                     int     // innovations that are evidence
	logs                     float64 // Σ log of their variances
	squares, cross, xSquares float64 // Σ of innovations y², x·y, x², each by its variance
}

// newFilter is before the first value. The moving average is 1 + Σ θ_j z^j.
func newFilter(o order, phi, theta coefficients) filter {
	f := filter{order: o, lags: max(o.P, o.Q+1)}
	copy(f.phi[:o.P], phi[:])
	f.noise[0] = 1
	copy(f.noise[1:o.Q+1], theta[:])
	f.n = f.lags + o.D
	switch o.D {
	case 1:
		f.delta[f.lags] = 1
	case 2:
		f.delta[f.lags], f.delta[f.lags+1] = 2, -1
	}
	f.stationary()
	for i := f.lags; i < f.n; i++ {
		f.cov[i][i] = diffuse
	}
	return f
}

// stationary sets the lags' covariance to the stationary one, Σ T^k V T'^k, by
// doubling: after k rounds 2^k terms are in. (Anderson and Moore, Optimal
// Filtering, 1979, section 6.7.)
func (f *filter) stationary() {
	var power, product [maxLags][maxLags]float64
	n := f.lags
	for i := range n {
		power[i][0] = f.phi[i]
		if i+1 < n {
			power[i][i+1] = 1
		}
		for j := range n {
			f.cov[i][j] = f.noise[i] * f.noise[j]
		}
	}
	// Thirty rounds are enough for roots within 1e-8 of the unit circle.
	for range 30 {
		for i := range n { // product = power · cov
			for j := range n {
				var s float64
				for k := range n {
					s += power[i][k] * f.cov[k][j]
				}
				product[i][j] = s
			}
		}
		var added, total float64
		for i := range n { // cov += product · power'
			for j := range n {
				var s float64
				for k := range n {
					s += product[i][k] * power[j][k]
				}
				f.cov[i][j] += s
				if i == j {
					added += s
					total += f.cov[i][j]
				}
			}
		}
		if added <= 1e-14*total {
			return
		}
		squared := product
		for i := range n {
			for j := range n {
				var s float64
				for k := range n {
					s += power[i][k] * power[k][j]
				}
				squared[i][j] = s
			}
		}
		power = squared
	}
}

// regressor is x now.
func (f *filter) regressor() float64 {
	switch {
	case !f.order.Constant:
		return 0
	case f.order.D == 0:
		return 1
	default:
		return float64(f.t)
	}
}

// observe takes the next value; NaN is a gap.
func (f *filter) observe(v float64) {
	if !math.IsNaN(v) {
		f.update(v, f.regressor())
	}
	f.advance()
}

// expected is what the states say of this time: the mean of y and x without the
// regression, the variance, and the covariance of states and value.
func (f *filter) expected() (y, x, variance float64, gain [maxStates]float64) {
	for i := range f.n {
		gain[i] = f.value(&f.cov[i])
	}
	return f.value(&f.y), f.value(&f.x), f.value(&gain), gain
}

func (f *filter) update(v, regressor float64) {
	y, x, variance, gain := f.expected()
	y, x = v-y, regressor-x
	for i := range f.n {
		k := gain[i] / variance
		f.y[i] += k * y
		f.x[i] += k * x
		for j := range f.n {
			f.cov[i][j] -= k * gain[j]
		}
	}
	if variance < diffuseEnds {
		f.used++
		f.logs += math.Log(variance)
		f.squares += y * y / variance
		f.cross += x * y / variance
		f.xSquares += x * x / variance
	}
}

// advance takes the states one interval on: T cov T' + V, with the rows of T cov
// in half.
func (f *filter) advance() {
	var half [maxStates][maxStates]float64
	for i := range f.lags {
		for j := range f.n {
			half[i][j] = f.phi[i] * f.cov[0][j]
		}
		if i+1 < f.lags {
			for j := range f.n {
				half[i][j] += f.cov[i+1][j]
			}
		}
	}
	for i := f.lags; i < f.n; i++ {
		if i > f.lags {
			half[i] = f.cov[i-1]
			continue
		}
		for j := range f.n {
			half[i][j] = f.value(&f.cov[j])
		}
	}
	for i := range f.n {
		f.cov[i] = half[i]
		f.transition(&f.cov[i])
	}
	for i := range f.lags {
		for j := range f.lags {
			f.cov[i][j] += f.noise[i] * f.noise[j]
		}
	}
	f.transition(&f.y)
	f.transition(&f.x)
	f.t++
}

// value is what the states add up to.
func (f *filter) value(s *[maxStates]float64) float64 {
	v := s[0]
	for j := f.lags; j < f.n; j++ {
		v += f.delta[j] * s[j]
	}
	return v
}

// transition takes states one interval on, without noise.
func (f *filter) transition(s *[maxStates]float64) {
	first, sum := s[0], f.value(s)
	for i := range f.lags - 1 {
		s[i] = f.phi[i]*first + s[i+1]
	}
	s[f.lags-1] = f.phi[f.lags-1] * first
	for j := f.n - 1; j > f.lags; j-- {
		s[j] = s[j-1]
	}
	if f.n > f.lags {
		s[f.lags] = sum
	}
}

// beta is the regression's coefficient by generalized least squares.
func (f *filter) beta() float64 {
	if !f.order.Constant || !(f.xSquares > 0) {
		return 0
	}
	return f.cross / f.xSquares
}

// tiniest is the least variance of innovations, for values of about 1: a series
// that a model predicts exactly has a likelihood all the same.
const tiniest = 1e-20

// sigma2 is the innovations' variance of most likelihood.
func (f *filter) sigma2() float64 {
	residual := f.squares - f.beta()*f.cross
	return max(residual/float64(f.used), tiniest)
}

// logLikelihood is the Gaussian one, exact but for what differencing leaves open,
// with the variance and β of most likelihood. −Inf without evidence.
func (f *filter) logLikelihood() float64 {
	if f.used == 0 {
		return math.Inf(-1)
	}
	n := float64(f.used)
	return -0.5 * (n*math.Log(2*math.Pi*f.sigma2()) + f.logs + n)
}
