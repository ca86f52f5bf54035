package sweep

import (
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// planGrid is Plan of the grid: what it sends is known beforehand, but for which
// configurations are picked.
func planGrid(o Options) []Step {
	var steps []Step
	for _, phase := range []profile.Phase{profile.Prefill, profile.Decode} {
		for _, c := range o.Candidates {
			s := o.planGridTrial(newTrial(phase, c), profile.StageSweep)
			s.Label = c.Label()
			steps = append(steps, s.finished(o, c))
		}
	}
	if len(o.Candidates) == 0 {
		return steps
	}
	for _, phase := range []profile.Phase{profile.Prefill, profile.Decode} {
		pick := o.likely(phase)
		steps = append(steps, o.planGridTrial(newTrial(phase, pick), profile.StageSurface).finished(o, pick))
	}
	return steps
}

func (o Options) planGridTrial(t *trial, stage profile.Stage) Step {
	s := Step{Stage: stage, Phase: t.phase}
	for _, g := range o.gridPoints(t, stage, o.facts(t.cfg)) {
		s.add(o.gridTime(t, g), o.gridCost(t.cfg, g))
	}
	return s
}

// gridCost is what a point's loads are expected to cost. The prompts of a
// decode point are in the cache from the second of its runs on.
func (o Options) gridCost(c engine.Config, g gridPoint) Cost {
	var sum Cost
	for i, w := range g.loads {
		sum = sum.plus(o.costOf(c, w, w.SharedPrompts && i > 1))
	}
	return sum
}

// gridTime is how long a point is expected to take here.
func (o Options) gridTime(s *trial, g gridPoint) time.Duration {
	c := o.gridCost(s.cfg, g)
	if o.at(g.stage).Virtual {
		return c.computing()
	}
	if _, ok := o.expect(s.cfg); !ok {
		return time.Second
	}
	return time.Duration(c.EngineSeconds * float64(time.Second))
}
