package sweep

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// Upstream's lists: step 0 at small tops, division by zero at granularity 1.
func TestDefectInFlightListStepsByZero(t *testing.T) {
	check := func(top, g int, want ...int) {
		t.Helper()
		if got := spaced(top, g); !slices.Equal(got, want) {
			t.Errorf("spaced(%d, %d) = %v, want %v", top, g, got, want)
		}
	}
	check(1200, 6, 1, 240, 480, 720, 960, 1200) // upstream's own test
	check(3, 6, 1, 2, 3)
	check(1, 6, 1)
	check(0, 6)
	check(64, 1, 64)
	check(64, 2, 1, 64)
}

// Upstream's top of the list overshot the KV capacity about DP-fold (its pull request
// 10125): with replicas counts go by rounds of one request on each, and no replica
// gets more than it alone holds.
func TestDefectReplicasOvershootTheirKV_Dynamo10125(t *testing.T) {
	dep := engine.Config{Parallelism: engine.Parallelism{DP: 8, EP: 8}}
	check := func(f profile.EngineFacts, c engine.Config, limit, granularity int, want ...int) {
		t.Helper()
		r := Options{MaxInFlight: limit}.rounds(f, c, 90, 10)
		if got := r.counts(spaced(r.top, granularity)); !slices.Equal(got, want) {
			t.Errorf("%d KV tokens, limit %d: %v, want %v", f.KVTokens, limit, got, want)
		}
	}
	check(profile.EngineFacts{KVTokens: 2399}, dep, 0, 6, 8, 16)             // 23 requests by the sum, 2 on each replica
	check(profile.EngineFacts{KVTokens: 799}, dep, 0, 6)                     // seven, by the sum
	check(profile.EngineFacts{KVTokens: 8 * 1000}, dep, 0, 4, 8, 32, 56, 80) // dp + int(i·step)·dp
	check(profile.EngineFacts{KVTokens: 8 * 1000, MaxNumSeqs: 16}, dep, 0, 4, 8, 16)
	check(profile.EngineFacts{KVTokens: 8 * 1000}, dep, 30, 4, 8, 16, 24) // a limit is of the engine
	check(profile.EngineFacts{KVTokens: 8 * 1000}, dep, 3, 4, 1, 2, 3)    // and may be less than a round
	check(profile.EngineFacts{KVTokens: 8 * 1000}, engine.Config{}, 3, 4, 1, 2, 3)
	enginetest.Check(t, func(t *rapid.T) {
		f := profile.EngineFacts{KVTokens: rapid.IntRange(0, 5000).Draw(t, "KV"), BlockSize: rapid.IntRange(0, 64).Draw(t, "block"), MaxNumSeqs: rapid.IntRange(0, 64).Draw(t, "sequences")}
		c := engine.Config{Parallelism: engine.Parallelism{DP: rapid.IntRange(1, 9).Draw(t, "DP")}}
		if c.Parallelism.DP == 1 {
			limit := rapid.IntRange(0, 40).Draw(t, "limit")
			if r := (Options{MaxInFlight: limit}).rounds(f, c, 90, 10); r.top != f.MaxInFlight(90, 10, limit) || r.each != 1 {
				t.Fatalf("%+v: %+v", f, r)
			}
			return
		}
		r := Options{}.rounds(f, c, 90, 10)
		if most := f.KVTokens / c.Parallelism.DP / 100; r.top > most || f.BlockSize <= 1 && f.MaxNumSeqs == 0 && r.top != most {
			t.Fatalf("%+v, DP %d: %d on each, %d fit", f, c.Parallelism.DP, r.top, most)
		}
	})
}

// However ITL rises, the search ends within its budget at a count that holds
// and whose successor (within the tolerance) does not.
func TestAscentAgainstExhaustive(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		top := rapid.IntRange(1, 400).Draw(t, "top")
		a := rapid.Float64Range(1, 20).Draw(t, "a")
		slope := rapid.Float64Range(0.001, 1).Draw(t, "slope")
		bend := rapid.Float64Range(0.7, 1.6).Draw(t, "bend")
		limit := rapid.Float64Range(1, 40).Draw(t, "limit")
		start := rapid.IntRange(0, 2*top).Draw(t, "start")
		itl := func(n int) time.Duration {
			return time.Duration((a + slope*math.Pow(float64(n), bend)) * float64(ms))
		}
		sla := profile.SLA{ITL: time.Duration(limit * float64(ms)), Stat: profile.Mean}
		best, count := 0, 0
		err := ascend(top, start, sla, func(n int) (profile.Point, error) {
			count++
			if n < 1 || n > top {
				t.Fatalf("asked for %d of %d", n, top)
			}
			p := profile.Point{Phase: profile.Decode, Requests: n, ITL: profile.Distribution{Mean: itl(n)}}
			if p.Meets(sla) {
				best = max(best, n)
			}
			return p, nil
		})
		if err != nil || count > probes+8 {
			t.Fatalf("err %v after %d probes", err, count)
		}
		exact := 0
		for n := 1; n <= top && itl(n) <= sla.ITL; n++ {
			exact = n
		}
		if slack := max(1, exact/20); exact-best > slack {
			t.Fatalf("found %d, exhaustive %d of %d after %d probes", best, exact, top, count)
		}
	})
}

// A count that says nothing bounds the search, whatever its figures would be.
func TestAscentBelowWhatSaysNothing(t *testing.T) {
	for from := 2; from < 60; from++ {
		sla := profile.SLA{ITL: 20 * ms, Stat: profile.Mean}
		best := 0
		err := ascend(100, 0, sla, func(n int) (profile.Point, error) {
			p := profile.Point{Phase: profile.Decode, Requests: n, ITL: profile.Distribution{Mean: 5*ms + time.Duration(n)*100*time.Microsecond}}
			if n >= from {
				p.Invalid, p.ITL.Mean = "the client was the bottleneck", 10*time.Second
			} else {
				best = max(best, n)
			}
			return p, nil
		})
		if err != nil || best != from-1 && best < from*95/100 {
			t.Errorf("%v: %d in flight hold, and %d were found", err, from-1, best)
		}
	}
}

// Steps of few in flight may hang together so long that they are too few for a percentile
// over requests; where all do, the mean bounds the search.
func TestAscentAboveTooFewSteps(t *testing.T) {
	const hold = 70
	sla := profile.SLA{ITL: 20 * ms, Stat: profile.P90}
	for _, few := range []int{30, 1000} {
		best, most := 0, 0
		err := ascend(200, 0, sla, func(n int) (profile.Point, error) {
			d := profile.Distribution{N: 40 * n, Mean: 13*ms + time.Duration(n)*100*time.Microsecond, Neff: 40}
			if d.P90 = d.Mean; n < few {
				d.Neff = 10
			}
			p := profile.Point{Phase: profile.Decode, OSL: 100, Requests: n, InFlight: float64(n), ITL: d, TPOT: d}
			p.TPOT.N = n
			if most = max(most, n); p.Meets(sla) {
				best = max(best, n)
			}
			return p, nil
		})
		if few < hold && (err != nil || best > hold || best < hold*95/100) {
			t.Errorf("%v: %d in flight hold, and %d were found", err, hold, best)
		}
		if most >= 2*hold {
			t.Errorf("%d in flight were tried where %d hold", most, hold)
		}
	}
}
