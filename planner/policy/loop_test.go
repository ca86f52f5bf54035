package policy

import (
	"math"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/forecast"
	"plimsoll/profile"
)

// sine is 5 to 45 requests/s (the range of Dynamo's sin_synth), from the least.
func sine(period time.Duration) func(time.Duration) float64 {
	return func(t time.Duration) float64 { return 25 - 20*math.Cos(2*math.Pi*t.Minutes()/period.Minutes()) }
}

// jump is 10 requests/s, and 45 for twenty minutes.
func jump(t time.Duration) float64 {
	if t >= 20*time.Minute && t < 40*time.Minute {
		return 45
	}
	return 10
}

// core is Default as planner serve runs it.
func (l loop) core(t *testing.T) *planner.Core { return coreOf(t, l.dep, l.policy(t)) }

func (l loop) policy(t *testing.T) *Default {
	t.Helper()
	o := NewDefaultOptions()
	o.Prefill, o.Decode = surfaces(t)
	o.ISL, o.OSL, o.Ahead, o.AheadSaid = 990, 100, l.startUp, true
	for _, to := range []*planner.Forecaster{&o.Rate, &o.ISLs, &o.OSLs} {
		options := forecast.DefaultOptions(forecast.Auto)
		options.Interval = l.interval
		f, err := forecast.New(options)
		if err != nil {
			t.Fatal(err)
		}
		*to = f
	}
	p, err := NewDefault(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// static is the fleet for the peak, by the same formulas and with the engines as
// they really are.
func (l loop) static(t *testing.T) planner.Replicas {
	t.Helper()
	e := engines{sla: l.dep.SLA, slower: correction{Prefill: max(1, l.slower), Decode: max(1, l.slower), Tail: 1}}
	e.prefill, e.decode = surfaces(t)
	need := demand{rate: l.peak, isl: 990, osl: 100, spread2: math.Expm1(lengthSigma * lengthSigma), varies: true}
	var r planner.Replicas
	for _, p := range l.dep.Pools {
		n, _, _ := e.least(p.Role, need)
		r = r.With(p.Role, n)
	}
	return r
}

// In an hour of a load that swings and of one that jumps the policy holds the SLA
// for 97 % of the requests, and takes fewer GPU-hours than the fleet that carries
// the peak, which holds it too. What comes before anybody can know does not count:
// the first ten minutes of a swing, and a jump until replicas that were decided on
// in the interval after it serve and what piled up is done.
func TestLoopHoldsTheSLAForLessThanStaticPeak(t *testing.T) {
	aggregated := promise()
	aggregated.Pools = []planner.Pool{{Role: engine.RoleAggregated, GPUs: 1, Min: 1}}
	for _, c := range []struct {
		name     string
		dep      planner.Deployment
		interval time.Duration
		period   time.Duration // of the sine; 0: a jump
		slower   float64
	}{
		{"swing, every minute", promise(), time.Minute, 30 * time.Minute, 0},
		{"swing, every 3 minutes", promise(), 3 * time.Minute, time.Hour, 0},
		{"jump, every minute", promise(), time.Minute, 0, 0},
		{"jump, every 3 minutes", promise(), 3 * time.Minute, 0, 0},
		{"engines slower than their profile", promise(), time.Minute, time.Hour, 1.25},
		{"aggregated", aggregated, time.Minute, 30 * time.Minute, 0},
	} {
		for _, startUp := range []time.Duration{30 * time.Second, 120 * time.Second} {
			t.Run(c.name+", start-up "+startUp.String(), func(t *testing.T) {
				t.Parallel()
				c.dep.SLA.Stat = profile.P99
				l := loop{
					dep: c.dep, peak: 45, rate: jump, startUp: startUp, interval: c.interval, slower: c.slower,
					start: planner.Replicas{Prefill: 2, Decode: 2, Aggregated: 4},
					ramp:  [2]time.Duration{20 * time.Minute, 20*time.Minute + 3*c.interval + 2*startUp},
				}
				if c.period > 0 {
					l.rate, l.ramp = sine(c.period), [2]time.Duration{0, 10 * time.Minute}
				}
				static := l.static(t)
				gpuHours := float64(l.dep.GPUs(static)) * loopFor.Hours()
				k := l.run(t, l.core(t))
				t.Logf("%.2f %% within the SLA, %.2f GPU-hours of %.2f (%s)", 100*k.share(), k.gpuHours, gpuHours, static)
				if k.share() < 0.97 || k.requests < 10_000 {
					t.Errorf("%.2f %% of %.0f requests were within the SLA", 100*k.share(), k.requests)
				}
				if k.gpuHours >= gpuHours {
					t.Errorf("%.2f GPU-hours, the fleet for the peak takes %.2f", k.gpuHours, gpuHours)
				}
			})
		}
	}
}

// The fleet that is compared with carries the peak, and is not much too large.
func TestLoopStaticPeak(t *testing.T) {
	dep := promise()
	dep.SLA.Stat = profile.P99
	l := loop{dep: dep, peak: 45, rate: sine(30 * time.Minute), interval: time.Minute}
	l.start = l.static(t)
	if k := l.run(t, coreOf(t, dep, Static{l.start})); k.share() < 0.97 {
		t.Errorf("%s: %.2f %% within the SLA", l.start, 100*k.share())
	}
}
