package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"plimsoll/planner"
)

// HPAOptions make an HPA.
type HPAOptions struct {
	Targets []PoolTarget // pools without one stay as they are
}

// Check says all that is wrong.
func (o HPAOptions) Check() error { return checkTargets(o.Targets) }

// HPA is the rule of Kubernetes' HorizontalPodAutoscaler on one metric per pool,
// to compare with (kubernetes.io, Horizontal Pod Autoscaling, and
// pkg/controller/podautoscaler/replica_calculator.go, as read in 2026):
//
//	replicas = ceil(ready · metric / target)
//
// and no change where the ratio is within 10 % of 1. Upwards, replicas that start
// count as if they did nothing; where they alone bring the ratio within the
// tolerance or below 1 nothing changes. Then come the limits of its default
// behavior. Its loop runs every 15 s on the metric of then; here it runs once an
// interval on the interval's mean, with the limit upwards of as many loops.
type HPA struct {
	o HPAOptions
	b behavior
}

var _ planner.Policy = (*HPA)(nil)

// NewHPA makes the policy.
func NewHPA(o HPAOptions) (*HPA, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &HPA{o: o}, nil
}

// Propose compares each pool's metric with its target.
func (h *HPA) Propose(s planner.Situation) planner.Decision {
	f, ok := byPool(s, h.step)
	if ok {
		h.b.settle(f, s, f.dep.Pools)
	}
	return f.d
}

func (h *HPA) step(f *draft, n *figures, p planner.Pool, seen planner.PoolObservation) {
	have := f.d.From.Of(p.Role)
	t, ok := target(h.o.Targets, p.Role)
	switch {
	case !ok:
		f.step("hold", p.Role, have, "the pool has no target")
		return
	case have == 0:
		f.step("hold", p.Role, 0, "a pool without replicas is switched off")
		return
	}
	value := n.need(t.Metric.of(seen), fmt.Sprintf("%s of %s", t.Metric, p.Role))
	to, why := perReplica(seen, have, value/t.Value)
	f.step("target", p.Role, max(1, to), "%s is %.3g, the target %.3g: %s", t.Metric, value, t.Value, why)
}

// perReplica is HPA's number for a ratio of metric to target.
func perReplica(p planner.PoolObservation, have int, ratio float64) (int, string) {
	pods := p.Ready
	if ratio > 1 && p.Starting > 0 {
		pods += p.Starting
		ratio *= float64(p.Ready) / float64(pods)
		if ratio < 1 {
			return have, fmt.Sprintf("with %d that start it is below", p.Starting)
		}
	}
	if math.Abs(ratio-1) <= hpaNear {
		return have, fmt.Sprintf("within %.0f %%", 100*hpaNear)
	}
	return whole(ratio * float64(pods)), fmt.Sprintf("%.3g times %d", ratio, pods)
}

// hpaState is what Save of HPA and KEDA write.
type hpaState struct {
	Policy string `json:"policy"`
	behavior
	Active map[planner.Role]time.Time `json:"active,omitempty"` // KEDA: when a trigger was last above 0
}

const hpaName = "hpa"

// Save gives the recommendations within the window.
func (h *HPA) Save() (json.RawMessage, error) {
	return json.Marshal(hpaState{Policy: hpaName, behavior: h.b})
}

// Restore takes back what Save gave; after an error the policy is as it was.
func (h *HPA) Restore(b json.RawMessage) error {
	s, err := restoredHPA(b, hpaName)
	if err == nil {
		h.b = s.behavior
	}
	return err
}

func restoredHPA(b json.RawMessage, policy string) (s hpaState, err error) {
	if err = restored(b, &s, &s.Policy, policy); err == nil {
		err = s.check()
	}
	return s, err
}
