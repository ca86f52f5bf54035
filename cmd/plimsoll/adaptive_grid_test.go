package main

import (
	"fmt"
	"math"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/interpolation"
	"plimsoll/profile"
	"plimsoll/sweep"
)

// contest is a deployment on which both searches are run.
type contest struct {
	model, gpu string
	ttft, itl  time.Duration
}

// contests are two models on three kinds of GPUs, with objectives that some of
// their sizes miss.
func contests() []contest {
	const ms = time.Millisecond
	return []contest{
		{"llama-3.1-8b", "a100-80-sxm", 400 * ms, 30 * ms},
		{"llama-3.1-8b", "h100-sxm", 200 * ms, 20 * ms},
		{"llama-3.1-8b", "h200-sxm", 200 * ms, 15 * ms},
		{"llama-3.1-70b", "a100-80-sxm", 1500 * ms, 60 * ms},
		{"llama-3.1-70b", "h100-sxm", 500 * ms, 40 * ms},
		{"llama-3.1-70b", "h200-sxm", 500 * ms, 30 * ms},
	}
}

func (c contest) String() string { return c.model + " on " + c.gpu }

const (
	contestISL, contestOSL = 3000, 150
	contestNoise           = 0.03 // of a step
	contestPast            = 1.01 // of the ITL allowed, in noiseless truth
	contestShare           = 0.13 // of the grid's engine-seconds, at most
	contestLaunch          = 2 * time.Minute
	launchedShare          = 0.25 // the same, where a launch takes so long
	surfaceError           = 0.02 // of a surface, mean
)

// seeker runs searches on a contest's deployment in virtual time.
type seeker struct {
	opts profileOptions
	dep  deployment
}

func (c contest) seeker(t testing.TB) seeker {
	t.Helper()
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	o := profileOptions{
		engine: "estimate", model: c.model, gpu: c.gpu, weights: engine.BF16, isl: contestISL, osl: contestOSL,
		sla:   profile.SLA{TTFT: c.ttft, ITL: c.itl, Stat: profile.Mean},
		noise: contestNoise, seed: 1, requestTimeout: time.Hour,
	}
	d, err := resolve(&o, cat, nil)
	if err != nil {
		t.Fatal(err)
	}
	return seeker{o, d}
}

// options are those that profile-sla has for a search.
func (s seeker) options(t testing.TB, search sweep.Search) sweep.Options {
	t.Helper()
	cands, _, err := s.dep.candidates(s.opts)
	if err != nil {
		t.Fatal(err)
	}
	o := s.opts
	o.search, o.rank = search, ruleOf(search, sweep.Disaggregated)
	so := sweepOptions(o, s.dep, cands)
	so.Open.Verify = false // upstream has nothing to compare it with
	return so
}

// forgetful records nothing.
type forgetful struct{}

func (forgetful) Point(profile.Point, []profile.Request, sweep.Cost) error { return nil }
func (forgetful) Engine(string, profile.EngineFacts) error                 { return nil }

func (s seeker) search(t testing.TB, how sweep.Search) sweep.Result {
	t.Helper()
	res, err := sweep.Run(t.Context(), s.options(t, how), estimator(s), forgetful{}, sweep.Known{}, nil)
	if err != nil || res.Partial != "" {
		t.Fatalf("%s: %v, partial %q", how, err, res.Partial)
	}
	return res
}

