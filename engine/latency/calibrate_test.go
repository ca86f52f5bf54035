package latency

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/enginetest"
)

// points are loads of every kind at two sizes, as an engine with coefficients k
// would measure them.
func points(t *testing.T, k Coefficients, model string, weights engine.DType) []Observation {
	t.Helper()
	var out []Observation
	for _, tp := range []int{1, 2, 4} {
		m := on(t, model, "h200", engine.Config{Weights: weights, Parallelism: engine.TP(tp)})
		truth, err := NewWith(m.about.model, m.about.gpu, m.about.config, Fit{Coefficients: k})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []Observation{
			{Kind: KindTTFT, ISL: 500},
			{Kind: KindTTFT, ISL: 4000},
			{Kind: KindTTFT, ISL: 16000},
			{Kind: KindITL, InFlight: 1, Context: 500},
			{Kind: KindITL, InFlight: 16, Context: 4000},
			{Kind: KindITL, InFlight: 128, Context: 2000},
			{Kind: KindTPOT, ISL: 1000, OSL: 200, InFlight: 32},
			{Kind: KindTPOT, ISL: 3000, OSL: 100, InFlight: 8},
			{Kind: KindOpenITL, ISL: 600, OSL: 250, Rate: 5},
			{Kind: KindOpenTTFT, ISL: 600, OSL: 250, Rate: 5},
		} {
			o.Model, o.GPU, o.Config = m.about.model, m.about.gpu, m.about.config
			o.Seconds = truth.Predict(o)
			out = append(out, o)
		}
	}
	return out
}

func scaled(k Coefficients, by float64) Coefficients {
	v := k.vector()
	for i := range v {
		v[i] *= by
	}
	return fromVector(v)
}

// An engine half as slow again in everything is found, and so are sizes and
// lengths that were not measured.
func TestCalibrateFindsTheEngine(t *testing.T) {
	prior := plain()
	truth := scaled(prior.Coefficients, 1.5)
	all := points(t, truth, "llama-3.1-8b", engine.BF16)
	fit, report, err := Calibrate(prior, all)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("before %.3f %.3f, after %.4f %.4f, leave-one-out %.4f %.4f; undetermined %v", report.Before.TTFT.Median, report.Before.TPOT.Median,
		report.After.TTFT.Median, report.After.TPOT.Median, report.LeaveOneOut.TTFT.Median, report.LeaveOneOut.TPOT.Median, report.Undetermined)
	if report.Before.TPOT.Median < 0.2 || report.After.TPOT.P90 > 0.01 || report.After.TTFT.P90 > 0.02 || report.LeaveOneOut.TPOT.P90 > 0.02 {
		t.Errorf("the points are not explained: before %+v, after %+v, left out %+v", report.Before, report.After, report.LeaveOneOut)
	}
	if len(report.Residuals) != len(all) || fit.Calibrated != len(all)-3 { // both latencies of three open loops are one load each
		t.Errorf("%d residuals and %d points of %d", len(report.Residuals), fit.Calibrated, len(all))
	}
	for _, o := range points(t, truth, "qwen3-8b", engine.BF16) {
		m, err := NewWith(o.Model, o.GPU, o.Config, fit)
		if err != nil {
			t.Fatal(err)
		}
		if e := math.Abs(m.Predict(o)/o.Seconds - 1); e > 0.04 {
			t.Errorf("%s of an unmeasured model at TP%d is off by %.1f %%", o.Kind, o.Config.Parallelism.TP, 100*e)
		}
	}
	m, err := NewWith(all[0].Model, all[0].GPU, all[0].Config, fit)
	if err != nil {
		t.Fatal(err)
	}
	if got, six := m.ITLError(), prior.SixPoints.TPOT; got.Median < six.Median || got.P90 < six.P90 {
		t.Errorf("ITL's error %+v is narrower than six points left on held-out rows: %+v", got, six)
	}
}

