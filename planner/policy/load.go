package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"plimsoll/planner"
)

// LoadOptions are the thresholds of a Load. Start from DefaultLoad.
type LoadOptions struct {
	KVUp      float64 // KV use of decode above which it grows, 0 to 1
	KVDown    float64 // below which it shrinks
	QueueUp   float64 // requests waiting per prefill replica above which it grows
	QueueDown float64 // below which it shrinks
}

// DefaultLoad are upstream's thresholds (planner_defaults.py of 2025-05) but for
// the queue's upper one, which was 5 requests waiting in all and is 0.5 per
// prefill replica here, as profile-sla suggests it.
func DefaultLoad() LoadOptions {
	return LoadOptions{KVUp: 0.9, KVDown: 0.5, QueueUp: 0.5, QueueDown: 0.2}
}

const mostQueue = 1e6 // requests; more is a mistake

// Check says all that is wrong, each by field and range. Upper and lower bounds
// may be equal: profile-sla suggests 0.1 for both where TTFT leaves no room.
func (o LoadOptions) Check() error {
	var errs []error
	if !(o.KVDown >= 0 && o.KVDown <= o.KVUp && o.KVUp <= 1) {
		errs = append(errs, fmt.Errorf("the KV use to go down and up at is %v and %v: want 0 to 1, in this order", o.KVDown, o.KVUp))
	}
	if !(o.QueueDown >= 0 && o.QueueDown <= o.QueueUp && o.QueueUp <= mostQueue) {
		errs = append(errs, fmt.Errorf("the requests waiting per prefill replica to go down and up at are %v and %v: want 0 to %.0f, in this order", o.QueueDown, o.QueueUp, mostQueue))
	}
	return errors.Join(errs...)
}

// Load is the rule of NVIDIA Dynamo's load-based planner of 2025-05 to 2025-08
// (ai-dynamo/dynamo, examples/llm/components/planner.py): thresholds on the means
// of an interval, one replica of a pool at a time, in the order prefill down,
// decode down, prefill up, decode up, each within what the budget leaves after
// those before it.
//
//	prefill down  queue < QueueDown
//	decode down   KV < KVDown, and no decode replica was added within the grace
//	prefill up    queue > QueueUp, and last + 3·(last − first) > QueueUp
//	decode up     KV > KVUp
//
// queue is requests waiting per ready prefill replica, mean over the interval,
// first and last its first and last sample: a queue that goes away by itself
// before a replica could start asks for none. KV is the mean over decode replicas
// of KV use + 0.02 per request waiting there, as if each took 2 % of a cache;
// upstream leaves that out for a replica that runs nothing.
//
// It decides nothing in an interval in which the number ready of a pool changed,
// nor while a scaling is under way. The grace is upstream's count of 3, which
// goes down by one in each interval decided, that of the start included: decode
// stays in the two after it.
//
// An aggregated pool, which upstream did not have, shrinks where both KV and queue
// are low and grows where either is high.
//
// Going down looks only at the present load per replica. Two replicas at 0.49 are
// one at 0.98, which goes up again: upstream's swing of 2↔1 (dynamo#9294) is kept.
type Load struct {
	o     LoadOptions
	grace int // intervals to decide in which decode does not shrink
}

const (
	graceIntervals = 3    // upstream's NEW_DECODE_WORKER_GRACE_PERIOD
	queueAhead     = 3    // intervals, upstream's NEW_PREFILL_WORKER_QUEUE_BUFFER_PERIOD
	kvPerWaiting   = 0.02 // of a KV cache, upstream's guess
)

var _ planner.Stateful = (*Load)(nil)

// NewLoad makes the policy.
func NewLoad(o LoadOptions) (*Load, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &Load{o: o}, nil
}

// loadState is what Save writes.
type loadState struct {
	Policy string `json:"policy"`
	Grace  int    `json:"grace"`
}

const loadName = "load"

// Save gives the grace that is left.
func (l *Load) Save() (json.RawMessage, error) { return json.Marshal(loadState{loadName, l.grace}) }

// Restore takes back what Save gave; after an error the policy is as it was.
func (l *Load) Restore(b json.RawMessage) error {
	var s loadState
	if err := restored(b, &s, &s.Policy, loadName); err != nil {
		return err
	}
	if s.Grace < 0 || s.Grace > graceIntervals {
		return fmt.Errorf("the grace left is %d intervals: want 0 to %d", s.Grace, graceIntervals)
	}
	l.grace = s.Grace
	return nil
}

// pressure is what a pool's interval looked like.
type pressure struct {
	kv    float64 // 0..1, and what waits on top
	queue float64 // requests waiting per replica
	ahead float64 // the same, some intervals on
}

// waiting reads the queue of a pool.
func (n *figures) waiting(p planner.PoolObservation) pressure {
	queue := n.need(p.Queue, fmt.Sprintf("the %s queue", p.Role))
	open := n.need(p.QueueOpen, fmt.Sprintf("the first sample of the %s queue", p.Role))
	end := n.need(p.QueueEnd, fmt.Sprintf("the last sample of the %s queue", p.Role))
	return pressure{kv: math.NaN(), queue: queue, ahead: end + (end-open)*queueAhead}
}

// cache reads the KV use of a pool.
func (n *figures) cache(p planner.PoolObservation) float64 {
	kv := n.need(p.KVUsage, fmt.Sprintf("the KV use of %s", p.Role))
	if waiting, ok := number(p.Queue); ok {
		return kv + kvPerWaiting*waiting
	}
	n.missing = append(n.missing, fmt.Sprintf("the requests waiting at %s", p.Role))
	return kv
}
