package policy

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// one is an aggregated pool with room, one GPU each.
func one(least int) planner.Deployment {
	d := single(1, -1)
	d.Pools[0].Min = least
	return d
}

// halfMinute is the nth half minute of an aggregated pool that has a queue per
// replica, a KV use and nothing that starts.
func halfMinute(dep planner.Deployment, n, have int, queue, kv float64) planner.Situation {
	s := at(dep, planner.Replicas{Aggregated: have}, 30*time.Second)
	s.Start = s.Start.Add(time.Duration(n) * s.Length)
	s.ISL.Mean, s.Waiting = planner.Known(1000.0), planner.Known(queue*float64(have))
	s.Pools[0].Queue, s.Pools[0].KVUsage = planner.Known(queue), planner.Known(kv)
	return s
}

func aggregatedTarget(m Metric, v float64) []PoolTarget {
	return []PoolTarget{{engine.RoleAggregated, m, v}}
}

// One row per sentence of HPA's documentation.
func TestHPARule(t *testing.T) {
	for _, c := range []struct {
		name     string
		have     int
		starting int
		kv       float64
		want     int
	}{
		{"twice the target, twice as many", 4, 0, 1.0, 8},
		{"rounded up", 3, 0, 0.6, 4}, // 3.6
		{"not quite 10 % above is near", 10, 0, 0.549, 10},
		{"11 % above is not", 10, 0, 0.555, 12},
		{"not quite 10 % below is near", 10, 0, 0.451, 10},
		{"those that start do nothing yet", 4, 4, 1.0, 8}, // 4·2/8 of the target: near
		{"and bring it below", 4, 12, 1.0, 16},
		{"or not far enough", 8, 2, 1.0, 16}, // 8·2/10 = 1.6 times 10
		{"half the target, half as many", 8, 0, 0.25, 4},
		{"those that start do not count downwards", 4, 4, 0.25, 2},
		{"nothing to do leaves one", 4, 0, 0, 1},
	} {
		h, err := NewHPA(HPAOptions{aggregatedTarget(MetricKV, 0.5)})
		if err != nil {
			t.Fatal(err)
		}
		h.b.Past = []wanted{{time.Unix(1_000_000, 0), planner.Replicas{}}} // nothing that holds it
		s := halfMinute(one(1), 0, c.have, 0, c.kv)
		s.Have.Aggregated, s.Pools[0].Starting = c.have+c.starting, c.starting
		d := h.Propose(s)
		chained(t, s, d)
		if d.Want.Aggregated != c.want {
			t.Errorf("%s: %s, want %d: %+v", c.name, d.Want, c.want, d.Steps)
		}
	}
}

// Down only to the most of the last 300 s, the replicas that it found included.
func TestHPAStabilization(t *testing.T) {
	h, err := NewHPA(HPAOptions{aggregatedTarget(MetricKV, 0.5)})
	if err != nil {
		t.Fatal(err)
	}
	have := 8
	var got []int
	for i := range 22 {
		kv := 0.25
		if i == 8 {
			kv = 0.375 // 6 replicas
		}
		s := halfMinute(one(1), i, have, 0, kv)
		d := h.Propose(s)
		chained(t, s, d)
		have = d.Want.Aggregated
		got = append(got, have)
	}
	// It found 8 at 0 s, so down is possible 300 s later, in the interval that ends
	// then (the 10th), to the 6 recommended at 270 s; from 570 s on that is too old.
	want := append(slices.Repeat([]int{8}, 9), slices.Repeat([]int{6}, 9)...)
	if !slices.Equal(got[:18], want) || got[18] >= 6 {
		t.Errorf("%v", got)
	}
}

// A higher recommendation of before is no reason to go up.
func TestHPAStabilizationOnlyHolds(t *testing.T) {
	h, err := NewHPA(HPAOptions{aggregatedTarget(MetricKV, 0.5)})
	if err != nil {
		t.Fatal(err)
	}
	h.b.Past = []wanted{{time.Unix(1_000_000, 0), planner.Replicas{Aggregated: 8}}}
	if d := h.Propose(halfMinute(one(1), 0, 4, 0, 0.25)); d.Want.Aggregated != 4 {
		t.Errorf("%+v", d)
	}
}

