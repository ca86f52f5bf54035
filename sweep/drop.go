package sweep

import (
	"fmt"
	"math"
	"sort"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
)

// A configuration is dropped in a phase without being measured there when the
// best that it could do is known to be no better than what another was measured
// to do. Two bounds are used, and a drop says which.
//
// More GPUs of the same engine cannot share the work better than evenly. In
// prefill TTFT at g times the GPUs is at least a g-th. In decode ITL at the same
// load is at least a g-th, so that throughput per GPU at n in flight is at most
// that of the fewer GPUs at n; beyond what these were measured at, ITL rises at
// least as slowly as it was ever seen to. This is a matter of arithmetic as long
// as the engine is the same but for its tensor parallelism. Of two sizes that were
// measured the second says how much less than evenly a third shares: see gain.
//
// Or a latency model, where it is known how far it may be off, is not even at the
// better end of that error as good: an estimate, and said to be one.

// cannotWin says why a trial's configuration need not be measured: it has no
// chance by the rule of the run against what was measured until now. Empty: it
// may win, or nothing is known.
func (r *runner) cannotWin(s *trial, rank recommend.Rank) string {
	best, ok := r.certain(s.phase, rank)
	if !ok || best.Point.Config.Parallelism == s.cfg.Parallelism {
		return ""
	}
	if why := r.byArithmetic(s, best, rank); why != "" {
		return why
	}
	return r.byModel(s, best, rank)
}

// best is the candidate that a phase's points make the pick, if it meets the SLA.
func (r *runner) best(phase profile.Phase, rank recommend.Rank) (recommend.Candidate, bool) {
	c, err := recommend.Choose(phase, r.sweepPoints(phase), r.opts.SLA, rank, r.opts.OSL)
	return c.Picked, err == nil && c.Feasible
}

// certain is the best point of the pick's configuration that noise does not put
// beyond the SLA.
func (r *runner) certain(phase profile.Phase, rank recommend.Rank) (best recommend.Candidate, ok bool) {
	c, err := recommend.Choose(phase, r.sweepPoints(phase), r.opts.SLA, rank, r.opts.OSL)
	for _, x := range c.All {
		if err == nil && x.Feasible && x.Point.Config == c.Picked.Point.Config && clearOf(x.Point, r.opts.SLA) && (!ok || x.Value(rank) > best.Value(rank)) {
			best, ok = x, true
		}
	}
	return best, ok
}

// value is what a rank compares of a configuration's points that nobody measured; 0
// where all miss the SLA. They have no spread, so that their means are held against the
// SLA: no percentile can be told from one of them.
func (o Options) value(ps []profile.Point, rank recommend.Rank) float64 {
	o.SLA.Stat = profile.Mean
	for i := range ps {
		ps[i].Requests, ps[i].Provenance, ps[i].ModelError = 1, profile.Estimated, profile.ModelError{}
	}
	c, err := recommend.Choose(ps[0].Phase, ps, o.SLA, rank, o.OSL)
	if err != nil || !c.Feasible {
		return 0
	}
	return c.Picked.Value(rank)
}

// widened reports whether c is b with so many times its tensor parallelism, and
// the same in all else.
func widened(b, c engine.Config) (times float64, ok bool) {
	p, q := b.Parallelism.Normal(), c.Parallelism.Normal()
	experts := (p.EP == 1) == (q.EP == 1)
	if p.DP > 1 || q.DP > 1 || p.PP != q.PP || !experts || q.TP <= p.TP || q.TP%p.TP != 0 {
		return 0, false
	}
	return float64(q.TP) / float64(p.TP), true
}

