package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/profile"
)

// QueueDepthOptions make a QueueDepth.
type QueueDepthOptions struct {
	Rule Simple // of every pool; its groups and bounds are each pool's own
	// Full are the requests that a replica serves at utilisation 1, MetricRunning;
	// pools without one stay as they are.
	Full []PoolTarget
}

// Check says all that is wrong.
func (o QueueDepthOptions) Check() error {
	rule := o.Rule
	rule.GroupGPUs, rule.MinGPUs, rule.MaxGPUs = 1, 0, maxGPUs
	if err := rule.Check(); err != nil {
		return err
	}
	for _, t := range o.Full {
		if t.Metric != MetricRunning {
			return fmt.Errorf("the full load of %s is in %q: want %s", t.Role, t.Metric, MetricRunning)
		}
	}
	return checkTargets(o.Full)
}

// QueueDepth is Simple on every pool of a deployment, each by itself: what
// capacity/autoscale simulates, to compare with. A pool that prefills misses TTFT,
// one that decodes ITL.
type QueueDepth struct {
	o       QueueDepthOptions
	changed map[planner.Role]time.Time // when the rule last changed a pool
}

var _ planner.Policy = (*QueueDepth)(nil)

// NewQueueDepth makes the policy.
func NewQueueDepth(o QueueDepthOptions) (*QueueDepth, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &QueueDepth{o: o, changed: map[planner.Role]time.Time{}}, nil
}

// Propose lets the rule step on each pool. A figure that is missing is NaN to it,
// which forbids going down and nothing else; without any of a pool's own nothing is
// decided.
func (q *QueueDepth) Propose(s planner.Situation) planner.Decision {
	f := begin(s)
	if s.Warmup {
		return f.hold("warm-up", "a trace tells of requests only, not of load")
	}
	if missing := q.missing(s); len(missing) > 0 {
		return f.without(missing)
	}
	for _, pool := range s.Deployment.Pools {
		full, ok := target(q.o.Full, pool.Role)
		if !ok {
			f.step("hold", pool.Role, s.Have.Of(pool.Role), "the pool has no full load")
			continue
		}
		q.step(f, s, pool, full)
	}
	return f.d
}

// missing are the pools of which neither load nor queue is known.
func (q *QueueDepth) missing(s planner.Situation) (names []string) {
	for _, full := range q.o.Full {
		if seen, ok := s.Pool(full.Role); ok && math.IsNaN(utilization(seen, full)) && depth(seen) < 0 {
			names = append(names, fmt.Sprintf("the requests served and waiting of %s", full.Role))
		}
	}
	return names
}

func (q *QueueDepth) step(f *draft, s planner.Situation, pool planner.Pool, full PoolTarget) {
	rule := q.o.Rule
	rule.GroupGPUs, rule.MinGPUs, rule.MaxGPUs = pool.GPUs, pool.Min*pool.GPUs, mostReplicas*pool.GPUs
	if pool.Max > 0 {
		rule.MaxGPUs = pool.Max * pool.GPUs
	}
	most := s.Deployment.Budget.Max
	budgeted := most >= pool.GPUs && most < rule.MaxGPUs
	if budgeted {
		rule.MaxGPUs = most
	}
	last, ever := q.changed[pool.Role]
	seen, _ := s.Pool(pool.Role)
	state := State{GPUs: s.Have.Of(pool.Role) * pool.GPUs, Ever: ever}
	if ever {
		state.Changed = last.Sub(s.End()) // before the instant of deciding, which is 0
	}
	next, reasons := rule.Step(state, Seen{
		Utilization: utilization(seen, full), Misses: missed(s.Observation, s.Deployment.SLA, pool.Role), Queue: depth(seen),
	})
	for _, r := range reasons {
		if budgeted && r.Rule == "bounds" && r.To+pool.GPUs > most {
			r.Rule = "budget"
		}
		f.step(r.Rule, pool.Role, r.To/pool.GPUs, "%s", r.Why)
	}
	if next.GPUs != state.GPUs {
		q.changed[pool.Role] = s.End()
	}
}

// utilization is requests served and waiting over those that the ready replicas
// hold when full, at most 1.
func utilization(p planner.PoolObservation, full PoolTarget) float64 {
	running, ok := number(full.Metric.of(p))
	waiting, known := number(p.Queue)
	if !ok || !known {
		return math.NaN()
	}
	return min(1, (running+waiting)/full.Value)
}

// depth is the requests that wait at a pool; −1 where that is not known.
func depth(p planner.PoolObservation) int {
	v, ok := number(p.Queue)
	if !ok {
		return -1
	}
	return int(math.Round(min(v*float64(max(1, p.Ready)), mostOfAnything)))
}

// missed is the share of an interval's requests that missed what the pool answers
// for, the larger of both for one that does all. Nothing is missed where nothing
// came and nothing was served.
func missed(o planner.Observation, sla profile.SLA, role planner.Role) float64 {
	if n, ok := number(o.Arrivals); ok && n == 0 && o.TTFT.Count == 0 && o.ITL.Count == 0 {
		return 0
	}
	switch role {
	case engine.RolePrefill:
		return above(o.TTFT, sla.TTFT)
	case engine.RoleDecode:
		return above(o.ITL, sla.ITL)
	default:
		return max(above(o.TTFT, sla.TTFT), above(o.ITL, sla.ITL))
	}
}

// above is the share of a distribution above a limit, linear between the
// percentiles that are known: 0 at or above the 99th, and that of the median below
// it. NaN where there are no percentiles.
func above(s planner.Spread[time.Duration], limit time.Duration) float64 {
	share, value := math.NaN(), time.Duration(0)
	for _, k := range []struct {
		figure planner.Figure[time.Duration]
		above  float64
	}{{s.P50, 0.50}, {s.P90, 0.10}, {s.P95, 0.05}, {s.P99, 0.01}} {
		switch {
		case !k.figure.Known:
			return math.NaN()
		case k.figure.Value <= limit:
			share, value = k.above, k.figure.Value
		case math.IsNaN(share):
			return k.above // the median is above the limit
		default:
			return k.above + (share-k.above)*float64(k.figure.Value-limit)/float64(k.figure.Value-value)
		}
	}
	return 0
}

// queueDepthState is what Save writes.
type queueDepthState struct {
	Policy  string                     `json:"policy"`
	Changed map[planner.Role]time.Time `json:"changed"`
}

const queueDepthName = "queue-depth"

// Save gives when each pool was last changed.
func (q *QueueDepth) Save() (json.RawMessage, error) {
	return json.Marshal(queueDepthState{queueDepthName, q.changed})
}

// Restore takes back what Save gave; after an error the policy is as it was.
func (q *QueueDepth) Restore(b json.RawMessage) error {
	var s queueDepthState
	if err := restored(b, &s, &s.Policy, queueDepthName); err != nil {
		return err
	}
	q.changed = map[planner.Role]time.Time{}
	maps.Copy(q.changed, s.Changed)
	return nil
}
