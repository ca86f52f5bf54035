package recommend

import (
	"math"
	"strconv"

	"plimsoll/profile"
)

// doubts says where the error of the latency model behind the pick is wider
// than what the pick rests on: its distance to the SLA, and to the next best
// configuration. Nothing for points without such an error.
func (ch Choice) doubts(sla profile.SLA) []profile.Warning {
	e := ch.Picked.Point.ModelError
	if !e.Known() {
		return nil
	}
	ws := ch.doubtsSLA(sla, e)
	if o, ok := ch.runnerUp(); ok && ch.Feasible && o.Value(ch.Rank) >= ch.Picked.Value(ch.Rank)/e.Factor90 {
		ws = append(ws, profile.Warnf("model_error_rank", "%s: %s is within the model's error of the pick %s: %.2f against %.2f tokens/s/GPU, each within a factor of %.2f",
			ch.Phase, o.Label(), ch.Picked.Label(), o.Value(ch.Rank), ch.Picked.Value(ch.Rank), e.Factor90))
	}
	return ws
}

// doubtsSLA compares the ends of the pick's latency with the SLA.
func (ch Choice) doubtsSLA(sla profile.SLA, e profile.ModelError) []profile.Warning {
	p, limit := ch.Picked.Point, sla.ITL
	flag := "itl"
	if ch.Phase == profile.Prefill {
		limit, flag = sla.TTFT, "ttft"
	}
	l, ms := p.LatencyInterval(sla.Stat), profile.Milliseconds
	latency, bound := ms(p.Latency(sla.Stat)), ms(limit)
	switch {
	case ch.Feasible && l.High > float64(limit):
		return []profile.Warning{profile.Warnf("model_error_sla",
			"%s: %s %.2f ms, within a factor of %.2f by the model's error, may miss the SLA of %.6g ms; --%s %s would leave room for it",
			ch.Phase, metricName(ch.Phase), latency, e.Factor90, bound, flag, strconv.FormatFloat(math.Floor(100*ms(limit)/e.Factor90)/100, 'f', -1, 64))}
	case !ch.Feasible && p.Failures == 0 && l.Low <= float64(limit):
		return []profile.Warning{profile.Warnf("model_error_sla",
			"%s: %s %.2f ms, within a factor of %.2f by the model's error, may yet meet the SLA of %.6g ms: measure it",
			ch.Phase, metricName(ch.Phase), latency, e.Factor90, bound)}
	}
	return nil
}

// runnerUp is the best feasible candidate of another configuration.
func (ch Choice) runnerUp() (best Candidate, found bool) {
	for _, c := range ch.All {
		if c.Feasible && c.Label() != ch.Picked.Label() && (!found || c.Value(ch.Rank) > best.Value(ch.Rank)) {
			best, found = c, true
		}
	}
	return best, found
}
