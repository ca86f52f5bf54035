package sweep

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/profile"
	"plimsoll/recommend"
)

// shape is a family of engines that differ in their tensor parallelism.
type shape struct {
	weights, perStream, exchange float64 // ms of a step: at no load, of a stream, between GPUs
	bend                         float64 // ITL rises with load to this power
	knee, steeper                float64 // streams from which on it rises faster, and by what
	decode, prefill              float64 // latencies fall with GPUs to this power; 1 = evenly shared, more = better than that
	kv, seqs                     int     // tokens on one GPU beside weights of as many; in-flight limit
	noise                        float64
}

// anyShape has ITL whose rise is at most proportional to load, as that of an engine
// that batches is: throughput does not fall with load.
func anyShape(t *rapid.T, decode, bend [2]float64) shape {
	s := shape{
		weights: rapid.Float64Range(2, 12).Draw(t, "ms of weights"), perStream: rapid.Float64Range(0.02, 0.4).Draw(t, "ms of a stream"),
		exchange: rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(t, "ms between GPUs"),
		bend:     rapid.Float64Range(bend[0], bend[1]).Draw(t, "bend"), knee: rapid.Float64Range(4, 60).Draw(t, "knee"),
		decode: rapid.Float64Range(decode[0], decode[1]).Draw(t, "decode shared"), prefill: rapid.Float64Range(0.5, 1).Draw(t, "prefill shared"),
		kv: rapid.IntRange(8_000, 300_000).Draw(t, "KV tokens"), seqs: rapid.IntRange(16, 128).Draw(t, "sequences"),
		noise: rapid.SampledFrom([]float64{0, 0.02}).Draw(t, "noise"),
	}
	s.steeper = rapid.Float64Range(0, 1).Draw(t, "steeper") * s.weights / s.knee
	return s
}

// of is the law at some GPUs. Weights take their part of the memory once, whatever
// the number.
func (s shape) of(gpus int) law {
	g := float64(gpus)
	exchange := 0.0
	if gpus > 1 {
		exchange = s.exchange
	}
	return law{
		kv: s.kv + (gpus-1)*2*s.kv, seqs: s.seqs, block: 16, noise: s.noise,
		ttft: func(isl int) time.Duration {
			return 5*ms + time.Duration(float64(isl)*22e3/math.Pow(g, s.prefill))
		},
		itl: func(n int, c float64) time.Duration {
			load := float64(n)
			step := s.weights + s.perStream*math.Pow(load, s.bend)*(0.8+0.2*c/3075) + s.steeper*max(0, load-s.knee)
			return time.Duration((exchange + step/math.Pow(g, s.decode)) * float64(ms))
		},
	}
}

// all are the points of one size in a phase, exact, at every in-flight count.
func (s shape) all(o Options, c engine.Config, phase profile.Phase) (ps []profile.Point) {
	l, gpus := s.of(c.GPUs()), float64(c.GPUs())
	p := profile.Point{Phase: phase, Config: c, ISL: o.ISL, OSL: o.OSL, Requests: 1, MaxKV: l.kv, MaxSeqs: l.seqs}
	if phase == profile.Prefill {
		p.TTFT = exactly(l.ttft(o.ISL))
		p.ThroughputPerGPU = float64(o.ISL) / p.TTFT.Mean.Seconds() / gpus
		return []profile.Point{p}
	}
	p.Context = nominalContext(o.ISL, o.OSL)
	facts := profile.EngineFacts{KVTokens: l.kv, BlockSize: l.block, MaxNumSeqs: l.seqs}
	for n := 1; n <= facts.MaxInFlight(o.ISL, o.OSL, 0); n++ {
		p.Asked, p.InFlight, p.ITL = n, float64(n), exactly(l.itl(n, p.Context))
		p.ThroughputPerGPU = float64(n) / p.ITL.Mean.Seconds() / gpus
		ps = append(ps, p)
	}
	return ps
}

// exhaustive is the most of each size within the SLA by the rule of o, by trying
// all counts; 0 where none holds.
func (s shape) exhaustive(o Options, phase profile.Phase) map[string]float64 {
	most := map[string]float64{}
	for _, c := range o.Candidates {
		if ch, err := recommend.Choose(phase, s.all(o, c, phase), o.SLA, o.Rank, o.OSL); err == nil && ch.Feasible {
			most[c.Parallelism.Label()] = ch.Picked.Value(o.Rank)
		}
	}
	return most
}

// best is that of the best size, by trying all counts, where latencies may be so
// much above the SLA.
func (s shape) best(o Options, phase profile.Phase, more float64) float64 {
	o.SLA.TTFT, o.SLA.ITL = time.Duration(float64(o.SLA.TTFT)*(1+more)), time.Duration(float64(o.SLA.ITL)*(1+more))
	return slices.Max(append(slices.Collect(maps.Values(s.exhaustive(o, phase))), 0))
}

// contest is a search over a shape's sizes by one rule, and the truth of each size by
// the same rule.
type contest struct {
	res   Result
	truth map[profile.Phase]map[string]float64
	// The best of all sizes that is certainly within the SLA, and the best that may be,
	// given noise.
	least, most map[profile.Phase]float64
}