// Up at most to twice as many, or by 4, in each 15 s; an interval has two.
func TestHPAUpwardLimit(t *testing.T) {
	for _, c := range []struct{ have, want int }{{1, 10}, {2, 12}, {10, 40}} {
		h, err := NewHPA(HPAOptions{aggregatedTarget(MetricWaiting, 0.01)})
		if err != nil {
			t.Fatal(err)
		}
		s := halfMinute(one(1), 0, c.have, 100, 0)
		d := h.Propose(s)
		chained(t, s, d)
		if d.Want.Aggregated != c.want {
			t.Errorf("from %d: %s, want %d", c.have, d.Want, c.want)
		}
	}
}

// Another autoscaler took ceil(observed/target) of a metric per replica for the
// number of replicas (AIBrix #485): 16 replicas at 0.49 of a target of 0.7 became one.
func TestPerReplicaMetricIsNotATotal(t *testing.T) {
	h, err := NewHPA(HPAOptions{aggregatedTarget(MetricKV, 0.7)})
	if err != nil {
		t.Fatal(err)
	}
	h.b.Past = []wanted{{time.Unix(1_000_000, 0), planner.Replicas{Aggregated: 1}}}
	if d := h.Propose(halfMinute(one(1), 0, 16, 0, 0.49)); d.Want.Aggregated != 12 { // 16·0.7 = 11.2
		t.Errorf("%+v", d)
	}
}

func TestHPALeavesPoolsAlone(t *testing.T) {
	h, err := NewHPA(HPAOptions{[]PoolTarget{{engine.RoleDecode, MetricRunning, 10}}})
	if err != nil {
		t.Fatal(err)
	}
	s := loaded(split(1, 1, -1), pd(3, 2), 9, 0.5)
	s.Pools[1].Running = planner.Known(60.0) // 30 each
	d := h.Propose(s)
	chained(t, s, d)
	if d.Want != pd(3, 6) {
		t.Errorf("%+v", d)
	}
	s = loaded(split(1, 1, -1), pd(3, 0), 9, 0.5)
	if d = h.Propose(s); d.Want != pd(3, 0) || len(d.Missing) > 0 {
		t.Errorf("switched off: %+v", d)
	}
}

// The trigger's total over the target, whatever there is; to 0 and back.
func TestKEDARule(t *testing.T) {
	k, err := NewKEDA(KEDAOptions{aggregatedTarget(MetricWaiting, 5)})
	if err != nil {
		t.Fatal(err)
	}
	i := -1
	next := func(have int, queue float64) int {
		t.Helper()
		i++
		s := halfMinute(one(0), i, have, queue, 0)
		if have == 0 {
			s.Waiting = planner.Known(queue)
		}
		d := k.Propose(s)
		chained(t, s, d)
		return d.Want.Aggregated
	}
	if n := next(2, 20); n != 8 { // 40 wait: 40/5
		t.Errorf("40 waiting: %d", n)
	}
	if n := next(8, 5.4); n != 8 { // 8 % above
		t.Errorf("near the target: %d", n)
	}
	var idle []int
	have := 8
	for range 12 {
		have = next(have, 0)
		idle = append(idle, have)
	}
	// The last trigger was 60 s in; 300 s later it is switched off, by KEDA itself.
	if want := append(slices.Repeat([]int{8}, 9), 0, 0, 0); !slices.Equal(idle, want) {
		t.Errorf("without requests: %v, want %v", idle, want)
	}
	if n := next(0, 3); n != 1 {
		t.Errorf("a request waits: %d", n)
	}
}

// Where the least is 1 a pool stays on; where it is 0 the cool-down begins when
// the pool is first looked at; and one pool's switching leaves the other to HPA.
func TestKEDAStaysOn(t *testing.T) {
	dep := split(1, 1, -1)
	dep.Pools[0].Min = 0
	k, err := NewKEDA(KEDAOptions{[]PoolTarget{{engine.RolePrefill, MetricWaiting, 5}, {engine.RoleDecode, MetricRunning, 5}}})
	if err != nil {
		t.Fatal(err)
	}
	have := pd(1, 9)
	for i := range 13 {
		s := loaded(dep, have, 0, 0)
		s.Start = s.Start.Add(time.Duration(i) * s.Length)
		s.Pools[1].Running = planner.Known(0.0)
		d := k.Propose(s)
		chained(t, s, d)
		if have = d.Want; i < 9 && have != pd(1, 9) {
			t.Fatalf("after %d intervals: %s", i+1, have)
		}
	}
	if have != pd(0, 1) {
		t.Errorf("ends at %s", have)
	}
}