// One point moves what it depends on to where it is, and nothing it does not.
func TestCalibrateOnOnePoint(t *testing.T) {
	prior := plain()
	one := points(t, scaled(prior.Coefficients, 1.3), "llama-3.1-8b", engine.BF16)[4:5]
	fit, report, err := Calibrate(prior, one)
	if err != nil {
		t.Fatal(err)
	}
	if report.After.TPOT.Median > 0.02 || report.LeaveOneOut.TPOT.N != 0 {
		t.Errorf("one point is off by %.3f after, %d left out", report.After.TPOT.Median, report.LeaveOneOut.TPOT.N)
	}
	if k, p := fit.Coefficients, prior.Coefficients; k.Products <= p.Products || k.Decode <= p.Decode || k.Overhead != p.Overhead || k.Experts != p.Experts {
		t.Errorf("a decode step of a dense model became %+v from %+v", k, p)
	}
	m, err := NewWith(one[0].Model, one[0].GPU, one[0].Config, fit)
	if err != nil {
		t.Fatal(err)
	}
	if e := m.ITLError(); e.Median < prior.Dense.TPOT.Median {
		t.Errorf("one point claims an error of %+v", e)
	}
	all := strings.Join(report.Warnings, "\n")
	for _, want := range []string{"no point has a TTFT", "all points have TP 1", "same load", "per_request_s"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning %q in\n%s", want, all)
		}
	}
}

// The result is where no coefficient alone can do better, or at its bound.
func TestSolveIsAtTheBottom(t *testing.T) {
	prior := plain().Coefficients
	ss, err := samples(points(t, scaled(prior, 1.7), "mixtral-8x7b", engine.FP8))
	if err != nil {
		t.Fatal(err)
	}
	for i := range ss {
		ss[i].obs.Seconds *= 1 + 0.1*math.Sin(float64(7*i)) // no coefficients fit exactly
		ss[i].robust = i%2 == 0
	}
	cost := func(x [numCoefficients]float64) float64 {
		sum := 0.0
		for i, p := range logs(prior) {
			sum += square((x[i] - p) / spread(i))
		}
		for _, s := range ss {
			c, _ := s.loss(s.residual(exps(x)))
			sum += c
		}
		return sum
	}
	x := logs(solve(prior, prior, ss))
	best := cost(x)
	low := logs(least())
	for i := range x {
		for _, by := range []float64{-0.05, 0.05} {
			moved := x
			if moved[i] = x[i] + by; moved[i] < low[i] {
				continue
			}
			if c := cost(moved); c < best*(1-1e-3) {
				t.Errorf("%s by %+.2f: cost %.4f, below %.4f", coefficientNames[i], by, c, best)
			}
		}
	}
}

// The step that stands for a fold's fit leads to where the fit does.
func TestLeaveOneOutByOneStep(t *testing.T) {
	prior := plain().Coefficients
	obs := points(t, scaled(prior, 1.2), "llama-3.1-8b", engine.BF16)
	obs = append(obs, points(t, scaled(prior, 1.3), "qwen3-8b", engine.BF16)...)
	ss, err := samples(obs)
	if err != nil {
		t.Fatal(err)
	}
	k := solve(prior, prior, ss)
	stepped := leaveOneOut(prior, k, ss)
	for i := range ss {
		others := append(append([]sample{}, ss[:i]...), ss[i+1:]...)
		exact := ss[i].predict(solve(prior, k, others))
		if math.Abs(stepped[i]/exact-1) > 0.01 {
			t.Errorf("point %d: %.5f s by one step, %.5f s by a fit", i, stepped[i], exact)
		}
	}
}

