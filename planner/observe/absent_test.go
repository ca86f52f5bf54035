package observe

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/planner/forecast"
	"plimsoll/planner/policy"
	"plimsoll/profile"
)

// families adds all that names say at 6 requests/s, but for the metrics of a mask, which
// end at an instant.
func (f *fake) families(n Names, absent uint32, end, until time.Duration, labels ...string) {
	const rate, isl, osl = 6, 800, 400
	single, histograms := n.lists()
	values := []func(time.Duration) float64{
		rising(rate), rising(rate), rising(rate), rising(rate * isl), rising(rate * osl), rising(rate * isl), rising(rate * isl / 2),
		constant(6), constant(1), constant(1), constant(0.3), constant(6),
	}
	bit := 0
	last := func() time.Duration {
		bit++
		if absent&(1<<(bit-1)) != 0 {
			return end
		}
		return until
	}
	for i, list := range single {
		if last := last(); len(*list) > 0 && !strings.HasSuffix((*list)[0], "_count") { // which its histogram has
			name, fixed := split((*list)[0])
			more := labels
			for label, value := range fixed {
				more = append(slices.Clone(labels), label, value)
			}
			f.add(name, scrape, last, values[i], more...)
		}
	}
	for i, list := range histograms {
		last, sum := last(), []float64{isl, osl, 0.8, 0.04, 0.04, 16}[i]
		if len(*list) > 0 {
			f.histogram((*list)[0], scrape, last, map[string]float64{"1000": rate, "+Inf": rate}, rate*sum, labels...)
		}
	}
}

