package policy

import (
	"fmt"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// WVAOptions make a WVA.
type WVAOptions struct {
	Engines  []WVAEngine // one for each pool; pools without one stay as they are
	Behavior Behavior    // of the HorizontalPodAutoscaler that carries it out
}

// WVABehavior is its chart's, which it calls the production default: 240 s of
// stabilization either way, 10 replicas in 150 s, and Kubernetes' tolerance
// (llm-d-workload-variant-autoscaler b08b1c7 of 2026-02-19,
// charts/workload-variant-autoscaler/values.yaml, docs/integrations/hpa-integration.md).
func WVABehavior() Behavior {
	d := Scaling{Window: 240 * time.Second, Pods: 10, Period: 150 * time.Second}
	return Behavior{Up: d, Down: d, Tolerance: DefaultBehavior().Tolerance}
}

// WVA is llm-d's workload-variant-autoscaler as it is deployed, to compare with
// (llm-d-workload-variant-autoscaler b08b1c7 of 2026-02-19): every 30 s
// (internal/engines/saturation/engine.go) its analyzer by tokens, V2, makes replicas
// of what each replica showed at most within a minute
// (internal/collector/registration: max_over_time[1m]) and publishes them as
// wva_desired_replicas; a HorizontalPodAutoscaler on that metric, AverageValue 1,
// carries them out, with its tolerance and its behavior. Propose is the latter's loop
// of 15 s.
//
// With Kubernetes' tolerance of 10 % one replica more than 10 or more never comes
// about. Its other analyzer, V1 by percentages of KV use, is not here.
//
// It knows no pools: each is a model of its own here, of one variant. What it asks
// for is held within the pool's bounds and the budget, as its GPU limiter would
// hold it. Left out: several kinds of GPU for a model, which it chooses between by
// cost; the scheduler's queue, which holds nothing in the simulated fleet; scaling
// to zero, which its configuration has to ask for.
type WVA struct {
	o WVAOptions
	s wvaState
}

// wvaState is what it remembers.
type wvaState struct {
	At      time.Time                 // of the last analysis
	Desired map[planner.Role]int      // published then
	Bounds  map[string][]float64      // by pool and output length: tokens in use while requests queued, oldest first
	Lengths []lengths                 // of requests that ended within 5 min
	Seen    map[planner.Role][]glance // within a minute, oldest first
	HPA     behavior
}

const wvaEvery = 30 * time.Second // its PollingExecutor; GLOBAL_OPT_INTERVAL is read and not used

var _ planner.Policy = (*WVA)(nil)

// NewWVA makes the policy.
func NewWVA(o WVAOptions) *WVA {
	return &WVA{o: o, s: wvaState{Desired: map[planner.Role]int{}, Bounds: map[string][]float64{}, Seen: map[planner.Role][]glance{}}}
}

// Propose analyzes where that is due, and lets the HorizontalPodAutoscaler act on
// what is published.
func (w *WVA) Propose(s planner.Situation) planner.Decision {
	due := s.End().Sub(w.s.At) >= wvaEvery
	if !s.Warmup {
		w.s.Lengths = remembered(w.s.Lengths, s)
	}
	f, ok := byPool(s, func(f *draft, n *figures, p planner.Pool, seen planner.PoolObservation) {
		w.s.Seen[p.Role] = glanced(w.s.Seen[p.Role], s.End(), n.replicas(seen))
		have := s.Have.Of(p.Role)
		if have == 0 {
			f.step("hold", p.Role, 0, "a pool without replicas is switched off")
			return
		}
		if due && len(n.missing) == 0 {
			w.analyze(f, s, p, seen)
		}
		desired, ok := w.s.Desired[p.Role]
		if !ok {
			f.step("hold", p.Role, have, "nothing is published yet")
			return
		}
		to, why := w.o.Behavior.averageReplicas(float64(desired), 1, have)
		f.step("hpa", p.Role, to, "wva_desired_replicas is %d: %s", desired, why)
	})
	if ok {
		if due {
			w.s.At = s.End()
		}
		w.s.HPA.settle(f, s, f.dep.Pools, w.o.Behavior)
	}
	return f.d
}

// analyze publishes what the analyzer wants for a pool, within bounds and budget.
func (w *WVA) analyze(f *draft, s planner.Situation, p planner.Pool, seen planner.PoolObservation) {
	i := slices.IndexFunc(w.o.Engines, func(e WVAEngine) bool { return e.Role == p.Role })
	if i < 0 {
		return
	}
	v := variant{
		WVAEngine: w.o.Engines[i], have: s.Have.Of(p.Role),
		pending: max(0, s.Have.Of(p.Role)-seen.Ready), replicas: highest(w.s.Seen[p.Role]),
	}
	if len(v.replicas) == 0 {
		return // its loop skips a model without metrics
	}
	to, rule, why := w.tokens(v)
	if !knowsLengths(s) && to < v.have {
		to, rule, why = v.have, "hold", why+": ISL or OSL is missing"
	}
	most := mostReplicas
	if p.Max > 0 {
		most = p.Max
	}
	if b := f.dep.Budget.Max; b >= 0 {
		others := f.dep.GPUs(s.Have) - v.have*p.GPUs
		if room := max(p.Min, (b-others)/p.GPUs); room < most {
			most = room
			if to > room {
				rule, why = "budget", fmt.Sprintf("%s, and the budget of %s has room for %d", why, engine.Count(b, "GPU"), room)
			}
		}
	}
	w.s.Desired[p.Role] = min(max(1, p.Min, to), most)
	f.step(rule, p.Role, f.d.Want.Of(p.Role), "%s: it wants %d", why, w.s.Desired[p.Role])
}
