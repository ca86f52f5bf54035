package policy

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// The numbers of upstream's own tests (tests/planner/unit, test_replica_calculation,
// which never ran their bodies): interval 60 s, ISL 3000, OSL 150, tokens/s/GPU of
// prefill and decode, GPUs of an engine, least, budget.
func TestUpstreamReplicaCalculation(t *testing.T) {
	for _, c := range []struct {
		name               string
		requests           float64
		prefill, decode    float64
		gpusP, gpusD       int
		least, budget      int
		correctP, correctD float64
		want               planner.Replicas
	}{
		// 10·3000/60 = 500 of 40000, 10·150/60 = 25 of 10000.
		{"a few requests", 10, 40000, 10000, 1, 1, 1, 10, 1, 1, planner.Replicas{Prefill: 1, Decode: 1}},
		// 25000 of 40000, 1250 of 1000.
		{"many requests", 500, 40000, 1000, 1, 1, 1, 10, 1, 1, planner.Replicas{Prefill: 1, Decode: 2}},
		{"budget of 3", 50, 40000, 10000, 1, 1, 1, 3, 1, 1, planner.Replicas{Prefill: 1, Decode: 1}},
		{"least of 2", 10, 40000, 10000, 1, 1, 2, 10, 1, 1, planner.Replicas{Prefill: 2, Decode: 2}},
		// 2000·3000/60 = 100000 of 40000 are 2.5 engines; 2.5 times slower adds none.
		{"a prefill correction above 1 is 1", 2000, 40000, 10000, 1, 1, 1, 10, 2.5, 1, planner.Replicas{Prefill: 3, Decode: 1}},
		{"below 1 it takes away", 2000, 40000, 10000, 1, 1, 1, 10, 0.5, 1, planner.Replicas{Prefill: 2, Decode: 1}},
		{"a decode correction of 0 says nothing", 500, 40000, 1000, 1, 1, 1, 10, 1, 0, planner.Replicas{Prefill: 1, Decode: 2}},
		// 1000 of 40000·2, 50 of 5000·4.
		{"engines of several GPUs", 20, 40000, 5000, 2, 4, 1, 10, 1, 1, planner.Replicas{Prefill: 1, Decode: 1}},
		// 5000/10000/2 and 250/1000/2: one each, 4 of 5 GPUs.
		{"several GPUs and a budget", 100, 10000, 1000, 2, 2, 1, 5, 1, 1, planner.Replicas{Prefill: 1, Decode: 1}},
		// 800·3000/60 is 40000 to the last bit: one engine, not two.
		{"a whole engine's work", 800, 40000, 2000, 1, 1, 1, 10, 1, 1, planner.Replicas{Prefill: 1, Decode: 1}},
	} {
		p, d := flat(t, 3000, 150, c.prefill, c.decode, c.gpusD)
		u := upstreamOf(t, p, d, time.Minute)
		dep := split(c.gpusP, c.gpusD, c.budget)
		dep.Pools[0].Min, dep.Pools[1].Min = c.least, c.least
		s := busy(at(dep, planner.Replicas{Prefill: 1, Decode: 1}, time.Minute), c.requests, 3000, 150)
		s.TTFT.Mean = planner.Known(time.Duration(c.correctP * float64(100*time.Millisecond)))
		s.ITL.Mean = planner.Known(time.Duration(c.correctD * float64(10*time.Millisecond)))
		got := u.Propose(s)
		chained(t, s, got)
		if got.Want != c.want {
			t.Errorf("%s: %s, want %s: %+v", c.name, got.Want, c.want, got.Steps)
		}
		if dep.GPUs(got.Want) > c.budget {
			t.Errorf("%s: %d GPUs of %d", c.name, dep.GPUs(got.Want), c.budget)
		}
	}
}

