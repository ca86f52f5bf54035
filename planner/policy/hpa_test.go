package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

func newHPA(b Behavior, targets ...PoolTarget) *HPA { return NewHPA(HPAOptions{targets, b}) }

// unlimited is a behavior that lets everything come about at once.
func unlimited() Behavior {
	d := Scaling{Percent: mostReplicas, Period: time.Second}
	return Behavior{Up: d, Down: d, Tolerance: 0.1}
}

// Numbers of Kubernetes' own cases (v1.36.3, replica_calculator_test.go), by their
// names there; below them one row per sentence of the documentation.
func TestHPAReplicas(t *testing.T) {
	per, all := PoolTarget{As: PerReplica}, PoolTarget{As: InAll}
	for _, c := range []struct {
		name           string
		as             PoolTarget
		have, starting int
		metric, target float64
		want           int
	}{
		{"ScaleUpCM", PoolTarget{}, 3, 0, 20, 15, 4},
		{"ToleranceCM", PoolTarget{}, 3, 0, 20.666, 20, 3},
		{"ScaleUpCMExternal", all, 1, 0, 8.6, 4.4, 2},
		{"ScaleDownCMExternal", all, 5, 0, 8.6, 14.334, 3},
		{"ScaleUpPerPodCMExternal", per, 3, 0, 8.6, 2.15, 4},
		{"ScaleDownPerPodCMExternal", per, 5, 0, 8.6, 2.867, 3},
		{"TolerancePerPodCMExternal", per, 3, 0, 8.6, 2.9, 3},

		{"exactly 10 % above is near", per, 10, 0, 11, 1, 10},
		{"exactly 10 % below is near", per, 10, 0, 9, 1, 10},
		{"12.5 % above is not", PoolTarget{}, 16, 0, 1.125, 1, 18},
		{"rounded up", PoolTarget{}, 3, 0, 6, 5, 4},
		{"those that start do nothing yet", PoolTarget{}, 4, 4, 10, 5, 8},
		{"and bring it below", PoolTarget{}, 4, 12, 10, 5, 16},
		{"or not far enough", PoolTarget{}, 8, 2, 10, 5, 16},
		{"half the target, half as many", PoolTarget{}, 8, 0, 2.5, 5, 4},
		{"those that start are on the target downwards", PoolTarget{}, 4, 4, 2.5, 5, 6},
		{"nothing to do leaves one", PoolTarget{}, 4, 0, 0, 5, 1},
		{"a total counts those that start as there", per, 2, 2, 40, 10, 4},
	} {
		p := PoolTarget{engine.RoleAggregated, MetricRunning, c.target, c.as.As}
		s := halfMinute(one(1), 0, c.have, 0, 0)
		s.Have.Aggregated, s.Pools[0].Starting = c.have+c.starting, c.starting
		s.Pools[0].Running = planner.Known(c.metric)
		if p.As == PerPod {
			s.Pools[0].Running.Value *= float64(c.have)
		}
		d := newHPA(unlimited(), p).Propose(s)
		chained(t, s, d)
		if d.Want.Aggregated != c.want {
			t.Errorf("%s: %s, want %d: %+v", c.name, d.Want, c.want, d.Steps)
		}
	}
}

// What a pod of Kubernetes shows: a metric from 0 on, or why there is none.
const (
	pendingPod = -1 - iota
	runningPod // without metrics
)

// kubernetesReplicas is what calcPlainMetricReplicas makes of a metric of pods
// (v1.36.3, replica_calculator.go), pod by pod and in whole numbers, as there.
func kubernetesReplicas(pods []int64, target int64, have int) int {
	var shown, filled []int64
	for _, v := range pods {
		if v >= 0 {
			shown = append(shown, v)
		}
	}
	if len(shown) == 0 {
		return have // no metric of any pod is an error
	}
	usage := func(of []int64) float64 {
		var sum int64
		for _, v := range of {
			sum += v
		}
		return float64(sum/int64(len(of))) / float64(target)
	}
	near := func(r float64) bool { return r >= 0.9 && r <= 1.1 }
	first, again := usage(shown), false
	for _, v := range pods {
		switch {
		case v >= 0:
			filled = append(filled, v)
		case v == runningPod:
			again = true
			if first < 1 {
				filled = append(filled, target)
			} else if first > 1 {
				filled = append(filled, 0)
			}
		case first > 1: // pending
			again, filled = true, append(filled, 0)
		}
	}
	second := usage(filled)
	n := int(math.Ceil(second * float64(len(filled))))
	switch {
	case !again && near(first):
		return have
	case !again:
		return n
	case near(second), first < 1 && second > 1, first > 1 && second < 1, second < 1 && n > have, second > 1 && n < have:
		return have
	}
	return n
}

// Pods that show a metric, that run without one, and that are pending, in any numbers.
func TestPodReplicasAreKubernetes(t *testing.T) {
	const target = 1_000_000_000
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		var p planner.PoolObservation
		p.Ready, p.Pending = rng.IntN(20), rng.IntN(2)*rng.IntN(8)
		p.Starting = p.Pending + rng.IntN(2)*rng.IntN(8)
		pods := slices.Concat(slices.Repeat([]int64{pendingPod}, p.Pending), slices.Repeat([]int64{runningPod}, p.Starting-p.Pending))
		mean, around := 0.0, rng.Int64N(2*target)
		for range p.Ready {
			v := around + rng.Int64N(target)
			pods, mean = append(pods, v), mean+float64(v)/target/float64(p.Ready)
		}
		have := max(1, len(pods)-rng.IntN(3))
		want := kubernetesReplicas(pods, target, have)
		if got, why := DefaultBehavior().podReplicas(p, have, mean); got != want {
			t.Fatalf("%+v of %d at %v of the target: %d (%s), want %d", p.PoolState, have, mean, got, why, want)
		}
	}
}