// noiseless is an engine of the deployment without noise.
func (s seeker) noiseless(t testing.TB, cfg engine.Config, role engine.Role) *sweep.Instance {
	t.Helper()
	s.opts.noise = 0
	cfg.PrefixCaching, cfg.Role = true, role
	in, err := estimator(s).Launch(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// itl is that of n streams, their prompts in the prefix cache, without noise.
func (s seeker) itl(t testing.TB, cfg engine.Config, isl, osl, n int) time.Duration {
	t.Helper()
	m := s.noiseless(t, cfg, engine.RoleAggregated).Measurer
	w := profile.Workload{ISL: isl, OSL: 1, Requests: n, InFlight: n, Seed: 7, SharedPrompts: true, Timeout: time.Hour}
	if _, err := m.Measure(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	w.OSL = osl
	got, err := m.Measure(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	window, ok := profile.Steady(got.Requests)
	if !ok {
		t.Fatalf("%d streams of %d + %d tokens never decode together", n, isl, osl)
	}
	return profile.Summarize(got.Requests, window).ITL.Mean
}

// carries is what a decode pool's engine sustains per GPU at the load of a pick,
// in a long run without noise: 20 requests after one another in each place, each
// with the target's lengths. It is 0 where ITL is beyond the objective.
func (s seeker) carries(t testing.TB, p profile.Point) float64 {
	t.Helper()
	n := int(math.Round(p.InFlight))
	w := profile.Workload{ISL: contestISL, OSL: contestOSL, Requests: 20 * n, InFlight: n, Seed: 7, Timeout: time.Hour}
	got, err := s.noiseless(t, p.Config, engine.RoleDecode).Measurer.Measure(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	window := profile.Whole(got.Requests)
	if itl := profile.Summarize(got.Requests, window).ITL.Mean; float64(itl) > contestPast*float64(s.opts.sla.ITL) {
		return 0
	}
	return float64(w.Requests*w.OSL) / window.Length().Seconds() / float64(p.Config.GPUs())
}

// prefill is the TTFT of one prompt, without noise.
func (s seeker) prefill(t testing.TB, cfg engine.Config, isl int) time.Duration {
	t.Helper()
	w := profile.Workload{ISL: isl, OSL: 1, Requests: 1, InFlight: 1, Timeout: time.Hour}
	got, err := s.noiseless(t, cfg, engine.RoleAggregated).Measurer.Measure(t.Context(), w)
	if err != nil || !got.Requests[0].OK() {
		t.Fatalf("%v, %+v", err, got.Requests)
	}
	return got.Requests[0].TTFT()
}

// fidelity is how far a surface is from noiseless truth, relative.
type fidelity struct{ mean, worst float64 }

func (a fidelity) String() string { return fmt.Sprintf("%.2f %% (%.1f %%)", 100*a.mean, 100*a.worst) }

func accuracyOf(errs []float64) (a fidelity) {
	for _, e := range errs {
		a.mean += e / float64(len(errs))
		a.worst = max(a.worst, e)
	}
	return a
}

// sides of a decode surface's truth; ISLs of a prefill surface's.
const truthSide, truthISLs = 9, 40

// decodeError compares a decode surface with truth, evenly over contexts and, at
// each, over what the engine holds.
func (s seeker) decodeError(t testing.TB, res sweep.Result) fidelity {
	t.Helper()
	cfg := res.Decode.Picked.Point.Config
	fit, err := interpolation.FitDecode(res.DecodeSurface, cfg.GPUs())
	if err != nil {
		t.Fatal(err)
	}
	facts := s.noiseless(t, cfg, engine.RoleAggregated).Facts
	const osl, lo = 41, 200
	hi := min(facts.MaxModelLen, s.options(t, sweep.Grid).MaxContext) - 500
	var errs []float64
	for i := range truthSide {
		isl := lo + i*(hi-lo)/(truthSide-1)
		top := min(facts.MaxInFlight(isl, osl, 0), 2000)
		for j := range truthSide {
			n := 1 + j*(top-1)/(truthSide-1)
			truth := s.itl(t, cfg, isl, osl, n)
			got := fit.ITLAt(float64(n), float64(isl)+osl/2.0).Value
			errs = append(errs, math.Abs(float64(got)/float64(truth)-1))
		}
	}
	return accuracyOf(errs)
}

// prefillError is the same of a prefill surface.
func (s seeker) prefillError(t testing.TB, res sweep.Result) fidelity {
	t.Helper()
	cfg := res.Prefill.Picked.Point.Config
	fit, err := interpolation.FitPrefill(res.PrefillSurface)
	if err != nil {
		t.Fatal(err)
	}
	hi := s.options(t, sweep.Grid).MaxContext - 512
	var errs []float64
	for i := range truthISLs {
		isl := 100 + i*(hi-100)/(truthISLs-1)
		errs = append(errs, math.Abs(float64(fit.TTFT(float64(isl)).Value)/float64(s.prefill(t, cfg, isl))-1))
	}
	return accuracyOf(errs)
}

// found is what a search found and what that is worth.
type found struct {
	res             sweep.Result
	prefill, decode fidelity
	sustained       float64 // tokens/s/GPU of the decode pick without noise; 0 where it misses the ITL
}

func (s seeker) find(t testing.TB, how sweep.Search) found {
	t.Helper()
	f := found{res: s.search(t, how)}
	f.prefill, f.decode = s.prefillError(t, f.res), s.decodeError(t, f.res)
	f.sustained = s.carries(t, f.res.Decode.Picked.Point)
	return f
}

func (f found) row() string {
	c, d := f.res.Cost, f.res.Decode.Picked
	return fmt.Sprintf("%s; %s, %.0f in flight: %.0f | %.1f | %d | %d | %s | %s",
		f.res.Prefill.Picked.Label(), d.Label(), d.Point.InFlight, f.sustained, c.Measuring(), c.Launches, c.Requests, f.prefill, f.decode)
}

// checkPlan wants what a plan expects to be from least to most times what the
// search then cost. The grid's requests are known to one.
func (s seeker) checkPlan(t *testing.T, how sweep.Search, got sweep.Cost, least, most float64) {
	t.Helper()
	want := sweep.Total(sweep.Plan(s.options(t, how)))
	for name, ratio := range map[string]float64{
		"engine-seconds": want.EngineSeconds / got.Measuring(), "GPU-seconds": want.GPUSeconds / got.GPUSeconds,
		"requests": float64(want.Requests) / float64(got.Requests), "prompt tokens": float64(want.PromptTokens) / float64(got.PromptTokens),
		"output tokens": float64(want.OutputTokens) / float64(got.OutputTokens), "launches": float64(want.Launches) / float64(got.Launches),
	} {
		if ratio < least || ratio > most {
			t.Errorf("%s: the plan expects %.2f times as many %s", how, ratio, name)
		}
	}
}
