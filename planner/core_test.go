package planner

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// scripted proposes what it is told to.
type scripted struct {
	want    Replicas
	missing []string
	right   Correction
	seen    int
}

func (s *scripted) Propose(Situation) Decision {
	s.seen++
	return Decision{Want: s.want, Missing: s.missing, Correction: s.right}
}
func (s *scripted) Save() (json.RawMessage, error) { return json.Marshal(s.seen) }
func (s *scripted) Restore(b json.RawMessage) error {
	if string(b) == `"other"` {
		return errors.New("saved by another policy")
	}
	return json.Unmarshal(b, &s.seen)
}

func deployment(budget int) Deployment {
	return Deployment{
		Pools:  []Pool{{Role: engine.RolePrefill, GPUs: 2, Min: 1}, {Role: engine.RoleDecode, GPUs: 4, Min: 1}},
		Budget: Budget{Max: budget, Min: -1},
		SLA:    profile.SLA{TTFT: time.Second, ITL: 50 * time.Millisecond},
	}
}

// seen is an observation of a deployment that runs what was asked for.
func seen(r Replicas) Observation {
	var o Observation
	for _, role := range []Role{engine.RolePrefill, engine.RoleDecode} {
		o.Pools = append(o.Pools, PoolObservation{PoolState: PoolState{Role: role, Want: r.Of(role), Ready: r.Of(role)}})
	}
	o.Start, o.Length = time.Unix(1000, 0), time.Minute
	return o
}

func core(t testing.TB, dep Deployment, p Policy, change ...func(*Options)) *Core {
	t.Helper()
	o := Options{Deployment: dep, Policy: p, OnLoss: Hold}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func rules(d Decision) []string {
	var out []string
	for _, s := range d.Steps {
		out = append(out, s.Rule)
	}
	return out
}

func TestStep(t *testing.T) {
	p := &scripted{want: Replicas{Prefill: 2, Decode: 3}}
	d := core(t, deployment(100), p).Step(seen(Replicas{Prefill: 1, Decode: 3}))
	if !d.Act || d.Want != p.want || d.From != (Replicas{Prefill: 1, Decode: 3}) || d.GPUs != 16 || !d.At.Equal(time.Unix(1060, 0)) {
		t.Errorf("%+v", d)
	}
	if again := core(t, deployment(100), p).Step(seen(p.want)); again.Act {
		t.Errorf("what is there is asked for again: %+v", again)
	}
}

// dynamo#14765 and planning's "a missing inventory is not zero".
func TestMissingMetricsAreNotZeroDemand(t *testing.T) {
	have := Replicas{Prefill: 3, Decode: 3}
	p := &scripted{missing: []string{"arrivals"}}
	for _, c := range []struct {
		loss OnLoss
		want Replicas
	}{
		{Hold, have},
		{HoldIfHigher, Replicas{Prefill: 3, Decode: 4}},
	} {
		d := core(t, deployment(40), p, func(o *Options) { o.OnLoss, o.Static = c.loss, Replicas{Prefill: 2, Decode: 4} }).Step(seen(have))
		if d.Want != c.want || !slices.Contains(rules(d), "metrics-loss") {
			t.Errorf("%s: %+v", c.loss, d)
		}
	}
}

func TestPoolThatNobodySeesIsLeftAlone(t *testing.T) {
	o := seen(Replicas{Prefill: 3, Decode: 3})
	o.Pools = o.Pools[:1]
	p := &scripted{}
	d := core(t, deployment(40), p, func(o *Options) { o.OnLoss, o.Static = HoldIfHigher, Replicas{Prefill: 4, Decode: 4} }).Step(o)
	if d.Act || p.seen != 0 || !slices.Equal(d.Missing, []string{"the decode pool"}) {
		t.Errorf("%+v", d)
	}
}

// dynamo#4420: edits by hand are the truth, and are said.
func TestManualEditIsSeen(t *testing.T) {
	p := &scripted{want: Replicas{Prefill: 2, Decode: 2}}
	c := core(t, deployment(100), p)
	d := c.Step(seen(Replicas{Prefill: 1, Decode: 1}))
	if len(d.Warnings) != 0 {
		t.Errorf("a first step blames somebody: %v", d.Warnings)
	}
	c.Asked(d.Want)
	d = c.Step(seen(Replicas{Prefill: 2, Decode: 5}))
	if len(d.Warnings) != 1 || d.Warnings[0].Code != "edited" || d.From.Decode != 5 || !d.Act {
		t.Errorf("%+v", d)
	}
}

// A planner that was killed while it asked, and one that got no answer, does not
// take its own work for somebody else's, whether none, some or all of it was done.
func TestHalfDoneWorkIsNobodysEdit(t *testing.T) {
	for _, c := range []struct {
		have   Replicas
		edited bool
	}{
		{Replicas{Prefill: 1, Decode: 1}, false},
		{Replicas{Prefill: 3, Decode: 1}, false},
		{Replicas{Prefill: 1, Decode: 4}, false},
		{Replicas{Prefill: 3, Decode: 4}, false},
		{Replicas{Prefill: 3, Decode: 5}, true},
		{Replicas{Prefill: 2, Decode: 4}, true},
	} {
		p := &scripted{want: Replicas{Prefill: 1, Decode: 1}}
		was := core(t, deployment(100), p)
		was.Asked(p.want)
		was.Asking(Replicas{Prefill: 3, Decode: 4})
		b, err := was.Save()
		if err != nil {
			t.Fatal(err)
		}
		is := core(t, deployment(100), p)
		if err := is.Restore(b); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if d := is.Step(seen(c.have)); (len(d.Warnings) > 0) != c.edited {
				t.Errorf("%s is found: %v", c.have, d.Warnings)
			}
		}
	}
	first := core(t, deployment(100), &scripted{want: Replicas{Prefill: 1, Decode: 1}})
	first.Asking(Replicas{Prefill: 1, Decode: 1}) // and nothing before
	for n, edited := range []bool{false, true} {
		if d := first.Step(seen(Replicas{Prefill: 1, Decode: 1 + n})); (len(d.Warnings) > 0) != edited {
			t.Errorf("%d decode replicas are found: %v", 1+n, d.Warnings)
		}
	}
}