// holding is a core that needs more than three replicas of each pool for the load of
// families: whoever takes what is missing for 0 shrinks them.
func holding(t *testing.T, pools []planner.Pool) *planner.Core {
	t.Helper()
	o := policy.NewDefaultOptions()
	p := profile.PrefillSurface{}
	d := profile.DecodeSurface{MaxKVTokens: 100_000}
	for _, n := range []int{100, 1000, 4000} {
		p.Samples = append(p.Samples, profile.PrefillSample{ISL: n, TTFT: time.Duration(n) * time.Millisecond, ThroughputPerGPU: 1000})
		for _, in := range []float64{1, 10, 20} {
			d.Samples = append(d.Samples, profile.DecodeSample{KVUsage: in * float64(n) / 100_000, Context: float64(n), ITL: time.Duration(10*in) * time.Millisecond, ThroughputPerGPU: 100})
		}
	}
	var err, failed error
	o.Prefill, err = interpolation.FitPrefill(p)
	o.Decode, failed = interpolation.FitDecode(d, 1)
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	o.ISL, o.OSL = 800, 400
	for _, f := range []*planner.Forecaster{&o.Rate, &o.ISLs, &o.OSLs} {
		made, err := forecast.New(forecast.DefaultOptions(forecast.Constant))
		if err != nil {
			t.Fatal(err)
		}
		*f = made
	}
	propose, err := policy.NewDefault(o)
	if err != nil {
		t.Fatal(err)
	}
	core, err := planner.New(planner.Options{Policy: propose, OnLoss: planner.Hold, Deployment: planner.Deployment{
		Pools: pools, SLA: profile.SLA{TTFT: 2 * time.Second, ITL: 50 * time.Millisecond, Stat: profile.Mean}, Budget: planner.Budget{Max: -1, Min: -1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// Whatever series of frontends or engines are missing, from the start or later: the planner
// goes on, no pool shrinks, nothing moves while the requests are not known, and the planner
// says once what is missing.
func FuzzLiveWithoutSeries(f *testing.F) {
	const all = ^uint32(0)
	for preset := range uint8(len(Words())) {
		f.Add(preset, uint8(2), uint8(1), uint32(0), all, false) // no engine, and labels of decode
		f.Add(preset, uint8(3), uint8(1), all, all, true)
		f.Add(preset, uint8(3), uint8(2), uint32(0xff), uint32(0x400), true)
		f.Add(preset, uint8(4), uint8(0), uint32(7), uint32(0), false)
	}
	f.Fuzz(func(t *testing.T, preset, labelled, mode uint8, edgeGone, enginesGone uint32, later bool) {
		const loses, until = 10 * time.Minute, 14 * time.Minute
		presets := Presets(Words()[int(preset)%len(Words())])
		end := -time.Second
		if later {
			end = loses
		}
		server := &fake{t: t}
		pools := []planner.Pool{{Role: engine.RoleAggregated, GPUs: 1, Min: 1}}
		if mode%3 > 0 {
			pools = []planner.Pool{{Role: engine.RolePrefill, GPUs: 1, Min: 1}, {Role: engine.RoleDecode, GPUs: 1, Min: 1}}
		}
		o := LiveOptions{Presets: presets, Selectors: map[planner.Role]map[string]string{}}
		var state planner.State
		for i, p := range pools {
			engines := perEngine(presets)[0]
			server.families(engines, enginesGone, end, until, engines.Model, "m", "role", string(p.Role), "instance", string(p.Role))
			if labelled&(1<<i) != 0 {
				o.Selectors[p.Role] = map[string]string{"role": string(p.Role)}
			}
			if mode%3 == 2 { // else the target shows nothing
				state.Pools = append(state.Pools, planner.PoolState{Role: p.Role, Want: 3, Ready: 1, Starting: 2})
			}
		}
		if edge := presets[0]; !edge.PerEngine {
			server.families(edge, edgeGone, end, until, edge.Model, "m", "instance", "front")
		}
		core, source := holding(t, pools), live(t, server, o)
		for at := loses - 4*time.Minute; at <= until; at += thirty {
			sampled(t, source, state)
			seen, err := source.Observe(t.Context(), begin.Add(at-thirty), begin.Add(at))
			if err != nil {
				seen = planner.Observation{Start: begin.Add(at - thirty), Length: thirty, Problems: []string{err.Error()}}
			}
			once(t, seen)
			seen.Pools = pooled(seen, pools)
			d := core.Step(seen)
			unknown := !seen.Arrivals.Known && !seen.Finished.Known
			for _, p := range pools {
				if n := d.Want.Of(p.Role); n < 3 || n > 3 && unknown {
					t.Fatalf("at %v the %s pool of 3 becomes %d: %+v\nseen: %+v", at, p.Role, n, d.Steps, seen)
				}
			}
			if unknown && (len(d.Missing) == 0 || len(seen.Problems) == 0) {
				t.Errorf("at %v nobody says that the requests are unknown: missing %q, problems %q", at, d.Missing, seen.Problems)
			}
		}
	})
}

// pooled are the pools as whoever runs the planner fills them in: three replicas each.
func pooled(o planner.Observation, pools []planner.Pool) (out []planner.PoolObservation) {
	for _, p := range pools {
		seen, _ := o.Pool(p.Role)
		seen.PoolState = planner.PoolState{Role: p.Role, Want: 3, Ready: 3}
		out = append(out, seen)
	}
	return out
}

// once asserts that no figure and no reason is named twice.
func once(t *testing.T, o planner.Observation) {
	t.Helper()
	var figures, reasons []string
	for _, p := range o.Problems {
		what, why, ok := strings.Cut(p, ": ")
		if ok {
			figures = append(figures, strings.Split(what, ", ")...)
			reasons = append(reasons, why)
		}
	}
	for _, words := range [][]string{figures, reasons} {
		slices.Sort(words)
		if n := len(words); len(slices.Compact(words)) < n {
			t.Fatalf("said twice: %q", o.Problems)
		}
	}
}

// Who reads requests from other metrics than before says so, once.
func TestLiveSaysWhatItReadsInstead(t *testing.T) {
	f := &fake{t: t}
	f.families(dynamoFrontend(), ^uint32(0), half, hour, "model", "m")
	f.families(dynamoRouter(), 0, 0, hour)
	l := live(t, f, LiveOptions{})
	said := 0
	for end := half - time.Minute; end < half+8*time.Minute; end += time.Minute {
		if problem(observed(t, l, end, time.Minute), "requests are read from dynamo_component_router_requests_started_total, which has samples, and no longer from dynamo_frontend_requests_started_total, which has none") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("the other source is said %d times", said)
	}
}
