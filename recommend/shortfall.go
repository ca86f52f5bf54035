package recommend

import (
	"fmt"
	"math"
	"time"

	"plimsoll/profile"
)

// Shortfall says by what the nearest candidate misses the SLA.
type Shortfall struct {
	Metric   string        // what binds: TTFT, ITL, Stall or failures
	Latency  time.Duration // of the nearest candidate
	Limit    time.Duration // of the SLA
	Failures int           // of Requests, where failures bind
	Requests int
	// Promise is the latency that could be promised instead, rounded up to
	// three digits; 0 where nothing can be: requests failed, or the figure is of a
	// load that is no measure of it (too few requests, ended early, a queue that grew).
	Promise time.Duration
	// Besides is that of the other metric, ITL or TTFT, where one candidate was held
	// against both and misses both: neither can be promised without the other.
	Besides time.Duration
	// Why says what else is wrong, where neither a latency nor failures bind.
	Why string
}

// Stall is the metric of the 99th percentile of single gaps between tokens.
const Stall = "p99 gap between tokens"

// Shortfall is false for a feasible choice.
func (ch Choice) Shortfall(sla profile.SLA) (Shortfall, bool) {
	if ch.Feasible {
		return Shortfall{}, false
	}
	if ch.Phase == profile.Aggregated {
		return shortAggregated(ch.Picked.Point, sla)
	}
	p := ch.Picked.Point
	s := Shortfall{Metric: metricName(ch.Phase), Latency: p.Latency(sla), Limit: sla.ITL, Failures: p.Failures, Requests: p.Requests}
	if ch.Phase == profile.Prefill {
		s.Limit = sla.TTFT
	}
	if p.FailsTooOften {
		s.Metric = metricFailures
		return s, true
	}
	s.Promise = roundUp(s.Latency)
	return s, true
}

// Undecided reports whether the nearest candidate was judged by too few requests, so
// that nobody knows whether it misses.
func (s Shortfall) Undecided() bool { return s.Metric == fewRequests }

// String is one line for people.
func (s Shortfall) String() string {
	if s.Undecided() {
		return "too few requests to tell if anything meets the SLA: " + s.Nearest()
	}
	return "nothing meets the SLA: " + s.Nearest()
}

// Nearest is by what the nearest candidate misses, for who knows already that nothing
// meets the SLA.
func (s Shortfall) Nearest() string {
	switch {
	case s.Metric == metricFailures:
		return fmt.Sprintf("even here %d of %d requests failed, so no latency can be promised", s.Failures, s.Requests)
	case s.Undecided() || s.Latency <= s.Limit: // a load of which something else is wrong
		return s.Why
	}
	return fmt.Sprintf("the lowest %s is %.2f ms (limit %.6g ms, %.2f×)",
		s.Metric, profile.Milliseconds(s.Latency), profile.Milliseconds(s.Limit), float64(s.Latency)/float64(s.Limit))
}

// roundUp is the least duration of three digits at or above d.
func roundUp(d time.Duration) time.Duration {
	unit := int64(math.Pow10(max(0, len(fmt.Sprint(int64(d)))-3)))
	return time.Duration((int64(d) + unit - 1) / unit * unit)
}
