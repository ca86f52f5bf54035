package replay

import (
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
	"plimsoll/planner/policy"
	"plimsoll/profile"
)

// swing is a load that swings between two rates, with a period of its own.
func swing(low, high float64, period, length time.Duration) Rates {
	r := Rates{Every: 5 * time.Minute, Sigma: 0.5}
	for i := range int(length / r.Every) {
		at := float64(i) * r.Every.Seconds() / period.Seconds()
		r.Bins = append(r.Bins, RateBin{Rate: (high+low)/2 - (high-low)/2*math.Cos(2*math.Pi*at), ISL: 1000, OSL: 200})
	}
	return r
}

// drawn are Poisson requests of a table of rates.
func (r Rates) drawn(seed uint64) iter.Seq[fleet.Request] {
	return func(yield func(fleet.Request) bool) {
		x := rand.New(rand.NewPCG(seed, 2))
		for i, b := range r.Bins {
			end := r.Every.Seconds() * float64(i+1)
			for at := r.Every.Seconds()*float64(i) + x.ExpFloat64()/b.Rate; at < end; at += x.ExpFloat64() / b.Rate {
				if !yield(fleet.Request{At: engine.FromSeconds(at), ISL: lognormal(b.ISL, r.Sigma, x.NormFloat64()), OSL: lognormal(b.OSL, r.Sigma, x.NormFloat64())}) {
					return
				}
			}
		}
	}
}

// The fluid is near what requests one by one give on Poisson load with lognormal
// lengths, as near as RunFluid's comment says.
func TestFluidIsNear(t *testing.T) {
	const length = 3 * time.Hour
	for name, c := range map[string]struct {
		roles  []planner.Role
		policy func(t *testing.T, s Scenario) planner.Policy
		start  planner.Replicas
		load   Rates
	}{
		"aggregated, default":    {[]planner.Role{engine.RoleAggregated}, nil, agg(10), swing(10, 40, time.Hour, length)},
		"disaggregated, default": {[]planner.Role{engine.RolePrefill, engine.RoleDecode}, nil, planner.Replicas{Prefill: 4, Decode: 4}, swing(10, 40, time.Hour, length)},
		"aggregated, static":     {[]planner.Role{engine.RoleAggregated}, still, agg(14), swing(10, 40, time.Hour, length)},
		"aggregated, too few":    {[]planner.Role{engine.RoleAggregated}, still, agg(4), swing(5, 40, time.Hour, length)},
		"disaggregated, too few": {[]planner.Role{engine.RolePrefill, engine.RoleDecode}, still, planner.Replicas{Prefill: 3, Decode: 3}, swing(5, 40, time.Hour, length)},
	} {
		t.Run(name, func(t *testing.T) {
			s, core := day(t, c.roles...)
			s.Start, s.Length = c.start, length
			if c.policy != nil {
				core = coreOf(t, s, c.policy(t, s))
			}
			again, err := core.Save()
			if err != nil {
				t.Fatal(err)
			}
			exact, err := Run(c.load.drawn(1), s, core)
			if err != nil {
				t.Fatal(err)
			}
			if err := core.Restore(again); err != nil {
				t.Fatal(err)
			}
			fluid, err := RunFluid(c.load, s, core)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("attainment: exact %.4f, fluid %.4f; GPU-hours: %.2f, %.2f (%+.1f %%); scalings %d, %d; time under SLO %.3f, %.3f", exact.Attainment.Both, fluid.Attainment.Both,
				exact.GPUHours, fluid.GPUHours, 100*(fluid.GPUHours/exact.GPUHours-1), exact.Scales, fluid.Scales, exact.UnderSLO, fluid.UnderSLO)
			closeBy(t, "TTFT", fluid.TTFT, exact.TTFT)
			closeBy(t, "TPOT", fluid.TPOT, exact.TPOT)
			closeBy(t, "E2E", fluid.E2E, exact.E2E)
			if d := fluid.Attainment.Both - exact.Attainment.Both; math.Abs(d) > 0.008 {
				t.Errorf("attainment %v, exactly %v", fluid.Attainment, exact.Attainment)
			}
			if d := fluid.GPUHours/exact.GPUHours - 1; math.Abs(d) > 0.03 {
				t.Errorf("%v GPU-hours, exactly %v", fluid.GPUHours, exact.GPUHours)
			}
			if d := fluid.UnderSLO - exact.UnderSLO; math.Abs(d) > 0.12 {
				t.Errorf("%v of the time under the SLO, exactly %v", fluid.UnderSLO, exact.UnderSLO)
			}
			if d := fluid.TTFT.Mean.Seconds()/exact.TTFT.Mean.Seconds() - 1; math.Abs(d) > 0.05 {
				t.Errorf("a mean TTFT of %v, exactly %v", fluid.TTFT.Mean, exact.TTFT.Mean)
			}
		})
	}
}

