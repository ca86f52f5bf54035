package recommend

import (
	"cmp"
	"math"

	"plimsoll/profile"
)

// atCap warns of a decode pick that nothing more could be sent to: its ITL is not the
// boundary of the SLA, which lies where nobody measured.
func (ch Choice) atCap(points []profile.Point, sla profile.SLA) []profile.Warning {
	p, label := ch.Picked.Point, ch.Picked.Label()
	if ch.Phase != profile.Decode || !ch.Feasible || !math.IsInf(missedAbove(ch.All, label, loadOf(p), sla), 1) {
		return nil
	}
	if _, open := leastUntold(points, ch.Phase, label, loadOf(p), sla); open {
		return nil
	}
	what := capOf(p)
	if what == "" {
		return nil
	}
	return []profile.Warning{profile.Warnf("at_cap", "%s: %d in flight is the most that %s %s: the SLA's boundary was not reached", ch.Phase, p.Asked, label, what)}
}

// capOf says what lets no more requests run at once than a point has, if anything does;
// of each attention replica one more would be the least.
func capOf(p profile.Point) string {
	dp := p.Config.Parallelism.Normal().DP
	full := func(most int) bool {
		return most > 0 && p.Asked > 0 && (p.Asked == most || p.Asked+dp > most && p.Asked >= dp)
	}
	one := profile.EngineFacts{KVTokens: p.MaxKV / dp, BlockSize: p.Config.Limits.BlockSize}
	switch {
	case full(p.Cap):
		return "is ever sent (--max-in-flight)"
	case full(cmp.Or(p.MaxSeqs, p.Config.Limits.MaxNumSeqs*dp)):
		return "runs at once (--max-num-seqs)"
	case p.MaxKV > 0 && p.ISL+p.OSL > 0 && full(dp*one.MaxInFlight(p.ISL, p.OSL, 0)):
		return "has KV cache for"
	}
	return ""
}
