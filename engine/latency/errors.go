package latency

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
)

// Error is how far predictions lie from what was measured. Median, Mean and P90
// are of |predicted/measured − 1|: 0.05 is 5 %. Factor50 and Factor90 are of the
// larger of predicted/measured and measured/predicted, so that half and nine of
// ten measurements at least lie between prediction/Factor and prediction·Factor.
type Error struct {
	Median   float64 `json:"median"`
	Mean     float64 `json:"mean"`
	P90      float64 `json:"p90"`
	Factor50 float64 `json:"factor50"`
	Factor90 float64 `json:"factor90"`
	Worst    float64 `json:"worst_group,omitzero"` // the median of the worst group, where groups are told apart
	N        int     `json:"n"`                    // points behind it; 0 = not known
	Basis    string  `json:"basis"`                // in words: what was held out
}

// Held is the error on held-out rows of either latency.
type Held struct {
	TTFT   Error `json:"ttft"` // of prompts alone, and under Poisson arrivals
	TPOT   Error `json:"tpot"`
	Closed Error `json:"closed_ttft,omitzero"` // TTFT of closed loops, whose requests come in bunches
}

// Summarize is the error of predictions, TTFT and TPOT apart; each is zero where
// no residual is of its kind.
func Summarize(basis string, residuals []Residual, predicted func(Residual) float64) Held {
	var first, later []float64 // predicted over measured
	for _, r := range residuals {
		ratio := predicted(r) / r.Measured
		if r.Kind.TTFT() {
			first = append(first, ratio)
		} else {
			later = append(later, ratio)
		}
	}
	return Held{TTFT: ErrorOf(basis, first), TPOT: ErrorOf(basis, later)}
}

// ErrorOf is the error of ratios, predicted over measured.
func ErrorOf(basis string, ratios []float64) Error { return errorOf(basis, ratios, nil, 0.9) }

// ErrorAcross is the error to expect of a new group, from the ratios of other whole groups.
// Groups weigh the same, except that small ones weigh less. Groups differ, so Factor90
// covers 95 % of the rows; then it covers nine of ten rows in most groups.
func ErrorAcross(basis string, groups [][]float64) Error {
	const small = 5 // rows
	var ratios, weights []float64
	for _, g := range groups {
		for range g {
			weights = append(weights, 1/float64(max(small, len(g))))
		}
		ratios = append(ratios, g...)
	}
	return errorOf(basis, ratios, weights, 0.95)
}

// errorOf is the error of ratios by weights, nil = all weigh the same; Factor90 is the
// quantile p of the factors.
func errorOf(basis string, ratios, weights []float64, p float64) Error {
	if len(ratios) == 0 {
		return Error{}
	}
	errors, factors := make([]float64, len(ratios)), make([]float64, len(ratios))
	for i, r := range ratios {
		errors[i], factors[i] = math.Abs(r-1), max(r, 1/r)
	}
	return Error{
		Median: Quantile(0.5, errors, weights), Mean: stat.Mean(errors, weights), P90: Quantile(0.9, errors, weights),
		Factor50: Quantile(0.5, factors, weights), Factor90: Quantile(p, factors, weights), N: len(ratios), Basis: basis,
	}
}

// Quantile is the smallest of x that a share p of x does not exceed, by weights; nil
// weights are equal. The median of an even number is the mean of the two in the middle.
func Quantile(p float64, x, weights []float64) float64 {
	x, w := slices.Clone(x), slices.Clone(weights)
	stat.SortWeighted(x, w)
	at := stat.Quantile(p, stat.Empirical, x, w)
	if n := len(x); p == 0.5 && w == nil && n%2 == 0 {
		return (at + x[n/2]) / 2
	}
	return at
}

// Wider is the error with the larger Factor90, whole.
func (e Error) Wider(o Error) Error {
	if o.Factor90 > e.Factor90 {
		return o
	}
	return e
}

// unlike is the error e where several things are unlike the rows that e is of,
// each by itself with the error that others say. What each adds to e is taken to
// be independent of the rest: variances add.
func (e Error) unlike(others ...Error) Error {
	out, bases := e, []string(nil)
	for _, o := range others {
		if o.N == 0 {
			continue
		}
		out.Median, out.Mean, out.P90 = further(out.Median, e.Median, o.Median), further(out.Mean, e.Mean, o.Mean), further(out.P90, e.P90, o.P90)
		out.Factor50, out.Factor90 = furtherFactor(out.Factor50, e.Factor50, o.Factor50), furtherFactor(out.Factor90, e.Factor90, o.Factor90)
		out.N = min(out.N, o.N)
		if !slices.Contains(bases, o.Basis) {
			bases = append(bases, o.Basis)
		}
	}
	if len(bases) > 0 {
		out.Basis = strings.Join(bases, ", and ")
	}
	return out
}

