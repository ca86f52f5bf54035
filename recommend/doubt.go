package recommend

import (
	"math"
	"strconv"
	"strings"
	"time"

	"plimsoll/profile"
)

// doubts says where the error of the latency model behind the pick is wider
// than its distance to the SLA. Nothing for points without such an error.
func (ch Choice) doubts(sla profile.SLA) []profile.Warning {
	p, limit := ch.Picked.Point, sla.ITL
	if !p.ModelError.Known() {
		return nil
	}
	if ch.Phase == profile.Prefill {
		limit = sla.TTFT
	}
	d := doubt{ch.Phase, metricName(ch.Phase), p.Latency(sla), limit, p.ModelError}
	switch l := p.LatencyInterval(sla); {
	case ch.Feasible && l.High > float64(limit):
		return []profile.Warning{d.mayMiss()}
	case !ch.Feasible && !p.FailsTooOften && l.Low <= float64(limit):
		return []profile.Warning{d.mayMeet()}
	}
	return nil
}

// LoadDoubts is the same of an aggregated engine's load, whose two latencies have an
// error each: where one that holds may miss by it, and where all that miss may hold.
// held says whether the load is recommended.
func LoadDoubts(p profile.Point, held bool, sla profile.SLA, ttft, itl profile.ModelError) (ws []profile.Warning) {
	for _, d := range []doubt{
		{p.Phase, "TTFT", p.Load.TTFT.At(sla.Stat), sla.TTFT, ttft}, {p.Phase, "ITL", p.Load.TPOT.At(sla.Stat), sla.ITL, itl},
	} {
		l := d.error.Around(float64(d.latency))
		switch known := d.error.Known() && d.latency > 0; {
		case held && known && l.High > float64(d.limit):
			ws = append(ws, d.mayMiss())
		case held || d.latency <= d.limit:
		case !known || l.Low > float64(d.limit) || p.FailsTooOften || p.Load.Growing || p.Load.Stopped != "":
			return nil // it misses, whatever the other does
		default:
			ws = append(ws, d.mayMeet())
		}
	}
	return ws
}

// doubt is a latency by a model whose error is wider than its distance to a limit.
type doubt struct {
	phase          profile.Phase
	metric         string
	latency, limit time.Duration
	error          profile.ModelError
}

func (d doubt) mayMiss() profile.Warning {
	ms := profile.Milliseconds
	return profile.Warnf("model_error_sla", "%s: %s %.2f ms may miss the SLA of %.6[5]g ms, as the model's error is a factor of %.2[4]f. Use --%[6]s %[7]s to leave room for it",
		d.phase, d.metric, ms(d.latency), d.error.Factor90, ms(d.limit), strings.ToLower(d.metric), strconv.FormatFloat(math.Floor(100*ms(d.limit)/d.error.Factor90)/100, 'f', -1, 64))
}

func (d doubt) mayMeet() profile.Warning {
	ms := profile.Milliseconds
	return profile.Warnf("model_error_sla", "%s: %s %.2f ms may still meet the SLA of %.6[5]g ms, as the model's error is a factor of %.2[4]f. Measure it",
		d.phase, d.metric, ms(d.latency), d.error.Factor90, ms(d.limit))
}
