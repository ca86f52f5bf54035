package policy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/planner"
	"plimsoll/profile"
)

// exponential is what a source says of latencies that are a base and a wait, which is
// exponential.
func exponential(base, wait time.Duration, count float64) planner.Spread[time.Duration] {
	at := func(above float64) planner.Percentile[time.Duration] {
		return planner.Exactly(base + time.Duration(-math.Log(above)*float64(wait)))
	}
	return planner.Spread[time.Duration]{Count: count, Mean: planner.Known(base + wait), P50: at(0.5), P90: at(0.1), P95: at(0.05), P99: at(0.01)}
}

// The share above a limit is exact of exponential waits, also below 1 %, where a
// percentile says only whether it is kept.
func TestShareOfExponentialWaits(t *testing.T) {
	enginetest.Check(t, func(r *rapid.T) {
		base := time.Duration(rapid.IntRange(1, 1000).Draw(r, "base")) * ms
		wait := time.Duration(rapid.IntRange(10, 1000).Draw(r, "wait")) * ms
		want := math.Exp(-rapid.Float64Range(0.7, 9).Draw(r, "waits"))
		limit := base + time.Duration(-math.Log(want)*float64(wait))
		if got := share(exponential(base, wait, 1000), limit).least; math.Abs(got/want-1) > 1e-3 {
			r.Fatalf("%v above %v, want %v", got, limit, want)
		}
		if higher := share(exponential(base, wait, 1000), limit+ms).least; higher > want*(1+1e-3) {
			r.Fatalf("%v above a higher limit", higher)
		}
	})
	if got := share(planner.Spread[time.Duration]{Mean: planner.Known(time.Second)}, ms); got.known() {
		t.Errorf("of a mean: %v", got)
	}
	same := planner.Exactly(100 * ms)
	if got := share(planner.Spread[time.Duration]{P50: same, P90: same, P95: same, P99: same}, 100*ms).least; got != 0 {
		t.Errorf("of latencies that are all the same: %v", got)
	}
}

// What more replicas can mend goes from all of the misses to none without a jump as
// prompts get longer, and so does what is promised of it: a p99 prompt that is nearly
// too long switches nothing off.
func TestMendableHasNoCliff(t *testing.T) {
	e := standard(t, off).engines(profile.SLA{TTFT: 500 * ms, ITL: 20 * ms, Stat: profile.P99})
	left := func(isl float64) float64 {
		missed, may := e.mendable(demand{isl: isl, osl: 100, spread2: 0.5, varies: true}, 0.03, 0.01)
		return missed / may
	}
	was, all, none := left(100), false, false
	for isl := 101.0; isl < 6000; isl++ {
		now := left(isl)
		if math.Abs(now-was) > 0.2 {
			t.Fatalf("at %v tokens %v times what may be missed is to be mended, at one fewer %v", isl, now, was)
		}
		all, none, was = all || math.Abs(now-3) < 0.01, none || now == 0, now
	}
	if !all || !none {
		t.Errorf("short prompts: all to be mended %v; long ones: nothing %v", all, none)
	}
	if missed, may := e.mendable(demand{isl: 100, osl: 100}, 0.03, 0.01); missed != 0.03 || may != 0.01 {
		t.Errorf("of equal prompts %v, %v", missed, may)
	}
	if missed, _ := e.mendable(demand{isl: 6000, osl: 100}, 0.5, 0.01); missed != 0 {
		t.Errorf("of equal prompts that are too long %v", missed)
	}
}

// The fleet asked for does not explode where the longest prompts that count take nearly
// all of TTFT: 1012 aggregated engines were asked for where 6 did before and after.
func TestSizeHasNoCliff(t *testing.T) {
	e := standard(t, off).engines(profile.SLA{TTFT: 500 * ms, ITL: 20 * ms, Stat: profile.P99})
	for _, role := range []planner.Role{engine.RolePrefill, engine.RoleDecode, engine.RoleAggregated} {
		was := 0
		for isl := 200.0; isl < 3500; isl += 5 {
			n, why, _ := e.least(role, demand{rate: 20, isl: isl, osl: 100, spread2: 0.5, varies: true})
			if was > 0 && (n > was+2 || n < was-2) {
				t.Fatalf("%s at %v tokens: %d, %d before: %s", role, isl, n, was, why)
			}
			was = n
		}
	}
}

// A percentile at its limit is above it in every other interval.
func TestBreachIsNotByChance(t *testing.T) {
	at := func(p99 time.Duration, count float64) planner.Spread[time.Duration] {
		return planner.Spread[time.Duration]{Count: count, P50: planner.Exactly(100 * ms), P90: planner.Exactly(200 * ms), P95: planner.Exactly(300 * ms), P99: planner.Exactly(p99)}
	}
	p := standard(t, off)
	for _, c := range []struct {
		p99   time.Duration
		count float64
		want  bool
	}{{490 * ms, 1e6, false}, {520 * ms, 1e6, false}, {time.Second, 100, false}, {time.Second, 10_000, true}} {
		s := minute(10, pd(2, 2), func(s *planner.Situation) {
			s.Deployment.SLA.TTFT, s.Deployment.SLA.Stat, s.TTFT = 500*ms, profile.P99, at(c.p99, c.count)
		})
		if got := p.breaksTTFT(s, p.demand(10)); got != c.want {
			t.Errorf("p99 %v of %v requests: %v", c.p99, c.count, got)
		}
	}
}
