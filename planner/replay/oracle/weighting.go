package oracle

import "plimsoll/engine"

// weighting is what an instant of a replica's service is worth, for each bin of
// time up to the end of the schedule; beyond, nothing is paid for. given is what
// replicas cost beyond the worth of their service.
type weighting struct {
	every  engine.Picoseconds
	weight []float64
	end    engine.Picoseconds // of the last bin
	given  float64            // ps of replicas
}

// over is the least and the greatest weight between two instants.
func (w weighting) over(from, to engine.Picoseconds) (least, most float64) {
	i, j := int(from/w.every), int(min(to/w.every, engine.Picoseconds(len(w.weight)-1)))
	least, most = w.weight[i], w.weight[i]
	for _, x := range w.weight[i : j+1] {
		least, most = min(least, x), max(most, x)
	}
	if to > w.end {
		least = 0
	}
	return least, most
}

// flat is a weight of 1 everywhere, for each pool.
func (c Case) flat() []weighting {
	out := make([]weighting, len(c.Fleet.Pools))
	for i := range out {
		out[i] = weighting{every: c.end(), weight: []float64{1}, end: c.end()}
	}
	return out
}

// last is the end of the time in which a kept request that came at an instant can
// be in a pool of a role.
func (c Case) last(at engine.Picoseconds, osl int, role engine.Role) engine.Picoseconds {
	sla := c.Fleet.SLA
	if sla.TTFT == 0 || sla.ITL == 0 && role != roleWithoutDecode {
		return forever
	}
	end := at + engine.FromDuration(sla.TTFT)
	if role == roleWithoutDecode {
		return end
	}
	if gap, gaps := engine.FromDuration(sla.ITL), engine.Picoseconds(osl-1); gaps == 0 || gap < forever/2/gaps {
		return end + gap*gaps
	}
	return forever
}

// forever is an instant that no simulation reaches.
const forever = engine.Picoseconds(1) << 62
