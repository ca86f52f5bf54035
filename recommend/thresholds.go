package recommend

import "time"

// Bound is an upper and a lower threshold of a load planner: above Upper it
// adds an engine, below Lower it removes one.
type Bound struct {
	Upper float64
	Lower float64
}

// PrefillQueue gives the bounds of the prefill queue's size: how many prompts
// may wait for each engine so that the last still meets 120 % (80 %) of the SLA.
// An engine takes so many prompts at once as it has attention replicas.
//
//	upper = max(0.1, replicas·(1.2·SLA/TTFT − 1)), lower = max(0.1, replicas·(0.8·SLA/TTFT − 1))
//
// Source: upstream's profile_sla.py, v0.2.1–v0.6, which has engines of one replica.
func PrefillQueue(sla, ttft time.Duration, replicas int) Bound {
	if ttft <= 0 {
		return Bound{Upper: 0.1, Lower: 0.1}
	}
	r, n := float64(sla)/float64(ttft), float64(replicas)
	return Bound{Upper: max(0.1, n*(1.2*r-1)), Lower: max(0.1, n*(0.8*r-1))}
}

// DecodeKV gives the bounds of the decode engines' KV use around the picked
// use u, a fraction of 1: upper = min(1, u + 0.2), lower = max(0.1, u − 0.2). A use
// outside 0 to 1, which none can have, counts as the nearer end.
//
// Source: upstream's profile_sla.py; v0.2.1 printed the two swapped.
func DecodeKV(u float64) Bound {
	u = max(0, min(1, u))
	return Bound{Upper: min(1, u+0.2), Lower: max(0.1, u-0.2)}
}
