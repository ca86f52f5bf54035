package planner

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// needing is a load whose forecast takes so much of each pool, and with its reserve so
// many times that, as a policy says it.
type needing struct {
	Prefill, Decode float64
	Reserve         [2]float64 // of prefill and decode, 1 or more
}

func (n needing) sized(load, part float64) Replicas {
	of := func(need, reserve float64) int {
		return max(1, int(math.Ceil(need*(load+part*(reserve-1))-1e-9)))
	}
	return Replicas{Prefill: of(n.Prefill, n.Reserve[0]), Decode: of(n.Decode, n.Reserve[1])}
}

// carries is the part of the forecast load that replicas carry.
func (n needing) carries(r Replicas) float64 {
	return min(1, float64(r.Prefill)/n.Prefill, float64(r.Decode)/n.Decode)
}

func (n needing) Propose(Situation) Decision {
	return Decision{Want: n.sized(1, 1), Sized: n.sized}
}

func pools(prefill, decode, budget int) Deployment {
	return Deployment{
		Pools:  []Pool{{Role: engine.RolePrefill, GPUs: prefill, Min: 1}, {Role: engine.RoleDecode, GPUs: decode, Min: 1}},
		Budget: Budget{Max: budget, Min: -1}, SLA: profile.SLA{TTFT: 1, ITL: 1},
	}
}

func least(d Deployment, prefill, decode int) Deployment {
	d.Pools[0].Min, d.Pools[1].Min = prefill, decode
	return d
}

func TestSplit(t *testing.T) {
	pd := func(p, d int) Replicas { return Replicas{Prefill: p, Decode: d} }
	for _, c := range []struct {
		name       string
		dep        Deployment
		ratio      Ratio
		load       needing
		have, want Replicas
		starts     bool
	}{
		{name: "what just fits stays", dep: pools(1, 1, 3), load: needing{1.9, 0.6, [2]float64{1.5, 2}}, have: pd(2, 1), want: pd(2, 1)},
		{name: "from the wrong split it moves", dep: pools(1, 1, 3), load: needing{1.9, 0.6, [2]float64{1.5, 2}}, have: pd(1, 2), want: pd(1, 1)}, // and grows once that has stopped
		{name: "not while one starts", dep: pools(1, 1, 3), load: needing{1.9, 0.6, [2]float64{1.5, 2}}, have: pd(1, 2), want: pd(1, 2), starts: true},
		{name: "not for less than a tenth", dep: pools(1, 1, 40), load: needing{21, 21, [2]float64{1, 1}}, have: pd(19, 21), want: pd(19, 21)},
		{name: "growth goes to what is short", dep: pools(2, 2, 8), load: needing{2.8, 0.9, [2]float64{1.2, 1.2}}, have: pd(1, 1), want: pd(3, 1)},
		{name: "then to the reserve that comes first", dep: pools(2, 2, 8), load: needing{1.7, 0.9, [2]float64{1.5, 1.6}}, have: pd(2, 1), want: pd(2, 2)},
		{name: "a ratio holds", dep: pools(2, 2, 8), ratio: Ratio{Least: 2}, load: needing{1.9, 1.8, [2]float64{1.5, 1}}, have: pd(2, 2), want: pd(2, 1)}, // and 3, 1 then
		{name: "a ratio that cannot", dep: pools(2, 2, 4), ratio: Ratio{Least: 2}, load: needing{1.9, 1.8, [2]float64{1.5, 1}}, have: pd(1, 1), want: pd(1, 1)},
		{name: "no GPU is left over", dep: pools(4, 1, 9), load: needing{2.5, 3, [2]float64{1, 2}}, have: pd(1, 1), want: pd(1, 5)},
		{name: "the budget was cut", dep: pools(1, 1, 4), load: needing{4, 1.2, [2]float64{1, 1}}, have: pd(4, 4), want: pd(3, 1)},
		{name: "no room for both where one may be none", dep: least(pools(1, 1, 1), 0, 1), load: needing{2, 2, [2]float64{1, 1}}, have: pd(3, 3), want: pd(0, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.dep.Ratio = c.ratio
			o := seen(c.have)
			if c.starts {
				o.Pools[0].Starting = 1
			}
			d := core(t, c.dep, c.load).Step(o)
			if d.Want != c.want {
				t.Errorf("%s becomes %s, want %s: %+v", c.have, d.Want, c.want, d.Steps)
			}
			if unmet := len(d.Warnings) > 0 && d.Warnings[0].Code == "ratio_unmet"; unmet != (c.name == "a ratio that cannot") {
				t.Errorf("%v", d.Warnings)
			}
		})
	}
}

