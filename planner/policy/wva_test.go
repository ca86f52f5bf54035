package policy

import (
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// wvaEngines are engines of every pool, as of its defaults.
func wvaEngines(kvTokens int) (out []WVAEngine) {
	for _, r := range []planner.Role{engine.RolePrefill, engine.RoleDecode, engine.RoleAggregated} {
		out = append(out, WVAEngine{r, kvTokens, 8192, 256, DefaultKVThreshold})
	}
	return out
}

func wva(b Behavior) *WVA { return NewWVA(WVAOptions{wvaEngines(16_000), b}) }

// replicasOf are numbered from 0.
func replicasOf(kvAndQueue ...[2]float64) (out []planner.ReplicaObservation) {
	for i, x := range kvAndQueue {
		out = append(out, planner.ReplicaObservation{Number: i, KVUsage: x[0], Waiting: x[1]})
	}
	return out
}

// Numbers of its own cases (b08b1c7, saturation_v2/analyzer_test.go), a cache of
// 16000 tokens of which 12800 may be in use.
func TestTokensCapacity(t *testing.T) {
	for _, c := range []struct {
		name          string
		tokens, queue float64
		isl, osl      float64
		batched, want float64
	}{
		{"k1 when k2 is unknown", 5000, 0, 0, 0, 8192, 12_800},
		{"k2 when the queue is saturated", 8000, 6, 100, 50, 8192, 8000},
		{"compute-bound at a low KV use", 4000, 10, 100, 50, 8192, 4000},
		{"derived k2 is 140800", 5000, 2, 500, 100, 2048, 12_800},
		// 100 tokens in a step: 100·100/600 = 16.7 sequences of 550 tokens.
		{"derived from a small step", 5000, 2, 500, 100, 100, 9166},
	} {
		w := wva(WVABehavior())
		w.o.Engines[2].MaxBatchedTokens = int(c.batched)
		if c.osl > 0 {
			w.s.Lengths = []lengths{{Requests: 1, ISL: c.isl, OSL: c.osl}}
		}
		v := variant{WVAEngine: w.o.Engines[2], have: 100, replicas: replicasOf([2]float64{c.tokens / 16_000, c.queue})}
		demand := c.tokens + c.queue*c.isl
		want := 100 - whole(float64(int((100*c.want-demand/0.70)/c.want)))
		if got, _, why := w.tokens(v); got != want {
			t.Errorf("%s: %d, want %d: %s", c.name, got, want, why)
		}
	}
}

func TestTokensRule(t *testing.T) {
	for _, c := range []struct {
		name          string
		have, pending int
		kv, queue     float64 // of each that is ready
		want          int
	}{
		// A replica carries 12800 of its 16000 tokens, and a prompt has 1000.
		{"within", 4, 0, 0.60, 0, 4},
		{"at 0.85 of it", 4, 0, 0.68, 0, 4},
		{"above", 4, 0, 0.69, 0, 5},                       // 44160/0.85 = 51953 of 51200
		{"what waits counts", 4, 0, 0.65, 1, 5},           // 45600/0.85 = 53647
		{"several at once", 4, 0, 0.9, 4, 7},              // 73600/0.85 = 86588: 2.8 more
		{"those that start are supply", 3, 1, 0.79, 0, 3}, // 25280/0.85 = 29741 of 38400
		{"and none that can go", 4, 2, 0.3, 0, 4},         // 25600 − 9600/0.7 = 11886
		{"below 0.70", 4, 0, 0.41, 0, 3},                  // 51200 − 26240/0.7 = 13714: 1.07
		{"idle", 4, 0, 0, 0, 1},
	} {
		w := wva(WVABehavior())
		w.s.Lengths = []lengths{{Requests: 1, ISL: 1000, OSL: 100}}
		v := variant{WVAEngine: w.o.Engines[2], have: c.have, pending: c.pending}
		for i := range c.have - c.pending {
			v.replicas = append(v.replicas, planner.ReplicaObservation{Number: i, KVUsage: c.kv, Waiting: c.queue})
		}
		if got, _, why := w.tokens(v); got != c.want {
			t.Errorf("%s: %d, want %d: %s", c.name, got, c.want, why)
		}
	}
}

// What a replica had in use while requests queued is its capacity from then on, for
// outputs of that length: the mean of the last 10. Of several the median counts.
func TestTokensLearnsTheComputeBound(t *testing.T) {
	w := wva(WVABehavior())
	e := w.o.Engines[2]
	see := func(kv, queue, osl float64) float64 {
		r := planner.ReplicaObservation{KVUsage: kv, Waiting: queue}
		return w.computeBound(e, r, kv*16_000, 100, osl)
	}
	if k := see(0.5, 6, 50); k != 8000 {
		t.Errorf("observed: %v", k)
	}
	if k := see(0.375, 2, 50); k != 8000 {
		t.Errorf("remembered: %v", k)
	}
	if k := see(0.375, 2, 600); k < 12_800 {
		t.Errorf("of long outputs nothing is remembered: %v", k)
	}
	for range 20 {
		see(0.25, 5, 50)
	}
	if k := see(0.9, 0, 50); k != 4000 || len(w.s.Bounds["aggregated short"]) != mostBounds {
		t.Errorf("the last 10: %v of %v", k, w.s.Bounds)
	}
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{5, 1}, 3}, {[]float64{5, 1, 9}, 5}, {[]float64{4, 1, 2, 3}, 2}} {
		if m := median(c.values); m != c.want {
			t.Errorf("median of %v: %v", c.values, m)
		}
	}
}

