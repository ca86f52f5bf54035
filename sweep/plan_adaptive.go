package sweep

import (
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// planAdaptive is what the adaptive search would do, about: no candidate is left
// out, every point takes one slice, and the surfaces need twice the fewest points.
func planAdaptive(o Options) []Step {
	var prefill, decode []Step
	for _, c := range o.Candidates {
		p := Step{Stage: profile.StageSweep, Phase: profile.Prefill, Label: c.Label()}
		p.addPrefill(o, c, o.ISL, o.PrefillRequests)
		prefill = append(prefill, p.finished(o, c))
		if l := newLayout(c); l.prefill.host == l.decode.host {
			prefill[len(prefill)-1].Cost.Launches = 0 // it is decode's
		}

		d := Step{Stage: profile.StageSweep, Phase: profile.Decode, Label: c.Label()}
		osl := o.decodeOSL(o.facts(c))
		room := o.rounds(o.facts(c), c, o.ISL, osl)
		d.climb(o, c, o.ISL, osl, room.counts(o.likelyLevels(c, room)))
		decode = append(decode, d.finished(o, c))
	}
	steps := append(prefill, decode...)
	if len(o.Candidates) == 0 {
		return steps
	}
	return append(steps, o.likelySurfaces(o.likely(profile.Prefill), o.likely(profile.Decode))...)
}

// climb adds levels of one staircase. Each is measured on streams of its own, whose
// prompts are cached: contexts have grown too far for those of the level before.
func (s *Step) climb(o Options, c engine.Config, isl, osl int, levels []int) {
	filled := 0
	for _, n := range levels {
		level := profile.Workload{OSL: 2 * sliceTokens, ISL: isl, Requests: n, InFlight: n}
		cost := o.costOf(c, level, true)
		if n > filled { // all are sent, and those that are new computed
			sent := profile.Workload{ISL: isl, OSL: 1, Requests: n, InFlight: n}
			fresh := sent
			fresh.Requests = n - filled
			fill, secs := o.costOf(c, sent, true), o.engineTime(c, fresh, false).Seconds()
			fill.EngineSeconds, fill.GPUSeconds = secs, secs*float64(c.GPUs())
			cost, filled = cost.plus(fill), n
		}
		s.add(o.levelCost(c, isl, osl, n), cost)
	}
}

// likelyLevels are numbers of rounds like those that ascend will try.
func (o Options) likelyLevels(c engine.Config, room rounds) []int {
	at := room.top
	if e, ok := o.expect(c); ok {
		at = min(at, max(1, o.expectedBoundary(e, c, 1)/room.each))
	}
	return distinct([]int{1, (at + 1) / 2, at, min(room.top, at+1+at/20)})
}

// likelySurfaces are the surfaces at the configurations that are likely picked.
func (o Options) likelySurfaces(prefill, decode engine.Config) []Step {
	o = o.at(profile.StageSurface)
	c, f := prefill, o.facts(prefill)
	p := Step{Stage: profile.StageSurface, Phase: profile.Prefill}
	isls := prefillISLs(o, c, o.context(f))
	for i, isl := range isls {
		if i*2*fewestISLs/len(isls) == (i-1)*2*fewestISLs/len(isls) && i > 0 || near(isl, o.ISL) {
			continue
		}
		p.addPrefill(o, c, isl, o.SurfaceRequests)
	}
	for _, isl := range o.batchedISLs(c, f, isls) {
		k := o.together(c, f, isl)
		p.add(o.batchedCost(c, isl, k), o.costOf(c, batchedLoad(isl, k), false))
	}
	d := Step{Stage: profile.StageSurface, Phase: profile.Decode}
	for _, w := range o.surfaceRows(o.facts(decode), decode) {
		d.climb(o, decode, w.isl, w.osl, slices.Sorted(slices.Values(w.levels)))
	}
	p, d = p.finished(o, c), d.finished(o, decode)
	p.Cost.Launches, d.Cost.Launches = 0, 0 // on the engines that run
	return []Step{p, d}
}

// levelCost is how long a level of a staircase is expected to take at most: all
// its streams are filled.
func (o Options) levelCost(c engine.Config, isl, osl, n int) time.Duration {
	e, ok := o.expect(c)
	if o.Virtual || !ok {
		return o.decodeCost(c, isl, osl, n)
	}
	return time.Duration(n)*e.TTFT(isl) + 2*sliceTokens*e.ITL(n, nominalContext(isl, osl))
}