// The reason names what the split carries, and what the one that it replaces did.
func TestSplitSaysWhatItCarries(t *testing.T) {
	d := core(t, pools(1, 1, 3), needing{2, 0.6, [2]float64{1.5, 2}}).Step(seen(Replicas{Prefill: 1, Decode: 2}))
	const want = "5 GPUs exceed the budget of 3; prefill=2, decode=1 carries 100 % of the forecast load; prefill=1, decode=2 carries 50 % of the forecast load"
	if got := d.Steps[0].Why; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a ratio adds is once and for all, also where no whole numbers keep it.
func TestRatioGrowsOnce(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		r := Ratio{Least: rapid.Float64Range(0.01, 5).Draw(t, "least")}
		r.Most = r.Least * rapid.Float64Range(1, 2).Draw(t, "times")
		from := Replicas{Prefill: rapid.IntRange(1, 50).Draw(t, "prefill"), Decode: rapid.IntRange(1, 50).Draw(t, "decode")}
		to := r.Grow(from)
		if !r.holds(to) || to.Prefill < from.Prefill || to.Decode < from.Decode {
			t.Fatalf("%s: %s becomes %s, then %s", r, from, to, r.Grow(to))
		}
		p, d := float64(to.Prefill), float64(to.Decode)
		if p < r.Least*d-1e-6 || p > math.Ceil(r.Least*d-1e-9) && r.Most > 0 && p > r.Most*d+1e-6 {
			t.Fatalf("%s: %s becomes %s", r, from, to)
		}
	})
}

// Whatever a load takes, and whatever there is: in the end the budget carries as much of
// the forecast as its best split, but for what a move has to be worth, and from then on
// nothing moves. Of a budget that others share it is the same.
func TestSplitIsTheBestAndStays(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		dep := pools(rapid.IntRange(1, 4).Draw(t, "prefill GPUs"), rapid.IntRange(1, 4).Draw(t, "decode GPUs"), 0)
		budget := dep.GPUs(dep.Least()) + rapid.IntRange(0, 60).Draw(t, "room")
		need := func(name string) float64 { return rapid.Float64Range(0.1, 25).Draw(t, name) }
		reserve := func() float64 { return rapid.Float64Range(1, 2).Draw(t, "reserve") }
		load := needing{need("prefill"), need("decode"), [2]float64{reserve(), reserve()}}
		want, best := load.sized(1, 1), 0.0
		for p := 1; p <= want.Prefill; p++ {
			for d := 1; d <= want.Decode; d++ {
				if r := (Replicas{Prefill: p, Decode: d}); dep.GPUs(r) <= budget {
					best = max(best, load.carries(r))
				}
			}
		}
		share := Unshared()
		if dep.Budget.Max = budget; rapid.Bool().Draw(t, "shared") {
			dep.Budget.Max, share = -1, Share{Max: budget, Free: budget}
		}
		c, err := New(Options{Deployment: dep, Policy: load, OnLoss: Hold})
		if err != nil {
			t.Fatal(err)
		}
		now := dep.Least()
		if rapid.Bool().Draw(t, "runs") {
			now = split{Deployment: share.of(dep)}.within(Replicas{Prefill: rapid.IntRange(1, 30).Draw(t, "has prefill"), Decode: rapid.IntRange(1, 30).Draw(t, "has decode")}).Want
		}
		was, moves := now, 0
		for range 6 {
			s := share
			s.Free -= dep.GPUs(now)
			d := c.StepWithin(seen(now), s)
			if d.Want != now {
				moves++
			}
			now = d.Want
		}
		if dep.GPUs(now) > budget || load.carries(now) < best/(1+moveFor)-1e-3 {
			t.Fatalf("%s of %d GPUs carries %.3f, the best split %.3f", now, budget, load.carries(now), best)
		}
		if moves > 2 { // it stops some, then starts others
			t.Fatalf("%s becomes %s in %d moves", was, now, moves)
		}
	})
}
