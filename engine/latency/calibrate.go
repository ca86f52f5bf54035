package latency

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/engine"
)

// FactorSpread and SpanSpread are how far, as a standard deviation of its
// logarithm, a coefficient of one engine version lies from that of others: what
// a prior counts for against measured rows. How near kernels come to the data
// sheet changes less from version to version than what software spends.
const (
	FactorSpread = 0.3
	SpanSpread   = 0.6
)

// spread is that of coefficient i.
func spread(i int) float64 {
	if i < numFactors {
		return FactorSpread
	}
	return SpanSpread
}

// Report is what a calibration did.
type Report struct {
	Before      Held       `json:"before"`        // of the prior, on the points
	After       Held       `json:"after"`         // of the result, on the points that made it
	LeaveOneOut Held       `json:"leave_one_out"` // of fits to all points but the one predicted; N 0 for one point
	Residuals   []Residual `json:"residuals"`     // one per point, in order
	// Undetermined are coefficients that the points say nothing about, or so
	// little that they stay near the prior's.
	Undetermined []string `json:"undetermined,omitempty"`
	Warnings     []string `json:"warnings,omitempty"`
}

// Residual is one point in seconds: as measured, as the prior and the result
// predict it, and as a fit to the other points does (0 for a lone point).
type Residual struct {
	Kind     Kind    `json:"kind"`
	Measured float64 `json:"measured"`
	Before   float64 `json:"before"`
	After    float64 `json:"after"`
	HeldOut  float64 `json:"held_out"`
}

// Calibrate moves prior to where measured points of one engine want it. One
// point scales what it depends on; more determine more; what they do not
// determine stays with the prior. A point that the others contradict counts for
// little. The result is for other models, sizes and lengths on the same engine too.
// It refuses points that cannot be, naming the field.
func Calibrate(prior Fit, obs []Observation) (Fit, Report, error) {
	if len(obs) == 0 {
		return Fit{}, Report{}, errors.New("calibrating: no points: want one at least")
	}
	prior = prior.of(obs[0].Model, obs[0].GPU, obs[0].Config.Weights)
	if err := prior.Coefficients.Check(); err != nil {
		return Fit{}, Report{}, fmt.Errorf("calibrating %q: %w", prior.Name, err)
	}
	ss, err := samples(obs)
	if err != nil {
		return Fit{}, Report{}, fmt.Errorf("calibrating %q: %w", prior.Name, err)
	}
	k := solve(prior.Coefficients, prior.Coefficients, ss)
	for i := range ss {
		ss[i].robust = true
	}
	k = solve(prior.Coefficients, k, ss)
	r := report(prior.Coefficients, k, ss)
	return calibrated(prior, k, ss, r), r, nil
}

func report(prior, k Coefficients, ss []sample) Report {
	var r Report
	held := make([]float64, len(ss))
	if len(ss) > 1 {
		held = leaveOneOut(prior, k, ss)
	}
	for i, s := range ss {
		r.Residuals = append(r.Residuals, Residual{s.obs.Kind, s.obs.Seconds, s.predict(prior), s.predict(k), held[i]})
	}
	of := func(basis string, predicted func(Residual) float64) Held {
		return Summarize(basis, r.Residuals, predicted)
	}
	points := engine.Count(len(ss), "point")
	r.Before = of("the prior on "+points, func(r Residual) float64 { return r.Before })
	r.After = of("in sample, "+points, func(r Residual) float64 { return r.After })
	if len(ss) > 1 {
		r.LeaveOneOut = of("leave-one-out, "+points, func(r Residual) float64 { return r.HeldOut })
	}
	r.Undetermined = undetermined(prior, k, ss)
	r.Warnings = warnings(prior, r, ss)
	return r
}

// undetermined are the coefficients whose uncertainty the points take less than
// a fifth off.
func undetermined(prior, k Coefficients, ss []sample) []string {
	hessian, _ := normal(logs(k), logs(prior), slopes(logs(k), ss))
	var out []string
	for i, v := range variances(hessian) {
		if math.Sqrt(v) > 0.8*spread(i) {
			out = append(out, coefficientNames[i])
		}
	}
	return out
}

func warnings(prior Coefficients, r Report, ss []sample) []string {
	var out []string
	if r.Before.TTFT.N == 0 {
		out = append(out, "no point has a TTFT. Prompt times and the time per request stay the prior's, except for what steps share")
	}
	if r.Before.TPOT.N == 0 {
		out = append(out, "no point has an ITL or TPOT. Decode times stay the prior's, except for what steps share")
	}
	one := func(of func(sample) int) bool {
		return !slices.ContainsFunc(ss, func(s sample) bool { return of(s) != of(ss[0]) })
	}
	if one(func(s sample) int { return s.about.config.Parallelism.TP }) {
		out = append(out, fmt.Sprintf("all points have TP %d. How time changes with TP stays the prior's; add a point at another TP", ss[0].about.config.Parallelism.TP))
	}
	if r.Before.TPOT.N > 0 && one(func(s sample) int { return s.obs.InFlight }) && one(func(s sample) int { return int(1000 * s.obs.Rate) }) {
		out = append(out, "all points have the same load. How ITL changes with load stays the prior's; add a point at another load")
	}
	for _, kind := range []bool{true, false} {
		if own := ofKind(ss, kind); loads(own) < len(own) {
			out = append(out, fmt.Sprintf("the %d points have only %s. Repeated loads add nothing; measure other loads", len(own), engine.Count(loads(own), "different load")))
		}
	}
	if long := slices.IndexFunc(ss, func(s sample) bool { return s.obs.tooLong() }); long >= 0 {
		o := ss[long].obs
		out = append(out, fmt.Sprintf("point %d: %d tokens are more than the context of %s, %d", long+1, o.ISL+o.OSL, o.Model.Name, o.Model.MaxContext))
	}
	out = append(out, unexplained(r)...)
	out = append(out, contradicted(r)...)
	out = append(out, saturated(prior, ss)...)
	if len(r.Undetermined) > 0 {
		out = append(out, "the points do not determine "+strings.Join(r.Undetermined, ", "))
	}
	return out
}

