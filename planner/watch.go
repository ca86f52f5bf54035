package planner

import "time"

// Watch keeps what is seen of a target's pools between two decisions. The zero
// Watch has seen nothing.
type Watch struct{ pools map[Role]watched }

// watched is one pool over the interval.
type watched struct {
	ready   int
	changed bool
}

// See takes in a look at the target.
func (w *Watch) See(s State) {
	if w.pools == nil {
		w.pools = map[Role]watched{}
	}
	for _, p := range s.Pools {
		was, ok := w.pools[p.Role]
		w.pools[p.Role] = watched{ready: p.Ready, changed: was.changed || ok && was.ready != p.Ready}
	}
}

// Complete ends an interval from start to end: it gives the figures of a source
// the pools as the target has them, and begins the next interval.
func (w *Watch) Complete(o Observation, s State, start, end time.Time) Observation {
	o.Start, o.Length, o.Scaling = start, end.Sub(start), s.Scaling
	pools := make([]PoolObservation, 0, len(s.Pools))
	for _, p := range s.Pools {
		seen, _ := o.Pool(p.Role)
		seen.PoolState = p
		if was, ok := w.pools[p.Role]; ok {
			seen.Changed, was.changed = was.changed, false
			w.pools[p.Role] = was
		}
		pools = append(pools, seen)
	}
	o.Pools = pools
	return o
}