func TestProfileStale(t *testing.T) {
	p := &scripted{want: Replicas{Prefill: 1, Decode: 1}}
	c := core(t, deployment(100), p)
	step := func(factor float64, known bool) []profile.Warning {
		p.right = Correction{Decode: Figure[float64]{Value: factor, Known: known}}
		return c.Step(seen(p.want)).Warnings
	}
	for i := range 4 {
		if ws := step(1.6, true); len(ws) != 0 {
			t.Fatalf("after %d intervals: %v", i+1, ws)
		}
	}
	if ws := step(0, false); len(ws) != 0 {
		t.Errorf("an interval without a correction counts: %v", ws)
	}
	if ws := step(1.6, true); len(ws) != 1 || ws[0].Code != "profile_stale" {
		t.Errorf("fifth: %v", ws)
	}
	if ws := step(1.5, true); len(ws) != 0 {
		t.Errorf("within range: %v", ws)
	}
	if ws := step(0.59, true); len(ws) != 0 {
		t.Errorf("the count goes on after an interval in range: %v", ws)
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		budget     int
		want, fits Replicas
	}{
		{100, Replicas{Prefill: 2, Decode: 3}, Replicas{Prefill: 2, Decode: 3}},
		{-1, Replicas{Prefill: 1000, Decode: 1000}, Replicas{Prefill: 1000, Decode: 1000}},
		{16, Replicas{Prefill: 2, Decode: 3}, Replicas{Prefill: 2, Decode: 3}}, // exactly
		{15, Replicas{Prefill: 2, Decode: 3}, Replicas{Prefill: 2, Decode: 2}},
		{6, Replicas{Prefill: 9, Decode: 9}, Replicas{Prefill: 1, Decode: 1}},
		{11, Replicas{Prefill: 1, Decode: 9}, Replicas{Prefill: 1, Decode: 2}},
		{11, Replicas{Prefill: 9, Decode: 1}, Replicas{Prefill: 3, Decode: 1}},
	} {
		if got := deployment(c.budget).Within(c.want); got != c.fits {
			t.Errorf("%s in %d GPUs: %s, want %s", c.want, c.budget, got, c.fits)
		}
	}
}

func TestLeastGPUs(t *testing.T) {
	dep := deployment(20)
	dep.Budget.Min = 20
	p := &scripted{want: Replicas{Prefill: 1, Decode: 1}}
	d := core(t, dep, p).Step(seen(p.want))
	if d.GPUs < 20 || d.GPUs > 20 || !slices.Contains(rules(d), "least-gpus") {
		t.Errorf("%+v", d)
	}
	dep.Budget.Min = 19 // no whole replicas give 19
	if d := core(t, dep, p).Step(seen(p.want)); d.GPUs != 20 {
		t.Errorf("%d GPUs, want the next whole replicas above 19", d.GPUs)
	}
}

