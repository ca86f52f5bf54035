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

// KVUse is the share of a KV cache of kvTokens that inFlight requests fill when each
// has decoded half of its answer: inFlight·(ISL + OSL/2)/kvTokens. It is above 1 where
// they do not fit, and not known where the capacity is not.
//
// Source: upstream's profile_sla.py, v0.2.1–v0.6.
func KVUse(inFlight float64, isl, osl, kvTokens int) (use float64, known bool) {
	if kvTokens <= 0 {
		return 0, false
	}
	return inFlight * (float64(isl) + float64(osl)/2) / float64(kvTokens), true
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

// AggregatedKV gives the bounds of an aggregated engine's KV use by the use u at the
// highest rate that it holds: above u it has more requests than that, and below half of u
// one of two engines would do. Upstream has no such engines; its bounds around u
// (DecodeKV) are never left where places or the SLA keep most of the cache empty.
func AggregatedKV(u float64) Bound {
	u = max(0, min(1, u))
	return Bound{Upper: u, Lower: u / 2}
}
