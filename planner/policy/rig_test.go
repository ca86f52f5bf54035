package policy

import (
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/profile"
)

// flat is a profile that was measured at one ISL and one context: prompts take
// 100 ms there, tokens 10 ms, at any load up to 100 requests.
func flat(t testing.TB, isl, osl int, promptRate, tokenRate float64, gpus int) (interpolation.Prefill, interpolation.Decode) {
	t.Helper()
	p, err := interpolation.FitPrefill(profile.PrefillSurface{Samples: []profile.PrefillSample{{ISL: isl, TTFT: 100 * time.Millisecond, ThroughputPerGPU: promptRate}}})
	if err != nil {
		t.Fatal(err)
	}
	context := float64(isl) + float64(osl)/2
	s := profile.DecodeSurface{MaxKVTokens: 1_000_000}
	for _, n := range []float64{1, 100} {
		s.Samples = append(s.Samples, profile.DecodeSample{
			KVUsage: n * context / 1e6, Context: context, ITL: 10 * time.Millisecond, ThroughputPerGPU: tokenRate * n / 100,
		})
	}
	d, err := interpolation.FitDecode(s, gpus)
	if err != nil {
		t.Fatal(err)
	}
	return p, d
}

func upstreamOf(t testing.TB, p interpolation.Prefill, d interpolation.Decode, interval time.Duration, change ...func(*UpstreamOptions)) *Upstream {
	t.Helper()
	o := UpstreamOptions{Prefill: p, Decode: d, Requests: &last{}, ISL: &last{}, OSL: &last{}, Interval: interval}
	for _, f := range change {
		f(&o)
	}
	u, err := NewUpstream(o)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func split(prefillGPUs, decodeGPUs, budget int) planner.Deployment {
	return planner.Deployment{
		Pools:  []planner.Pool{{Role: engine.RolePrefill, GPUs: prefillGPUs, Min: 1}, {Role: engine.RoleDecode, GPUs: decodeGPUs, Min: 1}},
		Budget: planner.Budget{Max: budget, Min: -1},
		SLA:    profile.SLA{TTFT: 500 * time.Millisecond, ITL: 50 * time.Millisecond, Stat: profile.Mean},
	}
}

func single(gpus, budget int) planner.Deployment {
	d := split(1, 1, budget)
	d.Pools = []planner.Pool{{Role: engine.RoleAggregated, GPUs: gpus, Min: 1}}
	return d
}

// at is a situation in which what was asked for is there and nothing was seen.
func at(dep planner.Deployment, have planner.Replicas, length time.Duration) planner.Situation {
	s := planner.Situation{Deployment: dep, Have: have}
	s.Start, s.Length = time.Unix(1_000_000, 0), length
	for _, p := range dep.Pools {
		n := have.Of(p.Role)
		s.Pools = append(s.Pools, planner.PoolObservation{PoolState: planner.PoolState{Role: p.Role, Want: n, Ready: n, GPUs: p.GPUs}})
	}
	return s
}

// busy adds requests whose latencies are as flat's profile says.
func busy(s planner.Situation, requests, isl, osl float64) planner.Situation {
	s.Arrivals = planner.Known(requests)
	s.ISL.Mean, s.OSL.Mean = planner.Known(isl), planner.Known(osl)
	s.TTFT.Mean, s.ITL.Mean = planner.Known(100*time.Millisecond), planner.Known(10*time.Millisecond)
	s.Duration.Mean = planner.Known(2 * time.Second)
	return s
}

// failing is what *testing.T and *rapid.T share here.
type failing interface{ Fatalf(string, ...any) }

// chained fails unless the steps of each pool lead from what there is to what is
// wanted, each with a reason.
func chained(t failing, s planner.Situation, d planner.Decision) {
	now := s.Have
	for _, x := range d.Steps {
		if x.Role == "" && x.Rule != "" && x.Why != "" && x.From == x.To {
			continue // of the whole deployment
		}
		if x.Rule == "" || x.Why == "" || now.Of(x.Role) != x.From {
			t.Fatalf("step %+v does not go on from %s: %+v", x, now, d.Steps)
		}
		now = now.With(x.Role, x.To)
	}
	if now != d.Want {
		t.Fatalf("steps lead to %s, wanted is %s: %+v", now, d.Want, d.Steps)
	}
	for _, p := range s.Deployment.Pools {
		if len(ruledBy(d, p.Role)) == 0 {
			t.Fatalf("no step says why %s is %d: %+v", p.Role, d.Want.Of(p.Role), d.Steps)
		}
	}
}

func ruledBy(d planner.Decision, role planner.Role) []string {
	return strings.Fields(rulesOf(d, role))
}