// byArithmetic bounds a configuration by the ones with fewer GPUs that were measured.
func (r *runner) byArithmetic(s *trial, best recommend.Candidate, rank recommend.Rank) string {
	sets := r.narrower(s.phase, s.cfg)
	if len(sets) == 0 || r.outdone(s.phase) {
		return ""
	}
	for _, few := range sets {
		times, share, perfect := r.gain(few, s, sets)
		var bound float64
		var ok bool
		if s.phase == profile.Prefill {
			bound, ok = r.prefillBound(few[0], s.cfg, times(1), rank)
		} else {
			bound, ok = r.decodeBound(few, s, times, rank)
		}
		if !perfect { // it is interpolated between loads
			bound *= 1 + recommend.TieShare
		}
		if ok && bound <= reach(best, s, rank) {
			clause := ""
			if bound > best.Value(rank) {
				clause = ", within noise"
			}
			return fmt.Sprintf("cannot win: at most %s tokens/s/GPU even if it scales %s (assumed; no measured size scales better); %s reaches %s%s",
				engine.Number(bound), share, best.Label(), engine.Number(best.Value(rank)), clause)
		}
	}
	return ""
}

// reach is what a configuration has to be above to be picked instead of best. What
// cannot be told apart goes to the fewer GPUs: with more it has to be above the noise
// of best's own value, with fewer only above its lower end; where that noise is more
// than a tie, what lies beyond is measured.
func reach(best recommend.Candidate, s *trial, rank recommend.Rank) float64 {
	v, own, its := best.Value(rank), best.Point.Config.GPUs(), s.cfg.GPUs()
	means := profile.SLA{Stat: profile.Mean}
	i, ok := spread(best.Point, means)
	mean := float64(best.Point.Latency(means))
	switch {
	case !ok || its == own:
		return v
	case its > own:
		return v * min(mean/i.Low*(1+rounding), 1+recommend.TieShare)
	}
	return v * max(mean/i.High*(1-rounding), 1-recommend.TieShare)
}

// rounding is what two ways of computing the same throughput may differ by.
const rounding = 1e-3

// outdone reports whether a configuration was measured to be faster, noise aside,
// than if it shared the work of one with fewer GPUs evenly.
func (r *runner) outdone(phase profile.Phase) bool {
	for _, p := range r.sweepPoints(phase) {
		i, ok := spread(p, profile.SLA{Stat: profile.Mean})
		if !ok || p.FailsTooOften || p.Invalid != "" || blank(p) {
			continue
		}
		for _, few := range r.narrower(phase, p.Config) {
			times, _ := widened(few[0].Config, p.Config)
			least, known := leastLatency(phase, few)
			if known && times*i.High*(1+rounding) < least(p.InFlight) {
				return true
			}
		}
	}
	return false
}

// leastLatency is the least that measured points of one configuration allow at n in
// flight, in nanoseconds.
func leastLatency(phase profile.Phase, ps []profile.Point) (at func(n float64) float64, ok bool) {
	if phase == profile.Decode {
		return leastITL(ps)
	}
	i, ok := spread(ps[0], profile.SLA{Stat: profile.Mean})
	return func(float64) float64 { return i.Low }, ok
}

// narrower are the usable points of a phase, by configuration, of those that c widens.
func (r *runner) narrower(phase profile.Phase, c engine.Config) (sets [][]profile.Point) {
	at := map[engine.Parallelism]int{}
	for _, p := range r.sweepPoints(phase) {
		if _, ok := widened(p.Config, c); !ok || p.FailsTooOften || p.Invalid != "" || blank(p) {
			continue
		}
		i, known := at[p.Config.Parallelism]
		if !known {
			i = len(sets)
			at[p.Config.Parallelism], sets = i, append(sets, nil)
		}
		sets[i] = append(sets[i], p)
	}
	return sets
}

// prefillBound is the most, by rank, that c can do with times as many GPUs as p's:
// throughput per GPU is p's, and what is sustained that of a TTFT that never varies
// and is that part of p's, at as little as noise allows; 0 where even that misses the
// SLA. False where noise allows anything, or is not known.
func (r *runner) prefillBound(p profile.Point, c engine.Config, times float64, rank recommend.Rank) (bound float64, ok bool) {
	i, ok := spread(p, profile.SLA{Stat: profile.Mean})
	if !ok || i.Low <= 0 {
		return 0, false
	}
	p.TTFT, p.Config = scaledBy(p.TTFT, i.Low/float64(p.TTFT.Mean)/times), c
	p.TTFT.Std = 0
	return r.opts.value([]profile.Point{p}, rank), true
}