func TestSaturationRule(t *testing.T) {
	for _, c := range []struct {
		name      string
		have      int
		queue, kv float64
		want      int
	}{
		{"room for all", 2, 0, 0.5, 2},
		{"KV leaves less than 0.10", 2, 0, 0.71, 3},
		{"the queue leaves less than 3", 2, 2.1, 0.5, 3},
		{"saturated", 2, 9, 0.95, 3},
		{"one fewer would have 0.70", 3, 0, 0.466, 2},
		{"one fewer would have 0.71", 3, 0, 0.474, 3},
		{"one fewer would queue 2.1", 3, 1.4, 0.1, 3},
		{"the last one stays", 1, 0, 0, 1},
	} {
		s := halfMinute(one(0), 0, c.have, c.queue, c.kv)
		d := Saturation{}.Propose(s)
		chained(t, s, d)
		if d.Want.Aggregated != c.want {
			t.Errorf("%s: %s, want %d: %+v", c.name, d.Want, c.want, d.Steps)
		}
	}
	s := halfMinute(one(1), 0, 2, 9, 0.95)
	s.Have.Aggregated, s.Pools[0].Starting = 3, 1
	if d := (Saturation{}).Propose(s); d.Want.Aggregated != 3 {
		t.Errorf("one starts already: %+v", d)
	}
}

func TestTokensRule(t *testing.T) {
	for _, c := range []struct {
		name      string
		have      int
		queue, kv float64
		want      int
	}{
		// A replica carries 80000 of its 100000 tokens.
		{"within", 4, 0, 0.60, 4},
		{"at 0.85 of it", 4, 0, 0.68, 4},
		{"above", 4, 0, 0.69, 5},             // 276000/0.85 = 324706 of 320000
		{"what waits counts", 4, 4, 0.65, 5}, // (65000+4000)·4
		{"several at once", 4, 4.9, 1, 7},    // 419600/0.85 = 493647: 2.2 more
		{"below 0.70", 4, 0, 0.41, 3},        // 164000/0.7 = 234286: 1.07 spare
		{"idle", 4, 0, 0, 0},
	} {
		k, err := NewTokens(DefaultTokens(100_000))
		if err != nil {
			t.Fatal(err)
		}
		s := halfMinute(one(0), 0, c.have, c.queue, c.kv)
		d := k.Propose(s)
		chained(t, s, d)
		if d.Want.Aggregated != c.want {
			t.Errorf("%s: %s, want %d: %+v", c.name, d.Want, c.want, d.Steps)
		}
	}
}

// A queue at 40 % of the cache says that a replica carries no more than that.
func TestTokensLearnsTheComputeBound(t *testing.T) {
	k, err := NewTokens(DefaultTokens(100_000))
	if err != nil {
		t.Fatal(err)
	}
	// 40000 + 5000 for each: 90000/0.85 = 105882 of 80000.
	if d := k.Propose(halfMinute(one(1), 0, 2, 5, 0.4)); d.Want.Aggregated != 3 {
		t.Errorf("%+v", d)
	}
	// 120000/0.85 of 3·40000 without a queue: the bound is remembered.
	if d := k.Propose(halfMinute(one(1), 1, 3, 0, 0.4)); d.Want.Aggregated != 4 {
		t.Errorf("%+v", d)
	}
	for i := range 20 {
		k.Propose(halfMinute(one(1), 2+i, 3, 6, 0.6))
	}
	if n := len(k.bound[engine.RoleAggregated]); n != mostBounds {
		t.Errorf("%d bounds are kept", n)
	}
	if c := k.capacity(engine.RoleAggregated, 1, 0); math.Abs(c-60_000) > 1e-6 {
		t.Errorf("capacity %v", c)
	}
}