func (s shape) contest(t *rapid.T, model bool) contest {
	b := newLab(map[string]law{"TP:1": s.of(1), "TP:2": s.of(2), "TP:4": s.of(4), "TP:8": s.of(8)})
	o := options(b, rapid.SampledFrom([][]int{{1, 2, 4}, {2, 4, 8}}).Draw(t, "sizes")...)
	o.PrefillGranularity, o.DecodeGranularity = 3, 2 // surfaces are not what is looked at
	o.Rank = rapid.SampledFrom([]recommend.Rank{recommend.BySingle, recommend.BySustained}).Draw(t, "rule")
	o.SLA.ITL = time.Duration(rapid.Float64Range(4, 40).Draw(t, "ITL allowed") * float64(ms))
	o.SLA.TTFT = time.Duration(rapid.Float64Range(20, 300).Draw(t, "TTFT allowed") * float64(ms))
	for i := range o.Candidates {
		o.Candidates[i].Limits.MaxNumSeqs = s.seqs
	}
	if !model {
		o.Expect = nil
	}
	res, err := Run(t.Context(), o, b, &notes{}, Known{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := contest{res, map[profile.Phase]map[string]float64{}, map[profile.Phase]float64{}, map[profile.Phase]float64{}}
	// ITL is a mean over 150 steps: its standard deviation is a step's noise divided by
	// 12, and three of them are a quarter of that noise. TTFT is one over 3 prompts at
	// least, and three of its are below twice the noise.
	for phase, noise := range map[profile.Phase]float64{profile.Prefill: 2 * s.noise, profile.Decode: s.noise / 4} {
		c.truth[phase] = s.exhaustive(o, phase)
		c.least[phase], c.most[phase] = s.best(o, phase, -noise), s.best(o, phase, noise)
	}
	return c
}

// Where more GPUs share the work evenly at best, no size that carries more than the
// pick is dropped, and the pick carries what trying all counts of all sizes finds,
// but for the search's fineness and noise: by a single request, and by what is sustained.
func TestDropsKeepTheWinner(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		s := anyShape(t, [2]float64{0.5, 1}, [2]float64{0.5, 1})
		c := s.contest(t, rapid.Bool().Draw(t, "model"))
		c.check(t)
	})
}

// A latency model that is right has what shares the work better than evenly tried
// first, and what is tried is not dropped.
func TestDropsKeepASuperLinearWinnerThatIsExpected(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		anyShape(t, [2]float64{1, 1.5}, [2]float64{0.5, 1}).contest(t, true).check(t)
	})
}

func (c contest) check(t *rapid.T) {
	for _, p := range []recommend.Choice{c.res.Prefill, c.res.Decode} {
		truth, got := c.truth[p.Phase], p.Picked.Value(p.Rank)
		for _, s := range c.res.Skips { // a size that was dropped though it carries more
			if s.Phase == p.Phase && truth[s.Label] > 1.01*got && truth[s.Label] > 1.01*truth[p.Picked.Label()] {
				t.Fatalf("%s has %.2f tokens/s/GPU, the pick %s %.2f: %s", s.Label, truth[s.Label], p.Picked.Label(), got, s.Reason)
			}
		}
		fineness := 0.95
		if n := p.Picked.Point.InFlight; n > 0 { // of few in flight, one more may be above the limit by noise
			fineness = min(fineness, 0.98*n/(n+1))
		}
		if p.Feasible && (c.most[p.Phase] == 0 || got < fineness*c.least[p.Phase]) || !p.Feasible && c.least[p.Phase] > 0 {
			t.Fatalf("%s: %s with %.2f tokens/s/GPU (feasible %v), %v by trying all", p.Phase, p.Picked.Label(), got, p.Feasible, truth)
		}
	}
}

// Two GPUs that were measured to do better than to share the work of one evenly:
// that four cannot either is no reason any more to leave them out. Nobody expects
// anything here.
func TestSuperLinearSizesEndArithmetic(t *testing.T) {
	s := shape{weights: 10, perStream: 0.2, bend: 1, knee: 1, decode: 1.4, prefill: 1, kv: 300_000, seqs: 64}
	run := func(itl time.Duration) (Result, map[string]float64) {
		b := newLab(map[string]law{"TP:1": s.of(1), "TP:2": s.of(2), "TP:4": s.of(4)})
		o := options(b, 1, 2, 4)
		o.Expect, o.SLA.ITL = nil, itl
		res, _, err := run(t, b, o, Known{})
		if err != nil {
			t.Fatal(err)
		}
		return res, s.exhaustive(o, profile.Decode)
	}
	if res, truth := run(12 * ms); res.Decode.Picked.Label() != "TP:4" {
		t.Errorf("picked %s of %v; skips %v", res.Decode.Picked.Label(), truth, res.Skips)
	}
	// The limit of it: where one GPU is all that was measured, nothing contradicts.
	res, truth := run(30 * ms)
	if res.Decode.Picked.Label() != "TP:1" || truth["TP:2"] <= truth["TP:1"] {
		t.Errorf("picked %s of %v: docs/method.md says that it is lost", res.Decode.Picked.Label(), truth)
	}
	for _, skip := range res.Skips {
		if skip.Phase == profile.Decode && !strings.Contains(skip.Reason, "scales perfectly from") {
			t.Errorf("the reason does not say what it rests on: %s", skip.Reason)
		}
	}
}