// Upstream's numbers for its budget rules (test_budget); (0,0) is not ok here.
func TestUpstreamBudget(t *testing.T) {
	pair := func(p, d, gp, gd, budget, leastP, leastD int) (planner.Replicas, bool) {
		dep := split(gp, gd, budget)
		dep.Pools[0].Min, dep.Pools[1].Min = leastP, leastD
		return upstreamBudget(dep, planner.Replicas{Prefill: p, Decode: d})
	}
	one := func(n, gpus, budget, least int) (planner.Replicas, bool) {
		dep := single(gpus, budget)
		dep.Pools[0].Min = least
		return upstreamBudget(dep, planner.Replicas{Aggregated: n})
	}
	check := func(what string, got planner.Replicas, ok bool, want planner.Replicas, wantOK bool) {
		t.Helper()
		if got != want || ok != wantOK {
			t.Errorf("%s: %s, ok %v; want %s, %v", what, got, ok, want, wantOK)
		}
	}
	got, ok := pair(10, 10, 1, 1, 5, 2, 1)
	check("(10,10) of 5, least 2 and 1", got, ok, planner.Replicas{Prefill: 2, Decode: 3}, true)
	got, ok = pair(3, 1, 1, 1, 4, 1, 1)
	check("(3,1) of 4", got, ok, planner.Replicas{Prefill: 3, Decode: 1}, true)
	got, ok = pair(5, 5, 1, 1, 1, 1, 1)
	check("(5,5) of 1", got, ok, planner.Replicas{}, false)
	got, ok = pair(1, 2, 2, 2, 3, 1, 1)
	check("(1,2) of 3 in engines of 2", got, ok, planner.Replicas{}, false)
	got, ok = pair(2, 2, 1, 1, 4, 1, 1)
	check("(2,2) of 4", got, ok, planner.Replicas{Prefill: 2, Decode: 2}, true)
	got, ok = pair(40, 60, 8, 8, -1, 1, 1)
	check("no bound", got, ok, planner.Replicas{Prefill: 40, Decode: 60}, true)
	got, ok = one(10, 1, 4, 1)
	check("10 of 4", got, ok, planner.Replicas{Aggregated: 4}, true)
	got, ok = one(5, 1, 2, 3)
	check("5 of 2, least 3", got, ok, planner.Replicas{}, false)
	got, ok = one(100, 1, 29, 1)
	check("100 of 29: Python's floor(100·(29/100))", got, ok, planner.Replicas{Aggregated: 28}, true)
	got, ok = one(100, 1, 29, 29)
	check("and not below the least", got, ok, planner.Replicas{Aggregated: 29}, true)
}

