package sweep

import (
	"fmt"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Step is one trial of a plan: an engine to start, and what to measure on it.
type Step struct {
	Stage    profile.Stage
	Phase    profile.Phase
	Label    string // configuration; empty where it is not yet picked
	Points   int    // at most
	Requests int    // at most, warm-up included
	Expected time.Duration
	Known    bool // Expected comes from a latency model
}

// Plan is what Run would do, at most: the adaptive search usually needs fewer
// points. It starts nothing. Before the picks are known, the surfaces are
// estimated at the last candidate, the one with most GPUs.
func Plan(o Options) []Step {
	var steps []Step
	for _, c := range o.Candidates {
		s := Step{Stage: profile.StageSweep, Phase: profile.Prefill, Label: c.Parallelism.Label()}
		requests, warmups := o.prefillLoad(c, o.PrefillRequests)
		s.add(o.prefillCost(c, o.ISL, o.PrefillRequests), requests+warmups)
		steps = append(steps, s.finished(o, c))
	}
	for _, c := range o.Candidates {
		s := Step{Stage: profile.StageSweep, Phase: profile.Decode, Label: c.Parallelism.Label()}
		osl := o.decodeOSL(o.facts(c))
		room := o.rounds(o.facts(c), c, o.ISL, osl)
		for _, n := range room.counts(plannedLevels(o, room.top)) {
			s.add(o.decodeCost(c, o.ISL, osl, n), 2*n)
		}
		steps = append(steps, s.finished(o, c))
	}
	if len(o.Candidates) == 0 {
		return steps
	}
	return append(steps, planSurfaces(o, o.Candidates[len(o.Candidates)-1])...)
}

func planSurfaces(o Options, c engine.Config) []Step {
	p := Step{Stage: profile.StageSurface, Phase: profile.Prefill}
	for _, isl := range prefillISLs(o, c, o.context(o.facts(c))) {
		if !near(isl, o.ISL) {
			requests, warmups := o.prefillLoad(c, o.SurfaceRequests)
			p.add(o.prefillCost(c, isl, o.SurfaceRequests), requests+warmups)
		}
	}
	d := Step{Stage: profile.StageSurface, Phase: profile.Decode}
	osl := o.surfaceOSL(o.facts(c))
	for _, isl := range decodeISLs(o, o.context(o.facts(c)), osl) {
		room := o.rounds(o.facts(c), c, isl, osl)
		for _, n := range room.counts(spaced(room.top, o.DecodeGranularity)) {
			d.add(o.decodeCost(c, isl, osl, n), 2*n)
		}
	}
	return []Step{p.finished(o, c), d.finished(o, c)}
}

func (s *Step) add(cost time.Duration, requests int) {
	s.Points++
	s.Requests += requests
	s.Expected += cost
}

func (s Step) finished(o Options, c engine.Config) Step {
	_, s.Known = o.expect(c)
	return s
}

// plannedLevels are numbers of rounds like those the search will try.
func plannedLevels(o Options, top int) []int {
	if o.Search == Grid {
		return spaced(top, o.DecodeGranularity)
	}
	ns := spaced(top, 2)
	for i := range min(3, max(0, top-2)) { // 1, top, and about three towards the boundary
		ns = append(ns, max(2, top*(i+2)/5))
	}
	return distinct(ns)
}

// context is how far the surfaces reach, tokens: what was asked for, within what
// the engine takes; where neither is known twice the target, as upstream does.
func (o Options) context(f profile.EngineFacts) int {
	c := o.MaxContext
	if f.MaxModelLen > 0 && (c == 0 || c > f.MaxModelLen) {
		c = f.MaxModelLen
	}
	if c == 0 {
		c = 2 * (o.ISL + o.OSL)
	}
	return max(c, o.ISL+o.OSL)
}

// minOSL is how many output tokens a decode measurement needs: all streams have
// to overlap for some steps after the last has started.
const minOSL = 32

// decodeOSL is the output length that decode is measured with: the target's,
// unless that is too short to measure, within the engine's context.
func (o Options) decodeOSL(f profile.EngineFacts) int {
	osl := max(o.OSL, minOSL)
	if f.MaxModelLen > 0 {
		osl = min(osl, f.MaxModelLen-o.ISL)
	}
	return max(osl, o.OSL)
}

// surfaceOSL is the output length of the decode surface: as asked, but no more
// than a quarter of the context, so that contexts keep apart.
func (o Options) surfaceOSL(f profile.EngineFacts) int {
	return min(o.SurfaceOSL, max(2, o.context(f)/4))
}

// holds says where the engine's context is too short for the target.
func (o Options) holds(f profile.EngineFacts) error {
	if f.MaxModelLen > 0 && o.ISL+o.OSL > f.MaxModelLen {
		return &engineError{err: fmt.Errorf("ISL %d + OSL %d are %d tokens, the engine's context holds %d", o.ISL, o.OSL, o.ISL+o.OSL, f.MaxModelLen)}
	}
	return nil
}

// facts is what the latency model expects an engine to say of itself.
func (o Options) facts(c engine.Config) profile.EngineFacts {
	f := profile.EngineFacts{BlockSize: c.Limits.BlockSize, MaxNumSeqs: c.Limits.MaxNumSeqs * attentionReplicas(c)} // limits are of one replica
	if e, ok := o.expect(c); ok {
		f.KVTokens = e.KVTokens()
		return f
	}
	// Without a model only limits bound the plan.
	f.KVTokens = max(f.MaxNumSeqs, o.MaxInFlight, attentionReplicas(c)) * o.context(f)
	return f
}

func (o Options) expect(c engine.Config) (Expectation, bool) {
	if o.Expect == nil {
		return nil, false
	}
	return o.Expect(c)
}

// What a request and one of its tokens cost in virtual time, files included:
// measured on two cores of a 2.x GHz server, 2026-11; a plan needs no more
// than the order of magnitude.
const (
	virtualRequest = 30 * time.Microsecond
	virtualToken   = 200 * time.Nanosecond
)

// prefillCost and decodeCost are expected durations; without a latency model
// they are unit costs, which still give a progress bar something to share out.
func (o Options) prefillCost(c engine.Config, isl, n int) time.Duration {
	requests, warmups := o.prefillLoad(c, n)
	if o.Virtual {
		return time.Duration(requests+warmups) * virtualRequest
	}
	e, ok := o.expect(c)
	if !ok {
		return time.Second
	}
	return time.Duration((requests+warmups)/attentionReplicas(c)) * e.TTFT(isl) // replicas work at the same time
}

func (o Options) decodeCost(c engine.Config, isl, osl, n int) time.Duration {
	if o.Virtual {
		return time.Duration(2*n)*virtualRequest + time.Duration(n*osl)*virtualToken
	}
	e, ok := o.expect(c)
	if !ok {
		return time.Second
	}
	fill := time.Duration(0)
	if c.Kind != engine.KindSim { // the embedded engine fills its cache in no time
		fill = time.Duration(n) * e.TTFT(isl)
	}
	return fill + time.Duration(osl)*e.ITL(n, float64(isl)+float64(osl)/2)
}
