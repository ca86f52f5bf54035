package interpolation

import (
	"errors"
	"fmt"
	"math"
	"time"

	"plimsoll/profile"
)

// Decode predicts ITL and decode throughput over load and context at one
// configuration.
//
// ITL over n, the requests in flight, is one bend of all contexts, B(n), and for
// each row (one context) a rest, which is a monotone cubic. Between rows at
// contexts c1 < c < c2, with λ = (c−c1)/(c2−c1), rests are read at different
// loads and mixed:
//
//	ITL(n, c) = B(n) + (1−w)·R1(n1) + w·R2(n2),  n1 = n·(1−λ)/(1−w),  n2 = n·λ/w
//
// For an engine whose step takes a + b·n + k·n·c + B(n) (weights, per-sequence
// work, attention over the KV cache; experts that few sequences do not need, or
// work hidden behind the weights) this is exact for every w in (0,1), since
// (1−w)·n1 + w·n2 = n and (1−w)·n1·c1 + w·n2·c2 = n·((1−λ)·c1 + λ·c2) = n·c.
// w is chosen so that both rows are read at the same fraction of the load that
// they were measured up to, n1/N1 = n2/N2:
//
//	w = λ·N1/D,  D = (1−λ)·N2 + λ·N1,  n1 = n·D/N2,  n2 = n·D/N1
//
// which makes the measured boundary between the rows
//
//	1/N(c) = (1−λ)/N1 + λ/N2
//
// exact both for a limit on sequences (N1 = N2) and for a KV capacity K
// (Ni = K/ci, so 1/N = c/K). Interpolating at equal n or at equal KV use reads
// one of the rows beyond its measured end instead. ITL never falls with n.
type Decode struct {
	rows  []row
	gaps  []float64 // variance of the relative error that being between rows i and i+1 adds, half-way
	bend  bend
	bent  float64 // ns: weight of the bend
	least float64 // ns: no ITL is below
	maxKV float64
	gpus  float64
	wild  []Wild
	from  profile.Provenance
}

var decodeTerms = []term{constant, perUnit, perPair}

// contextTolerance is how far beyond the outermost contexts counts as measured:
// a context that was seen is never the round one that is asked for.
const contextTolerance = 0.02

// loadTolerance absorbs rounding at the ends of a row.
const loadTolerance = 1e-6

// FitDecode fits the surface of an engine on gpus GPUs. One context row is
// usable at that context only.
func FitDecode(s profile.DecodeSurface, gpus int) (Decode, error) {
	switch {
	case gpus < 1:
		return Decode{}, fmt.Errorf("decode surface: %d GPUs, want at least 1", gpus)
	case s.MaxKVTokens < 1:
		return Decode{}, fmt.Errorf("decode surface: KV capacity %d tokens, want above 0", s.MaxKVTokens)
	case len(s.Samples) == 0:
		return Decode{}, errors.New("decode surface has no samples")
	}
	d := Decode{maxKV: float64(s.MaxKVTokens), gpus: float64(gpus), from: s.Provenance}
	samples := make([]sample, len(s.Samples))
	for i, p := range s.Samples {
		v, err := d.sample(p)
		if err != nil {
			return Decode{}, fmt.Errorf("decode sample %d: %w", i, err)
		}
		samples[i] = v
	}
	doubtful(samples)
	d.rows = newRows(samples)
	d.draw(samples)
	return d, nil
}

// draw fits the samples and makes the rows' curves.
func (d *Decode) draw(samples []sample) {
	var p []point
	var y, doubt []float64
	oneContext := true
	for _, s := range samples {
		p, y, doubt = append(p, point{s.n, s.context}), append(y, s.itl), append(doubt, s.doubt)
		oneContext = oneContext && s.context == samples[0].context
	}
	terms := decodeTerms
	if oneContext {
		terms = terms[:2]
	}
	var f *field
	f, d.wild = fitField(p, y, doubt, terms)
	d.bend, d.bent, d.least = f.trend.bend, f.trend.weight[len(f.trend.terms)], f.trend.least
	for i := range d.rows {
		d.rows[i].draw(f)
	}
	for i := 1; i < len(d.rows); i++ {
		d.gaps = append(d.gaps, d.gap(f, i-1))
	}
}

// gap is by how much the squared error half-way between two rows exceeds that of
// the rows, at most, at some loads.
func (d *Decode) gap(f *field, i int) float64 {
	one, two := &d.rows[i], &d.rows[i+1]
	c := (one.context + two.context) / 2
	b := d.between(i, c)
	most := 0.0
	for _, part := range [...]float64{0.05, 0.3, 0.6, 1} {
		n := part * b.high
		e1, e2, e := one.errors.at(n*b.per1), two.errors.at(n*b.per2), f.unsure(point{n, c})
		most = max(most, e*e-(e1*e1+e2*e2)/2)
	}
	return most
}

// scatter is how much efficiencies may differ, as logarithms, where throughput is
// what requests in flight and ITL make it.
const scatter = 0.1

