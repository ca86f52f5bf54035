package interpolation

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
)

// field is what the samples of a kind say of a whole surface: a trend of
// physical terms times the exponential of a correction, a Gaussian process over
// the logarithms of the trend and of the context (kriging with a drift: Cressie,
// Statistics for Spatial Data, 1993, section 3.4). Where samples agree with each
// other the correction leads through them; where they scatter, between them.
type field struct {
	trend    trend
	weight   [most]float64 // of the trend, or what it may be where there are too few samples
	points   []point
	places   []place
	trust    []float64 // of each point: 1, less where it is in doubt
	law      law
	chol     *cholesky // of the samples' covariance
	alpha    []float64 // its inverse times the logarithms of value over trend
	furthest float64   // logarithm that a correction has at most
	quantile float64   // of a sample's error, in standard deviations, that confidence asks for
	stretch  float64   // that or more: standard deviations of a stated error
}

// place is where the correction sees a point: two points are near each other
// where steps take equally long over equal contexts, be it in requests or in
// tenths of one.
type place struct {
	u, v  float64
	share [most]float64 // of each term in the trend
}

func (f *field) place(p point) place {
	cols, y := f.trend.columns(p), f.trend.at(p)
	s := place{u: math.Log(y), v: math.Log(p.c) / contextLength}
	for i, w := range f.weight {
		s.share[i] = w * cols[i] / y
	}
	return s
}

// law is how corrections of two places are alike, and how much samples scatter.
type law struct {
	sd     float64 // of the correction, relative
	noise  float64 // variance of a sample's noise, in units of sd²
	length float64 // over which corrections are alike, in natural logarithms
}

// of is Matérn's covariance of degree 3/2, in units of sd².
func (k law) of(a, b *place) float64 {
	u, v := (a.u-b.u)/k.length, (a.v-b.v)/k.length
	d := math.Sqrt(3 * (u*u + v*v))
	return (1 + d) * math.Exp(-d)
}

// drift is the covariance, in units of sd², that comes of the trend, each term of
// which is held to be known to 100 % before there are samples.
func (k law) drift(a, b *place) float64 {
	s := 0.0
	for i, x := range a.share {
		s += x * b.share[i]
	}
	return s / (k.sd * k.sd)
}

// The laws that are tried, from samples that are all signal to all noise.
var (
	lengths = [...]float64{0.7, 1.4, 2.8, 5.6}
	noises  = [...]float64{1e-4, 0.01, 0.1, 0.5, 2, 10}
)

const (
	contextLength = 2    // by how much more alike two contexts are than two times
	priorNoise    = 0.02 // relative: noise of a good measurement, where samples cannot say
	priorWeight   = 1    // samples that this counts for
	noisePrice    = 8    // of noise beyond that, in log likelihood: measurements are good unless they look bad
	absurd        = 1e12 // noise that no samples have
	confidence    = 0.90 // of the stated errors
	lackingShare  = 0.3  // that a term of which too few samples say nothing may have in the trend, at a sample
	clueless      = 1e6  // relative error beyond which a prediction says no less
)

// newField fits y, in ns, measured at p.
func newField(p []point, y, trust []float64, t trend) *field {
	f := &field{trend: t, weight: t.weight, points: p, trust: trust}
	for j := len(p); j < len(t.terms); j++ {
		f.weight[j] = math.Inf(1)
		for i := range p {
			f.weight[j] = min(f.weight[j], lackingShare*t.at(p[i])/t.terms[j].at(p[i]))
		}
	}
	r := make([]float64, len(p))
	for i := range p {
		f.places = append(f.places, f.place(p[i]))
		r[i] = math.Log(y[i] / t.at(p[i]))
		f.furthest = max(f.furthest, 2*math.Abs(r[i]))
	}
	f.chol = newCholesky(len(p))
	f.choose(r)
	f.condition(r)
	return f
}

