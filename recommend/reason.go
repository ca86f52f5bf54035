package recommend

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// whyPicked says by how much the winner leads the best other configuration, of those
// that are not left open.
func whyPicked(all []Candidate, best int, rank Rank, open []string) string {
	w := all[best]
	second, higher := -1, false
	for i, c := range all {
		if !c.Feasible || c.Label() == w.Label() {
			continue
		}
		if c.Value(rank) > w.Value(rank) {
			higher = true
		} else if slices.Contains(open, c.Label()) {
			continue
		}
		if second < 0 || c.Value(rank) > all[second].Value(rank) {
			second = i
		}
	}
	kind := adjective(rank, w.Point.Provenance)
	switch {
	case second < 0 && len(open) == 0:
		return "the only one measured that meets the SLA"
	case second < 0:
		return withOpen(fmt.Sprintf("best %s throughput per GPU seen", kind), open)
	case higher:
		return fmt.Sprintf("fewer GPUs at the same throughput per GPU as %s, within the measurement's error", all[second].Label())
	case all[second].Value(rank) <= 0:
		return withOpen(fmt.Sprintf("best %s throughput per GPU", kind), open)
	default:
		return withOpen(fmt.Sprintf("best %s throughput per GPU (%+.0f %% over %s)", kind,
			100*(w.Value(rank)/all[second].Value(rank)-1), all[second].Label()), open)
	}
}

// adjective says what kind of throughput decided, and where it comes from.
func adjective(r Rank, p profile.Provenance) string {
	if r == BySustained {
		return "sustained"
	}
	return p.String()
}

// Lost says why a usable candidate is not the pick.
func (ch Choice) Lost(c Candidate, sla profile.SLA) Rejected {
	p := c.Point
	r := Rejected{Phase: p.Phase, Label: c.Label(), InFlight: p.InFlight}
	limit, metric := sla.ITL, "itl_ms"
	if p.Phase == profile.Prefill {
		limit, metric = sla.TTFT, "ttft_ms"
	}
	l := p.Latency(sla)
	switch {
	case p.FailsTooOften:
		r.Metric, r.Value = metricFailures, float64(p.Failures)
		r.Reason = fmt.Sprintf("%d of %s failed", p.Failures, engine.Count(p.Requests, "request"))
	case l > limit:
		r.Metric, r.Value = metric, profile.Milliseconds(l)
		r.Reason = fmt.Sprintf("misses the SLA: %s %s %s", sla.Stat, metricName(p.Phase), above(l, limit))
	case ch.Rank == BySustained:
		r.Metric, r.Value = "sustained_per_gpu", c.Sustained
		r.Reason = c.WithEnd(beaten(c, ch, "sustained tokens/s/GPU"))
	default:
		r.Metric, r.Value = "throughput_per_gpu", p.ThroughputPerGPU
		r.Reason = c.WithEnd(beaten(c, ch, "tokens/s/GPU"))
	}
	return r
}

// above is "72.00 ms > 50.00 ms", with as many digits as show which is more, and
// that the limit is not 0.
func above(l, limit time.Duration) string {
	for digits := 2; ; digits++ {
		a := strconv.FormatFloat(profile.Milliseconds(l), 'f', digits, 64)
		b := strconv.FormatFloat(profile.Milliseconds(limit), 'f', digits, 64)
		if a != b && strings.Trim(b, "0.") != "" || digits == 6 { // a nanosecond
			return fmt.Sprintf("%s ms > %s ms", a, b)
		}
	}
}

func beaten(c Candidate, ch Choice, unit string) string {
	a, b := c.Value(ch.Rank), ch.Picked.Value(ch.Rank)
	if a == b && c.Point.Config == ch.Picked.Point.Config { // whose loads come and go on their own
		return fmt.Sprintf("as many sustained %s as the pick (%s), but fewer measured", strings.TrimPrefix(unit, "sustained "), engine.Number(a))
	}
	if a >= b || c.interval(ch.Rank).High >= ch.Picked.interval(ch.Rank).Low && c.Point.Config.GPUs() > ch.Picked.Point.Config.GPUs() {
		return fmt.Sprintf("ties with the pick but needs more GPUs: %s %s on %s (pick: %s on %d)",
			engine.Number(a), unit, engine.Count(c.Point.Config.GPUs(), "GPU"), engine.Number(b), ch.Picked.Point.Config.GPUs())
	}
	return fmt.Sprintf("lower throughput: %s %s (pick: %s, %.0f %%)", engine.Number(a), unit, engine.Number(b), 100*(a/b-1))
}
