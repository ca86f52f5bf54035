package policy

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

func loadOf(t testing.TB, o LoadOptions) *Load {
	t.Helper()
	l, err := NewLoad(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// loaded is an interval of disaggregated pools: a queue that neither grows nor
// goes away, and a KV use.
func loaded(dep planner.Deployment, have planner.Replicas, queue, kv float64) planner.Situation {
	s := at(dep, have, 30*time.Second)
	s.Pools[0] = waiting(s.Pools[0], queue, queue, queue)
	s.Pools[len(s.Pools)-1].KVUsage = planner.Known(kv)
	if len(s.Pools) > 1 {
		s.Pools[1].Queue = planner.Known(0.0)
	}
	return s
}

// One row per sentence of the rule, each threshold from both sides.
func TestLoadRule(t *testing.T) {
	two := planner.Replicas{Prefill: 2, Decode: 2}
	for _, c := range []struct {
		name            string
		budget          int
		queue, kv       float64
		want            planner.Replicas
		prefill, decode string // last rule of each
	}{
		{"all within", -1, 0.3, 0.7, two, "hold", "hold"},
		{"queue at its upper threshold", -1, 0.5, 0.7, two, "hold", "hold"},
		{"queue above", -1, 0.51, 0.7, planner.Replicas{Prefill: 3, Decode: 2}, "up", "hold"},
		{"queue at its lower threshold", -1, 0.2, 0.7, two, "hold", "hold"},
		{"queue below", -1, 0.19, 0.7, planner.Replicas{Prefill: 1, Decode: 2}, "down", "hold"},
		{"KV at 0.9", -1, 0.3, 0.9, two, "hold", "hold"},
		{"KV above", -1, 0.3, 0.91, planner.Replicas{Prefill: 2, Decode: 3}, "hold", "up"},
		{"KV at 0.5", -1, 0.3, 0.5, two, "hold", "hold"},
		{"KV below", -1, 0.3, 0.49, planner.Replicas{Prefill: 2, Decode: 1}, "hold", "down"},
		{"both grow", 6, 1, 1, planner.Replicas{Prefill: 3, Decode: 3}, "up", "up"},
		{"the budget goes to prefill first", 5, 1, 1, planner.Replicas{Prefill: 3, Decode: 2}, "up", "budget"},
		{"no budget is left", 4, 1, 1, two, "budget", "budget"},
		{"a prefill replica makes room for a decode one", 4, 0, 1, planner.Replicas{Prefill: 1, Decode: 3}, "down", "up"},
		{"a decode replica makes room for a prefill one", 4, 1, 0, planner.Replicas{Prefill: 3, Decode: 1}, "up", "down"},
		{"both shrink", 4, 0, 0, planner.Replicas{Prefill: 1, Decode: 1}, "down", "down"},
	} {
		s := loaded(split(1, 1, c.budget), two, c.queue, c.kv)
		d := loadOf(t, DefaultLoad()).Propose(s)
		chained(t, s, d)
		if d.Want != c.want {
			t.Errorf("%s: %s, want %s: %+v", c.name, d.Want, c.want, d.Steps)
		}
		for role, rule := range map[planner.Role]string{engine.RolePrefill: c.prefill, engine.RoleDecode: c.decode} {
			if got := ruledBy(d, role); got[len(got)-1] != rule {
				t.Errorf("%s: %s by %v, want %s", c.name, role, got, rule)
			}
		}
	}
}

func TestLoadBounds(t *testing.T) {
	dep := split(1, 1, -1)
	dep.Pools[0].Max, dep.Pools[1].Max = 2, 2
	for _, c := range []struct {
		have      planner.Replicas
		queue, kv float64
	}{{planner.Replicas{Prefill: 1, Decode: 1}, 0, 0}, {planner.Replicas{Prefill: 2, Decode: 2}, 9, 1}} {
		s := loaded(dep, c.have, c.queue, c.kv)
		d := loadOf(t, DefaultLoad()).Propose(s)
		chained(t, s, d)
		if d.Want != c.have || ruledBy(d, engine.RolePrefill)[0] != "bounds" || ruledBy(d, engine.RoleDecode)[0] != "bounds" {
			t.Errorf("%s: %+v", c.have, d)
		}
	}
}

// No prefill replica starts for a queue that is gone before it serves:
// last + 3·(last − first) has to be above the threshold too.
func TestLoadQueueTrend(t *testing.T) {
	for _, c := range []struct {
		first, last float64
		want        int
	}{
		{4, 4, 3},
		{5, 4, 3},   // 4 − 3 = 1
		{5.2, 4, 2}, // 4 − 3.6 = 0.4
		{8, 0.6, 2}, // falls to nothing
		{0, 0.2, 3}, // 0.2 + 0.6 = 0.8
	} {
		s := loaded(split(1, 1, -1), planner.Replicas{Prefill: 2, Decode: 2}, 4, 0.7)
		s.Pools[0] = waiting(s.Pools[0], 4, c.first, c.last)
		d := loadOf(t, DefaultLoad()).Propose(s)
		chained(t, s, d)
		if d.Want.Prefill != c.want {
			t.Errorf("from %v to %v: %+v", c.first, c.last, d.Steps)
		}
	}
}

// What waits at decode counts as 2 % of a KV cache each, as upstream's guess is.
func TestLoadCountsWaitingAsKV(t *testing.T) {
	s := loaded(split(1, 1, -1), planner.Replicas{Prefill: 1, Decode: 1}, 0.3, 0.85)
	s.Pools[1].Queue = planner.Known(3.0) // 0.85 + 0.06
	if d := loadOf(t, DefaultLoad()).Propose(s); d.Want.Decode != 2 {
		t.Errorf("%+v", d.Steps)
	}
	s.Pools[1].Queue = planner.Known(2.0)
	if d := loadOf(t, DefaultLoad()).Propose(s); d.Want.Decode != 1 {
		t.Errorf("%+v", d.Steps)
	}
}

// A decode replica that was added stays for the two intervals decided after it;
// intervals without a decision do not count.
func TestLoadGrace(t *testing.T) {
	for _, dep := range []planner.Deployment{split(1, 1, -1), single(1, -1)} {
		l := loadOf(t, DefaultLoad())
		role := dep.Pools[len(dep.Pools)-1].Role
		have := planner.Replicas{}.With(role, 2)
		if !dep.Aggregated() {
			have.Prefill = 1
		}
		next := func(kv float64, change ...func(*planner.Situation)) string {
			t.Helper()
			s := loaded(dep, have, 0.3, kv)
			if dep.Aggregated() {
				s = loaded(dep, have, 0.1, kv)
			}
			for _, f := range change {
				f(&s)
			}
			d := l.Propose(s)
			chained(t, s, d)
			have = d.Want
			rules := ruledBy(d, role)
			return rules[len(rules)-1]
		}
		scaling := func(s *planner.Situation) { s.Scaling = "starting" }
		changed := func(s *planner.Situation) { s.Pools[0].Changed = true }
		got := []string{next(0.95), next(0.1, scaling), next(0.1, changed), next(0.1), next(0.1), next(0.1), next(0.1)}
		if want := []string{"up", "pause", "pause", "grace", "grace", "down", "down"}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", role, got, want)
		}
	}
}

func TestLoadAggregated(t *testing.T) {
	for _, c := range []struct {
		queue, kv float64
		want      int
	}{
		{0.3, 0.7, 2},
		{0.1, 0.4, 1},  // both low
		{0.3, 0.4, 2},  // one low
		{0.1, 0.6, 2},  // the other
		{0.1, 0.95, 3}, // KV high
		{0.6, 0.1, 3},  // queue high
	} {
		s := loaded(single(1, -1), planner.Replicas{Aggregated: 2}, c.queue, c.kv)
		d := loadOf(t, DefaultLoad()).Propose(s)
		chained(t, s, d)
		if d.Want.Aggregated != c.want {
			t.Errorf("queue %v, KV %v: %+v", c.queue, c.kv, d.Steps)
		}
	}
}

// A queue that goes away adds no aggregated replica either.
func TestLoadAggregatedTrend(t *testing.T) {
	s := loaded(single(1, -1), planner.Replicas{Aggregated: 2}, 0, 0.7)
	s.Pools[0].Queue, s.Pools[0].QueueOpen, s.Pools[0].QueueEnd = planner.Known(4.0), planner.Known(8.0), planner.Known(0.6)
	if d := loadOf(t, DefaultLoad()).Propose(s); d.Want.Aggregated != 2 {
		t.Errorf("%+v", d)
	}
}

// Each figure that is missing, or is no number, is named and nothing is done.
func TestLoadMissing(t *testing.T) {
	l := loadOf(t, DefaultLoad())
	for name, spoil := range map[string]func(*planner.Situation){
		"the prefill queue":                     func(s *planner.Situation) { s.Pools[0].Queue = planner.Figure[float64]{} },
		"the first sample of the prefill queue": func(s *planner.Situation) { s.Pools[0].QueueOpen = planner.Figure[float64]{} },
		"the last sample of the prefill queue":  func(s *planner.Situation) { s.Pools[0].QueueEnd = planner.Known(math.NaN()) },
		"the KV use of decode":                  func(s *planner.Situation) { s.Pools[1].KVUsage = planner.Known(math.Inf(1)) },
		"the requests waiting at decode":        func(s *planner.Situation) { s.Pools[1].Queue = planner.Figure[float64]{} },
	} {
		s := loaded(split(1, 1, -1), planner.Replicas{Prefill: 2, Decode: 2}, 0, 0)
		spoil(&s)
		d := l.Propose(s)
		chained(t, s, d)
		if d.Want != s.Have || !slices.Equal(d.Missing, []string{name}) {
			t.Errorf("%s: %s, missing %v", name, d.Want, d.Missing)
		}
	}
	s := loaded(single(1, -1), planner.Replicas{Aggregated: 2}, 0, 0)
	s.Pools[0].Queue = planner.Figure[float64]{}
	if d := l.Propose(s); d.Want != s.Have || len(d.Missing) == 0 {
		t.Errorf("aggregated: %+v", d)
	}
	s = at(split(1, 1, -1), planner.Replicas{Prefill: 2, Decode: 2}, time.Minute)
	s.Warmup = true
	if d := l.Propose(s); d.Want != s.Have || d.Missing != nil {
		t.Errorf("warm-up: %+v", d)
	}
}

func TestLoadCheck(t *testing.T) {
	if err := (LoadOptions{KVUp: 0.5, KVDown: 0.5, QueueUp: 0.1, QueueDown: 0.1}).Check(); err != nil {
		t.Errorf("equal thresholds: %v", err)
	}
	for _, c := range []struct {
		change func(*LoadOptions)
		want   string
	}{
		{func(o *LoadOptions) { o.KVUp = 1.01 }, "KV use to go down and up at is 0.5 and 1.01: want 0 to 1"},
		{func(o *LoadOptions) { o.KVDown = 0.95 }, "0.95 and 0.9"},
		{func(o *LoadOptions) { o.KVDown = math.NaN() }, "NaN and 0.9"},
		{func(o *LoadOptions) { o.QueueDown = -1 }, "down and up at are -1 and 0.5: want 0 to 1000000"},
		{func(o *LoadOptions) { o.QueueUp = math.Inf(1) }, "0.2 and +Inf"},
	} {
		o := DefaultLoad()
		c.change(&o)
		if _, err := NewLoad(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v lacks %q", err, c.want)
		}
	}
}
