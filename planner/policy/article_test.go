package policy

import (
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// newArticle is the policy where 100 requests fill a replica.
func newArticle() *Article {
	var full []PoolTarget
	for _, r := range []planner.Role{engine.RolePrefill, engine.RoleDecode, engine.RoleAggregated} {
		full = append(full, PoolTarget{Role: r, Metric: MetricRunning, Value: 100})
	}
	return NewArticle(full)
}

// articleSees is an interval that ends at an instant: each pool at a utilisation, with so
// many requests waiting, and latencies at half of what the SLA allows.
func articleSees(dep planner.Deployment, have planner.Replicas, end time.Duration, used, waiting float64) planner.Situation {
	s := at(dep, have, 15*time.Second)
	s.Start = s.Start.Add(end)
	s.Arrivals = planner.Known(100.0)
	s.TTFT, s.TPOT = p95And99(dep.SLA.TTFT/2, dep.SLA.TTFT/2), p95And99(dep.SLA.ITL/2, dep.SLA.ITL/2)
	for i := range s.Pools {
		n := float64(s.Pools[i].Ready)
		s.Pools[i].Running, s.Pools[i].Queue = planner.Known(100*used*n), planner.Known(waiting/n)
	}
	return s
}

func p95And99(p95, p99 time.Duration) planner.Spread[time.Duration] {
	return planner.Spread[time.Duration]{Count: 100, Mean: planner.Known(p95 / 2), P95: planner.Exactly(p95), P99: planner.Exactly(p99)}
}

// One row per sentence of the rule, each threshold from both sides.
func TestArticle(t *testing.T) {
	const limit = 500 * time.Millisecond
	for _, c := range []struct {
		name          string
		gpus, have    int
		used, waiting float64
		p95, p99      time.Duration // of TTFT
		want          int
		rule          string
	}{
		{"nothing", 1, 5, 0.60, 0, 0, 0, 5, "hold"},
		{"utilisation at 0.85", 1, 5, 0.85, 0, 0, 0, 5, "hold"},
		{"utilisation above", 1, 5, 0.86, 0, 0, 0, 9, "up"},
		{"99 wait", 1, 5, 0.60, 99, 0, 0, 5, "hold"},
		{"100 wait", 1, 5, 0.60, 100, 0, 0, 9, "up"},
		{"p99 at the limit", 1, 5, 0.60, 0, limit, limit, 5, "hold"},
		{"1 % missed", 1, 5, 0.60, 0, limit, limit + 1, 9, "up"},
		{"5 % missed", 1, 5, 0.60, 0, limit + 1, limit + 1, 13, "up"},
		{"misses count at any utilisation", 1, 5, 0.10, 0, 0, limit + 1, 9, "up"},
		{"utilisation at 0.40", 1, 7, 0.40, 0, 0, 0, 7, "hold"},
		{"utilisation below", 1, 7, 0.39, 0, 0, 0, 3, "down"},
		{"9 wait", 1, 7, 0.39, 9, 0, 0, 3, "down"},
		{"10 wait", 1, 7, 0.39, 10, 0, 0, 7, "hold"},

		{"one remains", 1, 3, 0.10, 0, 0, 0, 1, "down"},
		{"of one", 1, 1, 0.10, 0, 0, 0, 1, "hold"},
		{"4 GPUs are two of two", 2, 5, 0.90, 0, 0, 0, 7, "up"},
		{"8 are four", 2, 5, 0.90, 0, limit + 1, limit + 1, 9, "up"},
		{"and down", 2, 5, 0.10, 0, 0, 0, 3, "down"},
		{"4 are two of three, rounded up", 3, 5, 0.90, 0, 0, 0, 7, "up"},
		{"8 are three", 3, 5, 0.90, 0, limit + 1, limit + 1, 8, "up"},
		{"and one down", 3, 5, 0.10, 0, 0, 0, 4, "down"},
		{"4 are one of eight", 8, 5, 0.90, 0, 0, 0, 6, "up"},
		{"so are 8", 8, 5, 0.90, 0, limit + 1, limit + 1, 6, "up"},
		{"and one down of eight", 8, 5, 0.10, 0, 0, 0, 4, "down"},
	} {
		s := articleSees(single(c.gpus, -1), planner.Replicas{Aggregated: c.have}, 0, c.used, c.waiting)
		s.TTFT = p95And99(c.p95, c.p99)
		d := newArticle().Propose(s)
		chained(t, s, d)
		if d.Want.Aggregated != c.want || rulesOf(d, engine.RoleAggregated) != c.rule {
			t.Errorf("%s: %s by %s, want %d by %s: %+v", c.name, d.Want, rulesOf(d, engine.RoleAggregated), c.want, c.rule, d.Steps)
		}
	}
}

// Nothing is scaled for 120 s after a scaling, either way; what bounds took away was none,
// nor is what a fleet begins with.
func TestArticleCooldown(t *testing.T) {
	a, dep := newArticle(), single(1, -1)
	a.Propose(planner.Situation{Observation: planner.Told(time.Unix(999_940, 0), time.Minute, 1, 1, 1), Deployment: dep})
	for _, c := range []struct {
		after int // s
		have  int
		used  float64
		rule  string
	}{
		{0, 4, 0.9, "up"},
		{15, 4, 0.9, "up"}, // bounds left it as it was
		{30, 8, 0.9, "cooldown"},
		{134, 8, 0.1, "cooldown"},
		{135, 8, 0.1, "down"},
		{150, 4, 0.9, "cooldown"},
		{254, 4, 0.9, "cooldown"},
		{255, 4, 0.9, "up"},
	} {
		d := a.Propose(articleSees(dep, planner.Replicas{Aggregated: c.have}, time.Duration(c.after)*time.Second, c.used, 0))
		if got := rulesOf(d, engine.RoleAggregated); got != c.rule {
			t.Errorf("after %d s: %s, want %s: %+v", c.after, got, c.rule, d.Steps)
		}
	}
}

// Each pool has its own figures, TTFT of prefill and ITL of decode, and its own cooldown.
func TestArticlePools(t *testing.T) {
	dep := split(2, 4, -1)
	for _, c := range []struct {
		name string
		see  func(*planner.Situation)
		want planner.Replicas
	}{
		{"TTFT", func(s *planner.Situation) { s.TTFT = p95And99(time.Second, time.Second) }, pd(9, 5)},
		{"ITL", func(s *planner.Situation) { s.TPOT = p95And99(time.Millisecond, time.Second) }, pd(5, 6)},
		{"prefill's queue", func(s *planner.Situation) { s.Pools[0].Queue = planner.Known(20.0) }, pd(7, 5)},
		{"decode is idle", func(s *planner.Situation) { s.Pools[1].Running = planner.Known(0.0) }, pd(5, 4)},
	} {
		a := newArticle()
		s := articleSees(dep, pd(5, 5), 0, 0.6, 0)
		c.see(&s)
		d := a.Propose(s)
		if d.Want != c.want {
			t.Errorf("%s: %s, want %s: %+v", c.name, d.Want, c.want, d.Steps)
		}
		next := a.Propose(articleSees(dep, d.Want, 15*time.Second, 0.9, 0))
		for _, p := range dep.Pools {
			cooling, scaled := rulesOf(next, p.Role) == "cooldown", d.Want.Of(p.Role) != 5
			if cooling != scaled {
				t.Errorf("%s: scaled %s: %v, cools down: %v", c.name, p.Role, scaled, cooling)
			}
		}
	}
}

// A figure that is missing holds every pool, whatever the others say. Of no request none
// missed, where it is known that none came.
func TestArticleMissing(t *testing.T) {
	none := planner.Spread[time.Duration]{}
	for _, c := range []struct {
		name string
		lose func(*planner.Situation)
		held bool
	}{
		{"nothing", func(*planner.Situation) {}, false},
		{"what runs", func(s *planner.Situation) { s.Pools[1].Running.Known = false }, true},
		{"what waits", func(s *planner.Situation) { s.Pools[0].Queue.Known = false }, true},
		{"p99 TTFT", func(s *planner.Situation) { s.TTFT.P99.Known = false }, true},
		{"p95 ITL", func(s *planner.Situation) { s.TPOT.P95.Known = false }, true},
		{"no request", func(s *planner.Situation) { s.TTFT, s.TPOT, s.Arrivals = none, none, planner.Known(0.0) }, false},
		{"whether requests came", func(s *planner.Situation) { s.TTFT, s.TPOT, s.Arrivals = none, none, planner.Figure[float64]{} }, true},
		{"no promise", func(s *planner.Situation) {
			s.TTFT, s.Arrivals.Known, s.Deployment.SLA.TTFT = none, false, 0
		}, false},
	} {
		for _, used := range []float64{0.1, 0.9} {
			s := articleSees(split(1, 1, -1), pd(5, 5), 0, used, 0)
			c.lose(&s)
			d := newArticle().Propose(s)
			chained(t, s, d)
			if held := d.Want == s.Have && len(d.Missing) > 0; held != c.held {
				t.Errorf("%s, utilisation %v: %s, missing %v", c.name, used, d.Want, d.Missing)
			}
		}
	}
}
