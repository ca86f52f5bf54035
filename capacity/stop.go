package capacity

import (
	"slices"

	"plimsoll/engine/sim/fleet"
)

// missed reports whether some latency is certain to end with so many times as much used as
// its promise allows. A trial that stops there decides as it
// would at its end: a mean above what is allowed has its upper bound above it.
// That is curtailment, not a statistical test, and needs no correction for having
// looked after every request.
func (o *observer) missed(times float64) bool {
	return slices.ContainsFunc(o.latencies(), func(l *latencies) bool { return l.missed(times) })
}

const (
	// lookAfter is how many parts are over when a trial first looks whether the
	// fleet is ample, and ampleParts how many of them have to be complete.
	lookAfter, ampleParts = 4, 3
	// amply is how many times less than allowed the upper bounds then are.
	amply = 4
)

// ample reports whether the fleet holds by so far that a search may take it for
// holding: the upper bounds over the parts so far are far below what is allowed,
// nothing of the first parts is still under way, and the time to the first token
// has not risen faster than would show in the whole trial. No reported size
// depends on it: the size found is simulated whole.
func (o *observer) ample() bool {
	over := len(o.parts) - 1
	if o.recorded || over < lookAfter || o.looked == over {
		return false
	}
	o.looked = over
	for i := range ampleParts {
		if o.ttft.events[i] < o.sizes[i] {
			return false
		}
	}
	for _, l := range o.latencies() {
		if l.promise > 0 && l.sum().UsedAtMost > 1.0/amply {
			return false
		}
	}
	rise := (o.waits[ampleParts-1] - o.waits[0]) / o.sizes[0]
	return rise <= o.ttft.promise.Seconds()/10*(ampleParts-1)/(batches-1)
}

// stopped is the trial so far, of a fleet that is left to itself.
func (o *observer) stopped(replicas []int, f *fleet.Fleet) Trial {
	o.parts = append(o.parts, f.Interval()) // how busy it was; its gaps do not count, the part has not ended
	t := o.trial(replicas)
	t.Stopped, t.Growing = true, false
	return t
}