func TestCalibrateRefuses(t *testing.T) {
	good := points(t, plain().Coefficients, "llama-3.1-8b", engine.BF16)[6]
	for want, spoil := range map[string]func(*Observation){
		"Seconds is 0: want":             func(o *Observation) { o.Seconds = 0 },
		"Seconds is -1: want":            func(o *Observation) { o.Seconds = -1 },
		"Seconds is NaN: want":           func(o *Observation) { o.Seconds = math.NaN() },
		"Seconds is +Inf: want":          func(o *Observation) { o.Seconds = math.Inf(1) },
		"ISL is 0: want":                 func(o *Observation) { o.ISL = 0 },
		"OSL is 1: want":                 func(o *Observation) { o.OSL = 1 },
		"InFlight is 0: want":            func(o *Observation) { o.InFlight = 0 },
		"Context is NaN: want":           func(o *Observation) { o.Kind, o.Context = KindITL, math.NaN() },
		"Rate is 0: want":                func(o *Observation) { o.Kind = KindOpenITL },
		"Cached is 1000 of an ISL of":    func(o *Observation) { o.Cached = 1000 },
		`Kind is "warmth": want one of`:  func(o *Observation) { o.Kind = "warmth" },
		`Model "" has no architecture`:   func(o *Observation) { o.Model = catalog.Model{} },
		`GPU "" has no data sheet`:       func(o *Observation) { o.GPU = catalog.GPU{} },
		"MaxNumBatchedTokens is 1: want": func(o *Observation) { o.Config.Limits.MaxNumBatchedTokens = 1 },
		"TP 3 does not divide":           func(o *Observation) { o.Config.Parallelism = engine.TP(3) },
		"do not fit in":                  func(o *Observation) { o.GPU.MemoryBytes = 1e9 },
	} {
		bad := good
		spoil(&bad)
		_, _, err := Calibrate(plain(), []Observation{good, bad})
		if err == nil || !strings.Contains(err.Error(), "point 2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, _, err := Calibrate(plain(), nil); err == nil {
		t.Error("no points are accepted")
	}
	if _, _, err := Calibrate(Fit{Name: "empty"}, []Observation{good}); err == nil || !strings.Contains(err.Error(), `"empty": coefficient products is 0`) {
		t.Errorf("a prior without coefficients: %v", err)
	}
}

// Whatever was measured, the coefficients are ones that an engine may have, and
// the points cost no more than before.
func TestCalibrateStaysPossible(t *testing.T) {
	prior := plain()
	all := points(t, prior.Coefficients, "gpt-oss-20b", engine.FP4)
	enginetest.Check(t, func(t *rapid.T) {
		var obs []Observation
		for range rapid.IntRange(1, 4).Draw(t, "points") {
			o := rapid.SampledFrom(all).Draw(t, "point")
			o.Seconds = math.Exp(rapid.Float64Range(math.Log(1e-5), math.Log(1e4)).Draw(t, "log seconds"))
			obs = append(obs, o)
		}
		fit, report, err := Calibrate(prior, obs)
		if err != nil {
			t.Fatal(err)
		}
		if err := fit.Coefficients.Check(); err != nil {
			t.Fatal(err)
		}
		cost := func(predicted func(Residual) float64) (sum float64) {
			for _, r := range report.Residuals {
				c, _ := sample{robust: true}.loss(math.Log(predicted(r)/r.Measured) / rowError)
				sum += c
			}
			return sum
		}
		before, after := cost(func(r Residual) float64 { return r.Before }), cost(func(r Residual) float64 { return r.After })
		if !(after <= before*(1+1e-9)) {
			t.Fatalf("the points' cost grew from %g to %g", before, after)
		}
	})
}

// The same load again is no further point: it claims no more than it did alone.
func TestRepeatedLoadsSayNothingNew(t *testing.T) {
	prior := plain()
	one := points(t, scaled(prior.Coefficients, 1.3), "llama-3.1-8b", engine.BF16)[4:5]
	alone, _, err := Calibrate(prior, one)
	if err != nil {
		t.Fatal(err)
	}
	six := slices.Repeat(one, 6)
	for i := range six {
		six[i].Run = i + 1
	}
	repeated, report, err := Calibrate(prior, six)
	if err != nil {
		t.Fatal(err)
	}
	if repeated.Calibrated != 1 || repeated.Groups[0].TPOT.Factor90 < alone.Groups[0].TPOT.Factor90 {
		t.Errorf("six copies: %d loads, %+v; one: %+v", repeated.Calibrated, repeated.Groups[0].TPOT, alone.Groups[0].TPOT)
	}
	if report.LeaveOneOut.TPOT.Median < 0.1 {
		t.Errorf("copies predict each other: %+v", report.LeaveOneOut.TPOT)
	}
	if !strings.Contains(strings.Join(report.Warnings, "\n"), "6 points have only 1 different load.") {
		t.Errorf("warnings %q", report.Warnings)
	}
}

// Points in other units, of no engine, or beyond what an engine answers are doubted.
func TestStrangePointsAreDoubted(t *testing.T) {
	prior := plain()
	good := points(t, prior.Coefficients, "llama-3.1-8b", engine.BF16)
	for want, spoil := range map[string]func(i int, o *Observation){
		"Check the unit (ms)":                  func(_ int, o *Observation) { o.Seconds /= 1000 },
		"differ from the prior by a factor of": func(_ int, o *Observation) { o.Seconds *= 65 },
		"come from several engines":            func(i int, o *Observation) { o.Seconds *= math.Pow(8, float64(i%3-1)) },
		"more than the context of":             func(_ int, o *Observation) { o.ISL = 1_000_000 },
		"faster than the engine serves":        func(_ int, o *Observation) { o.Rate *= 1000 },
	} {
		obs := slices.Clone(good)
		for i := range obs {
			obs[i].Seconds = max(obs[i].Seconds, 0.01)
			spoil(i, &obs[i])
		}
		_, report, err := Calibrate(prior, obs)
		if err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(report.Warnings, "\n"); !strings.Contains(all, want) {
			t.Errorf("no warning %q in\n%s", want, all)
		}
	}
	_, report, err := Calibrate(prior, good)
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(report.Warnings, "\n"); strings.Contains(all, "times off") || strings.Contains(all, "one engine") || strings.Contains(all, "faster than") || strings.Contains(all, "context of") {
		t.Errorf("good points are doubted:\n%s", all)
	}
}

// A spoilt point among six, whichever it is, is named, and the rest of the engine is
// predicted as without it; good points count as they did.
func TestCalibrateDoubtsASpoiltPoint(t *testing.T) {
	prior := plain()
	engineOf, err := FitByName("trtllm")
	if err != nil {
		t.Fatal(err)
	}
	var six, others []Observation
	for i, o := range points(t, engineOf.Coefficients, "llama-3.1-8b", engine.BF16) {
		o.Seconds *= 1 + 0.03*math.Sin(float64(7*i)) // as measurements repeat
		if i%5 == 0 {
			six = append(six, o)
		} else {
			others = append(others, o)
		}
	}
	off := func(k Coefficients, err error) float64 {
		if err != nil {
			t.Fatal(err)
		}
		var all []float64
		for _, o := range others {
			m, err := NewWith(o.Model, o.GPU, o.Config, Fit{Coefficients: k})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, math.Abs(m.Predict(o)/o.Seconds-1))
		}
		return stat.Mean(all, nil)
	}
	calibrated := func(obs []Observation) (float64, string) {
		fit, report, err := Calibrate(prior, obs)
		return off(fit.Coefficients, err), strings.Join(report.Warnings, "\n")
	}
	good, said := calibrated(six)
	if squares := off(estimate(prior.Coefficients, six)); good > 1.1*squares || strings.Contains(said, "counts for little") {
		t.Errorf("six good points leave %.3f, by least squares %.3f: %s", good, squares, said)
	}
	var all, allWithout, allSquares float64
	for i := range six {
		without, _ := calibrated(slices.Concat(six[:i], six[i+1:]))
		for _, by := range []float64{0.4, 2.5} {
			spoilt := slices.Clone(six)
			spoilt[i].Seconds *= by
			left, said := calibrated(spoilt)
			all, allWithout, allSquares = all+left, allWithout+without, allSquares+off(estimate(prior.Coefficients, spoilt))
			if left > 2.5*without || !strings.Contains(said, fmt.Sprintf(": %d (by a factor of ", i+1)) {
				t.Errorf("point %d × %g leaves %.3f, without it %.3f: %s", i+1, by, left, without, said)
			}
		}
	}
	if all > 1.2*allWithout || all > 0.6*allSquares {
		t.Errorf("spoilt points leave %.3f in all, without them %.3f; by least squares %.3f", all, allWithout, allSquares)
	}
}

// estimate is the fit by least squares, without doubts.
func estimate(prior Coefficients, obs []Observation) (Coefficients, error) {
	ss, err := samples(obs)
	return solve(prior, prior, ss), err
}

// plain is the default fit without what it knows of single models.
func plain() Fit {
	f := DefaultFit()
	f.Groups = nil
	return f
}
