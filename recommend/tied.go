package recommend

import (
	"fmt"

	"plimsoll/engine"
	"plimsoll/profile"
)

// TieShare is the difference in throughput per GPU below which two configurations
// are tied however exactly each was measured: engines of one configuration, and
// loads that are nearly the workload, differ by as much, and the rate of an
// aggregated one is found to no less.
const TieShare = 0.05

// tied says where the next best configuration is as good as the pick, as far as
// the measurement tells: by the pick's 95 % interval or the runner-up's, or by
// TieShare. Nothing where there is no answer.
func (ch Choice) tied() []profile.Warning {
	o, found := ch.runnerUp()
	if !ch.Feasible || !found {
		return nil
	}
	p := ch.Picked
	within := ""
	a, b := p.interval(ch.Rank), o.interval(ch.Rank)
	switch v, w := p.Value(ch.Rank), o.Value(ch.Rank); {
	case w >= v*(1-TieShare) && v >= w*(1-TieShare):
		within = fmt.Sprintf("%.0f %%", 100*TieShare)
	case b.High >= a.Low && a.High >= b.Low:
		within = "their 95 % intervals"
	default:
		return nil
	}
	return []profile.Warning{profile.Warnf("tied", "%s: %s and %s are tied (%s and %s tokens/s/GPU, within %s). Choose by other criteria",
		ch.Phase, p.Label(), o.Label(), engine.Number(p.Value(ch.Rank)), engine.Number(o.Value(ch.Rank)), within)}
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