// quarter is the nth 15 s of an aggregated pool.
func quarter(n, have int, replicas ...[2]float64) planner.Situation {
	s := halfMinute(one(1), 0, have, 0, 0)
	s.Length = 15 * time.Second
	s.Start = s.Start.Add(time.Duration(n) * s.Length)
	s.Pools[0].Replicas, s.Pools[0].Ready = replicasOf(replicas...), len(replicas)
	return s
}

// It analyzes every 30 s, by the highest of a minute of each replica that is there.
func TestWVASeesAMinute(t *testing.T) {
	w := wva(unlimited())
	busy, idle := [2]float64{0.75, 4}, [2]float64{0.1, 0}
	var got []int
	for i, queue := range [][2]float64{idle, busy, idle, idle, idle, idle, idle} {
		got = append(got, w.Propose(quarter(i, 1, queue)).Want.Aggregated)
	}
	// Analyzed at 15, 45, 75 and 105 s. The busy sample is of 30 s: 45 and 75 s see it.
	if want := []int{1, 1, 2, 2, 2, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	all := []glance{{At: time.Unix(0, 0), Replicas: replicasOf(busy, idle)}, {At: time.Unix(15, 0), Replicas: replicasOf(idle)}}
	if h := highest(all); len(h) != 1 || h[0].KVUsage != 0.75 || h[0].Waiting != 4 {
		t.Errorf("of one that went: %+v", h)
	}
	if all[1].Replicas[0].KVUsage != 0.1 {
		t.Error("a glance was changed")
	}
}

// One more than ten is within the tolerance of the HPA that carries it out.
func TestWVAStepsWithinTheTolerance(t *testing.T) {
	for tolerance, want := range map[float64]int{0.1: 11, 0: 12} {
		b := unlimited()
		b.Tolerance = tolerance
		w := wva(b)
		// 121440/0.85 = 142871 of 140800.
		if got := w.Propose(quarter(0, 11, slices.Repeat([][2]float64{{0.69, 0}}, 11)...)).Want.Aggregated; got != want {
			t.Errorf("tolerance %v: %d, want %d", tolerance, got, want)
		}
	}
}

// What it asks for is within the budget; and a source that shows pools only gives it their means.
func TestWVAWithinTheBudget(t *testing.T) {
	w := wva(unlimited())
	s := halfMinute(single(2, 9), 0, 4, 9, 0.9)
	if d := w.Propose(s); d.Want.Aggregated != 4 || w.s.Desired[engine.RoleAggregated] != 4 {
		t.Errorf("%+v", d.Steps)
	}
	s = halfMinute(single(2, 10), 2, 4, 9, 0.9)
	if d := w.Propose(s); d.Want.Aggregated != 5 {
		t.Errorf("%+v", d.Steps)
	}
}