func h200(t testing.TB) (interpolation.Prefill, interpolation.Decode) {
	t.Helper()
	const dir = "../../testdata/npz/h200-8b-fp8-tp1-"
	ps, err := store.ReadPrefill(dir+"prefill.npz", store.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ds, err := store.ReadDecode(dir+"decode.npz", store.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := interpolation.FitPrefill(ps)
	if err != nil {
		t.Fatal(err)
	}
	d, err := interpolation.FitDecode(ds, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p, d
}

// Upstream's end-to-end scenario (test_sla_planner_scaling): from 8 to 18
// requests/s of ISL 4000, OSL 150 on the H200 profile, 1P1D becomes 2P1D.
func TestUpstreamScalesFrom8To18(t *testing.T) {
	p, d := h200(t)
	u := upstreamOf(t, p, d, time.Minute, func(o *UpstreamOptions) { o.NoCorrection = true })
	dep := split(1, 1, 8)
	have := planner.Replicas{Prefill: 1, Decode: 1}
	for _, c := range []struct {
		rate float64
		want planner.Replicas
	}{{8, planner.Replicas{Prefill: 1, Decode: 1}}, {18, planner.Replicas{Prefill: 2, Decode: 1}}, {8, planner.Replicas{Prefill: 1, Decode: 1}}} {
		s := busy(at(dep, have, time.Minute), c.rate*60, 4000, 150)
		got := u.Propose(s)
		chained(t, s, got)
		if got.Want != c.want || len(got.Warnings) > 0 {
			t.Errorf("%v requests/s: %s, want %s: %+v %v", c.rate, got.Want, c.want, got.Steps, got.Warnings)
		}
		if f := got.Forecast; f.Rate.Value != c.rate || f.High != f.Rate || f.ISL.Value != 4000 || f.OSL.Value != 150 {
			t.Errorf("forecast %+v", f)
		}
		have = got.Want
	}
}

// One replica's capacity is what more than it asks for two of.
func TestUpstreamCapacity(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 2)
	for _, dep := range []planner.Deployment{split(2, 2, -1), single(2, -1)} {
		u := upstreamOf(t, p, d, time.Minute)
		got := u.Propose(busy(at(dep, planner.Replicas{Prefill: 1, Decode: 1, Aggregated: 1}, time.Minute), 10, 3000, 150))
		for _, c := range got.Capacity {
			for _, x := range []struct {
				share float64
				want  int
			}{{0.999, 1}, {1.001, 2}} {
				s := busy(at(dep, planner.Replicas{Prefill: 1, Decode: 1, Aggregated: 1}, time.Minute), c.Rate.Value*60*x.share, 3000, 150)
				if n := u.Propose(s).Want.Of(c.Role); n != x.want {
					t.Errorf("%s at %v of a replica's %v requests/s: %d, want %d", c.Role, x.share, c.Rate.Value, n, x.want)
				}
			}
			if want := map[engine.Role]float64{engine.RolePrefill: 100, engine.RoleDecode: 10, engine.RoleAggregated: 10}[c.Role]; math.Abs(c.Latency.Value-want) > 1e-9 {
				t.Errorf("%s latency %v ms, want %v", c.Role, c.Latency, want)
			}
		}
		if len(got.Capacity) != len(dep.Pools) {
			t.Errorf("capacities %+v", got.Capacity)
		}
	}
}

// An interval that was longer or shorter is counted for the adjustment interval.
func TestUpstreamOtherLengths(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	u := upstreamOf(t, p, d, time.Minute)
	for _, length := range []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute} {
		got := u.Propose(busy(at(split(1, 1, -1), planner.Replicas{Prefill: 1, Decode: 1}, length), 20*length.Seconds(), 3000, 150))
		if got.Forecast.Rate.Value != 20 || got.Want != (planner.Replicas{Prefill: 2, Decode: 3}) {
			t.Errorf("%v: %s at %v requests/s", length, got.Want, got.Forecast.Rate)
		}
	}
	if got := u.Propose(busy(at(split(1, 1, -1), planner.Replicas{Prefill: 1, Decode: 1}, 0), 20, 3000, 150)); !slices.Contains(got.Missing, "the length of the interval") {
		t.Errorf("no length: %+v", got)
	}
}

// A trace warms the forecasters and changes nothing.
func TestUpstreamWarmup(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	u := upstreamOf(t, p, d, time.Minute)
	s := at(split(1, 1, -1), planner.Replicas{Prefill: 1, Decode: 1}, time.Minute)
	s.Warmup, s.Arrivals, s.ISL.Mean, s.OSL.Mean = true, planner.Known(1200.0), planner.Known(3000.0), planner.Known(150.0)
	if got := u.Propose(s); got.Want != s.Have || got.Missing != nil || ruledBy(got, engine.RolePrefill)[0] != "warm-up" {
		t.Errorf("%+v", got)
	}
	if next := u.o.Requests.Forecast(1); next != 1200 {
		t.Errorf("the forecaster saw %v", next)
	}
}

func TestUpstreamProfileThatSaysNothing(t *testing.T) {
	p, d := flat(t, 3000, 150, 0, 1000, 1)
	s := busy(at(split(1, 1, -1), planner.Replicas{Prefill: 2, Decode: 2}, time.Minute), 100, 3000, 150)
	if got := upstreamOf(t, p, d, time.Minute).Propose(s); got.Want != s.Have || !strings.Contains(strings.Join(got.Missing, " "), "prefill throughput") {
		t.Errorf("%+v", got)
	}
	p, d = flat(t, 3000, 150, 1000, 1000, 1)
	s = busy(at(split(1, 1, -1), planner.Replicas{Prefill: 2, Decode: 2}, time.Minute), 100, 50000, 150)
	got := upstreamOf(t, p, d, time.Minute).Propose(s)
	if !warned(got, "isl_out_of_range") || !warned(got, "context_out_of_range") {
		t.Errorf("outside of the profile: %v", got.Warnings)
	}
	if got.Provenance != profile.Measured {
		t.Errorf("provenance %v", got.Provenance)
	}
}

func TestUpstreamCheck(t *testing.T) {
	if _, err := NewUpstream(UpstreamOptions{Interval: time.Minute, Requests: &last{}, ISL: &last{}}); err == nil || !strings.Contains(err.Error(), "a forecaster is missing") {
		t.Error(err)
	}
	for _, interval := range []time.Duration{0, 999 * time.Millisecond, 25 * time.Hour} {
		if err := (UpstreamOptions{Requests: &last{}, ISL: &last{}, OSL: &last{}, Interval: interval}).Check(); err == nil || !strings.Contains(err.Error(), "want 1s to 24h") {
			t.Errorf("%v: %v", interval, err)
		}
	}
	if err := (UpstreamOptions{Requests: &last{}, ISL: &last{}, OSL: &last{}, Interval: 180 * time.Second}).Check(); err != nil {
		t.Error(err)
	}
}