// dynamo#12428: a rebalance may not exceed the budget while it is under way.
func TestRebalanceWaitsForGPUs(t *testing.T) {
	p := &scripted{want: Replicas{Prefill: 2, Decode: 4}}
	c := core(t, deployment(20), p)
	d := c.Step(seen(Replicas{Prefill: 6, Decode: 2})) // all 20 in use
	if d.Want != (Replicas{Prefill: 2, Decode: 2}) || !slices.Contains(rules(d), "draining") {
		t.Errorf("%+v", d)
	}
	if !d.HeldBack() {
		t.Errorf("the budget held nothing back: %+v", d.Steps)
	}
	o := seen(d.Want)
	o.Pools[0].Draining = 4
	if d = c.Step(o); d.Act || !d.HeldBack() {
		t.Errorf("GPUs of draining replicas are given away: %+v", d)
	}
	o.Pools[0].Draining = 1
	if d = c.Step(o); d.Want != (Replicas{Prefill: 2, Decode: 3}) {
		t.Errorf("with one draining: %+v", d)
	}
	o.Pools[0].Draining = 0
	if d = c.Step(o); d.Want != p.want || d.HeldBack() {
		t.Errorf("with none: %+v", d)
	}
}

// drawn is a deployment with room for its least replicas.
func drawn(t *rapid.T) Deployment {
	pool := func(role Role) Pool {
		p := Pool{Role: role, GPUs: rapid.IntRange(1, 16).Draw(t, "gpus"), Min: rapid.IntRange(0, 5).Draw(t, "min")}
		if rapid.Bool().Draw(t, "bounded") {
			p.Max = max(1, p.Min) + rapid.IntRange(0, 20).Draw(t, "max")
		}
		return p
	}
	d := Deployment{SLA: profile.SLA{TTFT: 1, ITL: 1}}
	if rapid.Bool().Draw(t, "aggregated") {
		d.Pools = []Pool{pool(engine.RoleAggregated)}
	} else {
		d.Pools = []Pool{pool(engine.RolePrefill), pool(engine.RoleDecode)}
	}
	d.Budget = Budget{Max: -1, Min: -1}
	if rapid.Bool().Draw(t, "budget") {
		d.Budget.Max = d.GPUs(d.Least()) + rapid.IntRange(0, 200).Draw(t, "room")
		d.Budget.Min = rapid.IntRange(-1, d.Budget.Max).Draw(t, "least")
	}
	return d
}

// Whatever a policy says: the bounds hold, the budget too, transitions
// included, and what was within stays as it was.
func TestBudgetIsNeverExceeded(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		dep := drawn(t)
		draw := func(name string) (r Replicas) {
			for _, p := range dep.Pools {
				r = r.With(p.Role, rapid.IntRange(0, 60).Draw(t, name))
			}
			return r
		}
		want := draw("want")
		have := dep.Within(draw("have"))
		o := Observation{}
		draining := 0
		for _, p := range dep.Pools {
			n := rapid.IntRange(0, 3).Draw(t, "draining")
			draining += n * p.GPUs
			o.Pools = append(o.Pools, PoolObservation{PoolState: PoolState{Role: p.Role, Want: have.Of(p.Role), Draining: n}})
		}
		c, err := New(Options{Deployment: dep, Policy: &scripted{want: want}, OnLoss: Hold})
		if err != nil {
			t.Fatal(err)
		}
		d := c.Step(o)
		inUse := draining
		for _, p := range dep.Pools {
			n, h := d.Want.Of(p.Role), have.Of(p.Role)
			if n < p.Min || p.Max > 0 && n > p.Max {
				t.Fatalf("%s: %d outside %d to %d", p.Role, n, p.Min, p.Max)
			}
			inUse += max(n, h) * p.GPUs
		}
		if b := dep.Budget.Max; b >= 0 && inUse > max(b, dep.GPUs(have)+draining) {
			t.Fatalf("%d GPUs in use on the way, budget %d", inUse, b)
		}
		if kept := dep.Within(d.Want); dep.Budget.Min <= 0 && kept != d.Want {
			t.Fatalf("what was kept is changed again: %s to %s", d.Want, kept)
		}
	})
}

