package policy

import (
	"math"
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
