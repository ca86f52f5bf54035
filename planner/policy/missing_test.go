package policy

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/planner"
	"plimsoll/profile"
)

// figuresOf are all figures within a value, each of which may be missing.
func figuresOf(v reflect.Value) (all []reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct && strings.HasPrefix(v.Type().Name(), "Figure["):
		return []reflect.Value{v}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			all = append(all, figuresOf(v.Field(i))...)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			all = append(all, figuresOf(v.Index(i))...)
		}
	}
	return all
}

// complete is a minute of which everything is known. What is in the system at its end, less
// what was there before, came and did not end.
func complete(r *rapid.T, dep planner.Deployment, have planner.Replicas, before planner.Situation) planner.Situation {
	s := at(dep, have, time.Minute)
	s.Start = before.End()
	float := func(name string, low, high float64) planner.Figure[float64] {
		return planner.Known(rapid.Float64Range(low, high).Draw(r, name))
	}
	spread := func(name string, most time.Duration) planner.Spread[time.Duration] {
		mean := time.Duration(rapid.Int64Range(1, int64(most)).Draw(r, name))
		return planner.Spread[time.Duration]{
			Count: 100, Mean: planner.Known(mean), P50: planner.Exactly(mean), P90: planner.Exactly(mean * 3 / 2), P95: planner.Exactly(mean * 2), P99: planner.Exactly(mean * 3),
		}
	}
	s.Arrivals = float("arrivals", 0, 3000)
	s.ISL.Mean, s.OSL.Mean, s.CacheHit = float("ISL", 1, 20000), float("OSL", 1, 3000), float("cache hits", 0, 1)
	s.TTFT, s.ITL, s.Duration = spread("TTFT", time.Second), spread("ITL", 60*time.Millisecond), spread("duration", time.Minute)
	s.TPOT = s.ITL
	s.Running, s.Waiting = planner.Known(0.0), planner.Known(0.0)
	for i := range s.Pools {
		p := &s.Pools[i]
		p.KVUsage = float("KV use", 0, 1)
		p.KVMost, p.Running = planner.Known((1+p.KVUsage.Value)/2), float("running", 0, 100)
		p.Queue, p.QueueOpen, p.QueueEnd = float("queue", 0, 2), float("first", 0, 2), float("last", 0, 2)
		s.Running.Value += p.Running.Value
		s.Waiting.Value += p.QueueEnd.Value * float64(p.Ready)
	}
	grew := s.Running.Value + s.Waiting.Value - before.Running.Value - before.Waiting.Value
	s.Finished = planner.Known(max(1, s.Arrivals.Value-grew))
	return s
}

// Whatever figures are missing, no policy wants fewer replicas than there are where it
// would not with all of them.
func TestMissingNeverScalesDown(t *testing.T) {
	p, d := h200(t)
	for name, fresh := range fresh(t, p, d) {
		t.Run(name, func(t *testing.T) {
			enginetest.Check(t, func(r *rapid.T) {
				dep := split(1, 1, -1)
				if rapid.Bool().Draw(r, "aggregated") {
					dep = single(1, -1)
				}
				dep.SLA.Stat = rapid.SampledFrom([]profile.Statistic{profile.Mean, profile.P99}).Draw(r, "statistic")
				all, some := fresh(), fresh()
				var have planner.Replicas
				for _, pool := range dep.Pools {
					have = have.With(pool.Role, rapid.IntRange(1, 12).Draw(r, "have"))
				}
				s := at(dep, have, time.Minute)
				for range rapid.IntRange(1, 8).Draw(r, "intervals") {
					s = complete(r, dep, have, s)
					all.Propose(s)
					some.Propose(s)
				}
				s = complete(r, dep, have, s)
				want := all.Propose(s).Want
				lost := s
				lost.Pools = slices.Clone(s.Pools)
				figures := figuresOf(reflect.ValueOf(&lost.Observation).Elem())
				for range rapid.SampledFrom([]int{1, 1, 1, 2, 5, 50}).Draw(r, "missing figures") {
					figures[rapid.IntRange(0, len(figures)-1).Draw(r, "missing")].SetZero()
				}
				got := some.Propose(lost)
				for _, pool := range dep.Pools {
					if least := min(have.Of(pool.Role), want.Of(pool.Role)); got.Want.Of(pool.Role) < least {
						r.Fatalf("of %s the policy wants %s, with all figures %s: %+v", have, got.Want, want, got.Steps)
					}
				}
			})
		})
	}
}

// A fleet that is larger than its load shrinks as long as what could make it busy is
// known, and stays where that was known before and is not any more.
func TestUnknownIsBusy(t *testing.T) {
	for name, forget := range map[string]func(*planner.Situation){
		"":                 func(*planner.Situation) {},
		"what waits":       func(s *planner.Situation) { s.Waiting, s.Pools[1].QueueEnd = planner.Figure[float64]{}, s.Waiting },
		"the fullest":      func(s *planner.Situation) { s.Pools[0].KVMost = planner.Figure[float64]{} },
		"running requests": func(s *planner.Situation) { s.Pools[0].Running = planner.Figure[float64]{} },
		"lengths":          func(s *planner.Situation) { s.ISL = planner.Spread[float64]{} },
	} {
		full := func(s *planner.Situation) {
			s.Pools[0].KVMost, s.Pools[0].Running = planner.Known(0.1), planner.Known(0.2)
		}
		p := standard(t, off)
		after(p, repeat(9, minute(10, pd(4, 4), full))...)
		d := p.Propose(minute(2, pd(4, 4), full, forget, func(s *planner.Situation) { s.Start = s.Start.Add(time.Hour) }))
		if held := d.Want.Prefill == 4; held != (name != "") {
			t.Errorf("%q is missing: %s: %+v", name, d.Want, d.Steps)
		}
	}
	p := standard(t, off)
	idle := minute(0, pd(1, 1), func(s *planner.Situation) {
		s.Deployment.Pools = []planner.Pool{{Role: "prefill", GPUs: 1}, {Role: "decode", GPUs: 1}}
		s.TTFT, s.ITL, s.Running = planner.Spread[time.Duration]{}, planner.Spread[time.Duration]{}, planner.Figure[float64]{}
	})
	if d := after(p, repeat(30, idle)...); d.Want != pd(1, 1) {
		t.Errorf("no arrivals for half an hour, and running requests unknown: %s", d.Want)
	}
	w := wva(WVABehavior())
	s := halfMinute(one(1), 0, 2, 4, 0.1)
	s.ISL.Mean = planner.Figure[float64]{}
	if w.Propose(s); w.s.Desired["aggregated"] < 2 {
		t.Errorf("of requests of unknown length the variant autoscaler wants %v", w.s.Desired)
	}
}