// Replicas that start are supply, those that drain are none that can go, and a
// cache is full at 1 whatever an engine says.
func TestTokensCountsWhatStarts(t *testing.T) {
	k, err := NewTokens(DefaultTokens(100_000))
	if err != nil {
		t.Fatal(err)
	}
	s := halfMinute(one(0), 0, 2, 0, 0.79) // 158000/0.85 = 185882, of 2·80000 or 3·80000
	s.Have.Aggregated, s.Pools[0].Starting = 3, 1
	if d := k.Propose(s); d.Want.Aggregated != 3 {
		t.Errorf("one starts: %+v", d.Steps)
	}
	s = halfMinute(one(0), 0, 5, 0, 0)
	s.Have.Aggregated = 2
	if d := k.Propose(s); d.Want.Aggregated != 0 {
		t.Errorf("3 drain: %+v", d.Steps)
	}
	s = halfMinute(one(0), 0, 2, 0, 5) // 200000/0.85 = 235294
	if d := k.Propose(s); d.Want.Aggregated != 3 {
		t.Errorf("a KV use of 5: %+v", d.Steps)
	}
}

// Each rule names what it lacks and does nothing.
func TestOthersMissing(t *testing.T) {
	p, d := h200(t)
	for name, fresh := range fresh(t, p, d) {
		s := halfMinute(one(1), 0, 3, 9, 0.95)
		s.Pools[0].Queue, s.Pools[0].KVUsage, s.Pools[0].Running = planner.Figure[float64]{}, planner.Known(math.NaN()), planner.Figure[float64]{}
		got := fresh().Propose(s)
		chained(t, s, got)
		if name != "static" && (got.Want != s.Have || len(got.Missing) == 0) {
			t.Errorf("%s: %+v", name, got)
		}
		s = halfMinute(one(1), 0, 3, 9, 0.95)
		s.Warmup = true
		got = fresh().Propose(s)
		chained(t, s, got)
		if name != "static" && got.Want != s.Have {
			t.Errorf("%s in a warm-up: %+v", name, got)
		}
	}
}

func TestOthersCheck(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{HPAOptions{}.Check(), "no pool has a target"},
		{KEDAOptions{[]PoolTarget{{"", MetricKV, 0.5}}}.Check(), `for the pool "": want prefill, decode or aggregated, each once`},
		{HPAOptions{append(aggregatedTarget(MetricKV, 0.5), aggregatedTarget(MetricKV, 0.5)...)}.Check(), "each once"},
		{HPAOptions{aggregatedTarget("cpu", 1)}.Check(), `is for "cpu": want kv_usage, waiting or running`},
		{HPAOptions{aggregatedTarget(MetricKV, 1.1)}.Check(), "is 1.1: want above 0 to 1"},
		{HPAOptions{aggregatedTarget(MetricWaiting, 0)}.Check(), "is 0: want above 0 to 1000000"},
		{HPAOptions{aggregatedTarget(MetricWaiting, math.NaN())}.Check(), "is NaN"},
		{TokensOptions{KVTokens: 0, Up: 0.85, Down: 0.7}.Check(), "is 0 tokens: want 1 to"},
		{TokensOptions{KVTokens: 1, Up: 0.7, Down: 0.7}.Check(), "are 0.7 and 0.7: want above 0 to 1"},
		{Static{planner.Replicas{Decode: -1}}.Check(), "static replicas are prefill=0, decode=-1: want 0 to"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error %v lacks %q", c.err, c.want)
		}
	}
	for _, err := range []error{HPAOptions{aggregatedTarget(MetricKV, 1)}.Check(), DefaultTokens(1).Check(), Static{}.Check()} {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestOthersRestoreRefuses(t *testing.T) {
	p, d := h200(t)
	all := fresh(t, p, d)
	for name, state := range map[string]string{
		"hpa":    `{"policy":"hpa","past":[{"replicas":{"decode":-1}}]}`,
		"keda":   `{"policy":"keda","past":[{"replicas":{"prefill":-1}}]}`,
		"tokens": `{"policy":"wva-tokens","bound":{"decode":[0]}}`,
	} {
		if err := all[name]().Restore(json.RawMessage(state)); err == nil {
			t.Errorf("%s takes %s", name, state)
		}
	}
	if err := all["keda"]().Restore(json.RawMessage(`{"policy":"keda"}`)); err != nil {
		t.Error(err)
	}
}
