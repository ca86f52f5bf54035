package policy

import (
	"math"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/profile"
)

func queueDepth(t testing.TB) *QueueDepth {
	t.Helper()
	q, err := NewQueueDepth(QueueDepthOptions{Rule: DefaultSimple(1, 1, 1), Full: []PoolTarget{
		{engine.RolePrefill, MetricRunning, 1, PerPod}, {engine.RoleDecode, MetricRunning, 20, PerPod}, {engine.RoleAggregated, MetricRunning, 20, PerPod},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// serving is a half minute of an aggregated pool whose replicas each serve so many
// requests, with the percentiles of TTFT in ms; ITL holds.
func serving(dep planner.Deployment, n, have int, running, queue float64, ttft [4]int) planner.Situation {
	s := halfMinute(dep, n, have, queue, 0.5)
	s.Arrivals, s.Pools[0].Running = planner.Known(100.0), planner.Known(running*float64(have))
	at := func(v int) planner.Figure[time.Duration] { return planner.Known(time.Duration(v) * time.Millisecond) }
	s.TTFT = planner.Spread[time.Duration]{Count: 100, Mean: at(ttft[0]), P50: at(ttft[0]), P90: at(ttft[1]), P95: at(ttft[2]), P99: at(ttft[3])}
	s.ITL = planner.Spread[time.Duration]{Count: 100, Mean: at(10), P50: at(10), P90: at(10), P95: at(10), P99: at(10)}
	return s
}

// One row per sentence of the rule. The SLA is 500 ms of TTFT.
func TestQueueDepthRule(t *testing.T) {
	good := [4]int{100, 150, 200, 300}
	for _, c := range []struct {
		name           string
		running, queue float64
		ttft           [4]int
		want           int
	}{
		{"busy: 4 more", 18, 0, good, 14},
		{"a queue of 110: 4 more", 10, 11, good, 14},
		{"2 % miss: 4 more", 10, 0, [4]int{100, 150, 400, 800}, 14},
		{"half miss: 8 more", 10, 0, [4]int{600, 700, 800, 900}, 18},
		{"idle: 4 fewer", 2, 0, good, 6},
		{"idle, but 1 % miss: 4 more all the same", 2, 0, [4]int{100, 150, 200, 501}, 14},
		{"neither", 10, 0, good, 10},
	} {
		s := serving(one(1), 0, 10, c.running, c.queue, c.ttft)
		d := queueDepth(t).Propose(s)
		chained(t, s, d)
		if d.Want.Aggregated != c.want {
			t.Errorf("%s: %s, want %d: %+v", c.name, d.Want, c.want, d.Steps)
		}
	}
}

// A change is followed by none for two minutes, also of a rule that was restored.
func TestQueueDepthCooldown(t *testing.T) {
	q, have := queueDepth(t), 1
	var got []int
	for n := range 6 {
		d := q.Propose(serving(one(1), n, have, 19, 0, [4]int{1, 1, 1, 1}))
		have = d.Want.Aggregated
		got = append(got, have)
		state, err := q.Save()
		if err != nil {
			t.Fatal(err)
		}
		if q = queueDepth(t); q.Restore(state) != nil {
			t.Fatal(string(state))
		}
	}
	if want := [6]int{5, 5, 5, 5, 9, 9}; [6]int(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// The share above a limit is exact at the percentiles, and missing without them.
func TestShareAboveALimit(t *testing.T) {
	at := func(v int) planner.Figure[time.Duration] { return planner.Known(time.Duration(v)) }
	s := planner.Spread[time.Duration]{P50: at(10), P90: at(20), P95: at(40), P99: at(80)}
	for limit, want := range map[time.Duration]float64{5: 0.5, 10: 0.5, 15: 0.3, 20: 0.1, 30: 0.075, 40: 0.05, 60: 0.03, 80: 0, 90: 0} {
		if got := above(s, limit); math.Abs(got-want) > 1e-12 {
			t.Errorf("above %d: %v, want %v", limit, got, want)
		}
	}
	if got := above(planner.Spread[time.Duration]{Mean: at(10)}, 5); !math.IsNaN(got) {
		t.Errorf("of a mean alone: %v", got)
	}
	if got := missed(planner.Observation{Arrivals: planner.Known(0.0)}, profile.SLA{}, engine.RoleDecode); got != 0 {
		t.Errorf("nothing came: %v", got)
	}
}

func TestQueueDepthRefuses(t *testing.T) {
	for _, o := range []QueueDepthOptions{
		{},
		{Rule: DefaultSimple(1, 1, 1)},
		{Rule: DefaultSimple(1, 1, 1), Full: aggregatedTarget(MetricKV, 0.5)},
		{Full: aggregatedTarget(MetricRunning, 5)},
	} {
		if _, err := NewQueueDepth(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
