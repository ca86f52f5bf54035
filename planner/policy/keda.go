package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"time"

	"plimsoll/planner"
)

// KEDAOptions make a KEDA.
type KEDAOptions struct {
	Targets []PoolTarget // of the trigger: its total is divided by this; pools without one stay as they are
}

// Check says all that is wrong.
func (o KEDAOptions) Check() error { return checkTargets(o.Targets) }

// KEDA is the rule of a KEDA ScaledObject with one trigger per pool, such as the
// queue's length, to compare with (keda.sh 2.22, ScaledObject specification,
// as read in 2026):
//
//	replicas = ceil(total / target)
//
// with the tolerance and the default behavior of the HPA that it drives (which
// see), and the pool's least as minReplicaCount. A pool whose least is 0 goes to
// 0 once the trigger was 0 for the cool-down of 300 s, and back to 1 as soon as a
// request waits. Like HPA here it looks once an interval.
type KEDA struct {
	o      KEDAOptions
	b      behavior
	active map[planner.Role]time.Time // when the trigger was last above 0
}

const (
	kedaName     = "keda"
	kedaCooldown = 300 * time.Second
)

var _ planner.Policy = (*KEDA)(nil)

// NewKEDA makes the policy.
func NewKEDA(o KEDAOptions) (*KEDA, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &KEDA{o: o, active: map[planner.Role]time.Time{}}, nil
}

// Propose divides each pool's total by its target.
func (k *KEDA) Propose(s planner.Situation) planner.Decision {
	var scaled []planner.Pool // those whose number is HPA's
	f, ok := byPool(s, func(f *draft, n *figures, p planner.Pool, _ planner.PoolObservation) {
		t, ok := target(k.o.Targets, p.Role)
		if !ok {
			f.step("hold", p.Role, s.Have.Of(p.Role), "the pool has no trigger")
			return
		}
		total := n.total(s, t)
		if total > 0 || k.active[p.Role].IsZero() {
			k.active[p.Role] = s.End()
		}
		if k.trigger(f, p, t, total, s.End()) {
			scaled = append(scaled, p)
		}
	})
	if ok {
		k.b.settle(f, s, scaled)
	}
	return f.d
}

// total of a trigger over a pool. Of a pool without replicas it is what waits anywhere.
func (n *figures) total(s planner.Situation, t PoolTarget) float64 {
	if s.Have.Of(t.Role) == 0 {
		return n.need(s.Waiting, "waiting requests")
	}
	p, _ := s.Pool(t.Role)
	return n.need(t.Metric.of(p), fmt.Sprintf("%s of %s", t.Metric, t.Role)) * float64(p.Ready)
}

// trigger takes a step for one pool and reports whether the number is HPA's:
// KEDA itself switches pools on and off.
func (k *KEDA) trigger(f *draft, p planner.Pool, t PoolTarget, total float64, now time.Time) bool {
	have := f.d.Want.Of(p.Role)
	quiet := now.Sub(k.active[p.Role])
	switch {
	case have == 0 && total > 0:
		f.step("activation", p.Role, max(1, p.Min), "%.3g requests wait", total)
	case have == 0:
		f.step("hold", p.Role, 0, "nothing waits")
	case p.Min == 0 && total == 0 && quiet >= kedaCooldown:
		f.step("deactivation", p.Role, 0, "%s was 0 for %v", t.Metric, quiet)
	default:
		least := max(1, p.Min)
		if ratio := total / (t.Value * float64(have)); math.Abs(ratio-1) <= hpaNear {
			f.step("target", p.Role, max(least, have), "%s is %.3g in all, %.3g for each: within %.0f %% of the target, %.3g", t.Metric, total, total/float64(have), 100*hpaNear, t.Value)
		} else {
			f.step("target", p.Role, max(least, whole(total/t.Value)), "%s is %.3g in all, the target %.3g for each", t.Metric, total, t.Value)
		}
		return true
	}
	return false
}

// Save gives the recommendations within the window and when triggers were active.
func (k *KEDA) Save() (json.RawMessage, error) {
	return json.Marshal(hpaState{kedaName, k.b, k.active})
}

// Restore takes back what Save gave; after an error the policy is as it was.
func (k *KEDA) Restore(b json.RawMessage) error {
	s, err := restoredHPA(b, kedaName)
	if err != nil {
		return err
	}
	k.b, k.active = s.behavior, map[planner.Role]time.Time{}
	maps.Copy(k.active, s.Active)
	return nil
}