// strange is how many times off a prior is that no engine explains, and
// unexplained how far off a fit is to its own points.
const (
	strange    = 5
	notFitting = 0.25
)

// unexplained doubts points that no engine gives.
func unexplained(r Report) []string {
	var out []string
	for _, k := range []struct {
		name          string
		before, after Error
	}{{"TTFT", r.Before.TTFT, r.After.TTFT}, {"ITL or TPOT", r.Before.TPOT, r.After.TPOT}} {
		if k.before.Factor50 > strange {
			out = append(out, fmt.Sprintf("half of the points' %s differ from the prior by a factor of %.3g or more. Check the unit (ms), the model and the GPU", k.name, k.before.Factor50))
		}
		if k.after.Median > notFitting {
			out = append(out, fmt.Sprintf("after calibration the points' %s are still %.0f %% off (median). They come from several engines, or the model does not fit this one", k.name, 100*k.after.Median))
		}
	}
	return out
}

// contradicted names points that the fit takes for spoilt; where all are, unexplained
// speaks.
func contradicted(r Report) []string {
	var points []string
	for i, x := range r.Residuals {
		if off := max(x.After/x.Measured, x.Measured/x.After); math.Log(off) > 2*outlier*rowError { // a fifth of its weight is left
			points = append(points, fmt.Sprintf("%d (by a factor of %.2g)", i+1, off))
		}
	}
	if len(points) == 0 || len(points) == len(r.Residuals) {
		return nil
	}
	return []string{fmt.Sprintf("each of these points contradicts the others and counts for little: %s. Measure them again, or leave them out", strings.Join(points, ", "))}
}

// saturated names open loops that come faster than the engine answers: what
// OpenLoop gives there is bounded, not right.
func saturated(prior Coefficients, ss []sample) []string {
	var lines []string
	for i, s := range ss {
		if s.obs.Rate > 0 && s.about.at(prior).overloaded(s.obs) {
			lines = append(lines, fmt.Sprint(i+1))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("by the prior, requests arrive faster than the engine serves them at point %s. Predictions there are bounds", strings.Join(lines, ", "))}
}

func ofKind(ss []sample, ttft bool) []sample {
	return slices.DeleteFunc(slices.Clone(ss), func(s sample) bool { return s.obs.Kind.TTFT() != ttft })
}

// sixPoints is from how many different loads on a calibration is credited with what six
// points leave on held-out rows; with fewer it keeps the error of its prior.
const sixPoints = 6

func calibrated(prior Fit, k Coefficients, ss []sample, r Report) Fit {
	f := prior
	f.Coefficients, f.Calibrated = k, loads(ss)
	f.Name = prior.Name + ", calibrated"
	f.Source = fmt.Sprintf("%d loads of the engine itself, from the fit %s", f.Calibrated, prior.Name)
	f.Groups, f.Longest, f.LongestTTFT = nil, 0, 0
	for _, s := range ss {
		o := s.obs
		g := Group{Model: o.Model.Name, GPU: o.GPU.Name, Weights: cmp.Or(o.Config.Weights, engine.BF16), Coefficients: k}
		i := slices.IndexFunc(f.Groups, func(h Group) bool { return h.Model == g.Model && h.GPU == g.GPU && h.Weights == g.Weights })
		if i < 0 {
			g.Held = calibratedError(prior, o, ss, r)
			i, f.Groups = len(f.Groups), append(f.Groups, g)
		}
		f.Groups[i].Rows++
		f.Longest = max(f.Longest, o.ISL+o.OSL, int(o.Context))
		if o.Kind.TTFT() {
			f.LongestTTFT = max(f.LongestTTFT, o.ISL)
		}
	}
	return f
}

// calibratedError is what remains on what o was measured on.
func calibratedError(prior Fit, o Observation, ss []sample, r Report) Held {
	h := prior.Dense
	if o.Model.MoE() {
		h = prior.Experts
	}
	if g, ok := prior.For(o.Model.Name, o.GPU.Name, o.Config.Weights); ok {
		h = g.Held
	}
	of := func(ttft bool, own, six, before Error) Error {
		if loads(ofKind(ss, ttft)) >= sixPoints {
			return own.Wider(six)
		}
		return before.Wider(own)
	}
	return Held{TTFT: of(true, r.LeaveOneOut.TTFT, prior.SixPoints.TTFT, h.TTFT), TPOT: of(false, r.LeaveOneOut.TPOT, prior.SixPoints.TPOT, h.TPOT)}
}