// Where four GPUs gain little over two, eight are not tried: they gain no more over four.
func TestLessGainEndsSizes(t *testing.T) {
	s := shape{weights: 10, perStream: 0.1, exchange: 4, bend: 1, knee: 1, decode: 0.5, prefill: 0.7, kv: 2_000_000, seqs: 512}
	b := newLab(map[string]law{"TP:2": s.of(2), "TP:4": s.of(4), "TP:8": s.of(8)})
	o := options(b, 2, 4, 8)
	o.Expect = nil
	for i := range o.Candidates {
		o.Candidates[i].Limits.MaxNumSeqs = s.seqs
	}
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if last := res.Skips[len(res.Skips)-1]; last.Label != "TP:8" || !strings.Contains(last.Reason, "scales from TP:4 as TP:4 did from TP:2") || slices.Contains(b.launches, "TP:8 cache=true") {
		t.Errorf("launches %v; skips %v; truth %v", b.launches, res.Skips, s.exhaustive(o, profile.Decode))
	}
}

// Sizes that do better than to share evenly end it in prefill too, whose TTFT alone decides.
func TestSuperLinearPrefillEndsArithmetic(t *testing.T) {
	s := shape{weights: 10, perStream: 0.2, bend: 1, knee: 1, decode: 1, prefill: 1.5, kv: 300_000, seqs: 64}
	b := newLab(map[string]law{"TP:1": s.of(1), "TP:2": s.of(2), "TP:4": s.of(4)})
	o := options(b, 1, 2, 4)
	o.Expect = nil
	o.SLA.TTFT = 40 * ms // TP:1 takes 71, TP:2 28.3, TP:4 13.3
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Prefill.Picked.Label(); got != "TP:4" {
		t.Errorf("picked %s; skips %v", got, res.Skips)
	}
}

// The bound of prefill is one of what is ranked: no less than what the work shared
// evenly gives, and hardly more; a TTFT that noise alone puts above the SLA is none.
func TestPrefillBoundIsOfWhatIsRanked(t *testing.T) {
	b := newLab(three())
	o := options(b, 1, 2)
	o.SLA = profile.SLA{TTFT: time.Second, ITL: time.Second, Stat: profile.Mean}
	one := exactly(100 * ms)
	one.N, one.Half, one.Std = 9, 2*ms, 300*ms // it stalls now and then: what comes after need not
	p := profile.Point{Phase: profile.Prefill, Config: o.Candidates[0], ISL: 3000, TTFT: one, Requests: 9, ThroughputPerGPU: 30_000}
	two := p
	two.Config, two.TTFT = o.Candidates[1], exactly(50*ms)
	for _, rank := range []recommend.Rank{recommend.BySingle, recommend.BySustained} {
		r := newRunner(o, b, &notes{}, Known{}, nil)
		bound, ok := r.prefillBound(p, two.Config, 2, rank)
		if v := o.value([]profile.Point{two}, rank); !ok || v <= 0 || bound < v || bound > 1.1*v {
			t.Errorf("%s: at most %.0f tokens/s/GPU (%v), evenly shared it is %.0f", rank, bound, ok, v)
		}
		o := o
		o.SLA.TTFT = 49500 * time.Microsecond
		if bound, ok := newRunner(o, b, &notes{}, Known{}, nil).prefillBound(p, two.Config, 2, recommend.BySingle); ok && bound == 0 {
			t.Error("100 ± 2 ms shared by two is said to be above 49.5 ms for certain")
		}
		wild := p
		wild.TTFT.Half, wild.TTFT.Max = 100*ms, 300*ms
		if _, ok := r.prefillBound(wild, two.Config, 2, rank); ok {
			t.Errorf("%s: there is a bound of what may be nothing", rank)
		}
	}
}

// What a percentile's SLA allows of points that nobody measured is known: a bound of 0
// struck out layouts that were within 3 % of the pick.
func TestDefectPercentilesBoundedAllByZero(t *testing.T) {
	for _, stat := range []profile.Statistic{profile.Mean, profile.P99} {
		o := Options{ISL: 3000, OSL: 150, SLA: profile.SLA{TTFT: 200 * time.Millisecond, ITL: 20 * time.Millisecond, Stat: stat}}
		ps := []profile.Point{{Phase: profile.Decode, Config: engine.Config{Parallelism: engine.TP(1)}, ISL: 3000, OSL: 150, InFlight: 10, MaxSeqs: 10, ITL: exactly(10 * time.Millisecond), ThroughputPerGPU: 1000}}
		if v := o.value(ps, recommend.BySingle); v != 1000 {
			t.Errorf("%s: at most %v tokens/s/GPU, want 1000", stat, v)
		}
	}
}
