package recommend

import (
	"cmp"
	"fmt"
	"math"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/profile"
)

// endSearches says of each decode configuration whose highest load meets the SLA what
// let no more requests run at once: the SLA's boundary lies where nobody measured.
func (ch *Choice) endSearches(points []profile.Point, sla profile.SLA) {
	for i, c := range ch.All {
		load := loadOf(c.Point)
		if !c.Feasible || load < ch.held(c.Label()) || !math.IsInf(missedAbove(ch.All, c.Label(), load, sla), 1) {
			continue
		}
		if _, open := leastUntold(points, ch.Phase, c.Label(), load, sla); !open {
			ch.All[i].Ended = capOf(c.Point)
		}
	}
}

// atCap warns of a pick whose search a limit ended.
func (ch Choice) atCap() []profile.Warning {
	c := ch.Picked
	if c.Ended == "" {
		return nil
	}
	return []profile.Warning{profile.Warnf("at_cap", "%s: the search at %s was %s", ch.Phase, c.Label(), c.Ended)}
}

// capOf says what lets no more requests run at once than a point has, if anything does;
// of each attention replica one more would be the least.
func capOf(p profile.Point) string {
	dp := p.Config.Parallelism.Normal().DP
	full := func(most int) bool {
		return most > 0 && p.Asked > 0 && (p.Asked == most || p.Asked+dp > most && p.Asked >= dp)
	}
	one := profile.EngineFacts{KVTokens: p.MaxKV, WindowedKV: p.WindowedKV, BlockSize: p.Config.Limits.BlockSize}.Replica(dp)
	sequences := cmp.Or(p.MaxSeqs, p.Config.Limits.MaxNumSeqs*dp)
	switch {
	case full(p.Cap):
		return endedByClient(p.Cap)
	case full(sequences):
		return endedByEngine(sequences)
	case p.MaxKV > 0 && p.ISL+p.OSL > 0 && full(dp*one.MaxInFlight(p.ISL, p.OSL, 0)):
		return endedByKV(p)
	}
	return ""
}

func endedByClient(most int) string {
	return fmt.Sprintf("ended by the client's limit of %d in flight, before the SLA (raise "+field.MaxInFlight+")", most)
}

func endedByEngine(most int) string {
	return fmt.Sprintf("ended by the engine's limit of %s, before the SLA (raise "+field.MaxNumSeqs+")", engine.Count(most, "sequence"))
}

func endedByKV(p profile.Point) string {
	text := fmt.Sprintf("ended by the KV cache of %d tokens, before the SLA", p.MaxKV)
	if k := p.Config.Kind; k == engine.KindEndpoint || k == engine.KindLlamaCpp { // which have no such flag
		return text
	}
	return text + " (raise " + field.MemoryFraction + ")"
}

// crowd says what ended the search at an aggregated engine's load that missed: its requests
// took all places and others waited for one, so that TTFT misses where ITL would allow more
// of them at once.
func crowd(p profile.Point, sla profile.SLA) string {
	switch places := p.Places(); {
	case places == 0 || p.Load == nil || p.InFlight < float64(places) || p.Load.TTFT.At(sla.Stat) <= sla.TTFT || p.Load.TPOT.At(sla.Stat) > sla.ITL:
		return ""
	case places == p.Cap:
		return fmt.Sprintf("ended by "+field.MaxInFlight+" %d: at %.4g/s requests wait here for a place. Raise it if the server bears more", places, p.Rate)
	default:
		return fmt.Sprintf("ended by the engine's limit of %s: at %.4g/s requests wait for a place", engine.Count(places, "sequence"), p.Rate)
	}
}

// endRates says the same of each aggregated configuration at the highest rate that
// holds, by the least rate above it that missed.
func (ch *Choice) endRates(sla profile.SLA) {
	for i, c := range ch.All {
		if !c.Feasible || !highest(ch.All, c) {
			continue
		}
		missed := math.Inf(1)
		for _, o := range ch.All {
			if p := o.Point; o.Label() == c.Label() && p.Rate > c.Point.Rate && p.Rate < missed && !p.Meets(sla) && p.Untold(sla) == "" {
				missed, ch.All[i].Ended = p.Rate, crowd(p, sla)
			}
		}
	}
}

// WithEnd is a reason, and what ended the search at the candidate where that was not
// the SLA.
func (c Candidate) WithEnd(reason string) string {
	if c.Ended == "" {
		return reason
	}
	return reason + "; " + c.Ended
}
