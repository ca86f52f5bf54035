package latency

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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

// Estimate is the coefficients that explain obs best, beginning from a prior
// that counts as much as FactorSpread and SpanSpread say. It refuses observations that cannot be.
func Estimate(prior Coefficients, obs []Observation) (Coefficients, error) {
	if err := prior.Check(); err != nil {
		return Coefficients{}, fmt.Errorf("prior: %w", err)
	}
	ss, err := samples(obs)
	if err != nil {
		return Coefficients{}, err
	}
	return solve(prior, prior, ss), nil
}

// Calibrate moves prior to where measured points of one engine want it. One
// point scales what it depends on; more determine more; what they do not
// determine stays with the prior. The result is for other models, sizes and
// lengths on the same engine too. It refuses points that cannot be, naming the
// field.
func Calibrate(prior Fit, obs []Observation) (Fit, Report, error) {
	if len(obs) == 0 {
		return Fit{}, Report{}, errors.New("calibrating: no points: want one at least")
	}
	if err := prior.Coefficients.Check(); err != nil {
		return Fit{}, Report{}, fmt.Errorf("calibrating %q: %w", prior.Name, err)
	}
	ss, err := samples(obs)
	if err != nil {
		return Fit{}, Report{}, fmt.Errorf("calibrating %q: %w", prior.Name, err)
	}
	k := solve(prior.Coefficients, prior.Coefficients, ss)
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
	points := fmt.Sprintf("%d points", len(ss))
	r.Before = of("the prior on "+points, func(r Residual) float64 { return r.Before })
	r.After = of("in sample, "+points, func(r Residual) float64 { return r.After })
	if len(ss) > 1 {
		r.LeaveOneOut = of("leave-one-out, "+points, func(r Residual) float64 { return r.HeldOut })
	}
	r.Undetermined = undetermined(prior, k, ss)
	r.Warnings = warnings(r, ss)
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

func warnings(r Report, ss []sample) []string {
	var out []string
	if r.Before.TTFT.N == 0 {
		out = append(out, "no point has a TTFT: prompts and the time per request are the prior's, but for what steps share")
	}
	if r.Before.TPOT.N == 0 {
		out = append(out, "no point has an ITL or TPOT: decoding is the prior's, but for what steps share")
	}
	one := func(of func(sample) int) bool {
		return !slices.ContainsFunc(ss, func(s sample) bool { return of(s) != of(ss[0]) })
	}
	if one(func(s sample) int { return s.about.config.Parallelism.TP }) {
		out = append(out, fmt.Sprintf("every point has TP %d: how time changes with TP is the prior's", ss[0].about.config.Parallelism.TP))
	}
	if r.Before.TPOT.N > 0 && one(func(s sample) int { return s.obs.InFlight }) && one(func(s sample) int { return int(1000 * s.obs.Rate) }) {
		out = append(out, "every point has the same load: how ITL changes with load is the prior's")
	}
	if len(r.Undetermined) > 0 {
		out = append(out, "the points do not determine "+strings.Join(r.Undetermined, ", "))
	}
	return out
}

// sixPoints is from how many points on a calibration is credited with what six
// points leave on held-out rows; with fewer it keeps the error of its prior.
const sixPoints = 6

func calibrated(prior Fit, k Coefficients, ss []sample, r Report) Fit {
	f := prior
	f.Coefficients, f.Calibrated = k, len(ss)
	f.Name = prior.Name + ", calibrated"
	f.Source = fmt.Sprintf("%d points of the engine itself, from the fit %s", len(ss), prior.Name)
	obs := make([]Observation, len(ss))
	for i, s := range ss {
		obs[i] = s.obs
	}
	f.Rows, f.Longest = RowsOf(obs), Longest(obs)
	of := func(own, six, before, whole Error) Error {
		if own.N >= sixPoints {
			return own.Wider(six)
		}
		return before.Wider(own).Wider(whole)
	}
	f.TTFT = of(r.LeaveOneOut.TTFT, prior.SixPoints.TTFT, prior.OtherVersion.TTFT, prior.TTFT)
	f.TPOT = of(r.LeaveOneOut.TPOT, prior.SixPoints.TPOT, prior.OtherVersion.TPOT, prior.TPOT)
	return f
}