// choose takes the law under which the residuals r are likeliest, its sd aside,
// for which there is a formula.
func (f *field) choose(r []float64) {
	n := float64(len(r))
	least := math.Inf(1)
	f.law = law{sd: priorNoise, noise: 1, length: lengths[0]}
	m, a := make([]float64, len(r)*len(r)), make([]float64, len(r))
	for _, l := range lengths {
		f.covariance(m, law{length: l, sd: math.Inf(1)})
		for _, noise := range noises {
			if !f.chol.factor(m, f.noisy(noise)) {
				continue
			}
			copy(a, r)
			f.chol.half(a)
			s2 := (floats.Dot(a, a) + priorWeight*priorNoise*priorNoise) / (n + priorWeight)
			dear := noisePrice * math.Log(max(1, noise*s2/priorNoise/priorNoise))
			if score := n*math.Log(s2) + f.chol.logDet() + dear; score < least {
				least = score
				free := max(n-float64(f.trend.active()), 0) + priorWeight
				f.law = law{noise: noise, length: l, sd: math.Sqrt(s2 * (n + priorWeight) / free)}
			}
		}
	}
}

// covariance of the samples without their noise, in units of sd²: the upper
// triangle, row by row.
func (f *field) covariance(m []float64, k law) {
	n := len(f.places)
	for i := range f.places {
		for j := i; j < n; j++ {
			m[i*n+j] = k.of(&f.places[i], &f.places[j]) + k.drift(&f.places[i], &f.places[j])
		}
	}
}

// noisy is the samples' noise, in units of sd².
func (f *field) noisy(noise float64) []float64 {
	v := make([]float64, len(f.trust))
	for i, t := range f.trust {
		v[i] = noise / t
	}
	return v
}

// condition takes the samples in, and stretches the stated errors until they
// cover nine of ten samples each predicted from all others, by the law as it is
// (conformal prediction: Vovk, Gammerman & Shafer, 2005, chapter 2).
func (f *field) condition(r []float64) {
	n := len(r)
	m := make([]float64, n*n)
	f.covariance(m, f.law)
	for !f.chol.factor(m, f.noisy(f.law.noise)) {
		f.law.noise *= 10 // until rounding no longer hides that the matrix is definite
		if f.law.noise > absurd {
			clear(m) // places overflowed: every sample stands for itself
			f.law = law{sd: 1, noise: 1, length: lengths[0]}
		}
	}
	f.alpha = slices.Clone(r)
	f.chol.solve(f.alpha)
	free := float64(max(n-f.trend.active(), 0) + priorWeight)
	f.quantile = distuv.StudentsT{Sigma: 1, Nu: free + 1}.Quantile((1 + confidence) / 2)
	f.stretch = f.quantile
	off, sd := f.left()
	for i := range off {
		off[i] = math.Abs(off[i]) / sd[i]
	}
	slices.Sort(off)
	at := min(int(math.Ceil(float64(n+1)*confidence)), n)
	f.stretch = max(f.stretch, off[at-1])
}

// left is how far each sample is off what all others say by the law as it is, in
// logarithms, and the standard deviation that the law gives to that for a sample
// in no doubt: Dubrule, Mathematical Geology 15 (1983).
func (f *field) left() (off, sd []float64) {
	for i, v := range f.chol.inverseDiagonal() {
		off = append(off, f.alpha[i]/v)
		doubt := f.law.noise * (1/f.trust[i] - 1)
		sd = append(sd, f.law.sd*math.Sqrt(max(1/v-doubt, f.law.noise)))
	}
	return off, sd
}

// beside is the covariance of each sample with p.
func (f *field) beside(p *place) []float64 {
	k := make([]float64, len(f.places))
	for i := range f.places {
		k[i] = f.law.of(p, &f.places[i]) + f.law.drift(p, &f.places[i])
	}
	return k
}

// at is the surface in ns.
func (f *field) at(p point) float64 {
	s := f.place(p)
	c := floats.Dot(f.beside(&s), f.alpha)
	return f.trend.at(p) * math.Exp(min(max(c, -f.furthest), f.furthest))
}

// unsure is the relative error within which nine of ten samples at p lie.
func (f *field) unsure(p point) float64 {
	s := f.place(p)
	k := f.beside(&s)
	f.chol.half(k)
	v := 1 + f.law.noise + f.law.drift(&s, &s) - floats.Dot(k, k)
	return min(math.Expm1(f.stretch*f.law.sd*math.Sqrt(max(v, f.law.noise))), clueless)
}