// closeBy holds a fluid's latencies against exact ones. The highest of all are left
// out: they are of the worst moments, which a fluid does not see.
func closeBy(t *testing.T, what string, got, want profile.Distribution) {
	t.Helper()
	t.Logf("%s: exact %v %v %v %v, fluid %v %v %v %v", what, want.Mean, want.P50, want.P90, want.P99, got.Mean, got.P50, got.P90, got.P99)
	for _, x := range [][2]time.Duration{{got.Mean, want.Mean}, {got.P50, want.P50}, {got.P90, want.P90}} {
		if math.Abs(x[0].Seconds()-x[1].Seconds()) > 0.08*x[1].Seconds()+0.001 {
			t.Errorf("%s %v of %d, exactly %v of %d", what, got, got.N, want, want.N)
			return
		}
	}
}

func still(*testing.T, Scenario) planner.Policy { return &spy{} }

// What comes before virtual time 0 is told by intervals, as of requests, and is no
// part of what is served.
func TestFluidWarmup(t *testing.T) {
	s := aggregated(3)
	s.Warmup, s.Length = 100*time.Second, 2*time.Minute
	load := Rates{Every: 50 * time.Second, Bins: []RateBin{{30, 80, 20}, {10, 100, 10}, {5, 40, 4}, {5, 40, 4}, {5, 40, 4}}}
	one, other := &spy{}, &spy{}
	mustRun(t, load.drawn(1), s, one)
	fluid, err := RunFluid(load, s, coreOf(t, s, other))
	if err != nil {
		t.Fatal(err)
	}
	if len(other.told) != 3 || len(one.told) != 3 || !near(float64(fluid.Requests), 600, 100) || other.seen[0].ISL.Mean.Value != 40 {
		t.Fatalf("told of %d intervals, for %d exactly; %d requests of ISL %v", len(other.told), len(one.told), fluid.Requests, other.seen[0].ISL.Mean)
	}
	for i, o := range other.told {
		e := one.told[i]
		if !o.Start.Equal(e.Start) || o.Length != e.Length || !near(o.Arrivals.Value, e.Arrivals.Value, 5*math.Sqrt(e.Arrivals.Value)) ||
			!near(o.ISL.Mean.Value, e.ISL.Mean.Value, 2) || !near(o.OSL.Mean.Value, e.OSL.Mean.Value, 1) {
			t.Errorf("interval %d: told of %v arrivals of %v and %v tokens, exactly %v of %v and %v", i, o.Arrivals.Value, o.ISL.Mean.Value, o.OSL.Mean.Value, e.Arrivals.Value, e.ISL.Mean.Value, e.OSL.Mean.Value)
		}
	}
}

// The mean of a part of a table is that of its bins' parts.
func TestRatesMean(t *testing.T) {
	load := Rates{Every: time.Minute, Bins: []RateBin{{10, 100, 10}, {0, 0, 0}, {30, 200, 30}}}
	got := load.mean(30*engine.Second, 150*engine.Second) // 300 requests of the first, 900 of the third
	if got != (RateBin{10, 175, 25}) || load.mean(60*engine.Second, 120*engine.Second) != (RateBin{}) {
		t.Errorf("%+v", got)
	}
}