// doubtful finds out by how much each sample contradicts itself: throughput times
// ITL is the number of requests in flight, by Little's law, and where it is
// another than KV use says, the engine had another load than it is filed under.
// Where most samples do so, throughput is something else.
func doubtful(samples []sample) {
	var e, off []float64
	for _, s := range samples {
		if s.efficiency > 0 {
			e = append(e, math.Log(s.efficiency))
		}
	}
	if e == nil {
		return
	}
	usual := median(e)
	for _, x := range e {
		off = append(off, math.Abs(x-usual))
	}
	if median(off) > scatter {
		return
	}
	for i := range samples {
		if s := &samples[i]; s.efficiency > 0 {
			s.doubt = math.Abs(math.Log(s.efficiency) - usual)
			if !(s.doubt < 1) { // or no number, of absurd throughputs
				s.doubt = 1
			}
		}
	}
}

func (d *Decode) sample(p profile.DecodeSample) (sample, error) {
	switch {
	case !finite(p.KVUsage) || p.KVUsage <= 0:
		return sample{}, fmt.Errorf("KV usage %v, want above 0", p.KVUsage)
	case !finite(p.Context) || p.Context <= 0:
		return sample{}, fmt.Errorf("context %v, want above 0", p.Context)
	case p.ITL <= 0:
		return sample{}, fmt.Errorf("ITL %v, want above 0", p.ITL)
	case !finite(p.ThroughputPerGPU) || p.ThroughputPerGPU < 0:
		return sample{}, fmt.Errorf("throughput %v, want a number not below 0", p.ThroughputPerGPU)
	}
	s := sample{n: p.KVUsage * d.maxKV / p.Context, context: p.Context, itl: float64(p.ITL), efficiency: 1}
	if !(s.n > 1e-9) || s.n > 1e12 {
		return sample{}, fmt.Errorf("KV usage %v of %.0f tokens at context %v is %v requests in flight", p.KVUsage, d.maxKV, p.Context, s.n)
	}
	if p.ThroughputPerGPU > 0 {
		s.efficiency = p.ThroughputPerGPU * d.gpus * p.ITL.Seconds() / s.n
	}
	return s, nil
}

// Provenance is the surface's.
func (d Decode) Provenance() profile.Provenance { return d.from }

// Contexts is the measured range of contexts, in tokens.
func (d Decode) Contexts() (low, high float64) {
	return d.rows[0].low, d.rows[len(d.rows)-1].high
}

// MostInFlight is the largest load measured at any context, in requests.
func (d Decode) MostInFlight() float64 {
	most := 0.0
	for i := range d.rows {
		most = max(most, d.rows[i].max())
	}
	return most
}

// InFlight is the measured range of load at a context, in requests.
func (d Decode) InFlight(contextTokens float64) (low, high float64) {
	b, _ := d.blend(contextTokens)
	return b.low, b.high
}

// nearest is the row whose context is the nearest.
func (d *Decode) nearest(context float64) *row {
	best := &d.rows[0]
	for i := range d.rows {
		if r := &d.rows[i]; math.Abs(r.context-context) < math.Abs(best.context-context) {
			best = r
		}
	}
	return best
}

// ITL predicts the inter-token latency at a KV use (fraction of the capacity)
// and a mean context per running sequence (tokens).
func (d Decode) ITL(kvUsage, contextTokens float64) Latency {
	return d.ITLAt(d.load(kvUsage, contextTokens), contextTokens)
}

// ITLAt predicts it at a number of requests in flight.
func (d Decode) ITLAt(requests, contextTokens float64) Latency {
	b, n, gaps := d.read(requests, contextTokens)
	return Latency{Value: duration(b.itl(n)), InRange: gaps == [2]gap{}, Error: b.unsure(n), gaps: gaps}
}

// ITLOver is ITLAt's value over the requests in flight, at one context: several
// times faster for those who search for a load.
func (d Decode) ITLOver(contextTokens float64) func(requests float64) time.Duration {
	b, _ := d.blend(contextTokens)
	return func(requests float64) time.Duration {
		if b.verdict(requests).what == notNumber {
			requests = b.high
		}
		return duration(b.itl(requests))
	}
}

// read is where the surface is read for a load at a context, and what of the
// two was not measured. A load that is no number is read on the slow side.
func (d *Decode) read(requests, contextTokens float64) (b blend, n float64, gaps [2]gap) {
	b, c := d.blend(contextTokens)
	load := b.verdict(requests)
	if load.what == notNumber {
		requests = b.high
	}
	return b, requests, [2]gap{c, load}
}

// ThroughputPerGPU predicts output tokens/s/GPU at a KV use and a context.
func (d Decode) ThroughputPerGPU(kvUsage, contextTokens float64) Rate {
	return d.ThroughputAt(d.load(kvUsage, contextTokens), contextTokens)
}

// ThroughputAt predicts it at a number of requests in flight: n/ITL/GPUs times
// the measured efficiency, which is near 1.
func (d Decode) ThroughputAt(requests, contextTokens float64) Rate {
	b, n, gaps := d.read(requests, contextTokens)
	return Rate{Value: d.rate(&b, n), InRange: gaps == [2]gap{}, Error: b.unsure(n), gaps: gaps}
}

// rate in output tokens/s/GPU; 0 where the step takes no time, at no load on an
// engine without a constant part.
func (d *Decode) rate(b *blend, n float64) float64 {
	itl := b.itl(n)
	if itl <= 0 {
		return 0
	}
	return b.efficiency(n) * n / (itl * 1e-9) / d.gpus
}

func (d *Decode) load(kvUsage, contextTokens float64) float64 {
	if !(contextTokens > 0) || math.IsInf(contextTokens, 0) {
		return math.NaN()
	}
	return kvUsage * d.maxKV / contextTokens
}
