package forecast

import (
	"fmt"
	"math"
	"math/cmplx"
	"testing"

	"plimsoll/engine/enginetest"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

type arimaFixture struct {
	Selected map[string]struct {
		Values      gapped
		P, D, Q     int
		Constant    bool
		Differences int
		AICc, KPSS  float64
		Forecast    []float64
	}
	Likelihoods []struct {
		Series         string
		P, D, Q        int
		Constant       bool
		Coefs          []float64
		LogLik, Sigma2 float64
		Forecast       []float64
	}
}

// The exact likelihood, the variance and the forecasts of given coefficients are
// those of R's stats::arima, with gaps and without.
func TestLikelihoodIsRs(t *testing.T) {
	all := fixture[arimaFixture](t, "arima.json")
	for _, l := range all.Likelihoods {
		name := fmt.Sprintf("%s %d,%d,%d %v", l.Series, l.P, l.D, l.Q, l.Constant)
		a := arima{Order: order{l.P, l.D, l.Q, l.Constant}}
		values := a.enter(all.Selected[l.Series].Values)
		var phi, theta coefficients
		copy(phi[:], l.Coefs[:l.P])
		copy(theta[:], l.Coefs[l.P:])
		a.filter = newFilter(a.Order, phi, theta)
		for _, v := range values {
			a.filter.observe(v)
		}
		logLik := a.filter.logLikelihood() - float64(a.filter.used)*math.Log(a.scale)
		near(t, name+" log-likelihood", logLik, l.LogLik, 1, 2e-6)
		near(t, name+" variance", a.filter.sigma2()*a.scale*a.scale, l.Sigma2, 0, 2e-5)
		forecastsAre(t, name, &a, l.Forecast, 1e-4)
	}
}

// forecastsAre fails unless a model's forecasts, one step ahead and more, are those
// given.
func forecastsAre(t *testing.T, name string, m model, forecasts []float64, tolerance float64) {
	t.Helper()
	for i, want := range forecasts {
		near(t, fmt.Sprint(name, " forecast ", i+1), m.forecast(i+1), want, 0, tolerance)
	}
}

// The order is as good as that of R's auto.arima: AICc is at most 0.1 more, and
// where the order is the same so are the forecasts, within the optimizers' 0.2 %.
// On these series all orders are the same.
func TestSelectionIsRs(t *testing.T) {
	for name, s := range fixture[arimaFixture](t, "arima.json").Selected {
		var a arima
		values := a.enter(s.Values)
		if d := differences(values); d != s.Differences {
			t.Errorf("%s: differenced %d times, in R %d", name, d, s.Differences)
		}
		f := selected(values)
		aicc := f.aicc + 2*float64(f.filter.used)*math.Log(a.scale)
		if aicc > s.AICc+0.1 {
			t.Errorf("%s: %+v has AICc %.3f, R's %d,%d,%d %v has %.3f", name, f.order, aicc, s.P, s.D, s.Q, s.Constant, s.AICc)
		}
		if f.order != (order{s.P, s.D, s.Q, s.Constant}) {
			continue
		}
		a.filter = f.filter
		forecastsAre(t, name, &a, s.Forecast, 2e-3)
	}
}

// KPSS's statistic is that of R's urca.
func TestKPSSIsUrcas(t *testing.T) {
	for name, s := range fixture[arimaFixture](t, "arima.json").Selected {
		var x []float64
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				x = append(x, v)
			}
		}
		near(t, name, kpss(x), s.KPSS, 0, 1e-9)
	}
}

// The filter's likelihood is that of the multivariate normal distribution with
// ARMA's covariances, values missing or not: by dense matrices, from the moving
// average that the process is.
func TestLikelihoodIsTheNormalOne(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		o := order{P: rapid.IntRange(0, maxOrder).Draw(t, "p"), Q: rapid.IntRange(0, maxOrder).Draw(t, "q")}
		params := rapid.SliceOfN(rapid.Float64Range(-1.2, 1.2), o.P+o.Q, o.P+o.Q).Draw(t, "params")
		values := rapid.SliceOfN(rapid.Float64Range(-2, 2), 2, 12).Draw(t, "values")
		values[0] = 1 // not all are missing or 0
		for i := 1; i < len(values); i++ {
			if rapid.IntRange(0, 4).Draw(t, "gap") == 0 {
				values[i] = math.NaN()
			}
		}
		f := run(o, params, values)
		phi, theta := coefficientsOf(o, params)
		want := normalLikelihood(phi, theta, values)
		if got := f.logLikelihood(); math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
			t.Fatalf("log-likelihood %v, want %v", got, want)
		}
	})
}

// normalLikelihood is the oracle: with the variance of most likelihood.
func normalLikelihood(phi, theta coefficients, values []float64) float64 {
	const terms = 20_000
	psi := make([]float64, terms)
	for j := range psi {
		switch {
		case j == 0:
			psi[j] = 1
		case j <= maxOrder:
			psi[j] = theta[j-1]
		}
		for k := 1; k <= min(j, maxOrder); k++ {
			psi[j] += phi[k-1] * psi[j-k]
		}
	}
	var at []int
	for i, v := range values {
		if !math.IsNaN(v) {
			at = append(at, i)
		}
	}
	n := len(at)
	cov, y := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		y.SetVec(i, values[at[i]])
		for k := i; k < n; k++ {
			var sum float64
			for j, p := range psi[:terms-len(values)] {
				sum += p * psi[j+at[k]-at[i]]
			}
			cov.SetSym(i, k, sum)
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(cov) {
		return math.NaN()
	}
	var solved mat.VecDense
	if err := chol.SolveVecTo(&solved, y); err != nil {
		return math.NaN()
	}
	sigma2 := mat.Dot(y, &solved) / float64(n)
	return -0.5 * (float64(n)*math.Log(2*math.Pi*sigma2) + chol.LogDet() + float64(n))
}

// Whatever the partial autocorrelations, the roots are outside the unit circle:
// the eigenvalues of the companion matrix say so too.
func TestRootsAreEigenvalues(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, maxOrder).Draw(t, "n")
		c := fromPartial(rapid.SliceOfN(rapid.Float64Range(-0.999, 0.999), n, n).Draw(t, "partial"))
		radius := rapid.Float64Range(0.5, 3).Draw(t, "radius")
		companion := mat.NewDense(n, n, nil)
		for j := range n {
			companion.Set(0, j, c[j])
			if j > 0 {
				companion.Set(j, j-1, 1)
			}
		}
		var eigen mat.Eigen
		if !eigen.Factorize(companion, mat.EigenNone) {
			t.Skip("no eigenvalues")
		}
		var largest float64
		for _, v := range eigen.Values(nil) {
			largest = max(largest, cmplx.Abs(v))
		}
		if !c.rootsBeyond(n, 1) {
			t.Fatalf("%v is not stationary", c)
		}
		if math.Abs(largest*radius-1) > 1e-6 && c.rootsBeyond(n, radius) != (largest*radius < 1) {
			t.Fatalf("%v has an eigenvalue of %v: roots beyond %v is %v", c, largest, radius, c.rootsBeyond(n, radius))
		}
	})
}

// After a break in the series an order is selected at once.
func TestBreaksSelectAnOrder(t *testing.T) {
	var a arima
	values := column(t, "azure-conv.csv", "rate_rps")[:48]
	a.observe(values)
	a.observe(append(values, values[47]))
	if a.Age != 2 {
		t.Fatalf("age is %d after two values", a.Age)
	}
	a.observe(append(values, values[47], 100))
	if a.Age != 1 {
		t.Errorf("age is %d after a jump", a.Age)
	}
}
