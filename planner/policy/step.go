package policy

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Seen is what a rule looks at: one interval of one pool. NaN, and a Queue below
// 0, mean that a figure is missing, which is not that it is 0.
type Seen struct {
	At          time.Duration // the instant of deciding, since a base of the caller's
	Utilization float64       // 0..1
	Misses      float64       // share of the interval's requests that missed their SLO, 0..1
	Queue       int           // requests waiting
}

// State is what a rule remembers. GPUs are those wanted, started or not. The
// zero value wants none and has changed nothing.
type State struct {
	GPUs    int
	Changed time.Duration // when the rule last changed GPUs
	Ever    bool          // it has
}

// Reason is a step on the way to a decision.
type Reason struct {
	Rule     string // "up", "down", "cooldown", "bounds", "hold"
	From, To int    // GPUs
	Why      string
}

// Step is what the rule makes of what was seen. Bounds hold at once, whatever
// the cooldown; and what the bounds leave unchanged begins no cooldown. A
// missing figure is no reason to go up, and forbids going down.
func (r Simple) Step(s State, seen Seen) (State, []Reason) {
	var reasons []Reason
	note := func(rule string, to int, why string) {
		reasons = append(reasons, Reason{rule, s.GPUs, to, why})
		s.GPUs = to
	}
	before := s.GPUs
	low, high := r.bounds()
	if to := clamp(upTo(s.GPUs, r.GroupGPUs), low, high); to != s.GPUs {
		note("bounds", to, fmt.Sprintf("%d GPUs are not whole groups of %d within %d to %d", s.GPUs, r.GroupGPUs, low, high))
	}
	rule, by, why := r.wants(seen)
	switch {
	case by == 0:
		note("hold", s.GPUs, why)
	case s.Ever && seen.At-s.Changed < r.Cooldown:
		note("cooldown", s.GPUs, fmt.Sprintf("%s, but the last change is %v ago, less than %v", why, seen.At-s.Changed, r.Cooldown))
	case clamp(s.GPUs+by, low, high) == s.GPUs:
		note("bounds", s.GPUs, fmt.Sprintf("%s, but %d GPUs are the limit", why, s.GPUs))
	default:
		note(rule, clamp(s.GPUs+by, low, high), why)
	}
	if s.GPUs != before {
		s.Changed, s.Ever = seen.At, true
	}
	return s, reasons
}

// wants is the change in GPUs that the figures call for, in whole groups.
func (r Simple) wants(seen Seen) (rule string, by int, why string) {
	var high []string
	if seen.Utilization > r.UpUtilization {
		high = append(high, fmt.Sprintf("utilization %.3g is above %.3g", seen.Utilization, r.UpUtilization))
	}
	if seen.Misses > r.UpMisses {
		high = append(high, fmt.Sprintf("%.3g %% of requests missed the SLO, more than %.3g %%", 100*seen.Misses, 100*r.UpMisses))
	}
	if seen.Queue > r.UpQueue {
		high = append(high, fmt.Sprintf("%d requests wait, more than %d", seen.Queue, r.UpQueue))
	}
	switch {
	case len(high) > 0 && seen.Misses > r.ManyMisses:
		return "up", upTo(r.MuchGPUs, r.GroupGPUs), strings.Join(high, ", ")
	case len(high) > 0:
		return "up", upTo(r.StepGPUs, r.GroupGPUs), strings.Join(high, ", ")
	case math.IsNaN(seen.Utilization) || math.IsNaN(seen.Misses) || seen.Queue < 0:
		return "hold", 0, "a figure is missing, so that going down is not safe"
	case seen.Utilization < r.DownUtilization && seen.Misses == 0 && seen.Queue < r.DownQueue:
		return "down", -max(1, r.StepGPUs/r.GroupGPUs) * r.GroupGPUs,
			fmt.Sprintf("utilization %.3g is below %.3g, no request missed the SLO, and %d wait, less than %d", seen.Utilization, r.DownUtilization, seen.Queue, r.DownQueue)
	default:
		return "hold", 0, "nothing is high, and not all is low"
	}
}

func clamp(v, low, high int) int { return min(max(v, low), high) }