// Beyond is what is left of e where o explains a part of it: variances subtract.
// Its Basis is e's.
func (e Error) Beyond(o Error) Error {
	less := func(x, by float64) float64 { return math.Sqrt(max(0, square(x)-square(by))) }
	factor := func(x, by float64) float64 {
		return math.Exp(less(math.Log(max(1, x)), math.Log(max(1, by))))
	}
	e.Median, e.Mean, e.P90 = less(e.Median, o.Median), less(e.Mean, o.Mean), less(e.P90, o.P90)
	e.Factor50, e.Factor90 = factor(e.Factor50, o.Factor50), factor(e.Factor90, o.Factor90)
	return e
}

// further is sqrt(sum² + max(0, of² − base²)).
func further(sum, base, of float64) float64 {
	return math.Sqrt(square(sum) + max(0, square(of)-square(base)))
}

// furtherFactor is further for the logarithms of factors.
func furtherFactor(sum, base, of float64) float64 {
	return math.Exp(further(math.Log(max(1, sum)), math.Log(max(1, base)), math.Log(max(1, of))))
}

// TTFTError is how far off TTFT may be for this model, GPU and layout: as far as
// on rows held out of the fit that were as unlike the rest as this is.
func (m Model) TTFTError() Error { return m.about.held(func(h Held) Error { return h.TTFT }) }

// ClosedTTFTError is the same for clients that keep a number of requests in flight.
func (m Model) ClosedTTFTError() Error { return m.about.held(func(h Held) Error { return h.Closed }) }

// ITLError is the same for ITL and TPOT, and no less than what public rows were off by.
func (m Model) ITLError() Error {
	e := m.about.held(func(h Held) Error { return h.TPOT })
	for _, p := range m.about.public() {
		e = e.atLeast(p)
	}
	return e
}

// Public is what ITL was off by on rows of public tables that no fit saw: the median of the
// groups' medians, the worst group's median, and the factor to state.
type Public struct {
	Median, Worst, Factor float64
	Basis, Slower         string // Slower: what was measured, where that is always slower than the model says
}

// atLeast is e where rows were off by more.
func (e Error) atLeast(p Public) Error {
	if p.Median > e.Median {
		e.Median, e.N, e.Basis = p.Median, 0, e.Basis+", and "+p.Basis
	}
	e.Worst, e.P90 = max(e.Worst, p.Worst), max(e.P90, p.Worst)
	e.Factor50, e.Factor90 = max(e.Factor50, 1/(1-p.Median)), max(e.Factor90, p.Factor)
	return e
}

// What public rows say, by kind of model and GPU. The rows were held back from every fit until November 2026, and are in no table of
// docs/accuracy.md. MLPerf: mlcommons/inference_results_v4.1, Server, Llama-2-70B on MI300X.
var (
	PublicDense   = Public{0.10, 0.26, 1.26, "rows of public tables that no fit saw, dense", ""}
	PublicExperts = Public{0.13, 0.41, 1.41, "rows of public tables that no fit saw, with experts", ""}
	PublicAMD     = Public{0.29, 0.29, 1.4, "MLPerf v4.1", "MLPerf v4.1 server runs on MI300X were 1.4 × slower"}
	PublicMLA     = Public{0.33, 0.71, 3.4, "public runs of DeepSeek-R1 and V3", "public runs of DeepSeek-R1 and V3 were 1.5 to 3.4 × slower"}
)

// public are the rows that say something of a's ITL; none where six points of its own do.
func (a *about) public() []Public {
	if a.fit.Calibrated >= 6 { // SixPoints say what is left
		return nil
	}
	out := []Public{PublicDense}
	if a.model.MoE() {
		out[0] = PublicExperts
	}
	if g, _ := a.fit.For(a.model.Name, a.gpu.Name, a.config.Weights); g.GPU != "" {
		return out
	}
	if a.model.MLA() {
		out = append(out, PublicMLA)
	}
	if !a.layout.kernels.Own() && strings.HasPrefix(a.gpu.DeviceNames, "AMD ") {
		out = append(out, PublicAMD)
	}
	return out
}

// Optimism says which public runs were slower than the model says; empty where none tell.
func (m Model) Optimism() string {
	var said []string
	for _, p := range m.about.public() {
		if p.Slower != "" {
			said = append(said, p.Slower)
		}
	}
	return strings.Join(said, ", and ")
}

// held is the error of the group that holds, else that on models left out; wider where no
// row was of the engine's version, or no kernel of the GPU was measured.
func (a *about) held(of func(Held) Error) Error {
	f, m := a.fit, a.model
	h, version := f.Dense, f.DenseVersion
	if m.MoE() {
		h, version = f.Experts, f.ExpertsVersion
	}
	g, ok := f.For(m.Name, a.gpu.Name, a.config.Weights)
	if ok {
		h = g.Held
	}
	var unlike []Error
	if f.Calibrated == 0 && !f.measured(g) {
		unlike = append(unlike, of(version))
	}
	if !a.layout.kernels.Own() && (!ok || g.GPU == "") {
		unlike = append(unlike, of(f.NoKernels))
	}
	return of(h).unlike(unlike...)
}

// Own reports whether kernels of the GPU itself were measured.
func (m Model) Own() bool { return m.about.layout.kernels.Own() }