// What holds of a replay holds of a fluid one, and the same seed gives the same.
func TestFluidLaws(t *testing.T) {
	for seed := range 12 {
		s := rapid.Custom(drawn).Example(seed)
		s.Scrape = 5 * time.Second
		r := rand.New(rand.NewPCG(uint64(seed), 4))
		load := Rates{Every: time.Minute, Sigma: 0.5 * float64(seed%2)}
		for range 1 + r.IntN(10) {
			load.Bins = append(load.Bins, RateBin{[]float64{0, 1, 10, 40}[r.IntN(4)], 100, 10})
		}
		run := func() Result {
			r, err := RunFluid(load, s, coreOf(t, s, wander(s.Seed)))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		one := run()
		conserved(t, one)
		if seed < 4 && !reflect.DeepEqual(one, run()) {
			t.Fatal("the same seed gives another result")
		}
		if s.Lifetime == 0 && one.Failures > 0 || !slices.ContainsFunc(one.Warnings, coded("fluid")) {
			t.Fatalf("%d failures, %v", one.Failures, one.Warnings)
		}
	}
}

// The core sees what it sees of requests one by one, at the same age.
func TestFluidObservation(t *testing.T) {
	load := Rates{Every: 10 * time.Minute, Bins: []RateBin{{20, 100, 10}}}
	for _, s := range []Scenario{aggregated(6), disaggregated(5, 5)} {
		for _, s.Delay = range []time.Duration{0, time.Minute} {
			s.Scrape = time.Second
			one, other := &spy{}, &spy{}
			mustRun(t, steady(20), s, one)
			if _, err := RunFluid(load, s, coreOf(t, s, other)); err != nil {
				t.Fatal(err)
			}
			if len(one.seen) != len(other.seen) || other.seen[0].Arrivals.Known != (s.Delay == 0) {
				t.Fatalf("%d intervals, exactly %d: %+v", len(other.seen), len(one.seen), other.seen[0])
			}
			for i := 4; i < len(one.seen); i++ {
				alike(t, other.seen[i], one.seen[i])
			}
		}
	}
}

// alike holds a fluid's figures against exact ones, which are of 600 requests.
func alike(t *testing.T, got, want planner.Observation) {
	t.Helper()
	figure := func(what string, a, b planner.Figure[float64], relative, absolute float64) {
		t.Helper()
		if a.Known != b.Known || a.Age != b.Age || math.Abs(a.Value-b.Value) > relative*b.Value+absolute {
			t.Errorf("%s %+v, exactly %+v", what, a, b)
		}
	}
	figure("arrivals", got.Arrivals, want.Arrivals, 0.25, 0)
	figure("finished", got.Finished, want.Finished, 0.25, 0)
	figure("running", got.Running, want.Running, 0.5, 8)
	figure("waiting", got.Waiting, want.Waiting, 0.5, 5)
	figure("ISL", got.ISL.Mean, want.ISL.Mean, 1e-9, 0)
	figure("OSL", got.OSL.Mean, want.OSL.Mean, 1e-9, 0)
	for _, x := range [][2]planner.Spread[time.Duration]{{got.TTFT, want.TTFT}, {got.ITL, want.ITL}, {got.Duration, want.Duration}} {
		figure("mean latency", planner.Milliseconds(x[0].Mean), planner.Milliseconds(x[1].Mean), 0.3, 5)
		figure("p90 latency", planner.Milliseconds(x[0].P90), planner.Milliseconds(x[1].P90), 0.4, 10)
		figure("p99 latency", planner.Milliseconds(x[0].P99), planner.Milliseconds(x[1].P99), 0.6, 20)
	}
	for i, p := range got.Pools {
		q := want.Pools[i]
		if p.PoolState != q.PoolState || p.Changed != q.Changed {
			t.Errorf("pool %+v, exactly %+v", p.PoolState, q.PoolState)
		}
		figure("pool running", p.Running, q.Running, 0.3, 1)
		figure("pool KV", p.KVUsage, q.KVUsage, 0.3, 0.002)
		figure("pool queue", p.Queue, q.Queue, 0.5, 1)
	}
}

// A load above what the fleet can do piles up, at the pool that is too small, and
// is worked off in order; replicas that start help when they are there.
func TestFluidOverload(t *testing.T) {
	load := Rates{Every: 2 * time.Minute, Bins: []RateBin{{15, 100, 10}, {15, 100, 10}, {2, 100, 10}, {2, 100, 10}, {2, 100, 10}}}
	for name, s := range map[string]Scenario{"aggregated": aggregated(1), "prefill": disaggregated(1, 3), "decode": disaggregated(3, 1)} {
		s.Scrape = time.Second
		run := func(exact bool) ([]planner.Observation, Result) {
			p := &spy{}
			p.want = func(x planner.Situation) planner.Replicas {
				if name == "aggregated" && len(p.seen) >= 6 {
					return agg(2)
				}
				return x.Have
			}
			core := coreOf(t, s, p)
			replay := func() (Result, error) {
				came, err := RatesOf(load.drawn(1), s.Pace.Every, s.Length) // not those meant: a hundred more or less
				if err != nil {
					t.Fatal(err)
				}
				return RunFluid(came, s, core)
			}
			if exact {
				replay = func() (Result, error) { return Run(load.drawn(1), s, core) }
			}
			r, err := replay()
			if err != nil {
				t.Fatal(err)
			}
			return p.seen, r
		}
		got, fluid := run(false)
		want, exact := run(true)
		if d := fluid.Attainment.Both - exact.Attainment.Both; math.Abs(d) > 0.05 || !near(fluid.GPUHours, exact.GPUHours, 0.01*exact.GPUHours) {
			t.Errorf("%s: attainment %v and %v GPU-hours, exactly %v and %v", name, fluid.Attainment, fluid.GPUHours, exact.Attainment, exact.GPUHours)
		}
		for i, o := range got {
			e := want[i]
			if d := o.Waiting.Value - e.Waiting.Value; math.Abs(d) > 0.1*e.Waiting.Value+20 {
				t.Errorf("%s, interval %d: %v wait, exactly %v", name, i, o.Waiting.Value, e.Waiting.Value)
			}
			if d := o.TTFT.Mean.Value - e.TTFT.Mean.Value; math.Abs(d.Seconds()) > 0.1*e.TTFT.Mean.Value.Seconds()+6 {
				t.Errorf("%s, interval %d: TTFT %v, exactly %v", name, i, o.TTFT.Mean.Value, e.TTFT.Mean.Value)
			}
			for j, p := range o.Pools {
				q := e.Pools[j]
				if p.PoolState != q.PoolState {
					t.Errorf("%s, interval %d: %+v, exactly %+v", name, i, p.PoolState, q.PoolState)
				}
				if p.Running.Known != q.Running.Known || !near(p.Running.Value, q.Running.Value, 0.25*q.Running.Value+0.8) || !near(p.KVUsage.Value, q.KVUsage.Value, 0.25*q.KVUsage.Value+0.005) {
					t.Errorf("%s, interval %d: %s runs %v with a KV use of %v, exactly %v with %v", name, i, p.Role, p.Running.Value, p.KVUsage.Value, q.Running.Value, q.KVUsage.Value)
				}
			}
		}
	}
}

// Engines behind which a backlog waits are full: they run as many requests as they
// may, not those of a load that they just carry, and a rule that scales by that asks
// for as many more.
func TestFluidBacklogFillsEngines(t *testing.T) {
	bins := func(rates ...float64) Rates {
		r := Rates{Every: 5 * time.Minute, Sigma: 0.5}
		for _, x := range rates {
			r.Bins = append(r.Bins, RateBin{x, 1000, 200})
		}
		return r
	}
	for name, c := range map[string]struct {
		roles []planner.Role
		start planner.Replicas
	}{
		"aggregated":    {[]planner.Role{engine.RoleAggregated}, agg(3)},
		"disaggregated": {[]planner.Role{engine.RolePrefill, engine.RoleDecode}, planner.Replicas{Prefill: 5, Decode: 2}},
	} {
		s, _ := day(t, c.roles...)
		s.Start, s.Length = c.start, 20*time.Minute
		load := bins(5, 40, 40, 5)
		one, other := &spy{}, &spy{}
		mustRun(t, load.drawn(1), s, one)
		if _, err := RunFluid(load, s, coreOf(t, s, other)); err != nil {
			t.Fatal(err)
		}
		for i := 24; i < len(one.seen); i++ { // long after the load was too high
			got, want := other.seen[i].Pools, one.seen[i].Pools
			p, q := got[len(got)-1], want[len(want)-1]
			if !near(p.Running.Value, q.Running.Value, 0.1*q.Running.Value) || !near(p.KVUsage.Value, q.KVUsage.Value, 0.15*q.KVUsage.Value) {
				t.Errorf("%s, interval %d: %s runs %v with a KV use of %v, exactly %v with %v", name, i, p.Role, p.Running.Value, p.KVUsage.Value, q.Running.Value, q.KVUsage.Value)
			}
		}
		hpa := func() *planner.Core {
			var targets []policy.PoolTarget
			for _, role := range c.roles {
				targets = append(targets, policy.PoolTarget{Role: role, Metric: policy.MetricRunning, Value: 30})
			}
			p, err := policy.NewHPA(policy.HPAOptions{Targets: targets, Behavior: policy.DefaultBehavior()})
			if err != nil {
				t.Fatal(err)
			}
			return coreOf(t, s, p)
		}
		exact, err := Run(load.drawn(1), s, hpa())
		if err != nil {
			t.Fatal(err)
		}
		fluid, err := RunFluid(load, s, hpa())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: attainment %.3f, %.3f; GPU-hours %.2f, %.2f; %+v, %+v", name, exact.Attainment.Both, fluid.Attainment.Both, exact.GPUHours, fluid.GPUHours, exact.Pools, fluid.Pools)
		if !near(fluid.GPUHours, exact.GPUHours, 0.1*exact.GPUHours) || !near(fluid.Attainment.Both, exact.Attainment.Both, 0.04) {
			t.Errorf("%s: attainment %v, %v GPU-hours, exactly %v, %v", name, fluid.Attainment, fluid.GPUHours, exact.Attainment, exact.GPUHours)
		}
	}
}

// A request of the backlog that a drain does not reach is unfinished, and counted
// once.
func TestFluidUnfinished(t *testing.T) {
	s := aggregated(0)
	s.Drain = 0
	r, err := RunFluid(Rates{Every: s.Length, Bins: []RateBin{{5, 100, 10}}}, s, coreOf(t, s, &spy{}))
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests < 2700 || r.Unfinished+r.Finished != r.Requests || !near(float64(r.Unfinished), 3000, 200) || r.Attainment.Both != 0 {
		t.Errorf("%d of %d unfinished, %+v", r.Unfinished, r.Requests, r.Attainment)
	}
}

// A fleet that is simulated as a smaller one serves as it does itself.
func TestFluidOfALargeFleet(t *testing.T) {
	s := disaggregated(50, 100)
	s.Length, s.Scrape = 3*time.Minute, time.Second
	load := Rates{Every: s.Length, Bins: []RateBin{{380, 100, 10}}}
	one, other := &spy{}, &spy{}
	exact := mustRun(t, load.drawn(1), s, one)
	fluid, err := RunFluid(load, s, coreOf(t, s, other))
	if err != nil {
		t.Fatal(err)
	}
	if d := fluid.Attainment.Both - exact.Attainment.Both; math.Abs(d) > 0.02 {
		t.Errorf("attainment %+v, exactly %+v", fluid.Attainment, exact.Attainment)
	}
	for i, p := range other.seen[2].Pools {
		if q := one.seen[2].Pools[i]; math.Abs(p.Running.Value/q.Running.Value-1) > 0.1 || math.Abs(p.KVUsage.Value/q.KVUsage.Value-1) > 0.15 {
			t.Errorf("%s runs %v and uses %v of its KV, exactly %v and %v", p.Role, p.Running.Value, p.KVUsage.Value, q.Running.Value, q.KVUsage.Value)
		}
	}
}

// A replica that fails takes what it holds with it, another starts.
func TestFluidFailures(t *testing.T) {
	s := aggregated(10)
	s.Length, s.Lifetime = 2*time.Hour, 10*time.Minute
	r, err := RunFluid(Rates{Every: s.Length, Bins: []RateBin{{20, 100, 10}}}, s, coreOf(t, s, &spy{}))
	if err != nil {
		t.Fatal(err)
	}
	if n := float64(r.Failures); math.Abs(n-120) > 4*math.Sqrt(120) || r.Attainment.Both > 1-0.2*n/float64(r.Requests) || r.Attainment.Both < 0.98 || !near(r.GPUHours, 20, 1e-6) {
		t.Errorf("%v failures, attainment %+v, %v GPU-hours", n, r.Attainment, r.GPUHours)
	}
}

// The rates of drawn requests are those that they were drawn of.
func TestRatesOf(t *testing.T) {
	load := swing(10, 40, time.Hour, 2*time.Hour)
	got, err := RatesOf(load.drawn(1), load.Every, 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range got.Bins {
		want := load.Bins[i]
		n := want.Rate * load.Every.Seconds()
		// The mean of n lognormal lengths of sigma 0.5 is off by 0.53/√n.
		if math.Abs(b.Rate/want.Rate-1) > 4/math.Sqrt(n) || math.Abs(b.ISL/want.ISL-1) > 4*0.53/math.Sqrt(n) || math.Abs(b.OSL/want.OSL-1) > 4*0.53/math.Sqrt(n) {
			t.Errorf("bin %d: %+v, drawn of %+v", i, b, want)
		}
	}
	if len(got.Bins) != 24 || !near(got.Sigma, 0.5, 0.01) || got.Check() != nil {
		t.Errorf("%d bins, sigma %v", len(got.Bins), got.Sigma)
	}
	cut, err := RatesOf(slices.Values([]fleet.Request{{At: engine.Second, ISL: 8, OSL: 3}, {At: 61 * engine.Second, ISL: 4, OSL: 1}, {At: 90 * engine.Second}}), time.Minute, 90*time.Second)
	want := []RateBin{{1.0 / 60, 8, 3}, {1.0 / 30, 4, 1}}
	if err != nil || !reflect.DeepEqual(cut.Bins, want) || !near(cut.Sigma, math.Log(2)/2, 1e-12) {
		t.Errorf("%+v, %v: want %+v", cut, err, want)
	}
	if _, err := RatesOf(load.drawn(1), 0, time.Hour); err == nil {
		t.Error("bins of no length")
	}
}

func TestFluidNonsenseIsRefused(t *testing.T) {
	good := Rates{Every: time.Minute, Bins: []RateBin{{1, 100, 10}}}
	for want, change := range map[string]func(*Rates, *Scenario){
		"0 bins":                  func(r *Rates, _ *Scenario) { r.Bins = nil },
		"bins of 0s":              func(r *Rates, _ *Scenario) { r.Every = 0 },
		"sigma of 3":              func(r *Rates, _ *Scenario) { r.Sigma = 3 },
		"bin 1: -1 requests/s":    func(r *Rates, _ *Scenario) { r.Bins = []RateBin{{-1, 1, 1}} },
		"bin 1: 1 requests/s":     func(r *Rates, _ *Scenario) { r.Bins = []RateBin{{1, 0, 1}} },
		"whole looks between":     func(_ *Rates, s *Scenario) { s.Scrape = 7 * time.Second },
		"the length is":           func(_ *Rates, s *Scenario) { s.Length = 0 },
		"the planner is for pool": func(_ *Rates, s *Scenario) { s.Deployment.Pools[0].Min = 1 },
	} {
		load, s := good, aggregated(1)
		core := coreOf(t, s, &spy{})
		s.Deployment.Pools = slices.Clone(s.Deployment.Pools)
		change(&load, &s)
		if _, err := RunFluid(load, s, core); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
}
