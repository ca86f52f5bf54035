package policy

import (
	"fmt"

	"plimsoll/planner"
)

// variant is one pool to the variant autoscaler.
type variant struct {
	WVAEngine
	have, pending int // replicas asked for, and those of them that are not ready
	desired       int // published the last time; 0: nothing yet
	replicas      []planner.ReplicaObservation
}

// The defaults of config/manager/configmap-saturation-scaling.yaml.
const (
	DefaultKVThreshold = 0.80
	DefaultKVSpare     = 0.10
	saturatedQueue     = 5.0 // requests waiting at a replica
	spareQueue         = 3.0
)

// saturation is V1's analysis (internal/saturation/analyzer.go). A replica is
// saturated at a KV use of the threshold or 5 requests waiting. A pool grows by one
// where the others leave less than the spare KV use or 3 waiting on average up to there, or
// where there are none; it shrinks by one, never below one, where of two of them or
// more one fewer would leave both. While what it asked for is not there, or does
// not show metrics, it keeps to what it asked for.
func (v variant) saturation() (to int, rule, why string) {
	seen := len(v.replicas)
	if v.desired != 0 && v.desired != v.have {
		return v.desired, "transition", fmt.Sprintf("%d replicas were wanted and %d are asked for", v.desired, v.have)
	}
	if seen != v.have {
		return v.have, "transition", fmt.Sprintf("%d replicas are asked for and %d show metrics", v.have, seen)
	}
	n, kv, queue := 0.0, 0.0, 0.0 // replicas that are not saturated, and what they leave
	for _, r := range v.replicas {
		if r.KVUsage < v.KVThreshold && r.Waiting < saturatedQueue {
			n, kv, queue = n+1, kv+v.KVThreshold-r.KVUsage, queue+saturatedQueue-r.Waiting
		}
	}
	if n > 0 {
		kv, queue = kv/n, queue/n
	}
	why = fmt.Sprintf("%.0f of %d replicas are not saturated and leave a KV use of %.3g up to %.3g and %.3g waiting up to %.3g", n, seen, kv, v.KVThreshold, queue, saturatedQueue)
	left := func(spare, full float64) float64 { return full - (full-spare)*n/(n-1) } // with one fewer
	switch {
	case kv < v.KVSpare || queue < spareQueue:
		return seen + 1, "up", fmt.Sprintf("%s: less than %.3g or %.3g", why, v.KVSpare, spareQueue)
	case seen > 1 && n >= 2 && left(kv, v.KVThreshold) >= v.KVSpare && left(queue, saturatedQueue) >= spareQueue:
		return seen - 1, "down", why + ": enough with one fewer"
	default:
		return seen, "enough", why + ": enough, but not with one fewer"
	}
}
