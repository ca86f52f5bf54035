package policy

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/planner"
)

// draft is a decision on its way: each step says from where to where it takes a
// pool, so that the steps of a pool lead from what there is to what is wanted.
type draft struct {
	d   planner.Decision
	dep planner.Deployment
}

// begin keeps what there is until a step changes it.
func begin(s planner.Situation) *draft {
	return &draft{d: planner.Decision{From: s.Have, Want: s.Have}, dep: s.Deployment}
}

// step takes a pool to a number of replicas, which may be what it has.
func (f *draft) step(rule string, role planner.Role, to int, why string, args ...any) {
	f.d.Steps = append(f.d.Steps, planner.Step{
		Rule: rule, Role: role, From: f.d.Want.Of(role), To: to, Why: fmt.Sprintf(why, args...),
	})
	f.d.Want = f.d.Want.With(role, to)
}

// hold leaves all pools as they are and ends the decision.
func (f *draft) hold(rule, why string, args ...any) planner.Decision {
	for _, p := range f.dep.Pools {
		f.step(rule, p.Role, f.d.From.Of(p.Role), why, args...)
	}
	return f.d
}

// without ends the decision for want of figures.
func (f *draft) without(missing []string) planner.Decision {
	f.d.Missing = missing
	return f.hold("missing", "not decided, as figures are missing")
}

// number is a figure that can be counted with: seen, finite and not negative.
func number(f planner.Figure[float64]) (v float64, ok bool) {
	return f.Value, f.Known && f.Value >= 0 && !math.IsInf(f.Value, 1)
}

// figures asks for several numbers and keeps the names of those that are missing.
type figures struct {
	missing []string
	zero    bool // a missing one is 0
}

// need is the number, or NaN where it is missing.
func (n *figures) need(f planner.Figure[float64], name string) float64 {
	v, ok := number(f)
	switch {
	case ok:
		return v
	case !slices.Contains(n.missing, name):
		n.missing = append(n.missing, name)
	}
	if n.zero {
		return 0
	}
	return math.NaN()
}

// mostReplicas bounds what a formula may ask for; more is a mistake in units.
const mostReplicas = 1_000_000

// whole is replicas rounded up, as Python's math.ceil of the same float.
func whole(replicas float64) int {
	if !(replicas > 0) { // what is no number asks for nothing
		return 0
	}
	return int(math.Ceil(min(replicas, mostReplicas)))
}

// byPool asks a rule of others for a step on each pool. ok is false where none may
// be taken: before anything runs, or for want of figures.
func byPool(s planner.Situation, step func(*draft, *figures, planner.Pool, planner.PoolObservation)) (f *draft, ok bool) {
	f = begin(s)
	if s.Warmup {
		f.hold("warm-up", "a trace has only requests, not load")
		return f, false
	}
	var n figures
	for _, p := range f.dep.Pools {
		seen, _ := s.Pool(p.Role)
		step(f, &n, p, seen)
	}
	if len(n.missing) > 0 && !n.zero {
		f = begin(s)
		f.without(n.missing)
		return f, false
	}
	return f, true
}
