package replay

import (
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
)

// warmup tells a core of the requests before virtual time 0, by intervals as long
// as those between decisions. The last one ends at virtual time 0; what is left
// over before the first is not told.
type warmup struct {
	s         Scenario
	first     engine.Picoseconds // where the first interval begins
	every     engine.Picoseconds
	intervals int // in all
	told      int

	requests, isl, osl float64 // of the interval that is not told yet; tokens in all
}

func newWarmup(s Scenario) warmup {
	n := int(s.Warmup / s.Pace.Every)
	return warmup{
		s: s, intervals: n, every: engine.FromDuration(s.Pace.Every),
		first: engine.FromDuration(s.Warmup - time.Duration(n)*s.Pace.Every),
	}
}

// add takes a request, which is in order of time.
func (w *warmup) add(q fleet.Request, core *planner.Core) {
	if q.At < w.first {
		return
	}
	for q.At >= w.first+w.every*engine.Picoseconds(w.told+1) {
		w.tell(core)
	}
	w.requests, w.isl, w.osl = w.requests+1, w.isl+float64(q.ISL), w.osl+float64(q.OSL)
}

// end tells of what is left.
func (w *warmup) end(core *planner.Core) {
	for w.told < w.intervals {
		w.tell(core)
	}
}

func (w *warmup) tell(core *planner.Core) {
	start := w.s.Origin.Add(-time.Duration(w.intervals-w.told) * w.s.Pace.Every)
	n := max(1, w.requests)
	core.Tell(planner.Told(start, w.s.Pace.Every, w.requests, w.isl/n, w.osl/n))
	w.told, w.requests, w.isl, w.osl = w.told+1, 0, 0, 0
}
