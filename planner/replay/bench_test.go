package replay

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest/cputime"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/planner/forecast"
	"plimsoll/planner/policy"
	"plimsoll/profile"
)

// surfaces are a profile of engines whose prompts take 10 ms and 0.1 ms a token,
// tokens 10 ms and 0.2 ms for each request that runs.
func surfaces(b testing.TB) (prefill interpolation.Prefill, decode interpolation.Decode) {
	b.Helper()
	p, d := profile.PrefillSurface{}, profile.DecodeSurface{MaxKVTokens: 1_000_000}
	for isl := 125; isl <= 8000; isl *= 2 {
		seconds := 0.01 + 0.0001*float64(isl)
		p.Samples = append(p.Samples, profile.PrefillSample{ISL: isl, TTFT: time.Duration(seconds * 1e9), ThroughputPerGPU: float64(isl) / seconds})
	}
	for context := 250.0; context <= 9000; context *= 2.2 {
		for running := 1.0; running <= 100; running += 11 {
			seconds := 0.01 + 0.0002*running
			d.Samples = append(d.Samples, profile.DecodeSample{
				Context: context, KVUsage: running * context / 1e6, ITL: time.Duration(seconds * 1e9), ThroughputPerGPU: running / seconds,
			})
		}
	}
	var errs [2]error
	prefill, errs[0] = interpolation.FitPrefill(p)
	decode, errs[1] = interpolation.FitDecode(d, 1)
	if err := errors.Join(errs[:]...); err != nil {
		b.Fatal(err)
	}
	return prefill, decode
}

// day is a fleet for 200 requests/s on average, of ISL 1000 and OSL 200, whose rate
// swings by a half over the day, and the default policy that scales it.
func day(b testing.TB, roles ...planner.Role) (Scenario, *planner.Core) {
	b.Helper()
	prefill, decode := surfaces(b)
	steps := interpolation.NewSteps(prefill, decode, 0).Tabled(sim.DefaultMaxNumSeqs, 16_384)
	s := Scenario{
		Length: 24 * time.Hour, Drain: time.Minute, Seed: 1,
		Pace: planner.Pace{Every: 30 * time.Second, Steady: true}, Scrape: 5 * time.Second,
	}
	s.Deployment = planner.Deployment{
		Budget: planner.Budget{Max: -1, Min: -1},
		SLA:    profile.SLA{TTFT: 500 * ms, ITL: 20 * ms, Stat: profile.P95},
	}
	for _, role := range roles {
		s.Deployment.Pools = append(s.Deployment.Pools, planner.Pool{Role: role, GPUs: 1, Min: 1})
		s.Fleet.Pools = append(s.Fleet.Pools, fleet.Pool{
			Engine: sim.Config{Role: role, KVBlocks: 62_500}, Timer: steps, Router: fleet.LeastLoaded, StartUp: 60 * engine.Second,
		})
		s.Start = s.Start.With(role, 40)
	}
	o := policy.NewDefaultOptions()
	o.Prefill, o.Decode, o.ISL, o.OSL, o.Ahead = prefill, decode, 1000, 200, time.Minute
	for _, to := range []*planner.Forecaster{&o.Rate, &o.ISLs, &o.OSLs} {
		f, err := forecast.New(forecast.DefaultOptions(forecast.Constant))
		if err != nil {
			b.Fatal(err)
		}
		*to = f
	}
	p, err := policy.NewDefault(o)
	if err != nil {
		b.Fatal(err)
	}
	core, err := planner.New(planner.Options{Deployment: s.Deployment, Policy: p, OnLoss: planner.Hold})
	if err != nil {
		b.Fatal(err)
	}
	return s, core
}

// lengths are log-normal tokens of a mean.
func lengths(r *rand.Rand, mean float64) int {
	return max(2, int(mean*math.Exp(0.5*r.NormFloat64()-0.125)))
}

// swinging are n requests at a rate that swings by a half over a period in seconds.
func swinging(n int, rate, period float64) []fleet.Request {
	r := rand.New(rand.NewPCG(1, 1))
	all := make([]fleet.Request, n)
	at := 0.0
	for i := range all {
		at += r.ExpFloat64() / (rate * (1 + math.Sin(2*math.Pi*at/period)/2))
		all[i] = fleet.Request{At: engine.FromSeconds(at), ISL: lengths(r, 1000), OSL: lengths(r, 200)}
	}
	return all
}

// benchmarkDay replays b.N requests of the day: a part of it, or more.
func benchmarkDay(b *testing.B, roles ...planner.Role) {
	s, core := day(b, roles...)
	all := swinging(b.N, 200, 86400) // a trace is read, not drawn
	s.Length = max(s.Pace.Every, min(all[b.N-1].At.Duration()+1, MaxLength))
	b.ReportAllocs()
	b.ResetTimer()
	defer cputime.Report(b)()
	last, err := Run(func(yield func(fleet.Request) bool) {
		for _, q := range all {
			if !yield(q) {
				return
			}
		}
	}, s, core)
	if err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(17.28e6/float64(b.N)*b.Elapsed().Seconds(), "s/day") // of 200 requests/s
	b.ReportMetric(last.GPUHours/s.Length.Hours(), "GPUs")
	b.ReportMetric(100*last.Attainment.Both, "%attained")
}

// BenchmarkDay is a day in an aggregated fleet.
func BenchmarkDay(b *testing.B) { benchmarkDay(b, engine.RoleAggregated) }

// BenchmarkDayDisaggregated is a day in a disaggregated one.
func BenchmarkDayDisaggregated(b *testing.B) {
	benchmarkDay(b, engine.RolePrefill, engine.RoleDecode)
}

// BenchmarkHindsight plans an hour of 20 requests/s.
func BenchmarkHindsight(b *testing.B) {
	s, _ := day(b, engine.RolePrefill, engine.RoleDecode)
	s.Length, s.Pace.Every, s.Start = time.Hour, time.Minute, planner.Replicas{Prefill: 3, Decode: 3}
	requests := swinging(72_000, 20, 3600)
	size := func(requests, isl, osl float64) (planner.Replicas, error) {
		return planner.Replicas{Prefill: 1 + int(isl/400_000), Decode: 1 + int(osl/100_000)}, nil
	}
	b.ReportAllocs()
	for range b.N {
		h := mustLookBack(b, requests, s, size, DefaultTarget, 0)
		b.ReportMetric(h.Result.GPUHours, "GPU-hours")
		b.ReportMetric(100*h.Result.Attainment.Both, "%attained")
		b.ReportMetric(float64(h.Simulations), "simulations")
	}
}
