package recommend

import (
	"fmt"
	"math"
	"time"

	"plimsoll/profile"
)

// Shortfall says by what the nearest candidate misses the SLA.
type Shortfall struct {
	Metric   string        // what binds: TTFT, ITL or failures
	Latency  time.Duration // of the nearest candidate
	Limit    time.Duration // of the SLA
	Failures int           // of Requests, where failures bind
	Requests int
	// Promise is the latency that could be promised instead, rounded up to
	// three digits; 0 where requests failed and nothing can be.
	Promise time.Duration
}

// Shortfall is false for a feasible choice.
func (ch Choice) Shortfall(sla profile.SLA) (Shortfall, bool) {
	if ch.Feasible {
		return Shortfall{}, false
	}
	p := ch.Picked.Point
	s := Shortfall{Metric: metricName(ch.Phase), Latency: p.Latency(sla.Stat), Limit: sla.ITL, Failures: p.Failures, Requests: p.Requests}
	if ch.Phase == profile.Prefill {
		s.Limit = sla.TTFT
	}
	if p.Failures > 0 {
		s.Metric = "failures"
		return s, true
	}
	s.Promise = roundUp(s.Latency)
	return s, true
}

// String is one line for people.
func (s Shortfall) String() string {
	if s.Promise == 0 {
		return fmt.Sprintf("nothing meets the SLA: %d of %d requests failed even here, so nothing can be promised", s.Failures, s.Requests)
	}
	return fmt.Sprintf("nothing meets the SLA: %s %.2f ms is the least, against %.6g ms (%.2f×)",
		s.Metric, profile.Milliseconds(s.Latency), profile.Milliseconds(s.Limit), float64(s.Latency)/float64(s.Limit))
}

// roundUp is the least duration of three digits at or above d.
func roundUp(d time.Duration) time.Duration {
	unit := int64(math.Pow10(max(0, len(fmt.Sprint(int64(d)))-3)))
	return time.Duration((int64(d) + unit - 1) / unit * unit)
}