// Of several metrics that which asks for most holds.
func TestHPATakesTheMost(t *testing.T) {
	h := newHPA(unlimited(), PoolTarget{engine.RoleAggregated, MetricRunning, 10, PerReplica}, PoolTarget{engine.RoleAggregated, MetricWaiting, 1, PerReplica})
	for _, c := range []struct {
		running, queue float64 // queue of each of 2
		want           int
	}{{100, 0, 10}, {0, 6, 12}, {100, 6, 12}, {0, 0, 1}} {
		s := halfMinute(one(1), 0, 2, c.queue, 0)
		s.Pools[0].Running = planner.Known(c.running)
		if d := h.Propose(s); d.Want.Aggregated != c.want {
			t.Errorf("%v: %s", c, d.Want)
		}
	}
}

// What a replica holds is what it serves and what waits there; KV caches add up to
// as many as are full.
func TestHPAMetrics(t *testing.T) {
	s := halfMinute(one(1), 0, 4, 3, 0.5)
	s.Pools[0].Running = planner.Known(20.0)
	for _, c := range []struct {
		metric Metric
		value  float64
		want   int
	}{{MetricHeld, 4, 8}, {MetricKV, 0.25, 8}, {MetricWaiting, 2, 6}, {MetricRunning, 2, 10}} {
		h := newHPA(unlimited(), PoolTarget{engine.RoleAggregated, c.metric, c.value, PerReplica})
		if d := h.Propose(s); d.Want.Aggregated != c.want {
			t.Errorf("%v: %s", c, d.Want)
		}
	}
	s.Pools[0].Queue = planner.Figure[float64]{}
	if d := newHPA(unlimited(), PoolTarget{engine.RoleAggregated, MetricHeld, 4, PerReplica}).Propose(s); len(d.Missing) != 1 {
		t.Errorf("without a queue: %+v", d)
	}
}

// Another autoscaler took ceil(observed/target) of a metric per replica for the
// number of replicas (AIBrix #485): 16 replicas at 0.49 of a target of 0.7 became one.
func TestPerReplicaMetricIsNotATotal(t *testing.T) {
	h := newHPA(unlimited(), PoolTarget{Role: engine.RoleAggregated, Metric: MetricKV, Value: 0.7})
	if d := h.Propose(halfMinute(one(1), 0, 16, 0, 0.49)); d.Want.Aggregated != 12 { // 16·0.7 = 11.2
		t.Errorf("%+v", d)
	}
}

func TestHPALeavesPoolsAlone(t *testing.T) {
	h := newHPA(unlimited(), PoolTarget{Role: engine.RoleDecode, Metric: MetricRunning, Value: 10})
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
	k := NewKEDA(KEDAOptions{[]PoolTarget{{engine.RoleAggregated, MetricWaiting, 5, PerReplica}}, DefaultBehavior(), true})
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
// the pool is first looked at, and any trigger keeps it on; one pool's switching
// leaves the other to HPA.
func TestKEDAStaysOn(t *testing.T) {
	dep := split(1, 1, -1)
	dep.Pools[0].Min = 0
	k := NewKEDA(KEDAOptions{triggers(MetricWaiting, 5, MetricRunning, 5), DefaultBehavior(), true})
	have := pd(1, 9)
	for i := range 13 {
		s := loaded(dep, have, 0, 0)
		s.Start = s.Start.Add(time.Duration(i) * s.Length)
		for j := range s.Pools {
			s.Pools[j].Running, s.Pools[j].Queue = planner.Known(0.0), planner.Known(0.0)
		}
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

// A trigger without series is 0, as ignoreNullValues has it. The least is 0 in the last row.
func TestKEDAReadsNothingAsZero(t *testing.T) {
	none := planner.Figure[float64]{}
	for _, c := range []struct {
		name    string
		zero    bool
		least   int
		seen    func(*planner.Situation)
		missing int // figures, each time
		want    int // after 300 s
	}{
		{"no series", true, 1, func(*planner.Situation) {}, 0, 1},
		{"NaN", true, 1, func(s *planner.Situation) { s.Pools[0].Running = planner.Known(math.NaN()) }, 0, 1},
		{"another trigger has some", true, 1, func(s *planner.Situation) { s.Pools[0].Running = planner.Known(30.0) }, 0, 6},
		{"an empty result is an error", false, 1, func(*planner.Situation) {}, 2, 8},
		{"no series, switched off", true, 0, func(*planner.Situation) {}, 0, 0},
	} {
		k := NewKEDA(KEDAOptions{triggers(MetricWaiting, 5, MetricRunning, 5), NoBehavior(), c.zero})
		have := 8
		for i := range 11 {
			s := halfMinute(one(c.least), i, have, 0, 0)
			s.Pools[0].Queue, s.Pools[0].Running, s.Waiting = none, none, none
			c.seen(&s)
			d := k.Propose(s)
			chained(t, s, d)
			if len(d.Missing) != c.missing || warned(d, "empty_is_zero") != (c.missing == 0) {
				t.Fatalf("%s: %+v", c.name, d)
			}
			have = d.Want.Aggregated
		}
		if have != c.want {
			t.Errorf("%s: %d replicas after 300 s, want %d", c.name, have, c.want)
		}
	}
}
