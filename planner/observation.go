package planner

import (
	"time"

	"plimsoll/profile"
)

// Observation is one interval of one deployment. A figure that could not be seen
// is missing, never 0.
type Observation struct {
	Start  time.Time     `json:"start"`
	Length time.Duration `json:"length_ns"`

	Arrivals Figure[float64] `json:"arrivals"` // requests that came, finished or not
	Finished Figure[float64] `json:"finished"` // requests that ended
	Running  Figure[float64] `json:"running"`  // requests being served at the end
	Waiting  Figure[float64] `json:"waiting"`  // requests queued anywhere at the end

	ISL      Spread[float64]       `json:"isl"`         // tokens
	OSL      Spread[float64]       `json:"osl"`         // tokens
	TTFT     Spread[time.Duration] `json:"ttft_ns"`     // waiting included
	ITL      Spread[time.Duration] `json:"itl_ns"`      // gaps between tokens
	TPOT     Spread[time.Duration] `json:"tpot_ns"`     // each request's mean of them
	Duration Spread[time.Duration] `json:"duration_ns"` // whole requests
	CacheHit Figure[float64]       `json:"cache_hit"`   // share of prompt tokens that a prefix cache held
	Warmup   bool                  `json:"warmup"`      // a trace told it, before anything ran: figures of requests only
	Problems []string              `json:"problems"`    // why figures are missing or old, in words
	Pools    []PoolObservation     `json:"pools"`       // as the target has them, with what was seen of each
	Scaling  string                `json:"scaling"`     // why the last scaling is under way; empty: none is
}

// Promised is the ITL that an SLA limits: of requests' means. Where only gaps were seen,
// their mean is near that of requests; a percentile is missing then.
func (o Observation) Promised(sla profile.SLA) Spread[time.Duration] {
	if sla.Stat.Quantile() == 0 && !o.TPOT.Mean.Known {
		return o.ITL
	}
	return o.TPOT
}

// PoolObservation is one pool over the interval.
type PoolObservation struct {
	PoolState
	// Changed says that the number ready was not the same all the time, so that
	// figures are of a mixture, cold engines among them.
	Changed bool `json:"changed"`

	Running   Figure[float64] `json:"running"`     // requests being served, mean over the interval
	KVUsage   Figure[float64] `json:"kv_usage"`    // 0..1, mean over replicas and the interval
	KVMost    Figure[float64] `json:"kv_most"`     // of the fullest replica, mean over the interval
	Queue     Figure[float64] `json:"queue"`       // requests waiting per ready replica, mean over the interval
	QueueOpen Figure[float64] `json:"queue_open"`  // the same at its first sample
	QueueEnd  Figure[float64] `json:"queue_close"` // and at its last

	// Replicas are those that serve, the draining ones included, in any order; none
	// where the source does not tell them apart.
	Replicas []ReplicaObservation `json:"replicas,omitempty"`
}

// ReplicaObservation is one replica: the highest that it showed in the interval.
type ReplicaObservation struct {
	Number  int     `json:"number"`   // the same in all intervals
	KVUsage float64 `json:"kv_usage"` // 0..1
	Waiting float64 `json:"waiting"`  // requests
}

// Pool is what was seen of a role; ok is false where there is no such pool.
func (o Observation) Pool(r Role) (p PoolObservation, ok bool) {
	for _, p := range o.Pools {
		if p.Role == r {
			return p, true
		}
	}
	return PoolObservation{}, false
}

// Told is an interval of a trace, for Core.Tell: requests that came and their mean
// lengths in tokens, of which nothing is known where no request came.
func Told(start time.Time, length time.Duration, requests, isl, osl float64) Observation {
	o := Observation{Start: start, Length: length, Warmup: true, Arrivals: Known(requests), Finished: Known(requests)}
	if requests > 0 {
		o.ISL.Mean, o.OSL.Mean = Known(isl), Known(osl)
	}
	return o
}

// End is the instant at which the interval ended.
func (o Observation) End() time.Time { return o.Start.Add(o.Length) }
