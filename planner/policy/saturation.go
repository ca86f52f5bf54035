package policy

import (
	"encoding/json"
	"fmt"

	"plimsoll/planner"
)

// Saturation is the rule of llm-d's workload-variant-autoscaler by percentages
// (V1), with its default thresholds, to compare with
// (llm-d-workload-variant-autoscaler b08b1c7 of 2026-02, saturation analyzer):
// a replica is saturated at a KV use of 0.80 or 5 requests waiting. A pool grows by
// one where the spare KV use up to there is below 0.10 or the spare queue below 3,
// and shrinks by one where, of two replicas or more that are not saturated, one
// fewer would still leave both. It does neither while replicas start, or while
// what is asked for is not there.
//
// It averages over single replicas, after the highest value of a minute of each.
// Here each replica is taken as the pool's mean over the interval. It knows no
// pools: each is sized as if it were a fleet of its own.
type Saturation struct{}

const (
	saturatedKV    = 0.80
	saturatedQueue = 5.0 // requests waiting per replica
	spareKV        = 0.10
	spareQueue     = 3.0
)

var _ planner.Policy = Saturation{}

// Propose looks at the spare room of each pool.
func (Saturation) Propose(s planner.Situation) planner.Decision {
	f, _ := byPool(s, func(f *draft, n *figures, p planner.Pool, seen planner.PoolObservation) {
		kv, queue := n.load(seen)
		f.saturation(seen, s.Have.Of(p.Role), kv, queue)
	})
	return f.d
}

func (f *draft) saturation(p planner.PoolObservation, have int, kv, queue float64) {
	spare := fmt.Sprintf("KV use %.3g leaves %.3g up to %.3g, and %.3g requests waiting leave %.3g up to %.3g", kv, saturatedKV-kv, saturatedKV, queue, saturatedQueue-queue, saturatedQueue)
	fewer := float64(have) / float64(max(1, have-1)) // load of each with one replica less
	switch {
	case p.Starting > 0 || p.Ready != have:
		f.step("pending", p.Role, have, "%d of %d replicas are ready", p.Ready, have)
	case saturatedKV-kv < spareKV || saturatedQueue-queue < spareQueue:
		f.one("up", p.Role, +1, "%s: less than %.3g or %.3g", spare, spareKV, spareQueue)
	case have >= 2 && saturatedKV-kv*fewer >= spareKV && saturatedQueue-queue*fewer >= spareQueue:
		f.one("down", p.Role, -1, "%s: enough with one replica less", spare)
	default:
		f.step("hold", p.Role, have, "%s: enough, but not with one replica less", spare)
	}
}

// load is the KV use of a pool and the requests that wait per replica.
func (n *figures) load(p planner.PoolObservation) (kv, queue float64) {
	return n.need(p.KVUsage, fmt.Sprintf("the KV use of %s", p.Role)), n.need(p.Queue, fmt.Sprintf("the %s queue", p.Role))
}

const saturationName = "wva-saturation"

// Save gives nothing but the name: there is nothing to remember.
func (Saturation) Save() (json.RawMessage, error) { return named(saturationName) }

// Restore refuses what another policy saved.
func (Saturation) Restore(b json.RawMessage) error { return forgetful(b, saturationName) }
