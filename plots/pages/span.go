package pages

import (
	"cmp"
	"fmt"
	"slices"

	"plimsoll/profile"
	"plimsoll/recommend"
)

// A search measures around the promises that it is made for. For others the best
// load of a configuration may lie between two of its points, far from both; a page
// then says between which, and picks nothing that such a load might beat.

// span is what a configuration gives within a limit, tokens/s/GPU.
type span struct {
	Label string   `json:"label"`
	Low   float64  `json:"low"`  // that holds; 0: no point does
	High  *float64 `json:"high"` // of the next higher load, which misses; null: there is none
}

// exact reports whether the best that holds is known.
func (s span) exact() bool { return s.High != nil && *s.High <= s.Low }

// below reports whether the span surely holds nothing above v.
func (s span) below(v float64) bool { return s.High != nil && *s.High <= v }

// answer is what is picked for limits.
type answer struct {
	Candidate int    `json:"candidate"` // its place; −1: no point can be compared
	Feasible  bool   `json:"feasible"`  // else it is but the nearest
	Label     string `json:"label"`     // of the configuration; empty: undecided
	Spans     []span `json:"spans"`     // of those that may be the best; null: the pick is known
}

// near is how far the next higher load of a pick may be from it, as a share of its
// throughput, for its figures to be shown as those that a profile would find.
const near = .05

// answerOf is the answer of a choice, given the profile's own one.
func (p Profile) answerOf(ch, own recommend.Choice, ownFound bool) answer {
	a := answer{
		Candidate: slices.IndexFunc(p.Points, func(x profile.Point) bool { return x.ID == ch.Picked.Point.ID }),
		Feasible:  ch.Feasible, Label: ch.Picked.Label(),
	}
	if ownFound && sameEvidence(ch, own) {
		return a
	}
	spans := append(p.spans(ch), p.dropped(ch.Phase)...)
	best := slices.IndexFunc(spans, func(s span) bool { return s.Label == a.Label })
	if !ch.Feasible || best < 0 {
		if len(spans) > 0 {
			a.Label, a.Spans = "", spans
		}
		return a
	}
	pick, least := spans[best], spans[best].Low
	if p.Rank != recommend.BySingle { // an engine sustains no more than it gives at one load alone
		least = min(least, ch.Picked.Sustained)
	}
	rivals := slices.DeleteFunc(slices.Clone(spans), func(s span) bool {
		return s.Label != pick.Label && (p.Rank == recommend.BySingle && s.exact() || s.below(least)) // which the choice compared, or which cannot be better
	})
	switch {
	case len(rivals) > 1:
		a.Label, a.Spans = "", rivals
	case !pick.below((1 + near) * pick.Low):
		a.Spans = rivals
	}
	return a
}

// sameEvidence reports whether the same points hold in both: there is nothing
// between the two that was looked at, and what was left out cannot win in either.
func sameEvidence(a, b recommend.Choice) bool {
	return slices.EqualFunc(a.All, b.All, func(x, y recommend.Candidate) bool {
		return x.Point.ID == y.Point.ID && x.Feasible == y.Feasible
	})
}

// spans are those of the choice's configurations that may hold anything.
func (p Profile) spans(ch recommend.Choice) []span {
	var labels []string
	loads := map[string][]recommend.Candidate{}
	for _, c := range ch.All {
		if _, known := loads[c.Label()]; !known {
			labels = append(labels, c.Label())
		}
		loads[c.Label()] = append(loads[c.Label()], c)
	}
	var out []span
	for _, label := range labels {
		if s, ok := p.span(label, loads[label]); ok {
			out = append(out, s)
		}
	}
	return out
}

// span is that of one configuration; false where not even its least load holds.
func (p Profile) span(label string, loads []recommend.Candidate) (span, bool) {
	slices.SortStableFunc(loads, func(a, b recommend.Candidate) int {
		return cmp.Or(cmp.Compare(a.Point.Rate, b.Point.Rate), cmp.Compare(a.Point.InFlight, b.Point.InFlight))
	})
	s, best := span{Label: label}, -1
	for i, c := range loads {
		if c.Feasible && c.Point.ThroughputPerGPU >= s.Low {
			s.Low, best = c.Point.ThroughputPerGPU, i
		}
	}
	if best < 0 && p.leastMisses(loads[0]) {
		return s, false
	}
	for _, c := range loads[best+1:] {
		if alone := c.Point.Phase == profile.Aggregated && c.Point.Rate == 0; !c.Feasible && !alone {
			high := max(s.Low, c.Point.ThroughputPerGPU)
			s.High = &high
			return s, true
		}
	}
	if best >= 0 && p.full(loads[best].Point) {
		s.High = &s.Low
	}
	return s, true
}

// leastMisses reports whether a configuration misses at the least load that there is:
// a prompt, a request at a time.
func (p Profile) leastMisses(c recommend.Candidate) bool {
	x := c.Point
	if x.Phase == profile.Aggregated {
		return x.Rate == 0 && c.Margin < 0
	}
	return x.Phase == profile.Prefill || x.Asked <= x.Config.Parallelism.Normal().DP
}

// full reports whether the engine has no room for more than the point's load.
func (p Profile) full(x profile.Point) bool {
	const nearly = .95
	tokens, seqs := float64(x.Asked*(p.ISL+p.OSL)), float64(x.MaxSeqs)
	return x.Phase == profile.Prefill || x.MaxKV > 0 && tokens >= nearly*float64(x.MaxKV) || seqs > 0 && float64(x.Asked) >= nearly*seqs
}

// dropped are the configurations that were left out of a phase since they could not
// win by the profile's own promises: nobody knows what they do within others.
func (p Profile) dropped(phase profile.Phase) []span {
	var out []span
	for _, label := range p.Dropped[phase] {
		out = append(out, span{Label: label})
	}
	return out
}

// key tells answers apart.
func (a answer) key() string {
	s := fmt.Sprintf("%d %v %q", a.Candidate, a.Feasible, a.Label)
	for _, x := range a.Spans {
		s += fmt.Sprintf(" %q %v", x.Label, x.Low)
		if x.High != nil {
			s += fmt.Sprintf("–%v", *x.High)
		}
	}
	return s
}