func TestSaveRestore(t *testing.T) {
	p := &scripted{want: Replicas{Prefill: 2, Decode: 2}, right: Correction{Prefill: Known(2.0)}}
	c := core(t, deployment(100), p)
	for range 4 {
		c.Asked(c.Step(seen(p.want)).Want)
	}
	b, err := c.Save()
	if err != nil {
		t.Fatal(err)
	}
	q := &scripted{want: p.want, right: p.right}
	again := core(t, deployment(100), q)
	if err := again.Restore(b); err != nil {
		t.Fatal(err)
	}
	if d := again.Step(seen(Replicas{Prefill: 1, Decode: 1})); q.seen != 5 || len(d.Warnings) != 2 {
		t.Errorf("%d seen, %v", q.seen, d.Warnings)
	}
	for _, bad := range []string{"", "7", `{"policy":"other"}`} {
		if err := again.Restore(json.RawMessage(bad)); err == nil {
			t.Errorf("%q is restored", bad)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Deployment.Pools = o.Deployment.Pools[:1] }, "want prefill and decode, or aggregated"},
		{func(o *Options) { o.Deployment.Budget.Max = 5 }, "the budget of 5 GPUs is below the 6 that the minimum replicas need"},
		{func(o *Options) { o.Deployment.Pools[0].GPUs = 0 }, "want"},
		{func(o *Options) { o.Deployment.Pools[1].Max = -1 }, "the most decode replicas are -1"},
		{func(o *Options) { o.Deployment.SLA.ITL = -1 }, "the ITL to keep is -1ns"},
		{func(o *Options) { o.Deployment.Budget.Min = 101 }, "the least GPUs are 101, above the most, 100"},
		{func(o *Options) { o.OnLoss = "zero" }, "want hold or hold-if-higher"},
		{func(o *Options) { o.OnLoss = HoldIfHigher }, "the static replicas"},
	} {
		o := Options{Deployment: deployment(100), Policy: &scripted{}, OnLoss: Hold}
		c.change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v lacks %q", err, c.want)
		}
	}
	c := core(t, deployment(100), &scripted{})
	other := deployment(100)
	other.Pools[0].GPUs = 1
	if err := c.SetDeployment(other); err == nil {
		t.Error("the GPUs of an engine change under way")
	}
	if err := c.SetDeployment(deployment(5)); err == nil {
		t.Error("a budget below the least is taken")
	}
	if err := c.SetDeployment(deployment(50)); err != nil || c.Deployment().Budget.Max != 50 {
		t.Errorf("%v, %+v", err, c.Deployment())
	}
}

func TestFigureJSON(t *testing.T) {
	o := Observation{Arrivals: Known(0.0), TTFT: Spread[time.Duration]{Mean: Known(time.Second)}}
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var back Observation
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if !back.Arrivals.Known || back.Finished.Known || back.TTFT.At(profile.Mean).Value != time.Second || back.TTFT.At(profile.P99).Known {
		t.Errorf("%+v from %s", back, b)
	}
}

// 4+2 became 1+0 when etcd had lost its keys: what was asked for and is on record no more
// is what decisions go on from, and is asked for again. A first start has no record either.
func TestDecisionThatVanishedIsAskedForAgain(t *testing.T) {
	none := seen(Replicas{})
	for i := range none.Pools {
		none.Pools[i].Want, none.Pools[i].NoRecord = -1, true
	}
	have := Replicas{Prefill: 4, Decode: 2}
	for name, p := range map[string]*scripted{
		"metrics are missing too": {missing: []string{"arrivals"}},
		"the load is the same":    {want: have},
	} {
		first := core(t, deployment(100), p)
		if d := first.Bound(none, Unshared()); !d.Act || d.Want != (Replicas{Prefill: 1, Decode: 1}) {
			t.Errorf("%s: at the first start %+v", name, d)
		}
		first.Asked(have)
		saved, err := first.Save()
		if err != nil {
			t.Fatal(err)
		}
		again := core(t, deployment(100), p)
		if err := again.Restore(saved); err != nil {
			t.Fatal(err)
		}
		for _, d := range []Decision{first.Step(none), again.Step(none), again.Bound(none, Unshared())} {
			if !d.Act || d.From != have || d.Want != have || len(d.Warnings) != 2 || !strings.Contains(d.Warnings[1].Message, "the target lost the last decision, 2 replicas of decode. It has to be") {
				t.Errorf("%s: %+v", name, d)
			}
		}
		half := seen(Replicas{Prefill: 4})
		half.Pools[1].Want, half.Pools[1].NoRecord = -1, true
		if d := again.Step(half); !d.Act || d.Want != have {
			t.Errorf("%s, with one key left: %+v", name, d)
		}
		if d := again.Step(seen(have)); d.Act || len(d.Warnings) > 0 {
			t.Errorf("%s, with its record: %+v", name, d)
		}
	}
}
