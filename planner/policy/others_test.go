package policy

import (
	"encoding/json"
	"math"
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
	return []PoolTarget{{Role: engine.RoleAggregated, Metric: m, Value: v}}
}

// triggers are two PerReplica targets of every pool.
func triggers(m Metric, v float64, other Metric, w float64) (out []PoolTarget) {
	for _, r := range []planner.Role{engine.RolePrefill, engine.RoleDecode, engine.RoleAggregated} {
		out = append(out, PoolTarget{r, m, v, PerReplica}, PoolTarget{r, other, w, PerReplica})
	}
	return out
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

func hpaOf(targets []PoolTarget) error { return HPAOptions{targets, DefaultBehavior()}.Check() }

func TestOthersCheck(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{HPAOptions{Behavior: DefaultBehavior()}.Check(), "no pool has a target"},
		{hpaOf([]PoolTarget{{Metric: MetricKV, Value: 0.5}}), `for the pool "": want prefill, decode or aggregated, each once`},
		{hpaOf(append(aggregatedTarget(MetricKV, 0.5), aggregatedTarget(MetricKV, 0.5)...)), "each once for a metric"},
		{hpaOf(aggregatedTarget("cpu", 1)), `is for "cpu": want kv_usage, waiting, running or held`},
		{hpaOf(aggregatedTarget(MetricKV, 1.1)), "is 1.1: want above 0 to 1"},
		{hpaOf(aggregatedTarget(MetricWaiting, 0)), "is 0: want above 0 to 1000000"},
		{hpaOf(aggregatedTarget(MetricWaiting, math.NaN())), "is NaN"},
		{hpaOf([]PoolTarget{{engine.RoleDecode, MetricKV, 0.5, InAll}}), `is the "Value" of kv_usage`},
		{HPAOptions{aggregatedTarget(MetricKV, 1), Behavior{}}.Check(), "allows 0 pods or 0 %"},
		{HPAOptions{aggregatedTarget(MetricKV, 1), Behavior{Tolerance: math.NaN()}}.Check(), "the tolerance is NaN"},
		{KEDAOptions{aggregatedTarget(MetricWaiting, 5), DefaultBehavior()}.Check(), `is "": want "AverageValue"`},
		{WVAOptions{Behavior: WVABehavior()}.Check(), "no pool has an engine"},
		{WVAOptions{wvaEngines(0), WVABehavior()}.Check(), "holds 0 tokens"},
		{WVAOptions{[]WVAEngine{{engine.RoleDecode, 1, 1, 1, 1.5}}, WVABehavior()}.Check(), "at a KV use of 1.5: want above 0 to 1"},
		{Static{planner.Replicas{Decode: -1}}.Check(), "static replicas are prefill=0, decode=-1: want 0 to"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error %v lacks %q", c.err, c.want)
		}
	}
	for _, err := range []error{hpaOf(aggregatedTarget(MetricKV, 1)), WVAOptions{wvaEngines(1), WVABehavior()}.Check(), Static{}.Check()} {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestOthersRestoreRefuses(t *testing.T) {
	p, d := h200(t)
	all := fresh(t, p, d)
	for state, name := range map[string]string{
		`{"policy":"hpa","past":[{"replicas":{"decode":-1}}]}`:   "hpa",
		`{"policy":"keda","past":[{"replicas":{"prefill":-1}}]}`: "keda",
		`{"policy":"wva","bounds":{"decode short":[0]}}`:         "wva",
		`{"policy":"wva","desired":{"decode":-1}}`:               "wva",
	} {
		if err := all[name]().Restore(json.RawMessage(state)); err == nil {
			t.Errorf("%s takes %s", name, state)
		}
	}
	if err := all["keda"]().Restore(json.RawMessage(`{"policy":"keda"}`)); err != nil {
		t.Error(err)
	}
}