// mostInFlight is how many requests s may hold: 0 = nobody knows.
func (r *runner) mostInFlight(s *trial) int {
	most := s.cfg.Limits.MaxNumSeqs
	if n := r.opts.MaxInFlight; n > 0 && (most == 0 || n < most) {
		most = n
	}
	return most
}

// decodeBound is the most, by rank, that s can do within the SLA where it is so many
// times faster than few at a load: ITL is that part of the least that few allow. False
// where there is no bound.
func (r *runner) decodeBound(few []profile.Point, s *trial, times func(n float64) float64, rank recommend.Rank) (bound float64, ok bool) {
	least, ok := leastITL(few)
	most := r.mostInFlight(s)
	if !ok || most == 0 {
		return 0, false
	}
	itl := func(n int) time.Duration { return time.Duration(least(float64(n)) / times(float64(n))) }
	within := sort.Search(most, func(i int) bool { return itl(i+1) > r.opts.SLA.ITL })
	counts := append(falling(most, boundLevels, sameLoad), within, within+1)
	for _, p := range few { // where the least ITL may leap
		n := int(math.Ceil(p.InFlight))
		counts = append(counts, n-1, n)
	}
	var ps []profile.Point
	for _, n := range distinct(counts) {
		if n < 1 || n > most {
			continue
		}
		d := itl(n)
		ps = append(ps, profile.Point{
			Phase: profile.Decode, Config: s.cfg, ISL: r.opts.ISL, OSL: r.opts.OSL, MaxSeqs: most, InFlight: float64(n),
			ITL: exactly(d), ThroughputPerGPU: float64(n) / d.Seconds() / float64(s.cfg.GPUs()),
		})
	}
	return r.opts.value(ps, rank), true
}

// boundLevels are the most in-flight counts of a bound, each sameLoad from the next.
const boundLevels = 50

// leastITL is the least mean ITL in nanoseconds that an engine may have at n in
// flight, by its measured points: at each as little as noise allows, and from
// there on rising by the least slope that was seen between any two that are not
// one load (sameLoad). It needs two.
func leastITL(ps []profile.Point) (func(n float64) float64, bool) {
	type known struct{ n, low, mean float64 }
	var ks []known
	slope := math.Inf(1)
	for _, p := range sortedByLoad(ps) {
		i, ok := spread(p, profile.SLA{Stat: profile.Mean})
		if !ok {
			return nil, false
		}
		k := known{p.InFlight, i.Low, (i.Low + i.High) / 2}
		for j := len(ks) - 1; j >= 0; j-- {
			if k.n >= sameLoad*ks[j].n {
				slope = min(slope, max(0, (k.mean-ks[j].mean)/(k.n-ks[j].n)))
				break
			}
		}
		ks = append(ks, k)
	}
	return func(n float64) float64 {
		low := 0.0
		for _, k := range ks {
			if k.n <= n || low == 0 {
				low = max(low, k.low+slope*max(0, n-k.n))
			}
		}
		return low
	}, !math.IsInf(slope, 1)
}

// byModel bounds a configuration by a latency model at the better end of its error.
func (r *runner) byModel(s *trial, best recommend.Candidate, rank recommend.Rank) string {
	e, ok := r.opts.expect(s.cfg)
	if !ok {
		return ""
	}
	ttft, err := e.Errors()
	if s.phase == profile.Prefill {
		err = ttft
	}
	if !err.Known() {
		return ""
	}
	most := r.opts.value(r.opts.expected(s.phase, s.cfg, 1/err.Factor90), rank)
	if most >= min(best.Value(rank), reach(best, s, rank)) {
		return ""
	}
	return fmt.Sprintf("not expected to win: at most %s tokens/s/GPU, the estimate's error of a factor of %.2f included; %s reaches %s",
		engine.Number(most), err.Factor90, best.Label(), engine.Number(best.Value(rank)))
}
