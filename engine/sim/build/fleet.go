package build

import (
	"fmt"
	"math"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/deployment"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim/fleet"
	"plimsoll/interpolation"
	"plimsoll/profile"
)

// Source gives one role's engines.
type Source interface {
	// Pool is an engine of that role, without replicas, with all of its limits.
	Pool(role engine.Role) (fleet.Pool, error)
	// Label is the layout of that role's engines: "TP:2".
	Label(role engine.Role) string
	// KVBytes is the size of a sequence's KV; zero = not known.
	KVBytes() engine.KVBytes
	// FromDataSheet reports whether the latency model has times from a GPU's data sheet alone.
	FromDataSheet() bool
	// about fills in what does not depend on the role.
	about(f *Fleet)
}

// Fleet is a fleet ready to run, and what a reader has to know of it.
type Fleet struct {
	fleet.Config
	BlockSize           int
	Labels              []string // of each pool's engines: "TP:2"
	Model, GPU          string
	Source              string // of the step times
	TTFTError, ITLError profile.ModelError
	Note                string // how the weights are stored, where the model says it
	Warnings            []profile.Warning
	Fit                 *latency.Fit         // behind the step times; nil = a profile is
	Steps               *interpolation.Steps // the profile behind the step times; nil = there is none
}

// PoolWords describes each pool by what differs between them, or both at once.
func (f Fleet) PoolWords(of func(fleet.Pool) string) string {
	first := of(f.Pools[0])
	if len(f.Pools) == 1 || of(f.Pools[1]) == first {
		return first
	}
	return fmt.Sprintf("prefill %s; decode %s", first, of(f.Pools[1]))
}

// Layout is "4 × TP:2", or "2 × TP:1 prefill + 3 × TP:2 decode".
func (f Fleet) Layout() string {
	var parts []string
	for i, p := range f.Pools {
		s := fmt.Sprintf("%d × %s", p.Replicas, f.Labels[i])
		if len(f.Pools) > 1 {
			s += " " + string(p.Engine.Role)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " + ")
}

// GPUs are those of all engines.
func (f Fleet) GPUs() int {
	n := 0
	for _, p := range f.Pools {
		n += p.Replicas * p.GPUs
	}
	return n
}

// Routing is how each pool picks a replica.
func (f Fleet) Routing() string {
	s := f.PoolWords(func(p fleet.Pool) string { return string(p.Router) })
	if f.Pools[0].Router == fleet.KVAware && len(f.Pools) > 1 {
		s += ", as its engines cache no prefixes"
	}
	return s
}

// Scheduling is how the engines schedule, in a word.
func (f Fleet) Scheduling() string {
	if f.Pools[0].Engine.AsyncScheduling {
		return "asynchronous"
	}
	return "synchronous"
}

// Outside says what of a run lies beyond the rows or the profile behind it.
func (f Fleet) Outside(r fleet.Report) []profile.Warning {
	switch {
	case r.ISL.Count() == 0:
		return nil
	case f.Fit != nil:
		return f.OfFit(f.longest(r))
	case f.Steps == nil:
		return nil
	}
	last := len(r.Pools) - 1
	each := func(running float64) float64 { return running / float64(max(f.Pools[last].Replicas, 1)) }
	context := r.ISL.Mean() + r.OSL.Mean()/2
	return append(f.Steps.Outside(float64(r.ISL.Max()), math.Ceil(each(r.Pools[last].RunningPeak)), context),
		f.Steps.Coarse(each(r.Pools[last].RunningMean), context)...)
}

// OfFit says what of such lengths lies beyond the rows of the fit, if there is one.
func (f Fleet) OfFit(isl, osl int) []profile.Warning {
	if f.Fit == nil {
		return nil
	}
	return deployment.FitWarnings(*f.Fit, f.GPU, isl, osl)
}

// longest are the longest prompt and answer that there may have been, together no
// longer than an engine takes.
func (f Fleet) longest(r fleet.Report) (isl, osl int) {
	isl, osl = int(r.ISL.Max()), int(r.OSL.Max())
	for _, p := range f.Pools {
		most := p.Engine.Limits.MaxModelLen
		isl = min(isl, most)
		osl = min(osl, most-isl)
	}
	return isl, osl
}
