package policy

import (
	"math"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/observe"
	"plimsoll/profile"
)

// An engine's histogram whose bounds are far from the limit makes no breach of what is kept,
// teaches nothing and costs little: vLLM's 10 and 25 ms took 17.2 GPU-hours of 7.3 at a limit
// of 20 ms, 37.4 of 7.0 at 24 ms, and kept 49 % at 14 ms.
func TestCoarseBucketsCostLittle(t *testing.T) {
	for _, c := range []struct {
		itl        time.Duration
		aggregated bool
		most       float64 // GPU-hours over those of exact percentiles
	}{{14 * ms, false, 1.05}, {20 * ms, false, 1.05}, {24 * ms, false, 1.05}, {20 * ms, true, 1.15}} {
		dep := promise()
		dep.SLA = profile.SLA{TTFT: 500 * ms, ITL: c.itl, Stat: profile.P99}
		if c.aggregated {
			dep.Pools = []planner.Pool{{Role: engine.RoleAggregated, GPUs: 1, Min: 1}}
		}
		hours := func(t *testing.T, b planner.Bounds) float64 {
			l := loop{
				dep: dep, peak: 45, rate: sine(30 * time.Minute), interval: time.Minute, startUp: 30 * time.Second, bounds: b,
				start: planner.Replicas{Prefill: 2, Decode: 2, Aggregated: 4}, ramp: [2]time.Duration{0, 10 * time.Minute},
			}
			k := l.run(t, l.core(t))
			t.Logf("%.2f %% within the SLA, %.2f GPU-hours", 100*k.share(), k.gpuHours)
			if k.share() < 0.99 {
				t.Errorf("%.2f %% of the requests were within the SLA", 100*k.share())
			}
			return k.gpuHours
		}
		name := c.itl.String()
		if c.aggregated {
			name += ", aggregated"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exact := hours(t, planner.Bounds{})
			for _, b := range []planner.Bounds{observe.Bounds("vllm"), observe.Bounds("sglang"), observe.Bounds("vllm").Around(dep.SLA)} {
				if got := hours(t, b); got > c.most*exact {
					t.Errorf("%.2f GPU-hours, %.2f by exact percentiles", got, exact)
				}
			}
		})
	}
}

// What a histogram does not tell is no breach and no lesson, and is said; what it tells is
// both.
func TestBucketsTeachWhatTheyTell(t *testing.T) {
	for _, c := range []struct {
		name                  string
		p99                   float64 // s, of all requests
		limit                 time.Duration
		breaks, warns, learns bool
	}{
		{"in the limit's bucket", 0.012, 20 * ms, false, true, false},
		{"in the bucket above", 0.03, 20 * ms, true, false, false},
		{"in the bucket below", 0.005, 20 * ms, false, false, false},
		{"kept, the limit a bound", 0.012, 25 * ms, false, false, true},
		{"broken, the limit a bound", 0.03, 25 * ms, true, false, true},
	} {
		counts := map[float64]float64{math.Inf(1): 1000}
		for _, bound := range []float64{0.01, 0.025, 0.05} {
			counts[bound] = 0
			if c.p99 <= bound {
				counts[bound] = 1000
			}
		}
		h, _ := planner.NewHistogram(counts, 1000*c.p99)
		p := standard(t)
		s := minute(10, pd(2, 2), func(s *planner.Situation) {
			s.Deployment.SLA.ITL, s.Deployment.SLA.Stat = c.limit, profile.P99
			s.TTFT = exponential(50*ms, 20*ms, 1000)
			s.TPOT = planner.SpreadOf(h, planner.Seconds, 0)
			s.ITL.Mean = s.TPOT.Mean
		})
		d := p.Propose(s)
		if got := breaksITL(s); got != c.breaks {
			t.Errorf("%s: broken %v", c.name, got)
		}
		if got := warned(d, "wide_bucket"); got != c.warns {
			t.Errorf("%s: warned %v: %v", c.name, got, d.Warnings)
		}
		if got := !math.IsNaN(itlMissed(s).learnt(0.005)); got != c.learns {
			t.Errorf("%s: the margin learns %v", c.name, got)
		}
		if got := p.m.Slower.Tail; got != 1 {
			t.Errorf("%s: the tail is %v times the mean, of a wide bucket", c.name, got)
		}
	}
}
